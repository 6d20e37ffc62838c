"""Functions between floats and the bits of halves, in dialects of C that have no type for these."""

from __future__ import annotations

_TEXTS = {
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
"""
}


def words(function: str = "static inline", u16: str = "uint16_t", u32: str = "uint32_t") -> dict[str, str]:
    """Name -> text. function: what the head of a function begins with; u16, u32: the types of unsigned integers."""
    names = {"static inline": function, "uint16_t": u16, "uint32_t": u32}
    made = {}
    for name, text in _TEXTS.items():
        for old, new in names.items():
            text = text.replace(old, new)
        made[name] = text
    return made
