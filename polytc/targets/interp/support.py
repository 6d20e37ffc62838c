"""What the generated Python calls: checked loads and stores, vectors, casts, intrinsics, work-groups.

Scalars are numpy scalars and vectors are one-dimensional numpy arrays, so that numpy's arithmetic is the semantics; only loop
variables and index arithmetic are Python integers.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from polytc import errors
from polytc.functions.numbers import FUNCTIONS
from polytc.program import scalars
from polytc.program.calls import published, words

errors.register(E520="access outside of a buffer", E521="write to a buffer that a kernel only reads",
                E522="work-items do not meet at the same barrier, or wait for what nobody makes")


def poison(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Memory with undefined contents: NaN, or a large odd pattern, so that a read before the first write shows."""
    if dtype.kind in "fV":
        return np.full(shape, np.nan, dtype)
    pattern = bytes([0x5A if dtype.kind != "b" else 1]) * (dtype.itemsize * math.prod(shape))
    return np.frombuffer(pattern, dtype).reshape(shape).copy()


def load(name: str, array: np.ndarray, *indices: Any, mask: Any = True) -> Any:
    """array[indices], a scalar or one element a lane; only lanes of `mask` are read, the others are 0."""
    lanes = 0 if mask is True else max((len(i) for i in (*indices, mask) if isinstance(i, np.ndarray)), default=0)
    if not lanes:
        _check(name, array, indices)
        return array[indices]
    if not np.any(mask):
        return np.zeros(lanes, array.dtype)
    if np.all(mask):
        _check(name, array, indices)
        return array[indices] if any(isinstance(i, np.ndarray) for i in indices) else np.full(lanes, array[indices])
    out = np.zeros(lanes, array.dtype)
    for k in np.nonzero(np.broadcast_to(mask, lanes))[0]:
        where = tuple(int(i[k]) if isinstance(i, np.ndarray) else i for i in indices)
        _check(name, array, where)
        out[k] = array[where]
    return out


def strip(base: int, stride: int, lanes: int) -> slice:
    """The coordinates base, base + stride, ..., so many, as an index for `load_strip` and `store`."""
    return slice(base, base + stride * (lanes - 1) + 1, stride)


def load_strip(name: str, array: np.ndarray, *indices: Any) -> np.ndarray:
    """array[indices], one of them a strip."""
    _check(name, array, indices)
    return array[indices].copy()


def first(count: int, lanes: int) -> np.ndarray:
    """The mask of the first `count` lanes."""
    return np.arange(lanes) < count


def store(name: str, array: np.ndarray, value: Any, *indices: Any, active: np.ndarray | None = None) -> None:
    """array[indices] = value, lane by lane; active: only in these lanes."""
    if active is not None:
        if not np.any(active):
            return
        value = value[active] if np.ndim(value) else value
        indices = tuple(i[active] if isinstance(i, np.ndarray) else i for i in indices)
    _check(name, array, indices)
    if not array.flags.writeable:
        raise errors.fail("E521", f"the kernel writes '{name}', which is not among its written buffers",
                          kind=errors.TargetError)
    array[indices] = value


def _check(name: str, array: np.ndarray, indices: Sequence[Any]) -> None:
    for index, extent in zip(indices, array.shape, strict=True):
        if not (0 <= index < extent if isinstance(index, int) else
                index.start >= 0 and index.stop <= extent if isinstance(index, slice) else
                index.min() >= 0 and index.max() < extent):
            raise _outside(name, array, indices)


def _outside(name: str, array: np.ndarray, indices: Sequence[Any]) -> errors.PolytcError:
    """E520 of the first dimension with a coordinate that it does not have."""
    indices = [np.arange(i.start, i.stop, i.step) if isinstance(i, slice) else i for i in indices]
    places = enumerate(zip(indices, array.shape, strict=True))
    axis = next(n for n, (i, extent) in places if np.min(i) < 0 or np.max(i) >= extent)
    shown = ", ".join(str(i.tolist() if isinstance(i, np.ndarray) else int(i)) for i in indices)
    return errors.fail("E520", f"'{name}[{shown}]' lies outside of {name}, of shape {array.shape}",
                       kind=errors.TargetError, notes=[f"dimension {axis} has the coordinates 0 to {array.shape[axis] - 1}"])


def select(cond: Any, a: Callable[[Any], Any], b: Callable[[Any], Any], mask: Any = True) -> Any:
    """Lanes of a(mask) and b(mask) by `cond`; each side gets the mask of the lanes that use it."""
    return np.where(cond, a(np.logical_and(mask, cond)), b(np.logical_and(mask, np.logical_not(cond))))


def uniform(value: Any, mask: Any) -> int:
    """A scalar index computed under a mask: its value in the first lane in use, 0 if none is."""
    return int(value) if np.ndim(value) == 0 else int(value[np.argmax(mask)])


def ramp(base: Any, stride: int, lanes: int, dtype: type) -> np.ndarray:
    """base, base + stride, ..."""
    return (int(base) + stride * _lanes(lanes)).astype(dtype)


@functools.cache
def _lanes(count: int) -> np.ndarray:
    """0, 1, ..., not to be written."""
    return np.arange(count, dtype=np.int64)


def cast(value: Any, dtype: Any) -> Any:
    """Conversion as astype does it; a scalar stays a scalar."""
    return np.asarray(value).astype(dtype)[()]


def divide(a: Any, b: Any) -> Any:
    """`/`: true division of floats; of integers the quotient towards zero, 0 where the divisor is 0."""
    if np.asarray(a).dtype.kind not in "iu":
        return a / b
    quotient = np.floor_divide(a, b)
    inexact = (np.remainder(a, b) != 0) & ((a < 0) != (b < 0))
    return cast(quotient + cast(inexact, np.asarray(a).dtype), np.asarray(a).dtype)


def shift(a: Any, b: Any, left: bool) -> Any:
    """Shift by `b` bits; by the width or more (or a negative count) everything is shifted out."""
    dtype = np.asarray(a).dtype
    amount = np.asarray(b).astype(np.int64)
    amount = np.where((amount < 0) | (amount >= dtype.itemsize * 8), dtype.itemsize * 8, amount).astype(dtype)
    return cast(np.left_shift(a, amount) if left else np.right_shift(a, amount), dtype)


def power(a: Any, b: Any) -> Any:
    """`pow`; a negative power of an integer is 0, except of 1 and -1."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind not in "iu" or np.all(b >= 0):
        return np.power(a, b)
    inverse = np.where(np.abs(a) == 1, np.where(b % 2 == 0, 1, a), 0)
    return cast(np.where(b >= 0, np.power(a, np.maximum(b, 0)), inverse), a.dtype)


def erf(a: Any) -> Any:
    """The error function, computed in double precision."""
    return cast(np.vectorize(math.erf, otypes=[np.float64])(a), np.asarray(a).dtype)


def reduce(op: str, value: np.ndarray) -> Any:
    """All lanes combined, from the first to the last."""
    ufunc: np.ufunc = {"+": np.add, "*": np.multiply, "min": np.minimum, "max": np.maximum,
                       "&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor}[op]
    total = value[0]
    for x in value[1:]:
        total = ufunc(total, x)
    return total


def run_group(item: Callable[..., Iterator[None]], sizes: tuple[int, ...]) -> None:
    """Run all work-items of a group, phase by phase between barriers. item: a generator function of the local ids."""
    waiting = [item(*ids) for ids in itertools.product(*map(range, sizes))]
    while waiting:
        arrived = [w for w in waiting if next(w, "done") is None]
        if arrived and len(arrived) != len(waiting):
            missing = f"{len(arrived)} of {len(waiting)} work-items wait at a barrier that the others do not reach"
            raise errors.fail("E522", missing, kind=errors.TargetError)
        waiting = arrived


def _of_words(name: str, *args: Any) -> Any:
    result = words.apply(name, list(args))
    return result if np.ndim(result) else result[()]


def _of_published(name: str, *args: Any) -> Any:
    if name in published.AWAITED and not published.is_there(list(args)):
        raise errors.fail("E522", "a work-group waits for an element that none before it publishes", kind=errors.TargetError)
    return published.apply(name, list(args))[()]


def _intrinsics() -> dict[str, Callable[..., Any]]:
    env: dict[str, Any] = {"np": np, "erf": erf, **FUNCTIONS}
    table = {f"fn_{row.name}": eval(f"lambda {', '.join('abc'[:row.arity])}: {row.reference}", env)
             for row in scalars.INTRINSICS.values()}
    own = {f"fn_{name}": functools.partial(_of_words, name) for name in (words.WORD, *words.PARTS, *words.DOTS)}
    own |= {f"fn_{name}": functools.partial(_of_published, name) for name in (*published.PUBLISHED, *published.AWAITED)}
    return table | own | {"fn_muladd": FUNCTIONS["fma"], "fn_pow": power}


NAMESPACE: dict[str, Any] = {
    f"_{f.__name__}": f for f in (poison, load, strip, load_strip, first, store, select,
                                         uniform, ramp, cast, divide, shift, reduce, run_group)
} | {f"_{name}": f for name, f in _intrinsics().items()} | {
    f"_{t.name}": t.numpy.type for t in scalars.DTYPES.values()} | {"_np": np}
"""Global names of the generated code; each begins with '_', which no name of the Loop AST does after spelling."""
