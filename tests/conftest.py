"""What all tests share: invariants checked at every stage, golden texts, the list of targets that work here."""

from __future__ import annotations

import difflib
import gc
import os
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

os.environ.setdefault("POLYTC_CHECK", "1")
os.environ["POLYTC_CACHE"] = "0"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden texts with what the tests produce now")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a test with `part(n)` one in n of its cases is quick, and one at least; the others are long. Of several such marks (of
    a class and its method, say) the largest counts. Cases that are marked long themselves are no part of it."""
    tests = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        if item.get_closest_marker("part") is not None and item.get_closest_marker("long") is None:
            tests[item.nodeid.partition("[")[0]].append(item)
    for cases in tests.values():
        n = max(mark.args[0] for mark in cases[0].iter_markers("part"))
        quick = {item.nodeid for item in _spread(cases, -(-len(cases) // n))}
        for item in cases:
            if item.nodeid not in quick:
                item.add_marker("long")


def _spread(cases: list[pytest.Item], count: int) -> list[pytest.Item]:
    """So many of the cases, whichever their names choose. Parameters of few values, such as targets and types, have each of
    their values in one of these, as far as that goes."""
    ordered = sorted(cases, key=lambda item: (zlib.crc32(item.name.encode()), item.name))
    values = [{*item.callspec.indices.items()} if hasattr(item, "callspec") else set[tuple[str, int]]() for item in ordered]
    many = Counter(name for name, _ in set[tuple[str, int]]().union(*values))
    seen, first, others = set[tuple[str, int]](), list[pytest.Item](), list[pytest.Item]()
    for item, own in zip(ordered, values, strict=True):
        few = {(name, k) for name, k in own if many[name] <= count}
        (others if few <= seen else first).append(item)
        seen |= few
    return [*first, *others][:count]


@pytest.fixture(scope="session", autouse=True)
def _bytecode(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Where the environment lets Python keep no bytecode, the many processes that tests start keep it in a folder of the
    session, so that not each of them has to compile all of polytc's modules."""
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        base = tmp_path_factory.getbasetemp()
        os.environ["PYTHONPYCACHEPREFIX"] = str((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "bytecode")


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
