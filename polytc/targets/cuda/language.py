"""CUDA C as a dialect of C: C++ with functions of vectors that are called for each lane."""

from __future__ import annotations

from polytc.program.calls.published import AWAITED
from polytc.program.scalars import DType
from polytc.targets.ctext import half_bits, intrinsics, plain_rows
from polytc.targets.ctext.calls import published_words, word_dots
from polytc.targets.ctext.language import Language
from polytc.targets.cuda import types, vectors

DEVICE = "static __device__ inline"


def _instruction(text: str, ctype: str, line: str) -> str:
    """The function with NVIDIA's instruction for it where the compiler is NVIDIA's. line: `bits` or `a` -> `r`."""
    head, body = text.split("{\n", 1)
    return f"{head}{{\n#ifdef __CUDA_ARCH__\n    {ctype} r;\n    {line}\n    return r;\n#else\n{body.rstrip()[:-1]}#endif\n}}\n"


_PLAIN = half_bits.words(DEVICE, "unsigned short", "unsigned int")

WORDS = {
    **_PLAIN,
    "polytc_half": _instruction(_PLAIN["polytc_half"], "unsigned short",
                                'asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(a));'),
    "polytc_of_half": _instruction(_PLAIN["polytc_of_half"], "float", 'asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(bits));'),
}
"""Functions between floats and the bits of halves."""

DOTS = word_dots.functions(DEVICE, "unsigned int", {
    name: [("defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 610",
            ("int r;", word_dots.INSTRUCTION.format(*word_dots.signs(name, "s32", "u32")), "return r;"))]
    for name in ("dot_i8i8", "dot_u8u8", "dot_u8i8")})
"""Functions of words of bytes."""

_BITS = {"f32": ("__float_as_uint(x)", "__uint_as_float(bits)"),
         "f64": ("(unsigned long long)__double_as_longlong(x)", "__longlong_as_double((long long)bits)")}


def _bits(t: DType) -> tuple[str, str, str]:
    """A type, the bits of a number `x` of it, and the number of such bits."""
    return types.scalar(t), *_BITS.get(t.name, (f"({types.unsigned(t)})x", f"({types.scalar(t)})bits"))


PUBLISHED = published_words.functions(DEVICE, "unsigned long long", {t.name: _bits(t) for t in AWAITED.values()})
"""Functions of values that groups wait for. Volatile accesses of 8 bytes at their multiple are single, and neither from caches
of one unit nor put off (PTX ISA, memory consistency model: volatile is relaxed; LLVM, User Guide for AMDGPU, memory model)."""

CUDA = Language("CUDA C", types.LANES, types.scalar, types.vector, types.unsigned, types.mask, types.constant, types.value_bits,
                plain_rows.FLOAT, plain_rows.INTEGER, plain_rows.UNSIGNED, intrinsics.BOOL, plain_rows.HELPERS, limits=False,
                words=WORDS, byte=types.byte, function=DEVICE, vectors=vectors.CudaVectors(),
                atomics={"+": "atomicAdd", "min": "atomicMin", "max": "atomicMax", "&": "atomicAnd", "|": "atomicOr",
                         "^": "atomicXor"}, dots=DOTS, published=PUBLISHED)
