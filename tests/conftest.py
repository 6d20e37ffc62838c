"""What all tests share: invariants checked at every stage, golden texts, the list of targets that work here."""

from __future__ import annotations

import difflib
import gc
import os
import zlib
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

os.environ.setdefault("POLYTC_CHECK", "1")
os.environ["POLYTC_CACHE"] = "0"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden texts with what the tests produce now")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test with `part(n)` one in n of its parameters is quick, whichever their names choose, and one at least; the others
    are long. Of several such marks (of a class and its method, say) the largest counts."""
    tests = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        if item.get_closest_marker("part") is not None:
            tests[item.nodeid.partition("[")[0]].append(item)
    for parameters in tests.values():
        n = max(mark.args[0] for mark in parameters[0].iter_markers("part"))
        parameters.sort(key=lambda item: (zlib.crc32(item.name.encode()) % n, item.name))
        for item in parameters[1:]:
            if zlib.crc32(item.name.encode()) % n:
                item.add_marker("long")


def pytest_collection_finish() -> None:
    """What is there before the first test stays until the last: the garbage collector need not walk over it each time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden("matmul.cl", text)`: `text` must be what goldens/matmul.cl beside the test holds; --update-golden writes it."""
    folder = Path(request.path).parent / "goldens"

    def compare(name: str, text: str) -> None:
        path = folder / name
        text = text.rstrip("\n") + "\n"
        if request.config.getoption("--update-golden"):
            folder.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return
        assert path.exists(), f"there is no {path.name} yet: run pytest with --update-golden and read what it wrote"
        expected = path.read_text(encoding="utf-8")
        difference = "".join(difflib.unified_diff(expected.splitlines(True), text.splitlines(True), f"goldens/{name}", "now"))
        assert text == expected, f"{difference}\nif the change is wanted: pytest --update-golden, and review the diff"

    return compare


@pytest.fixture(scope="session")
def targets() -> tuple[str, ...]:
    """Every target that runs here: interp and cpu always, opencl where a driver is found, and what is installed."""

    from polytc.targets import registry

    return tuple(n for n in registry.target_names() if registry.runs_here(n))


@pytest.fixture(scope="session")
def models() -> Path:
    """The folder of trained models that `make test` fetches."""
    folder = Path(os.environ.get("POLYTC_MODELS", Path(__file__).parent.parent / ".models"))
    if not (folder / "ppocrv2_cls.onnx").exists():
        pytest.skip("no trained models here: `make test` fetches them into .models")
    return folder
