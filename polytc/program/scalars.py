"""Scalar types and the one table of operators and intrinsics.

Semantics, stated once: integer arithmetic wraps; `//` and `%` round towards minus infinity; `min`/`max` propagate NaN as
numpy's minimum/maximum do; promotion follows numpy, with Python numbers weak; float reductions may be reassociated unless
the program is `precise`.
"""

from __future__ import annotations

import functools
from collections import ChainMap
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from polytc import errors


@dataclass(frozen=True, eq=False)
class DType:
    """A scalar type, one of those below and the same object everywhere. kind: 'f' float, 'c' complex, 'i' signed, 'u' unsigned,
    'b' bool; bits: storage size (bool is 8)."""

    name: str
    kind: str
    bits: int

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return named, (self.name,)

    @cached_property
    def bytes(self) -> int:
        return self.bits // 8

    @property
    def numpy(self) -> np.dtype:
        """numpy's type. Raises ArgumentError E403 for bf16 without the package ml_dtypes."""
        return bfloat16() if self.name == "bf16" else _NUMPY[self.name]

    @cached_property
    def is_half(self) -> bool:
        """Whether it is a float of 16 bits."""
        return self.kind == "f" and self.bits == 16

    @cached_property
    def is_float(self) -> bool:
        """Whether it is a float, or a complex number, which is two of them."""
        return self.kind in "fc"

    @cached_property
    def is_complex(self) -> bool:
        return self.kind == "c"

    @cached_property
    def part(self) -> DType:
        """Of a complex type, that of the real and of the imaginary part; of others, the type itself."""
        return DTYPES[f"f{self.bits // 2}"] if self.kind == "c" else self

    @cached_property
    def is_int(self) -> bool:
        return self.kind in "iu"

    def __str__(self) -> str:
        return self.name


F16, BF16, F32, F64 = DType("f16", "f", 16), DType("bf16", "f", 16), DType("f32", "f", 32), DType("f64", "f", 64)
C64, C128 = DType("c64", "c", 64), DType("c128", "c", 128)
I8, I16, I32, I64 = (DType(f"i{b}", "i", b) for b in (8, 16, 32, 64))
U8, U16, U32, U64 = (DType(f"u{b}", "u", b) for b in (8, 16, 32, 64))
BOOL = DType("bool", "b", 8)

UNKNOWN = DType("unknown", "?", 0)
"""While types are inferred, that of a tensor of which nothing is known yet."""

DTYPES: dict[str, DType] = {t.name: t for t in (F16, BF16, F32, F64, C64, C128, I8, I16, I32, I64, U8, U16, U32, U64, BOOL)}
REAL: dict[str, DType] = {n: t for n, t in DTYPES.items() if not t.is_complex}
"""The types that targets know: complex numbers are pairs of them before that."""

_NAMES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "c64": "complex64", "c128": "complex128",
          "bool": "bool"} | {
    f"{k}{b}": f"{'u' if k == 'u' else ''}int{b}" for k in "iu" for b in (8, 16, 32, 64)}
_NUMPY = {name: np.dtype(numpy) for name, numpy in _NAMES.items() if name != "bf16"}
_BY_NUMPY = {numpy: DTYPES[name] for name, numpy in _NAMES.items()}


def named(name: str) -> DType:
    """The scalar type of that name."""
    return DTYPES[name]


@cache
def bfloat16() -> np.dtype:
    """The dtype that ml_dtypes adds to numpy. Raises ArgumentError E403 without that package."""
    try:
        import ml_dtypes
    except ImportError:
        raise errors.fail("E403", "bf16 needs the package ml_dtypes, which gives numpy the type", kind=errors.ArgumentError,
                          notes=["pip install ml_dtypes"]) from None
    return np.dtype(ml_dtypes.bfloat16)


@functools.lru_cache(maxsize=256)  # the name of a numpy type is slow to make
def from_numpy(dtype: np.dtype) -> DType | None:
    """The scalar type of a numpy dtype in native byte order, or None if there is none."""
    found = _BY_NUMPY.get(dtype.name) if dtype.isnative else None
    return found if found is not None and found.numpy == dtype else None


@cache
def promote(*types: DType) -> DType:
    """numpy's promotion of strong types, all at once; bf16 follows f16, the two of them make f32, UNKNOWN changes nothing."""
    known = dict.fromkeys(t for t in types if t != UNKNOWN)
    if len(known) < 2:
        return next(iter(known), UNKNOWN)
    brain = BF16 in known
    if brain:
        del known[BF16]
        known[F32 if F16 in known else F16] = None
    result = from_numpy(np.result_type(*(t.numpy for t in known)))
    assert result is not None
    return BF16 if brain and result == F16 else result


def complex_of(dtype: DType) -> DType:
    """The complex type whose parts hold what a float type does: c64 for f32 and halves."""
    return C128 if dtype.part == F64 else C64


def rounded(number: complex, dtype: DType) -> complex:
    """The number of a float or complex type that is nearest. A real number stays one."""
    with np.errstate(over="ignore"):
        if isinstance(number, complex):
            return complex(dtype.numpy.type(number))
        return float(dtype.part.numpy.type(number))


@dataclass(frozen=True)
class Intrinsic:
    """A row of the intrinsic table.

    result: 'float' (arguments are promoted to a float type, result the same), 'same' (arguments promoted together, result the
    same type), 'bool' (predicate on floats). reference: an expression over `np`, polytc.functions.numbers.FUNCTIONS, `erf`,
    `power` and the arguments a, b, c. deciding: arguments that make the type, to which the others are cast; 0: all.
    """

    name: str
    arity: int
    result: str
    reference: str
    deciding: int = 0


INTRINSICS: dict[str, Intrinsic] = {row.name: row for row in (
    Intrinsic("exp", 1, "float", "np.exp(a)"),
    Intrinsic("exp2", 1, "float", "np.exp2(a)"),
    Intrinsic("expm1", 1, "float", "np.expm1(a)"),
    Intrinsic("log", 1, "float", "np.log(a)"),
    Intrinsic("log2", 1, "float", "np.log2(a)"),
    Intrinsic("log10", 1, "float", "np.log10(a)"),
    Intrinsic("log1p", 1, "float", "np.log1p(a)"),
    Intrinsic("sqrt", 1, "float", "np.sqrt(a)"),
    Intrinsic("rsqrt", 1, "float", "1 / np.sqrt(a)"),
    Intrinsic("cbrt", 1, "float", "np.cbrt(a)"),
    Intrinsic("sin", 1, "float", "np.sin(a)"),
    Intrinsic("cos", 1, "float", "np.cos(a)"),
    Intrinsic("tan", 1, "float", "np.tan(a)"),
    Intrinsic("asin", 1, "float", "np.arcsin(a)"),
    Intrinsic("acos", 1, "float", "np.arccos(a)"),
    Intrinsic("atan", 1, "float", "np.arctan(a)"),
    Intrinsic("atan2", 2, "float", "np.arctan2(a, b)"),
    Intrinsic("sinh", 1, "float", "np.sinh(a)"),
    Intrinsic("cosh", 1, "float", "np.cosh(a)"),
    Intrinsic("tanh", 1, "float", "np.tanh(a)"),
    Intrinsic("asinh", 1, "float", "np.arcsinh(a)"),
    Intrinsic("acosh", 1, "float", "np.arccosh(a)"),
    Intrinsic("atanh", 1, "float", "np.arctanh(a)"),
    Intrinsic("erf", 1, "float", "erf(a)"),
    Intrinsic("sigmoid", 1, "float", "1 / (1 + np.exp(-a))"),
    *(Intrinsic(name, 1, "float", f"{name}(a)") for name in (
        "exp10", "rcbrt", "sinpi", "cospi", "erfc", "erfcx", "erfinv", "erfcinv", "normcdf", "normcdfinv", "lgamma", "tgamma",
        "logb")),
    *(Intrinsic(name, 2, "float", f"{name}(a, b)") for name in ("hypot", "fdim", "remainder", "nextafter")),
    Intrinsic("copysign", 2, "float", "np.copysign(a, b)"),
    Intrinsic("ldexp", 2, "float", "ldexp(a, b)", deciding=1),
    Intrinsic("fma", 3, "float", "fma(a, b, c)"),
    Intrinsic("pow", 2, "same", "power(a, b)"),
    Intrinsic("fmod", 2, "same", "np.fmod(a, b)"),
    Intrinsic("min", 2, "same", "np.minimum(a, b)"),
    Intrinsic("max", 2, "same", "np.maximum(a, b)"),
    Intrinsic("clamp", 3, "same", "np.minimum(np.maximum(a, b), c)"),
    Intrinsic("abs", 1, "same", "np.abs(a)"),
    Intrinsic("sign", 1, "same", "np.sign(a)"),
    Intrinsic("floor", 1, "same", "np.floor(a)"),
    Intrinsic("ceil", 1, "same", "np.ceil(a)"),
    Intrinsic("trunc", 1, "same", "np.trunc(a)"),
    Intrinsic("round", 1, "same", "np.round(a)"),
    Intrinsic("isnan", 1, "bool", "np.isnan(a)"),
    Intrinsic("isinf", 1, "bool", "np.isinf(a)"),
    Intrinsic("isfinite", 1, "bool", "np.isfinite(a)"),
    Intrinsic("signbit", 1, "bool", "np.signbit(a)"),
)}
"""name -> row. `round` rounds halves to even. Adding an intrinsic: one row here, one in each target's name table."""

COMPLEX: dict[str, Intrinsic] = {row.name: row for row in (
    Intrinsic("conj", 1, "same", "np.conj(a)"),
    Intrinsic("real", 1, "part", "np.real(a)"),
    Intrinsic("imag", 1, "part", "np.imag(a)"),
    Intrinsic("abs", 1, "part", "np.abs(a)"),
    Intrinsic("angle", 1, "part", "np.angle(a)"),
    Intrinsic("exp", 1, "same", "np.exp(a)"),
    Intrinsic("sqrt", 1, "same", "np.sqrt(a)"),
    Intrinsic("isnan", 1, "bool", "np.isnan(a)"),
    Intrinsic("isinf", 1, "bool", "np.isinf(a)"),
)}
"""What there is of complex numbers; result 'part' is the type of their parts. `rewrite.complex_numbers` writes them with the
intrinsics of real numbers, so that no target knows them."""

FUNCTIONS = ChainMap(COMPLEX, INTRINSICS)
"""All functions by their names; those of both tables with the row of complex numbers, which has the same arity."""

C_NAMES = {"fmax": "max", "fmin": "min", "fabs": "abs", "rint": "round", "nearbyint": "round", "scalbn": "ldexp"}
"""C's spellings of intrinsics, which Tensor Comprehensions' source uses; NaN propagates here."""

UNARY = ("-", "!", "~")
ARITHMETIC = ("+", "-", "*", "/", "//", "%", "&", "|", "^", "<<", ">>")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
OPPOSITES = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
"""What holds where a comparison does not."""
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""Of comparisons by order: what holds of b and a where it holds of a and b."""
LOGICAL = ("&&", "||")

REDUCTIONS: dict[str, str] = {"+": "+", "*": "*", "min": "min", "max": "max", "&": "&", "|": "|", "^": "^"}
"""Reduction operators of `op=`: associative and commutative (floats up to rounding)."""


def identity(op: str, dtype: DType) -> int | float | bool:
    """The value e with `e op x == x` for every x of `dtype`, as a Python number."""
    if op in ("+", "|", "^"):
        return dtype.part.numpy.type(0).item()
    if op == "*":
        return dtype.part.numpy.type(1).item()
    if op == "&":
        return True if dtype.kind == "b" else (-1 if dtype.kind == "i" else 2**dtype.bits - 1)
    assert op in ("min", "max"), op
    if dtype.is_float:
        return float("inf") if op == "min" else float("-inf")
    if dtype.kind == "b":
        return op == "min"
    limits = np.iinfo(dtype.numpy)
    return int(limits.max if op == "min" else limits.min)


def zero(dtype: DType) -> int | float | bool:
    """What stands in place of a number, or a truth value, that nobody uses."""
    return identity("|" if dtype == BOOL else "+", dtype)
