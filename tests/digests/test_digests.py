"""The code of the language's programs for described machines is what it was: who changes it says so, with --update-golden.

`python -m tests.digests` does the same for far more programs, before and after a change that is to change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from polytc.poly import isl
from tests.digests.digest import TARGETS, digests
from tests.digests.programs import of_language

HEAD = f"isl {isl.VERSION}"


QUICK = ("avx512", "generic-gpu")
TWELFTH = 12
"""Quick tests take every twelfth program."""


@pytest.mark.parametrize("target", QUICK)
def test_some_of_the_language(target: str) -> None:
    head, *rows = _golden(target).read_text().splitlines()
    if head != HEAD:
        pytest.skip("these digests are of another version of isl")
    expected = dict(row.split("  ", 1)[::-1] for row in rows[::TWELFTH])
    found = digests(((name, program) for name, program in of_language() if name in expected), target)
    assert found == expected, "if the change is wanted: pytest -m long tests/digests --update-golden, and review the diff"


@pytest.mark.long
@pytest.mark.parametrize("target", TARGETS)
def test_language(target: str, golden: Callable[[str, str], None], request: pytest.FixtureRequest) -> None:
    path = _golden(target)
    if path.exists() and not request.config.getoption("--update-golden") and path.read_text().partition("\n")[0] != HEAD:
        pytest.skip("these digests are of another version of isl")
    found = digests(of_language(), target)
    golden(path.name, "\n".join([HEAD, *(f"{digest}  {name}" for name, digest in found.items())]))


def _golden(target: str) -> Path:
    return Path(__file__).parent / "goldens" / f"digests.{target}.txt"
