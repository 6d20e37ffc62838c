"""The glossary names what there is: every module in it exists, and every name is defined in one of the modules beside it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs/glossary.md").read_text()
TERMS = re.findall(r"^\*\*(.+?)\.\*\* (.*?)(?=\n\n|\Z)", TEXT, re.MULTILINE | re.DOTALL)


def names(path: Path) -> set[str]:
    """The functions, classes, constants and fields that a module defines."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def test_it_has_forty_terms_in_order() -> None:
    assert len(TERMS) == 40
    assert [term for term, _ in TERMS] == sorted((term for term, _ in TERMS), key=str.lower)


@pytest.mark.parametrize(("term", "text"), TERMS, ids=[term for term, _ in TERMS])
def test_what_a_term_names_exists(term: str, text: str) -> None:
    quoted = re.findall(r"`([^`]+)`", text)
    modules = [ROOT / "polytc" / q for q in quoted if q.endswith(".py")]
    assert modules, f"{term}: no module"
    assert all(m.exists() for m in modules), [str(m) for m in modules if not m.exists()]
    defined = set[str]().union(*map(names, modules))
    assert {q for q in quoted if not q.endswith(".py")} <= defined


@pytest.mark.parametrize("page", ["index.md", "internals.md"])
def test_pages_lead_to_it(page: str) -> None:
    assert "(glossary.md)" in (ROOT / "docs" / page).read_text()
