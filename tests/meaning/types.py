"""Types of numbers by name, and numpy's promotion of them."""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np

UNKNOWN = "?"
"""The type of a tensor that only its own values tell: promotion with it changes nothing."""

_NUMPY = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64, "c64": np.complex64,
          "c128": np.complex128, "bool": np.bool_} | {
    f"{k}{b}": getattr(np, f"{'u' if k == 'u' else ''}int{b}") for k in "iu" for b in (8, 16, 32, 64)}
_ALIASES = {"float": "f32", "double": "f64", "half": "f16", "int": "i32", "float16": "f16", "bfloat16": "bf16",
            "float32": "f32", "float64": "f64", "complex64": "c64", "complex128": "c128"} | {
    f"{'u' * u}int{b}": f"{'iu'[u]}{b}" for u in (0, 1) for b in (8, 16, 32, 64)}
HALVES = ("f16", "bf16")


def named(word: str | None) -> str | None:
    """The type that a word means; None if it means none."""
    word = _ALIASES.get(word or "", word)
    return word if word in _NUMPY else None


def of_array(a: np.ndarray) -> str:
    return next(name for name, t in _NUMPY.items() if a.dtype == np.dtype(t))


@cache
def stored(name: str) -> np.dtype:
    """numpy's type of that name."""
    return np.dtype(np.float64 if name == UNKNOWN else _NUMPY[name])


@cache
def computed(name: str) -> np.dtype:
    """The type in which values of a type are computed: halves in f32."""
    return np.dtype(np.float32) if name in HALVES else stored(name)


def is_float(name: str) -> bool:
    return name in ("f16", "bf16", "f32", "f64", "c64", "c128")


def is_complex(name: str) -> bool:
    return name in ("c64", "c128")


def part_of(name: str) -> str:
    """The type of the parts of a complex type; other types themselves."""
    return {"c64": "f32", "c128": "f64"}.get(name, name)


def as_precise(name: str, floats: str) -> str:
    """The float type, or the complex type, that a weak value of type `name` has among values of a float type."""
    return floats if not is_complex(name) else "c128" if part_of(floats) == "f64" else "c64"


def is_int(name: str) -> bool:
    return name[0] in "iu"


def promote(*names: str) -> str:
    """numpy's promotion, of all at once; bf16 follows f16, and the two of them make f32."""
    known = {n for n in names if n != UNKNOWN}
    if len(known) < 2:
        return next(iter(known), UNKNOWN)
    if known >= set(HALVES):
        known = known - set(HALVES) | {"f32"}
    found = np.result_type(*(np.float16 if n == "bf16" else stored(n) for n in known))
    if found == np.float16 and "bf16" in known:
        return "bf16"
    return next(n for n, t in _NUMPY.items() if np.dtype(t) == found)


def common(a: tuple[str, bool], b: tuple[str, bool]) -> tuple[str, bool]:
    """The type of two (type, weak) that meet. A weak one takes the other's, but for a float that meets integers, and whatever
    meets conditions."""
    if a[1] == b[1]:
        return promote(a[0], b[0]), a[1]
    weak, strong = (a[0], b[0]) if a[1] else (b[0], a[0])
    if strong == "bool" or is_float(weak) and is_int(strong):
        return weak, False
    if is_complex(weak):
        return as_precise(weak, strong), False
    return strong, False


def joined(writers: list[tuple[str, bool]]) -> str:
    """The type of a tensor: that of all of its writers at once. Numbers alone do not tell it while a writer is unknown."""
    strong, weak = [t for t, w in writers if not w], [t for t, w in writers if w]
    if not strong or not weak:
        return promote(*strong, *weak)
    of = promote(*strong)
    return of if of == UNKNOWN else common((of, False), (promote(*weak), True))[0]


def identity(op: str, name: str) -> int | float | bool:
    """What changes nothing under an update."""
    t = computed(name)
    if op in "+|^":
        return 0
    if op == "*":
        return 1
    if t.kind == "b":
        return op in ("&", "min")
    if op == "&":
        return -1 if t.kind == "i" else int(np.iinfo(t).max)
    if t.kind == "f":
        return float("inf") if op == "min" else float("-inf")
    return int(np.iinfo(t).max if op == "min" else np.iinfo(t).min)
