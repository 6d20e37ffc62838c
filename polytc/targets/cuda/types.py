"""Types, constants and reserved words of CUDA C.

A value of dtype T is held in `scalar(T)`: f16 and bf16 as a float that is rounded after each operation, bool as an int that
is 0 or 1. A vector is a structure of the preamble (vector_text.py), `f32x4` of four floats; one of bool has lanes of bytes
that are 0 or -1. In memory f16 and bf16 are unsigned short, their bits, and bool is unsigned char.
"""

from __future__ import annotations

from polytc.program.scalars import DType
from polytc.targets.ctext.constants import literal
from polytc.targets.ctext.reserved import WORDS

_VALUE = {"f16": "float", "bf16": "float", "f32": "float", "f64": "double", "bool": "int", "i8": "signed char", "i16": "short",
          "i32": "int", "i64": "long long", "u8": "unsigned char", "u16": "unsigned short", "u32": "unsigned int",
          "u64": "unsigned long long"}
LANES = (1, 2, 4, 8, 16)
LONG = "long long"
VECTORS = {"f32": "float", "f64": "double", **{n: t for n, t in _VALUE.items() if n[0] in "iu"}}
"""Word of a vector's lanes -> their type."""


def scalar(dtype: DType) -> str:
    """The type that holds a value."""
    return _VALUE[dtype.name]


def vector(dtype: DType, lanes: int) -> str:
    """The type that holds `lanes` values; that of a value for one lane."""
    if lanes == 1:
        return scalar(dtype)
    return f"{'f32' if dtype.is_half else 'i8' if dtype.kind == 'b' else dtype.name}x{lanes}"


def memory(dtype: DType, space: str) -> str:
    """The type of an element of a buffer. Only kernel arguments hold halves; kernels' own arrays hold floats instead."""
    if dtype.kind == "b":
        return byte(1)
    return "unsigned short" if dtype.is_half and space == "global" else scalar(dtype)


def byte(lanes: int) -> str:
    """An element of an array of bools, or a vector of such."""
    return "unsigned char" if lanes == 1 else f"u8x{lanes}"


def value_bits(dtype: DType) -> int:
    """Bits of one lane of a value, which is also the width of the mask that comparing two such vectors gives."""
    return 32 if dtype.is_half else dtype.bits


def mask(bits: int, lanes: int) -> str:
    """The signed integer vector whose lanes of `bits` are 0 or -1."""
    return f"i{bits}x{lanes}"


def unsigned(dtype: DType, lanes: int = 1) -> str:
    """The type in which integer arithmetic wraps; scalars narrower than 32 bits compute in 32."""
    return f"u{dtype.bits}x{lanes}" if lanes > 1 else _VALUE[f"u{max(32, dtype.bits)}"]


def constant(value: int | float | bool, dtype: DType) -> str:
    """A literal of exactly the type that holds the dtype."""
    return literal(value, dtype, scalar(dtype), "LL")


_BUILT_IN = """
    threadIdx blockIdx blockDim gridDim warpSize dim3 uchar ushort uint ulong min max saturate rsqrt rcbrt sinpi cospi
    sincos erfinv erfcinv erfcx normcdf normcdfinv norm clock clock64 assert half nv_bfloat16 texture surface bool char16_t
    char32_t wchar_t constexpr decltype noexcept nullptr static_assert static_cast dynamic_cast const_cast reinterpret_cast
    thread_local typeid mutable xor_eq and_eq or_eq not_eq bitand bitor compl concept requires co_await co_yield co_return
    import module char8_t all any ballot std cuda hip tex1D tex2D printf clamp lerp fdividef rnorm rhypot hypot
    cyl_bessel_i0 cyl_bessel_i1 mulhi mul24 umul24 umulhi float_as_int int_as_float isfinite fdivide exp10
""".split()
_BASES = "char uchar short ushort int uint long ulong longlong ulonglong float double".split()
RESERVED = WORDS | frozenset([*_BUILT_IN, *(f"{t}{n}" for t in _BASES for n in (1, 2, 3, 4)),
                              *(f"{w}x{n}" for w in VECTORS for n in LANES)])
"""Words of C++ and CUDA, functions of both, and the preamble's vectors."""
RESERVED_PREFIXES = ("polytc_", "_", "INT", "UINT", "FLT_", "DBL_", "FP_", "CUDA", "HIP", "cuda", "hip", "make_", "atomic",
                     "CU_", "NV_", "tex", "surf")
