"""The examples of CONTRIBUTING.md run as they stand, each in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SECTIONS = [(s.partition("\n")[0], BLOCK.findall(s)) for s in PAGE.split("\n### ")[1:]]
EXAMPLES = {f"{title} {k}": code for title, found in SECTIONS for k, code in enumerate(found)}
WANTED = ["An ONNX operator", "A scalar function", "A rewrite step", "A loop pass", "A strategy", "A target"]


def test_the_page_has_its_examples() -> None:
    assert [title for title, found in SECTIONS if found] == WANTED


EACH = """
import os, runpy, sys, traceback
import numpy, onnx, polytc.cli, polytc.compiler  # what an import takes is paid once
for script in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            runpy.run_path(script, run_name="__main__")
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(f"\\f{code}", file=sys.stderr, flush=True)
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, int]]:
    """What each example wrote to stderr, and its exit code. A fork of one process runs each."""
    scripts = []
    for code in EXAMPLES.values():
        scripts.append(tmp_path_factory.mktemp("example") / "example.py")
        scripts[-1].write_text(code)
    done = subprocess.run([sys.executable, "-c", EACH, *scripts], capture_output=True, text=True, check=True,
                          cwd=tmp_path_factory.mktemp("nothing"),
                          env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])})
    found = re.findall(r"(.*?)\f(-?\d+)\n", done.stderr, re.DOTALL)
    return {name: (text, int(code)) for name, (text, code) in zip(EXAMPLES, found, strict=True)}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_runs(name: str, outcomes: dict[str, tuple[str, int]]) -> None:
    text, code = outcomes[name]
    assert code == 0, text


def test_the_rooms_of_the_drawing_are_there() -> None:
    drawing = PAGE[PAGE.index("## The house"):PAGE.index("A module imports only")]
    rooms = re.findall(r"^    (\w+)/ ", drawing, re.MULTILINE)
    assert len(rooms) >= 9
    assert [r for r in rooms if not (ROOT / "polytc" / r).is_dir()] == []


def test_files_that_the_page_names_are_there() -> None:
    named = re.findall(r"`((?:[\w.]+/)+[\w.]*)`", PAGE)
    places = [ROOT, ROOT / "polytc"]
    assert [n for n in named if not any((p / n).exists() for p in places)] == []
