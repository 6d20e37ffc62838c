"""The reference: a Program run statement by statement with numpy, as its semantics say, slowly.

Only the points of one statement, which are independent by definition, are computed together, a bounded number at a time; those
of one iteration of all `for` loops around it, whose iterations run one by one.
"""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from polytc.functions.numbers import FUNCTIONS
from polytc.program import program as pr
from polytc.program import scalars
from polytc.program.calls import matrix_rows, published, words

Grid: TypeAlias = Mapping[str, np.ndarray]
"""index -> its values, broadcasting against each other."""

CHUNK = 1 << 19
"""Points computed at once."""

_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.true_divide, "//": np.floor_divide, "%": np.mod,
    "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor, "<<": np.left_shift, ">>": np.right_shift,
    "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal,
    "&&": np.logical_and, "||": np.logical_or}

_UFUNC: dict[str, np.ufunc] = {
    "+": np.add, "*": np.multiply, "min": np.minimum, "max": np.maximum, "&": np.bitwise_and, "|": np.bitwise_or,
    "^": np.bitwise_xor}


def power(a: Any, b: Any) -> Any:
    """numpy's power; of integers to a negative exponent, which that refuses, the quotient cut off: 1 or -1 of these, of all
    others 0, of 0 too."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind not in "iu" or not (b < 0).any():
        return np.power(a, b)
    odd = (b & 1).astype(bool)
    return np.where(b >= 0, np.power(a, np.maximum(b, 0)), np.where((a == 1) | (a == -1), np.where(odd, a, 1), 0))


def _erf(a: Any) -> Any:
    """The error function, number by number in double precision."""
    return np.vectorize(math.erf, otypes=[np.float64])(np.asarray(a, np.float64))


@functools.cache
def _reference(fn: str) -> types.CodeType:
    return compile(scalars.FUNCTIONS[fn].reference, fn, "eval")


def evaluate(program: pr.Program, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of `program` for the given inputs (by name; shapes and dtypes must be the declared ones).

    Raises IndexError, naming statement and tensor, where a gather leaves its tensor.
    """
    tensors: dict[str, np.ndarray] = {}
    for t in program.tensors:
        if t.name in program.inputs:
            given = np.asarray(arrays[t.name])
            assert given.shape == t.shape, f"{t.name}: shape {given.shape}, expected {t.shape}"
            tensors[t.name] = given.astype(t.dtype.numpy)
        else:
            tensors[t.name] = np.zeros(t.shape, t.dtype.numpy)
    lower = {t.name: t.lower for t in program.tensors}
    with np.errstate(all="ignore"):
        _run_all(pr.nested(program.statements), 0, tensors, lower, program.precise)
    return {name: tensors[name] for name in program.outputs}


def _run_all(body: tuple[pr.Nested, ...], depth: int, tensors: dict[str, np.ndarray], lower: Mapping[str, tuple[int, ...]],
             precise: bool) -> None:
    """Statements and loops in their order. depth: loops around them, which have one iteration here; precise: updates run in
    the order of their indices."""
    for x in body:
        if isinstance(x, pr.Loop):
            r = x.range(depth)
            for value in range(r.lower, r.upper):
                _run_all(tuple(y for y in (_at(z, depth, value) for z in x.body) if y is not None), depth + 1, tensors, lower,
                         precise)
            continue
        for grid in _grids(x, tensors, lower):
            _run(x, grid, tensors, lower, precise)


def _at(x: pr.Nested, depth: int, value: int) -> pr.Nested | None:
    """One iteration of the loop at that depth, as far as it is in this part of its body."""
    if isinstance(x, pr.Loop):
        inside = tuple(y for y in (_at(z, depth, value) for z in x.body) if y is not None)
        return pr.Loop(x.label, inside) if inside else None
    r = x.ranges[depth]
    if not r.lower <= value < r.upper:
        return None
    return replace(x, ranges=(*x.ranges[:depth], pr.Range(r.index, value, value + 1), *x.ranges[depth + 1:]))


def _grids(s: pr.Statement, tensors: Mapping[str, np.ndarray], lower: Mapping[str, tuple[int, ...]]) -> Iterator[Grid]:
    """The points of the statement's domain in chunks: broadcasting grids for a box, flat lists of points otherwise."""
    ends = pr.within(s.bounds)
    extents = [r.extent for r in s.ranges]
    if 0 in extents:
        return
    steps = list(extents)
    for d in range(len(steps)):  # cut the outermost dimensions first
        inner = math.prod(steps[d + 1:])
        steps[d] = max(1, min(extents[d], CHUNK // inner))
        if steps[d] * inner <= CHUNK:
            break
    for corner in np.ndindex(*(-(-n // k) for n, k in zip(extents, steps, strict=True))):
        grid: dict[str, np.ndarray] = {}
        for d, r in enumerate(s.ranges):
            first = r.lower + corner[d] * steps[d]
            axis = np.arange(first, min(first + steps[d], r.upper), dtype=np.int64)
            grid[r.index] = axis.reshape([-1 if k == d else 1 for k in range(len(extents))])
        if s.where or ends:
            mask = runs = compute(pr.conjunction(s.where), grid, tensors, lower, s.name) if s.where else np.True_
            for end in ends:  # each is computed, also where another one leaves nothing
                mask = mask & compute(end, grid, tensors, lower, s.name, runs)
            chosen = np.nonzero(np.broadcast_to(mask, np.broadcast_shapes(*(a.shape for a in grid.values()))))
            grid = {i: a.reshape(-1)[chosen[d]] for d, (i, a) in enumerate(grid.items())}
        yield grid


def _run(s: pr.Statement, grid: Grid, tensors: dict[str, np.ndarray], lower: Mapping[str, tuple[int, ...]], precise: bool
         ) -> None:
    if pr.scatters(s):
        found = _inside(s, grid, tensors, lower)
        if found is None:
            return
        grid = found
    shape = np.broadcast_shapes(*(a.shape for a in grid.values())) if grid else ()
    if 0 in shape:
        return
    target, needed = tensors[s.target], _needed(s, grid, tensors, lower)
    value = np.asarray(compute(s.value, grid, tensors, lower, s.name)).astype(target.dtype, copy=False)
    places = [np.asarray(compute(e, grid, tensors, lower, s.name, needed)) - lo
              for e, lo in zip(s.subscripts, lower[s.target], strict=True)]
    places = [p.reshape((1,) * len(shape)) if p.ndim == 0 else p for p in places]
    for place, extent in zip(places, target.shape, strict=True):
        if place.min() < 0 or place.max() >= extent:
            raise IndexError(f"{s.name} writes outside of {s.target}")
    if s.op is None:
        target[tuple(places)] = value if places else value.reshape(())
        return
    ufunc = _UFUNC[s.op]
    if precise and target.dtype.kind in "fc":  # numpy's sums of an axis are pairwise
        index = tuple(np.broadcast_to(p, shape) for p in places) or (np.zeros(shape, np.int64),)
        ufunc.at(target if places else target.reshape(1), index, np.broadcast_to(value, shape))
        return
    free = tuple(d for d in range(len(shape)) if all(p.shape[d] == 1 for p in places))
    if free:
        value = ufunc.reduce(np.broadcast_to(value, shape), axis=free, keepdims=True, dtype=target.dtype)
    rest = np.broadcast_shapes(value.shape, *(p.shape for p in places)) if places else ()
    index = tuple(np.broadcast_to(p, rest) for p in places)
    ufunc.at(target, index if index else (), value.reshape(()) if not index else np.broadcast_to(value, rest))


def _inside(s: pr.Statement, grid: Grid, tensors: dict[str, np.ndarray], lower: Mapping[str, tuple[int, ...]]) -> Grid | None:
    """The points of the grid, in order, for which a scatter stays in its tensor; None where the only one, without indices, does
    not."""
    points = dict(zip(grid, (a.reshape(-1) for a in np.broadcast_arrays(*grid.values())), strict=True))
    inside = np.ones(next(iter(points.values())).shape if points else (1,), bool)
    needed = _needed(s, points, tensors, lower)
    for e, low, extent in zip(s.subscripts, lower[s.target], tensors[s.target].shape, strict=True):
        place = np.asarray(compute(e, points, tensors, lower, s.name, needed)).astype(np.int64)
        inside &= (place >= low) & (place < low + extent)
    if not points:
        return grid if inside.all() else None
    return {i: a[inside] for i, a in points.items()}


def _needed(s: pr.Statement, grid: Grid, tensors: Mapping[str, np.ndarray], lower: Mapping[str, tuple[int, ...]]) -> Any:
    """Where it matters to which element an update goes: not where `where` leaves it out."""
    if isinstance(s.value, pr.Select) and s.value.skips:
        return compute(s.value.cond, grid, tensors, lower, s.name)
    return True


def compute(e: pr.Expr, grid: Grid, tensors: Mapping[str, np.ndarray], lower: Mapping[str, tuple[int, ...]],
            statement: str = "", needed: Any = True) -> Any:
    """The value of an expression at all points of `grid`. lower: first coordinates of the tensors; needed: where the value
    matters: elsewhere a read faults nowhere."""
    def sub(operand: pr.Expr, where: Any = True) -> Any:
        return compute(operand, grid, tensors, lower, statement, np.logical_and(needed, where))

    match e:
        case pr.Const():
            return e.dtype.numpy.type(e.value)
        case pr.Index():
            return grid[e.name]
        case pr.Read():
            return _read(e, [sub(x) for x in e.subscripts], tensors[e.tensor], lower[e.tensor], statement, needed)
        case pr.Unary():
            return {"-": np.negative, "!": np.logical_not, "~": np.invert}[e.op](sub(e.a))
        case pr.Binary(op="&&" | "||"):
            first = np.asarray(sub(e.a)).astype(bool)
            return _BINARY[e.op](first, sub(e.b, first if e.op == "&&" else ~first))
        case pr.Binary():
            return np.asarray(_BINARY[e.op](sub(e.a), sub(e.b))).astype(e.dtype.numpy, copy=False)
        case pr.Call() if words.is_word_call(e.fn):
            return words.apply(e.fn, [sub(a) for a in e.args])
        case pr.Call() if published.is_published_call(e.fn):
            return published.apply(e.fn, [sub(a) for a in e.args])
        case pr.Call() if matrix_rows.is_rows_call(e.fn):
            return matrix_rows.apply(e.fn, [sub(a) for a in e.args])
        case pr.Call():
            names = dict(zip("abc", (sub(a) for a in e.args), strict=False))
            known = {"np": np, "erf": _erf, "power": power, **FUNCTIONS, **names}
            return np.asarray(eval(_reference(e.fn), known)).astype(e.dtype.numpy, copy=False)
        case pr.Cast():
            return np.asarray(sub(e.a)).astype(e.dtype.numpy)
        case pr.Select():
            chosen = np.asarray(sub(e.cond)).astype(bool)
            return np.where(chosen, sub(e.a, chosen), sub(e.b, ~chosen))


def _read(e: pr.Read, subscripts: list[Any], array: np.ndarray, lower: tuple[int, ...], statement: str, needed: Any) -> Any:
    places = [np.asarray(x) - lo for x, lo in zip(subscripts, lower, strict=True)]
    inside: Any = True
    for d, (place, extent) in enumerate(zip(places, array.shape, strict=True)):
        within = (place >= 0) & (place < extent)
        wrong = np.logical_and(needed, ~within)
        if (e.default is None or e.shielded) and wrong.any():
            first = np.broadcast_to(subscripts[d], wrong.shape)[wrong].flat[0]
            raise IndexError(f"{statement} reads {e.tensor} at {first} in dimension {d}, outside of its "
                             f"{lower[d]}:{lower[d] + extent}")
        inside = inside & within
    other = e.dtype.numpy.type(e.default.value if e.default is not None else 0)
    if array.size == 0:
        return other
    clamped = tuple(np.clip(p, 0, n - 1) for p, n in zip(places, array.shape, strict=True))
    return np.where(inside, array[clamped], other)
