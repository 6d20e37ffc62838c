"""Numbers that a caller gives, as inputs without dimensions: one code for all of them.

    Y[i] = 0.25*X[i] + 1        with alpha = 0.25   ->   Y[i] = alpha_f32*X[i] + 1

The types are those of the program with the numbers in it, where they are weak. What a number decides, and what the front end
has computed from it, stays in the program, which is another one for another number.
"""

from __future__ import annotations

import cmath
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from polytc.program import program as pr
from polytc.program import scalars
from polytc.program.names import fresh
from polytc.program.scalars import DType
from polytc.program.terms import Cast, Const, Expr, Read, map_expr

LITERAL = (0.0, 1.0, -1.0)
"""Numbers that stay: sums and products begin with them, and products with them are none."""


def as_inputs(program: pr.Program, numbers: Mapping[str, complex]) -> tuple[pr.Program, dict[str, np.ndarray]]:
    """The program with further inputs, its last, in place of the floats among the numbers that stand in its values; and an
    array for each of them. The same program if there are none."""
    values = {v: n for n, v in reversed([*numbers.items()])
              if isinstance(v, float | complex) and cmath.isfinite(v) and v not in LITERAL}
    if not values:
        return program, {}
    taken = {t.name for t in program.tensors}
    inputs: dict[tuple[complex, DType], str] = {}

    def put(e: Expr) -> Expr:
        if not isinstance(e, Const) or not e.dtype.is_float:
            return e
        value = next((v for v in values if e.value in (v, scalars.rounded(v, e.dtype))), None)
        if value is None:
            return e
        dtype = e.dtype if isinstance(value, complex) else e.dtype.part
        name = inputs.setdefault((value, dtype), fresh(f"{values[value]}_{dtype}", taken))
        return Read(name, (), dtype) if dtype == e.dtype else Cast(Read(name, (), dtype), e.dtype)
    statements = tuple(replace(s, value=map_expr(s.value, put)) for s in program.statements)
    tensors = tuple(pr.Tensor(name, dtype, (), ()) for (_, dtype), name in inputs.items())
    made = replace(program, tensors=(*program.tensors, *tensors), statements=statements,
                   inputs=(*program.inputs, *inputs.values()))
    return made, {name: np.asarray(value, dtype.numpy) for (value, dtype), name in inputs.items()}
