"""Each rewrite, strategy and pass is imported by a test: a look at what the tests import, not at what runs."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("rewrite", "schedule/cpu", "schedule/gpu", "schedule/fusion", "schedule/tiling", "codegen/passes", "graph/passes")


@cache
def imported() -> set[str]:
    """The modules that tests import, and the names that they take from them."""
    found = set[str]()
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                found |= {node.module, *(f"{node.module}.{a.name}" for a in node.names)}
            elif isinstance(node, ast.Import):
                found |= {a.name for a in node.names}
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_each_module_of_a_room_is_imported_by_a_test(room: str) -> None:
    paths = sorted(p for p in (ROOT / "polytc" / room).rglob("*.py") if p.name != "__init__.py")
    modules = {".".join(p.relative_to(ROOT).with_suffix("").parts) for p in paths}
    assert modules
    assert modules - imported() == set()
