"""OpenCL C 1.2 as a dialect of C."""

from __future__ import annotations

from polytc.targets.ctext import intrinsics
from polytc.targets.ctext.language import Language
from polytc.targets.opencl import types, vectors

OPENCL = Language("OpenCL C", types.LANES, types.scalar, types.vector, types.unsigned, types.mask, types.constant,
                  types.value_bits, intrinsics.FLOAT, intrinsics.INTEGER, intrinsics.UNSIGNED, intrinsics.BOOL,
                  {}, byte=types.byte, vectors=vectors.OpenCLVectors(),
                  atomics={"+": "atomic_add", "min": "atomic_min", "max": "atomic_max", "&": "atomic_and", "|": "atomic_or",
                           "^": "atomic_xor"})
