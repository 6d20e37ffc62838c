"""Names that mean types and numbers in every program."""

from __future__ import annotations

from polytc.program.scalars import DTYPES, DType

ALIASES = {
    "float": "f32", "double": "f64", "half": "f16", "int": "i32", "float16": "f16", "bfloat16": "bf16", "float32": "f32",
    "float64": "f64", "complex64": "c64", "complex128": "c128"} | {
    f"{'u' * u}int{b}": f"{'iu'[u]}{b}" for u in (0, 1) for b in (8, 16, 32, 64)}
"""Other spellings of types: Tensor Comprehensions' and numpy's."""

CONSTANTS: dict[str, int | float | bool] = {
    "true": True, "false": False, "inf": float("inf"), "nan": float("nan"), "pi": 3.141592653589793}


def dtype_of(name: str) -> DType | None:
    """The scalar type of a name as written, aliases included."""
    return DTYPES.get(ALIASES.get(name, name))
