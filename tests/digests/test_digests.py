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


@pytest.mark.parametrize("target", [t if t in QUICK else pytest.param(t, marks=pytest.mark.long) for t in TARGETS])
def test_language(target: str, golden: Callable[[str, str], None], request: pytest.FixtureRequest) -> None:
    name = f"digests.{target}.txt"
    path = Path(__file__).parent / "goldens" / name
    if path.exists() and not request.config.getoption("--update-golden") and path.read_text().partition("\n")[0] != HEAD:
        pytest.skip("these digests are of another version of isl")
    found = digests(of_language(), target)
    golden(name, "\n".join([HEAD, *(f"{digest}  {name}" for name, digest in found.items())]))
