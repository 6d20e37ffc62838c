"""What each operation gives in numpy, for the tests; and how closely a target must agree."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np

from polytc.program import scalars
from polytc.program.scalars import DType
from tests.functions import exact


def expected(kind: str, name: str, dtype: DType, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """numpy's answer to one operation of loop_programs.elementwise."""
    with np.errstate(all="ignore"):
        match kind:
            case "unary":
                return {"-": np.negative, "~": np.invert, "!": np.logical_not}[name](a)
            case "compare":
                return {"==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater,
                        ">=": np.greater_equal}[name](a, b)
            case "binary" if name in ("<<", ">>"):
                amount = np.where((b.astype(object) < 0) | (b.astype(object) >= dtype.bits), dtype.bits, b).astype(object)
                shifted = [int(x) << int(s) if name == "<<" else int(x) >> int(s) for x, s in zip(a, amount, strict=True)]
                return np.array([x & (2**dtype.bits - 1) for x in shifted], object).astype(f"u{dtype.bytes}").view(dtype.numpy)
            case "binary":
                return {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.true_divide, "//": np.floor_divide,
                        "%": np.remainder, "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor}[name](a, b)
            case "cast":
                return a.astype(scalars.DTYPES[name].numpy)
            case _:
                erf = np.vectorize(math.erf, otypes=[np.float64])
                wide = dtype.is_float and dtype.bits < 64
                args = [x.astype(np.float64) if wide else x for x in (a, b, c)]
                known = {"np": np, "erf": erf, "power": power, **exact.DOUBLE, **dict(zip("abc", args, strict=True))}
                result = eval(scalars.INTRINSICS[name].reference, known)
                return np.asarray(result, np.bool_ if scalars.INTRINSICS[name].result == "bool" else dtype.numpy)


def power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """numpy's power; of integers to negative powers, which numpy refuses, the exact quotient cut off, and 0 where 0 divides."""
    if a.dtype.kind == "f":
        return np.power(a, b)
    inverse = np.where(a == 1, 1, np.where((a == -1) if a.dtype.kind == "i" else False, np.where(b % 2 == 0, 1, -1), 0))
    return np.where(b < 0, inverse.astype(a.dtype), np.power(a, np.where(b < 0, 0, b)))


def defined(kind: str, name: str, dtype: DType, a: np.ndarray) -> np.ndarray:
    """Where the result is defined: a cast of a float outside of the integer type is not."""
    if kind != "cast" or not dtype.is_float or not scalars.DTYPES[name].is_int:
        return np.ones(a.shape, bool)
    limits = np.iinfo(scalars.DTYPES[name].numpy)
    wide = a.astype(np.float64)
    return np.isfinite(wide) & (np.trunc(wide) >= limits.min) & (np.trunc(wide) <= limits.max)


def places(name: str, usual: float) -> float:
    """Units in the last place that a target may be off. lgamma: near its zeros below 0, where parts of it cancel."""
    return {"lgamma": 256, "tgamma": 10, "pow": 16 if usual > 4 else usual}.get(name, usual)


def assert_agrees(got: np.ndarray, want: np.ndarray, ulps: float, label: str) -> None:
    """Equal; floats to within `ulps` units in the last place of the expected value."""
    assert got.dtype == want.dtype, f"{label}: {got.dtype} instead of {want.dtype}"
    if not scalars.from_numpy(want.dtype).is_float:
        wrong = np.nonzero(got != want)[0]
    else:
        with np.errstate(all="ignore"):
            limits = ml_dtypes.finfo(want.dtype)
            tiny, places = float(limits.tiny), limits.nmant
            got, want = got.astype(np.float64), want.astype(np.float64)
            tolerance = ulps * 2.0 ** (np.floor(np.log2(np.maximum(np.abs(want), tiny))) - places)
            close = (got == want) | (np.isnan(got) & np.isnan(want)) | (np.abs(got - want) <= tolerance)
        wrong = np.nonzero(~close)[0]
    assert not len(wrong), f"{label}: {len(wrong)} wrong; at {wrong[0]}: {got[wrong[0]]} instead of {want[wrong[0]]}"
