"""Known integers that follow from traced sizes (program/traces), as arrays of objects: results of Shape, and what follows.

    x: f32[n, 12, 64];  Shape(x) -> [n, 12, 64];  Gather(., 0) -> n;  Mul(., 2) -> 2*n

Nodes of a few operators are computed with them. What no row here has is bound like a node that computes with data.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from polytc.graph.ir import Node
from polytc.program import type_promotion
from polytc.program.program import Program
from polytc.program.scalars import DTYPES, I32, I64, DType, from_numpy
from polytc.program.traces.traced import traced
from polytc.program.traces.values import any_traced as any_traced_in
from polytc.program.traces.values import sizes_in

Values: TypeAlias = "Sequence[np.ndarray | None]"


def integers(numbers: Any) -> np.ndarray:
    """A number, or several, as an array: of i64, or of objects where some are traced."""
    several = numbers if isinstance(numbers, tuple | list) else (numbers,)
    if not any(map(traced, several)):
        return np.array(numbers, np.int64)
    found = np.empty(len(several), object)
    found[:] = several
    return found if several is numbers else found.reshape(())


def extents(node: Node, shape: tuple[int, ...]) -> np.ndarray:
    """The result of Shape or Size, of a value of this shape."""
    if node.op == "Size":
        return integers(math.prod(shape))
    return integers(shape[slice(node.attributes.get("start", 0), node.attributes.get("end"))])


def of_input(array: np.ndarray, sizes: Sequence[Any]) -> np.ndarray:
    """The elements of an input of integers as sizes. An array of objects says what other integers than i64 they are."""
    dtype = from_numpy(array.dtype)
    assert dtype is not None, "sizes of no type"
    found = np.empty(array.size, object)
    found[:] = sizes
    return _of_type(found.reshape(array.shape), dtype)


def _of_type(array: np.ndarray, dtype: DType) -> np.ndarray:
    found = np.empty(array.shape, object if dtype == I64 else np.dtype("O", metadata={"of": dtype.name}))
    found.reshape(-1)[:] = list(array.reshape(-1))
    return found


def is_traced(array: np.ndarray | None) -> bool:
    """Does an array hold a traced integer?"""
    return isinstance(array, np.ndarray) and array.dtype == object and any(map(traced, array.reshape(-1)))


def concern(node: Node, values: Values) -> bool:
    """Are there any among the inputs of a node, or in what it is a constant of?"""
    return any_traced(values) or node.op == "Constant" and any_traced_in(tuple(node.attributes.get("value_ints") or ()))


def any_traced(values: Values) -> bool:
    """Does any of some arrays?"""
    return any(map(is_traced, values))


def dtype_of(array: np.ndarray) -> DType | None:
    """The type of a known array, None for one that polytc does not have."""
    if not is_traced(array):
        return from_numpy(array.dtype)
    return DTYPES[array.dtype.metadata["of"]] if array.dtype.metadata else I64


def number(array: np.ndarray) -> Any:
    """The one element of an array, as a Python number or a traced one."""
    first = array.reshape(-1)[0]
    return first.item() if isinstance(first, np.generic) else first


def embedded(program: Program, known: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The inputs of a program that become numbers in it: those of one element, by name. Numbers that do not follow from extents
    of its arrays stay in memory, so that one kernel serves them all. known: inputs that are known."""
    extents = [sizes_in(d) for t in program.tensors for d in t.shape]
    own = {next(iter(found)) for found in extents if len(found) == 1}
    numbers = {t: number(a) for t, a in known.items() if a.size == 1}
    return {t: n for t, n in numbers.items() if sizes_in(n) <= own}


def fold(node: Node, values: Values) -> np.ndarray | None:
    """The result of a node with traced integers among its inputs; None where no row has it."""
    row = ROWS.get(node.op)
    if row is None or len([n for n in node.outputs if n]) != 1:
        return None
    found = row(node, [None if v is None else v.astype(object) if v.dtype.kind in "iu" else v for v in values])
    if found is None or found.dtype != object:
        return found
    dtype = CASTS[node.attributes["to"]] if node.op == "Cast" else next(
        (d for v in values if v is not None and is_traced(v) for d in [dtype_of(v)] if d is not None), I64)
    if not is_traced(found):
        return found.astype(dtype.numpy)
    return _of_type(found, dtype) if all(type_promotion.holds(n, dtype) for n in found.reshape(-1)) else None


def _elementwise(f: Callable[..., Any], result: type = object) -> Callable[[Node, Values], np.ndarray | None]:
    def row(node: Node, values: Values) -> np.ndarray | None:
        arrays = [v for v in values if v is not None]
        if any(a.dtype != object for a in arrays):
            return None
        broad = np.broadcast_arrays(*arrays)
        found = np.empty(broad[0].shape, object)
        found.reshape(-1)[:] = [f(*row) for row in zip(*(b.reshape(-1) for b in broad), strict=True)]
        return found if result is object else found.astype(result)
    return row


def _divided(a: Any, b: Any) -> Any:
    """Integers are divided towards 0."""
    quotient = abs(a) // abs(b)
    return quotient if (a >= 0) == (b > 0) else -quotient


def _axes(node: Node, values: Values, k: int = 1) -> list[int] | None:
    given = node.attributes.get("axes")
    found = given if given is not None else values[k] if len(values) > k else None
    return None if found is None else [int(a) for a in np.asarray(found).reshape(-1)]


def _gather(node: Node, values: Values) -> np.ndarray | None:
    data, at = values[0], values[1]
    if data is None or at is None or is_traced(at):
        return None
    return np.asarray(np.take(data, at.astype(np.int64), axis=node.attributes.get("axis", 0)), object)


def _slice(node: Node, values: Values) -> np.ndarray | None:
    data = values[0]
    if data is None or data.ndim != 1 or not is_traced(data) or any_traced(values[1:]):
        return None

    def given(name: str, k: int, default: int) -> int:
        found = node.attributes.get(name) if name in node.attributes else values[k] if len(values) > k else None
        return default if found is None else int(np.asarray(found).reshape(-1)[0])
    return data[slice(*_ends(given("starts", 1, 0), given("ends", 2, len(data)), given("steps", 4, 1), len(data)))]


def _ends(start: int, end: int, step: int, extent: int) -> tuple[int, int | None, int]:
    """The ends of ONNX's slices as those of Python's: behind either end is at it."""
    start, end = (n + extent if n < 0 else n for n in (start, end))
    if step > 0:
        return min(max(start, 0), extent), min(max(end, 0), extent), step
    return min(max(start, 0), extent - 1), None if end < 0 else min(end, extent - 1), step


def _concat(node: Node, values: Values) -> np.ndarray | None:
    return np.concatenate([v for v in values if v is not None], axis=node.attributes.get("axis", 0))


def _unsqueeze(node: Node, values: Values) -> np.ndarray | None:
    axes = _axes(node, values)
    return None if values[0] is None or axes is None else np.expand_dims(values[0], tuple(axes))


def _squeeze(node: Node, values: Values) -> np.ndarray | None:
    axes = _axes(node, values)
    return None if values[0] is None else np.squeeze(values[0], None if axes is None else tuple(axes))


def _reshape(node: Node, values: Values) -> np.ndarray | None:
    data, shape = values[0], values[1] if len(values) > 1 else None
    if data is None or shape is None or is_traced(shape) or node.attributes.get("allowzero"):
        return None
    asked = [int(n) for n in shape]
    return data.reshape([data.shape[k] if n == 0 else n for k, n in enumerate(asked)])


def _cast(node: Node, values: Values) -> np.ndarray | None:
    return values[0] if values[0] is not None and values[0].dtype == object and node.attributes.get("to") in CASTS else None


def _where(node: Node, values: Values) -> np.ndarray | None:
    condition, a, b = values
    if condition is None or a is None or b is None or condition.dtype != bool or {a.dtype, b.dtype} != {np.dtype(object)}:
        return None
    which, *choices = np.broadcast_arrays(condition, a, b)
    found = np.empty(which.shape, object)
    found.reshape(-1)[:] = [x if yes else y for yes, x, y in zip(*(v.reshape(-1) for v in (which, *choices)), strict=True)]
    return found


def _expand(node: Node, values: Values) -> np.ndarray | None:
    data, shape = values
    if data is None or shape is None or is_traced(shape):
        return None
    return np.broadcast_to(data, np.broadcast_shapes(data.shape, tuple(map(int, shape)))).copy()


def _reduced(f: Callable[[Any, Any], Any], start: int) -> Callable[[Node, Values], np.ndarray | None]:
    def row(node: Node, values: Values) -> np.ndarray | None:
        data, axes = values[0], _axes(node, values)
        if data is None or data.ndim != 1 or axes not in (None, [0], [-1]):
            return None
        if axes is None and node.attributes.get("noop_with_empty_axes"):
            return data
        total = np.empty((), object)
        total[()] = functools.reduce(f, data, start)
        return total.reshape(1) if node.attributes.get("keepdims", 1) else total
    return row


CASTS = {6: I32, 7: I64}
"""The types that sizes are cast to, by ONNX's numbers."""

ROWS: dict[str, Callable[[Node, Values], np.ndarray | None]] = {
    "Constant": lambda node, values: integers(tuple(node.attributes["value_ints"])),
    "Identity": lambda node, values: values[0], "Cast": _cast, "Gather": _gather, "Slice": _slice, "Concat": _concat,
    "Unsqueeze": _unsqueeze, "Squeeze": _squeeze, "Reshape": _reshape, "Where": _where, "Expand": _expand,
    "Add": _elementwise(lambda a, b: a + b), "Sub": _elementwise(lambda a, b: a - b), "Mul": _elementwise(lambda a, b: a * b),
    "Div": _elementwise(_divided), "Neg": _elementwise(lambda a: -a), "Abs": _elementwise(abs),
    "Min": _elementwise(min), "Max": _elementwise(max),
    "Equal": _elementwise(lambda a, b: a == b, bool), "Less": _elementwise(lambda a, b: a < b, bool),
    "Greater": _elementwise(lambda a, b: a > b, bool), "LessOrEqual": _elementwise(lambda a, b: a <= b, bool),
    "GreaterOrEqual": _elementwise(lambda a, b: a >= b, bool),
    "ReduceProd": _reduced(lambda a, b: a * b, 1), "ReduceSum": _reduced(lambda a, b: a + b, 0)}
"""By operator: the result, of arrays of objects in place of integers; None where it cannot tell."""
