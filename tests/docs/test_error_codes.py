"""docs/errors.md and the code agree on which diagnostics there are, and each is tested."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import polytc
from polytc import errors

ROOT = Path(__file__).parents[2]


def registered() -> set[str]:
    for module in pkgutil.walk_packages(polytc.__path__, "polytc."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return set(errors.TITLES)


def test_each_code_is_documented_and_each_documented_code_exists() -> None:
    documented = set(re.findall(r"^\| (E\d{3}) ", (ROOT / "docs" / "errors.md").read_text(), re.MULTILINE))
    assert documented == registered()


def test_each_code_is_tested() -> None:
    tests = "\n".join(p.read_text() for p in (ROOT / "tests").rglob("*.py"))
    assert not sorted(code for code in registered() if code not in tests)
