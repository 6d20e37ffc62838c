"""OpenCL C 1.2 as a dialect of C."""

from __future__ import annotations

from polytc.targets.ctext import intrinsics
from polytc.targets.ctext.calls import word_dots
from polytc.targets.ctext.language import Language
from polytc.targets.opencl import types, vectors

_PACKED = {"dot_i8i8": "(uint)dot_4x8packed_ss_int", "dot_u8u8": "dot_4x8packed_uu_uint", "dot_u8i8":
           "(uint)dot_4x8packed_us_int"}
_EXTENSION = f"defined({word_dots.FEATURE})"
_NVIDIA = "defined(__NV_CL_C_VERSION)"
"""What NVIDIA's compiler defines, which takes PTX; devices without the instruction have no dot products (driver/devices.py)."""
DOTS = word_dots.functions("static inline", "uint", {
    name: [(_EXTENSION, (f"return (int)((uint)c + {_PACKED[name]}(a, b));",)),
           (_NVIDIA, ("int r;", word_dots.INSTRUCTION.format(*word_dots.signs(name, "s32", "u32")), "return r;"))]
    for name in _PACKED})
"""Functions of words of bytes. The extension's other ones, dot_acc_sat, saturate."""

OPENCL = Language("OpenCL C", types.LANES, types.scalar, types.vector, types.unsigned, types.mask, types.constant,
                  types.value_bits, intrinsics.FLOAT, intrinsics.INTEGER, intrinsics.UNSIGNED, intrinsics.BOOL,
                  {}, byte=types.byte, vectors=vectors.OpenCLVectors(),
                  atomics={"+": "atomic_add", "min": "atomic_min", "max": "atomic_max", "&": "atomic_and", "|": "atomic_or",
                           "^": "atomic_xor"}, dots=DOTS)
