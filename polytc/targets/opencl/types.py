"""Types, constants and reserved words of OpenCL C 1.2.

A value of dtype T is held in `scalar(T)`: f16 and bf16 as a float that is rounded after each operation (core OpenCL has no half
arithmetic), bool as an int that is 0 or 1. A vector of bool is a char vector of masks, 0 or -1. In memory f16 is `half`,
accessed by vload_half and vstore_half, bf16 is ushort, the upper half of the float, and bool is uchar.
"""

from __future__ import annotations

from polytc.program.scalars import DType
from polytc.targets.ctext.constants import NUMBERS, literal

_VALUE = {"f16": "float", "bf16": "float", "f32": "float", "f64": "double", "bool": "int", "i8": "char", "i16": "short",
          "i32": "int", "i64": "long", "u8": "uchar", "u16": "ushort", "u32": "uint", "u64": "ulong"}
_MASK = {8: "char", 16: "short", 32: "int", 64: "long"}
LANES = (1, 2, 4, 8, 16)


def scalar(dtype: DType) -> str:
    """The C type that holds a value."""
    return _VALUE[dtype.name]


def vector(dtype: DType, lanes: int) -> str:
    """The C type that holds `lanes` values; that of a value for one lane."""
    if lanes == 1:
        return scalar(dtype)
    return f"{'char' if dtype.kind == 'b' else scalar(dtype)}{lanes}"


def memory(dtype: DType, space: str) -> str:
    """The C type of an element of a buffer. Only kernel arguments hold halves; kernels' own arrays hold floats instead."""
    if dtype.kind == "b":
        return "uchar"
    return _STORED[dtype.name] if dtype.is_half and space == "global" else scalar(dtype)


_STORED = {"f16": "half", "bf16": "ushort"}


def value_bits(dtype: DType) -> int:
    """Bits of one lane of a value, which is also the width of the mask that comparing two such vectors gives."""
    return 32 if dtype.is_half else dtype.bits


def mask(bits: int, lanes: int) -> str:
    """The signed integer vector whose lanes of `bits` are 0 or -1."""
    return f"{_MASK[bits]}{lanes}"


def unsigned(dtype: DType, lanes: int = 1) -> str:
    """The type in which integer arithmetic wraps; scalars narrower than 32 bits compute in 32."""
    bits = dtype.bits if lanes > 1 else max(32, dtype.bits)
    return f"u{_MASK[bits]}{lanes if lanes > 1 else ''}"


def constant(value: int | float | bool, dtype: DType) -> str:
    """A literal of exactly the type that holds the dtype."""
    return literal(value, dtype, scalar(dtype), "L")


def byte(lanes: int) -> str:
    """An element of an array of bools."""
    return "uchar" if lanes == 1 else f"uchar{lanes}"


_TYPES = """
    bool char uchar short ushort int uint long ulong float double half quad size_t ptrdiff_t intptr_t uintptr_t
    void unsigned signed image1d_t image2d_t image3d_t sampler_t event_t
""".split()
_WORDS = """
    auto break case const continue default do else enum extern for goto if inline register restrict return
    sizeof static struct switch typedef union volatile while kernel global local constant private read_only
    write_only read_write complex imaginary pipe generic main true false
""".split()
_FUNCTIONS = """
    acos acosh acospi asin asinh asinpi atan atan2 atanh atanpi cbrt ceil copysign cos cosh cospi erf erfc exp
    exp2 exp10 expm1 fabs fdim floor fma fmax fmin fmod fract frexp hypot ilogb ldexp lgamma lgamma_r log log2
    log10 log1p logb mad maxmag minmag modf nan nextafter pow pown powr remainder remquo rint rootn round rsqrt
    sin sincos sinh sinpi sqrt tan tanh tanpi tgamma trunc abs abs_diff add_sat hadd rhadd clamp clz mad_hi
    mad_sat max min mul_hi rotate sub_sat upsample popcount mad24 mul24 degrees mix radians step smoothstep sign
    cross dot distance length normalize isequal isnotequal isgreater isless isfinite isinf isnan isnormal
    isordered isunordered signbit any all bitselect select barrier mem_fence prefetch printf shuffle shuffle2
    vec_step NAN INFINITY HUGE_VAL HUGE_VALF MAXFLOAT NULL EOF linux unix
""".split()
RESERVED = NUMBERS | frozenset([*_WORDS, *_FUNCTIONS, *_TYPES, *(f"{t}{n}" for t in _TYPES[:13] for n in (2, 3, 4, 8, 16))])
RESERVED_PREFIXES = tuple("""
    polytc_ __ get_ vload vstore convert_ as_ native_ half_ fast_ atomic_ atom_ async_ read_ write_ cl_ CL_ CLK_
    FLT_ DBL_ INT_ CHAR_ SHRT_ LONG_ UINT_ UCHAR_ USHRT_ ULONG_ SCHAR_
""".split())
