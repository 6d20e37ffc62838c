"""Options that compiled code depends on as much as the compiler: checked where neither needs the other."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from polytc.errors import ArgumentError, fail, register

register(E410="option is not valid", E702="the text is not a schedule")


@dataclass(frozen=True)
class Licence:
    """What code may do that changes digits of its results. direct: no algorithm with fewer products; fast: float operations
    may be reassociated, and divisions be products with reciprocals (docs/accuracy.md lists all)."""

    direct: bool = False
    fast: bool = False


NONE = Licence()


def check_typical(typical: Any, sizes: Collection[str]) -> dict[str, int]:
    """`typical` if it gives positive numbers for some of the sizes that stay open; E410 else."""
    if not isinstance(typical, Mapping) or not all(isinstance(v, (int, np.integer)) and v > 0 for v in typical.values()):
        raise _refused(f"typical is a dict of sizes and positive integers, not {typical!r}")
    strange = [str(n) for n in typical if n not in sizes]
    if strange:
        raise _refused(f"typical names {', '.join(strange)}, which is no size",
                       f"the sizes that stay open are: {', '.join(sizes) or 'none'}")
    return {str(n): int(v) for n, v in typical.items()}


def check_variants(variants: Any) -> int:
    """How many variants of a program an export may have, at least 1; E410 else."""
    if isinstance(variants, bool) or not isinstance(variants, (int, np.integer)) or not 1 <= variants <= VARIANTS:
        raise _refused(f"variants is a number from 1 to {VARIANTS}, not {variants!r}")
    return int(variants)


VARIANTS = 32
"""How many an export may have: more than anyone reads."""


THREADS = 1024
"""How many threads may work on one call: more than any processor has, few enough to be started."""


REQUESTS = (None, "isl", "program", "min", "smart", "max")
"""The schedules that have a name; the last three are the policies of fusion, schedule/fusion/policies.py."""


def check_request(text: str) -> None:
    """Refuses a word that names no schedule (E702)."""
    if re.fullmatch(r"\s*[\w.-]*\s*", text) and text not in REQUESTS:
        raise fail("E702", f"there is no schedule {text.strip()!r}", notes=[
            f"those with a name are {', '.join(r for r in REQUESTS if r is not None)}",
            "another one is the text or the file that polytc.schedule makes, or isl's YAML"])


KEPT = 16
"""Sets of shapes and values that a model keeps code and memory for, unless it is told another number."""


def check_threads(threads: int | None) -> int | None:
    """`threads` if it is None or an int from 1 to THREADS; E410 else."""
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, (int, np.integer)) or threads < 1):
        raise _refused(f"threads must be a positive integer, not {threads!r}")
    if threads is not None and threads > THREADS:
        raise _refused(f"threads={threads} is more than {THREADS}", "one for each of the machine's cores is most useful")
    return None if threads is None else int(threads)


def check_kept(kept: int) -> int:
    """`kept` if it is an int from 1 on; E410 else."""
    if isinstance(kept, bool) or not isinstance(kept, (int, np.integer)) or kept < 1:
        raise _refused(f"kept must be a positive integer, not {kept!r}")
    return int(kept)


def check_algebra(algebra: str | None) -> str:
    """'fast' or 'direct'; for None what POLYTC_ALGEBRA says, else 'fast'. Raises ArgumentError E410."""
    name = "algebra" if algebra is not None else "POLYTC_ALGEBRA"
    value = algebra if algebra is not None else os.environ.get("POLYTC_ALGEBRA") or "fast"
    if value not in ("fast", "direct"):
        raise _refused(f"{name} is {value!r}, not 'fast' or 'direct'",
                       "'direct' keeps the products that are written; 'fast' may take algorithms with fewer products")
    return value


_VARIABLES: Any = getattr(os.environ, "_data", os.environ)
"""The variables as os.environ holds them, which it decodes at each look: half a microsecond that a call can save."""

_NAMES = [getattr(os.environ, "encodekey", str)(n) for n in ("POLYTC_ALGEBRA", "POLYTC_CHECK_INDICES")]


def environment() -> tuple[Any, Any]:
    """What the environment says of calls that say nothing themselves, to be compared with what it said before."""
    return _VARIABLES.get(_NAMES[0]), _VARIABLES.get(_NAMES[1])


def check_licence(algebra: str | None, fast: bool) -> Licence:
    """See `check_algebra`; fast is True or False. Raises ArgumentError E410."""
    if not isinstance(fast, (bool, np.bool_)):
        raise _refused(f"fast is {fast!r}, not True or False")
    return Licence(check_algebra(algebra) == "direct", bool(fast))


def check_fast(precise: bool, licence: Licence) -> None:
    """A precise program has no licence to be fast: E410."""
    if precise and licence.fast:
        raise _refused("fast=True for a program that is `precise`",
                       "`precise` rounds each operation as it is written, `fast` lets them be reordered: leave one of them out")


def check_checked(checked: bool | None) -> bool:
    """`checked`; for None what POLYTC_CHECK_INDICES says (1 or 0), else False. Raises ArgumentError E410."""
    if checked is not None:
        if not isinstance(checked, (bool, np.bool_)):
            raise _refused(f"checked is True or False, not {checked!r}")
        return bool(checked)
    value = os.environ.get("POLYTC_CHECK_INDICES") or "0"
    if value not in ("0", "1"):
        raise _refused(f"POLYTC_CHECK_INDICES is {value!r}, not '0' or '1'")
    return value == "1"


def check_unchecked(what: str) -> None:
    """E410 where POLYTC_CHECK_INDICES asks that indices are looked at, which `what` does not do."""
    if check_checked(None):
        raise _refused(f"{what} does not look at indices, which POLYTC_CHECK_INDICES=1 asks for",
                       "unset it, and run with checked=True before")


def _refused(message: str, *notes: str) -> Exception:
    return fail("E410", message, kind=ArgumentError, notes=notes)
