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
EXAMPLES = [pytest.param(code, id=f"{title} {k}") for title, found in SECTIONS for k, code in enumerate(found)]
WANTED = ["An ONNX operator", "A scalar function", "A rewrite step", "A loop pass", "A strategy", "A target"]


def test_the_page_has_its_examples() -> None:
    assert [title for title, found in SECTIONS if found] == WANTED


@pytest.mark.parametrize("code", EXAMPLES)
def test_the_example_runs(code: str, tmp_path: Path) -> None:
    script = tmp_path / "example.py"
    script.write_text(code)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, cwd=tmp_path,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])})
    assert done.returncode == 0, done.stderr


def test_the_rooms_of_the_drawing_are_there() -> None:
    drawing = PAGE[PAGE.index("## The house"):PAGE.index("A module imports only")]
    rooms = re.findall(r"^    (\w+)/ ", drawing, re.MULTILINE)
    assert len(rooms) >= 9
    assert [r for r in rooms if not (ROOT / "polytc" / r).is_dir()] == []


def test_files_that_the_page_names_are_there() -> None:
    named = re.findall(r"`((?:[\w.]+/)+[\w.]*)`", PAGE)
    places = [ROOT, ROOT / "polytc"]
    assert [n for n in named if not any((p / n).exists() for p in places)] == []
