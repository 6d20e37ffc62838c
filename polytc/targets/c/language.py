"""C99 as a dialect of C: scalars only. <tgmath.h> makes one name of the functions of float and double.

A value of dtype T is held in `scalar(T)`: bool in an int that is 0 or 1, f16 and bf16 in a float that is rounded after each
operation. In memory f16 and bf16 are uint16_t, their bits, and bool is uint8_t.
"""

from __future__ import annotations

from polytc.program.scalars import DType
from polytc.targets.ctext import intrinsics
from polytc.targets.ctext.constants import MACROS, literal
from polytc.targets.ctext.language import Language

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


WORDS = {
    "polytc_half": """\
/* The bits of the nearest half, ties to even. */
static inline uint16_t polytc_half(float a)
{
    union { float f; uint32_t u; } x = {a};
    const uint16_t sign = (uint16_t)(x.u >> 16 & 0x8000u);
    x.u &= 0x7fffffffu;
    if (x.u > 0x7f800000u) return sign | 0x7e00u;
    if (x.u >= 0x477ff000u) return sign | 0x7c00u;
    if (x.u < 0x38800000u) {
        x.f += 0.5f; /* rounds to multiples of the smallest half */
        return (uint16_t)(sign | (x.u - 0x3f000000u));
    }
    x.u += 0xc8000fffu + (x.u >> 13 & 1u);
    return (uint16_t)(sign | x.u >> 13);
}
""",
    "polytc_of_half": """\
static inline float polytc_of_half(uint16_t bits)
{
    const uint32_t exponent = bits >> 10 & 31u, digits = bits & 1023u;
    union { uint32_t u; float f; } x = {0};
    if (exponent == 31) x.u = 0x7f800000u | digits << 13;
    else if (exponent != 0) x.u = (exponent + 112) << 23 | digits << 13;
    else x.f = (float)digits * 5.9604644775390625e-8f;
    x.u |= (uint32_t)(bits & 0x8000u) << 16;
    return x.f;
}
""",
    "polytc_bfloat": """\
/* The bits of the nearest bfloat16, ties to even. */
static inline uint16_t polytc_bfloat(float a)
{
    union { float f; uint32_t u; } x = {a};
    if (a != a) return (uint16_t)(x.u >> 16 | 0x40u);
    return (uint16_t)((x.u + 0x7fffu + (x.u >> 16 & 1u)) >> 16);
}
""",
    "polytc_of_bfloat": """\
static inline float polytc_of_bfloat(uint16_t bits)
{
    union { uint32_t u; float f; } x = {(uint32_t)bits << 16};
    return x.f;
}
"""}
"""Functions between floats and the bits of halves."""

C99 = Language(
    "C", (1,), scalar, vector, lambda dtype, lanes=1: f"uint{max(32, dtype.bits)}_t", _none,
    lambda value, dtype: literal(value, dtype, scalar(dtype), "LL"), lambda dtype: 32 if dtype.is_half else dtype.bits, _none,
    {**intrinsics.FLOAT, **{fn: f"({fn}({{0}}) != 0)" for fn in ("isnan", "isinf", "isfinite", "signbit")}},
    {**intrinsics.INTEGER, "min": "@least", "max": "@most", "clamp": "@least(@most({0}, {1}), {2})", "abs": "@absolute"},
    {**intrinsics.UNSIGNED, "sign": "AS({0} > 0)"}, intrinsics.BOOL,
    {"least": (2, "return a < b ? a : b;"), "most": (2, "return a > b ? a : b;"), "absolute": (1, "return a < 0 ? NEG : a;"),
     "sign": (1, "return a != a ? a : (T)((a > 0) - (a < 0));"),
     "tohalf": (1, "return polytc_of_half(polytc_half(a));"), "tobfloat": (1, "return polytc_of_bfloat(polytc_bfloat(a));")},
    limits=False, words=WORDS)

PARALLEL = """\
#ifdef _OPENMP
#define PARALLEL _Pragma("omp parallel for")
#else
#define PARALLEL
#endif
"""

RESERVED = frozenset("""
    auto break case char const continue default do double else enum extern float for goto if inline int long register restrict
    return short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof main
    acos acosh asin asinh atan atan2 atanh carg cbrt ceil cimag conj copysign cos cosh cproj creal erf erfc exp exp2 expm1 fabs
    fdim floor fma fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround
    nearbyint nextafter nexttoward pow remainder remquo rint round scalbln scalbn sin sinh sqrt tan tanh tgamma trunc
    isnan isinf isfinite isnormal signbit fpclassify isgreater isless isunordered
    imaginary j0 j1 jn y0 y1 yn gamma signgam size_t PARALLEL memcpy memset malloc free abs labs div
    index alignas alignof and or not xor class new delete this template namespace operator
    private public protected friend virtual typename using try catch throw explicit export mutable drem significand exp10 pow10
    abort exit rand qsort system remove rename printf puts read write open close select link
""".split()) | frozenset(f"{u}int{n}_t" for u in ("", "u") for n in (8, 16, 32, 64)) | MACROS
"""Words of C and C++, and names that headers define."""
RESERVED_PREFIXES = ("polytc_", "__", "INT", "UINT", "FLT_", "DBL_", "FP_", "_")
