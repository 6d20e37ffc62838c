"""Words of C and C++, and names that their headers define."""

from __future__ import annotations

from polytc.targets.ctext.constants import MACROS

KEYWORDS = frozenset("""
    auto break case char const continue default do double else enum extern float for goto if inline int long register restrict
    return short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof main
""".split())
WORDS = KEYWORDS | frozenset("""
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
