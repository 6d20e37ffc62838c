"""The vectors that kernels in CUDA C use: one template, and a name for each type that a text has.

The structure is aligned as CUDA's own vectors are, so that one that is loaded through a pointer to it is one wide access.
Operators take their arguments by value: compilers join the loads of the lanes only then.
"""

from __future__ import annotations

import re

from polytc.targets.cuda import types

_TEMPLATE = """\
/* Numbers of one thread side by side; operators work lane by lane, comparisons give 0 or -1. */
template <int bytes> struct polytc_mask;
template <> struct polytc_mask<1> { typedef signed char type; };
template <> struct polytc_mask<2> { typedef short type; };
template <> struct polytc_mask<4> { typedef int type; };
template <> struct polytc_mask<8> { typedef long long type; };

/* Products of short numbers are of int, which they may exceed. */
template <class T> static __device__ inline T polytc_factor(T a) { return a; }
static __device__ inline unsigned int polytc_factor(unsigned short a) { return a; }

template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) polytc_vector {
    typedef T type;
    typedef polytc_vector<typename polytc_mask<sizeof(T)>::type, N> mask;
    T lane[N];

    polytc_vector() = default;
    __device__ polytc_vector(T a)
    {
        for (int k = 0; k < N; ++k) lane[k] = a;
    }
    template <class... Others> __device__ polytc_vector(T a, T b, Others... others)
        : lane{a, b, static_cast<T>(others)...}
    {
    }
    __device__ polytc_vector<T, N / 2> half(int number) const
    {
        polytc_vector<T, N / 2> found;
        for (int k = 0; k < N / 2; ++k) found.lane[k] = lane[number * (N / 2) + k];
        return found;
    }
    friend __device__ polytc_vector operator-(polytc_vector a)
    {
        for (int k = 0; k < N; ++k) a.lane[k] = static_cast<T>(-a.lane[k]);
        return a;
    }
    friend __device__ polytc_vector operator~(polytc_vector a)
    {
        for (int k = 0; k < N; ++k) a.lane[k] = static_cast<T>(~a.lane[k]);
        return a;
    }
#define POLYTC_OPERATOR(op) \\
    friend __device__ polytc_vector operator op(polytc_vector a, polytc_vector b) \\
    { \\
        for (int k = 0; k < N; ++k) a.lane[k] = static_cast<T>(polytc_factor(a.lane[k]) op polytc_factor(b.lane[k])); \\
        return a; \\
    } \\
    friend __device__ polytc_vector &operator op##=(polytc_vector &a, polytc_vector b) \\
    { \\
        return a = a op b; \\
    }
    POLYTC_OPERATOR(+)
    POLYTC_OPERATOR(-)
    POLYTC_OPERATOR(*)
    POLYTC_OPERATOR(/)
    POLYTC_OPERATOR(%)
    POLYTC_OPERATOR(&)
    POLYTC_OPERATOR(|)
    POLYTC_OPERATOR(^)
#undef POLYTC_OPERATOR
#define POLYTC_COMPARISON(op) \\
    friend __device__ mask operator op(polytc_vector a, polytc_vector b) \\
    { \\
        mask found; \\
        for (int k = 0; k < N; ++k) found.lane[k] = a.lane[k] op b.lane[k] ? -1 : 0; \\
        return found; \\
    }
    POLYTC_COMPARISON(==)
    POLYTC_COMPARISON(!=)
    POLYTC_COMPARISON(<)
    POLYTC_COMPARISON(<=)
    POLYTC_COMPARISON(>)
    POLYTC_COMPARISON(>=)
#undef POLYTC_COMPARISON
};
"""

_FUNCTIONS = {
    "polytc_convert": """\
template <class To, class T, int N> static __device__ inline To polytc_convert(polytc_vector<T, N> a)
{
    To found;
    for (int k = 0; k < N; ++k) found.lane[k] = static_cast<typename To::type>(a.lane[k]);
    return found;
}
""",
    "polytc_choose": """\
template <class M, class V> static __device__ inline V polytc_choose(M mask, V a, V b)
{
    for (int k = 0; k < int(sizeof(V) / sizeof(a.lane[0])); ++k) a.lane[k] = mask.lane[k] ? a.lane[k] : b.lane[k];
    return a;
}
""",
    "polytc_any": """\
template <class T, int N> static __device__ inline int polytc_any(polytc_vector<T, N> mask)
{
    int found = 0;
    for (int k = 0; k < N; ++k) found |= mask.lane[k] != 0;
    return found;
}
""",
    "polytc_all": """\
template <class T, int N> static __device__ inline int polytc_all(polytc_vector<T, N> mask)
{
    int found = 1;
    for (int k = 0; k < N; ++k) found &= mask.lane[k] != 0;
    return found;
}
""",
    "polytc_load": """\
/* A vector of which only the elements are aligned. */
template <class V> static __device__ inline V polytc_load(const typename V::type *p)
{
    V found;
    for (int k = 0; k < int(sizeof(V) / sizeof(*p)); ++k) found.lane[k] = p[k];
    return found;
}
""",
    "polytc_store": """\
template <class T, int N> static __device__ inline void polytc_store(T *p, polytc_vector<T, N> a)
{
    for (int k = 0; k < N; ++k) p[k] = a.lane[k];
}
""",
}
"""Of vectors, by name."""

_NAMED = re.compile(rf"\b({'|'.join(types.VECTORS)})x({'|'.join(map(str, types.LANES))})\b")


def text(kernels: str) -> str:
    """The vectors that a text uses, to stand before it; '' if it has none."""
    used = [m for m in dict.fromkeys(_NAMED.findall(kernels)) if int(m[1]) > 1]
    if not used:
        return ""
    names = "".join(f"typedef polytc_vector<{types.VECTORS[of]}, {n}> {of}x{n};\n" for of, n in sorted(used))
    functions = [body for name, body in _FUNCTIONS.items() if f"{name}<" in kernels or f"{name}(" in kernels]
    return "\n".join([_TEMPLATE, names, *functions])
