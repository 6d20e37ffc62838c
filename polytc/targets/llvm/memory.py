"""Loads and stores at a pointer, by the pattern of their lanes: contiguous, splat, short strides, gathers.

Buffers promise no alignment beyond that of their element, so vector accesses say `align` of the element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from polytc.program.scalars import DType
from polytc.targets.llvm import ir

Active: TypeAlias = int | ir.Value | None
"""The lanes that count: so many from the first, those of a mask, or all."""

MAX_WINDOWS = 4
"""A strided vector is read as at most so many contiguous vectors and shuffled; beyond that lane by lane."""


def address(fn: ir.Function, pointer: ir.Value, dtype: DType, offset: ir.Value, inside: bool) -> ir.Value:
    """Pointer to an element; offset: i64, or a vector of them for a vector of pointers.

    inside: it lies in the buffer for certain, which under a mask it need not.
    """
    if offset.ref == "0":
        return pointer
    result = ir.vector("ptr", ir.lanes_of(offset.type))
    return fn.emit(result, f"getelementptr {'inbounds ' if inside else ''}{ir.memory_type(dtype)}, {pointer}, {offset}")


def _from_memory(fn: ir.Function, dtype: DType, value: ir.Value) -> ir.Value:
    return value if dtype.kind != "b" else fn.compare("icmp ne", value, ir.constant(0, value.type))


def _to_memory(fn: ir.Function, dtype: DType, value: ir.Value) -> ir.Value:
    return value if dtype.kind != "b" else fn.convert("zext", value, "i8")


def load(fn: ir.Function, dtype: DType, pointer: ir.Value, lanes: int = 1) -> ir.Value:
    """`lanes` neighbouring elements."""
    type_ = ir.memory_type(dtype, lanes)
    return _from_memory(fn, dtype, fn.emit(type_, f"load {type_}, {pointer}, align {dtype.bytes}"))


def store(fn: ir.Function, dtype: DType, pointer: ir.Value, value: ir.Value) -> None:
    """A scalar, or a vector to neighbouring elements."""
    memory = _to_memory(fn, dtype, value)
    fn.do(f"store {memory}, {pointer}, align {dtype.bytes}", memory)


def load_masked(fn: ir.Function, dtype: DType, pointer: ir.Value, mask: ir.Value) -> ir.Value:
    """Neighbouring elements, only in the lanes of the mask; the others are 0."""
    type_ = ir.memory_type(dtype, ir.lanes_of(mask.type))
    zero = ir.constant(0, type_)
    args = (pointer, ir.Value("i32", str(dtype.bytes)), mask, zero)
    return _from_memory(fn, dtype, fn.call(f"llvm.masked.load.{ir.mangle(type_)}.p0", type_, args))


def load_splat_masked(fn: ir.Function, dtype: DType, pointer: ir.Value, mask: ir.Value) -> ir.Value:
    """One element in every lane, read only if some lane of the mask is set."""
    lanes = ir.lanes_of(mask.type)
    some = fn.call(f"llvm.vector.reduce.or.{ir.mangle(mask.type)}", "i1", (mask,))
    value = guarded(fn, some, lambda: load(fn, dtype, pointer), lambda: ir.constant(0, ir.register_type(dtype)))
    return fn.splat(value, lanes)


def guarded(fn: ir.Function, cond: ir.Value, then: Callable[[], ir.Value], otherwise: Callable[[], ir.Value]) -> ir.Value:
    """The value of one of two computations; only the chosen one runs."""
    yes, no, end = fn.fresh("then"), fn.fresh("else"), fn.fresh("join")
    fn.do(f"br {cond}, label %{yes}, label %{no}")
    fn.start(yes)
    a, from_a = then(), fn.block
    fn.do(f"br label %{end}")
    fn.start(no)
    b, from_b = otherwise(), fn.block
    fn.do(f"br label %{end}")
    fn.start(end)
    return fn.emit(a.type, f"phi {a.type} [ {a.ref}, %{from_a} ], [ {b.ref}, %{from_b} ]")


def first_lanes(active: int, lanes: int) -> ir.Value:
    """The mask of the first `active` lanes."""
    return ir.constants([i < active for i in range(lanes)], "i1")


def both(fn: ir.Function, mask: ir.Value | None, other: ir.Value | None) -> ir.Value | None:
    """The lanes of two masks; None is all of them."""
    return other if mask is None else mask if other is None else fn.binary("and", mask, other)


def gather(fn: ir.Function, dtype: DType, pointers: ir.Value, mask: ir.Value | None, active: Active = None) -> ir.Value:
    """One element a lane from a vector of pointers, only in the lanes of the mask that count (others 0)."""
    lanes = ir.lanes_of(pointers.type)
    type_ = ir.memory_type(dtype, lanes)
    if isinstance(active, ir.Value):
        mask, active = both(fn, mask, active), None
    if mask is not None:
        mask = mask if active is None else fn.binary("and", mask, first_lanes(active, lanes))
        args = (pointers, ir.Value("i32", str(dtype.bytes)), mask, ir.constant(0, type_))
        name = f"llvm.masked.gather.{ir.mangle(type_)}.v{lanes}p0"
        return _from_memory(fn, dtype, fn.call(name, type_, args))
    result = ir.Value(type_, "poison" if active is None else "zeroinitializer")
    for lane in range(lanes)[:active]:
        scalar = ir.memory_type(dtype)
        one = fn.emit(scalar, f"load {scalar}, {fn.extract(pointers, lane)}, align {dtype.bytes}")
        result = fn.insert(result, one, lane)
    return _from_memory(fn, dtype, result)


def scatter(fn: ir.Function, dtype: DType, pointers: ir.Value, value: ir.Value, active: Active = None) -> None:
    """One element a lane that counts, in lane order."""
    memory = _to_memory(fn, dtype, value)
    if isinstance(active, ir.Value):
        args = (memory, pointers, ir.Value("i32", str(dtype.bytes)), active)
        fn.call_void(f"llvm.masked.scatter.{ir.mangle(memory.type)}.{ir.mangle(pointers.type)}", args)
        return
    for lane in range(ir.lanes_of(pointers.type))[:active]:
        fn.do(f"store {fn.extract(memory, lane)}, {fn.extract(pointers, lane)}, align {dtype.bytes}")


def windows(lanes: Sequence[int], beside: tuple[int, int] = (0, 0)) -> list[int] | None:
    """Where contiguous vectors of len(lanes) elements must start to cover the lanes, e.g. (0, 2, 4, 6) -> [0, 3]; with one
    element (0, 1) behind that may be read, [0, 4].

    No window reaches beyond the smallest or the largest lane by more than the elements `beside` them, so nothing outside of the
    accessed range is read. None if they would be too many, or if the pattern is narrower than a vector.
    """
    count, low, high = len(lanes), min(lanes), max(lanes)
    if any(beside) and high - low + 1 + sum(beside) == 2 * count:
        return [low - beside[0], low - beside[0] + count]
    if high - low + 1 < count or high - low + 1 > MAX_WINDOWS * count:
        return None
    starts: list[int] = []
    for lane in sorted(lanes):
        if not starts or lane >= starts[-1] + count:
            starts.append(min(lane, high - count + 1))
    return starts if len(starts) <= MAX_WINDOWS else None


def load_pattern(fn: ir.Function, dtype: DType, lanes: Sequence[int], at: Callable[[int], ir.Value],
                 mask: ir.Value | None, active: Active = None, beside: tuple[int, int] = (0, 0)) -> ir.Value:
    """A vector whose lanes lie at known distances. at: the pointer to an element, by distance. mask: None for all lanes.
    Lanes that do not count repeat the last of those that do, or read nothing. beside: elements before the first lane and behind
    the last that may be read, so that loads of both halves of rows are the same ones."""
    count = len(lanes)
    if isinstance(active, ir.Value):
        mask, active = both(fn, mask, active), None
    if active is not None and list(lanes[:active]) == list(range(lanes[0], lanes[0] + active)):
        prefix = first_lanes(active, count)
        return load_masked(fn, dtype, at(lanes[0]), prefix if mask is None else fn.binary("and", mask, prefix))
    if active is not None:
        lanes = (*lanes[:active], *(lanes[active - 1] for _ in lanes[active:]))
        mask = mask if mask is None else fn.binary("and", mask, first_lanes(active, count))
    if len(set(lanes)) == 1:
        one = at(lanes[0])
        return fn.splat(load(fn, dtype, one), count) if mask is None else load_splat_masked(fn, dtype, one, mask)
    if list(lanes) == list(range(lanes[0], lanes[0] + count)):
        first = at(lanes[0])
        return load(fn, dtype, first, count) if mask is None else load_masked(fn, dtype, first, mask)
    starts = windows(lanes, beside if mask is None and active is None else (0, 0))
    if starts is None:
        return _load_lanes(fn, dtype, lanes, at) if mask is None else gather(fn, dtype, _pointers(fn, lanes, at), mask)
    return _load_windows(fn, dtype, lanes, starts, at, mask)


def _pointers(fn: ir.Function, lanes: Sequence[int], at: Callable[[int], ir.Value]) -> ir.Value:
    result = ir.Value(ir.vector("ptr", len(lanes)), "poison")
    for i, lane in enumerate(lanes):
        result = fn.insert(result, at(lane), i)
    return result


def _load_windows(fn: ir.Function, dtype: DType, lanes: Sequence[int], starts: Sequence[int], at: Callable[[int], ir.Value],
                  mask: ir.Value | None) -> ir.Value:
    """Contiguous vectors shuffled into one. Under a mask each of them reads only the elements of lanes that are set."""
    count = len(lanes)
    result: ir.Value | None = None
    for start in starts:
        inside = [lane - start if 0 <= lane - start < count else -1 for lane in lanes]
        if mask is None:
            wide = load(fn, dtype, at(start), count)
        else:
            wide = load_masked(fn, dtype, at(start), _wanted(fn, mask, inside))
        if result is None:
            result = fn.shuffle(wide, None, inside)
        else:
            result = fn.shuffle(result, wide, [i if x < 0 else count + x for i, x in enumerate(inside)])
    assert result is not None
    return result


def _wanted(fn: ir.Function, mask: ir.Value, inside: Sequence[int]) -> ir.Value:
    """The elements of a window that some lane of the mask reads: several lanes may read the same one, `j // 2` for one. inside:
    the element of each lane, -1 for none."""
    count, none = len(inside), ir.constant(False, mask.type)
    readers = [[lane for lane, x in enumerate(inside) if x == e] for e in range(count)]
    found = fn.shuffle(mask, none, [r[0] if r else count for r in readers])
    for k in range(1, max(map(len, readers))):
        found = fn.binary("or", found, fn.shuffle(mask, none, [r[k] if len(r) > k else count for r in readers]))
    return found


def _load_lanes(fn: ir.Function, dtype: DType, lanes: Sequence[int], at: Callable[[int], ir.Value]) -> ir.Value:
    loaded: dict[int, ir.Value] = {}
    result = ir.Value(ir.register_type(dtype, len(lanes)), "poison")
    for i, lane in enumerate(lanes):
        if lane not in loaded:
            loaded[lane] = load(fn, dtype, at(lane))
        result = fn.insert(result, loaded[lane], i)
    return result


def store_masked(fn: ir.Function, dtype: DType, pointer: ir.Value, value: ir.Value, mask: ir.Value) -> None:
    """A vector to neighbouring elements, only in the lanes of the mask."""
    memory = _to_memory(fn, dtype, value)
    args = (memory, pointer, ir.Value("i32", str(dtype.bytes)), mask)
    fn.call_void(f"llvm.masked.store.{ir.mangle(memory.type)}.p0", args)


def store_pattern(fn: ir.Function, dtype: DType, lanes: Sequence[int], at: Callable[[int], ir.Value], value: ir.Value,
                  active: Active = None) -> None:
    """A vector to elements at known distances, in the lanes that count."""
    if isinstance(active, ir.Value):
        if list(lanes) == list(range(lanes[0], lanes[0] + len(lanes))):
            store_masked(fn, dtype, at(lanes[0]), value, active)
        else:
            scatter(fn, dtype, _pointers(fn, lanes, at), value, active)
        return
    stored = list(lanes[:active])
    if stored == list(range(lanes[0], lanes[0] + len(stored))):
        first = at(lanes[0])
        store(fn, dtype, first, value) if active is None else \
            store_masked(fn, dtype, first, value, first_lanes(active, len(lanes)))
        return
    for i, lane in enumerate(stored):
        store(fn, dtype, at(lane), fn.extract(value, i))
