"""C99 as a dialect of C: scalars only. <tgmath.h> makes one name of the functions of float and double.

A value of dtype T is held in `scalar(T)`: bool in an int that is 0 or 1, f16 and bf16 in a float that is rounded after each
operation. In memory f16 and bf16 are uint16_t, their bits, and bool is uint8_t.
"""

from __future__ import annotations

from polytc.program.scalars import DType
from polytc.targets.ctext import half_bits, intrinsics, plain_rows
from polytc.targets.ctext.constants import literal
from polytc.targets.ctext.language import Language
from polytc.targets.ctext.reserved import WORDS as WORDS_OF_C

_VALUE = {"f16": "float", "bf16": "float", "f32": "float", "f64": "double", "bool": "int"}
_STORED = {"f16": "uint16_t", "bf16": "uint16_t", "bool": "uint8_t"}


def scalar(dtype: DType) -> str:
    """The type that holds a value."""
    return _VALUE.get(dtype.name) or f"{'u' if dtype.kind == 'u' else ''}int{dtype.bits}_t"


def stored(dtype: DType) -> str:
    """The type of an element of an array."""
    return _STORED.get(dtype.name) or scalar(dtype)


def vector(dtype: DType, lanes: int) -> str:
    """The type that holds a value; there are no vectors."""
    assert lanes == 1, "c: vectors are written as loops"
    return scalar(dtype)


def _none(*_: object) -> str:
    raise AssertionError("c: vectors are written as loops")


WORDS = half_bits.words()
"""Functions between floats and the bits of halves."""

C99 = Language(
    "C", (1,), scalar, vector, lambda dtype, lanes=1: f"uint{max(32, dtype.bits)}_t", _none,
    lambda value, dtype: literal(value, dtype, scalar(dtype), "LL"), lambda dtype: 32 if dtype.is_half else dtype.bits,
    plain_rows.FLOAT, plain_rows.INTEGER, plain_rows.UNSIGNED, intrinsics.BOOL, plain_rows.HELPERS, limits=False, words=WORDS)

PARALLEL = """\
#ifdef _OPENMP
#define PARALLEL _Pragma("omp parallel for")
#else
#define PARALLEL
#endif
"""

RESERVED = WORDS_OF_C
RESERVED_PREFIXES = ("polytc_", "__", "INT", "UINT", "FLT_", "DBL_", "FP_", "_")
