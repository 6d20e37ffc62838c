"""One kernel of the Loop AST as a CUDA C function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from math import prod

from polytc.codegen import intervals, loops, traverse, vector_lanes
from polytc.codegen.emitter import Names
from polytc.codegen.matrix_products import MatrixProduct
from polytc.targets.ctext import joined_digits
from polytc.targets.ctext.calls import published_words
from polytc.targets.ctext.places import address_of, first
from polytc.targets.ctext.preamble import Preamble
from polytc.targets.ctext.work_groups import GroupWriter
from polytc.targets.cuda import language, matrix_functions, matrix_unit, memory, types

TURN, BEGUN = "number of the group", "groups that have begun"
"""Of groups that wait for others, see ctext/calls/published_words.py."""


class KernelWriter(GroupWriter):
    """See ctext/work_groups.py."""

    language = "cuda"

    def __init__(self, kernel: loops.Kernel, entry: str, preamble: Preamble, open_: tuple[str, ...] = (),
                 notes: Mapping[str, str] | None = None, matrix_units: bool = False) -> None:
        """matrix_units: whether there are such."""
        kernel = joined_digits.joined(kernel)
        self.resident, self.counter = kernel.resident, published_words.counter(kernel)
        names = Names(types.RESERVED, types.RESERVED_PREFIXES)
        self.unit = matrix_unit.of_kernel(kernel) if matrix_units else matrix_unit.Unit()
        self.halves = memory.Memory(kernel, names.buffer, preamble.c, self.unit)
        super().__init__(kernel, names, self.halves, entry, preamble, types.LONG, open_, notes)
        self.preamble = preamble
        for half in _halves(kernel):
            for name in (f"polytc_{memory.BITS[half]}", f"polytc_of_{memory.BITS[half]}"):
                preamble.add(name, language.WORDS[name])

    def head(self, arguments: Sequence[str]) -> Sequence[str]:
        """Named as it is here, for those who look it up by its name. Where it was decided how many groups a unit has at once,
        the compiler leaves registers for so many; to HIP it says how many warps a SIMD unit has, which are no more."""
        bounds = f"{prod(self.ndrange.items)}{f', {self.resident}' if self.resident > 1 else ''}"
        return (f'extern "C" __global__ void __launch_bounds__({bounds})',
                f"{self.entry}({', '.join(arguments)})")

    def argument(self, b: loops.Buffer, const: bool, restrict: bool) -> str:
        """`const float* __restrict__ A`."""
        place = self.places.place(b)
        return f"{'const ' * const}{place.ctype}*{' __restrict__' * restrict} {place.name}"

    def local_id(self, axis: int) -> str:
        return f"threadIdx.{'xyz'[axis]}"

    def group_id(self, axis: int) -> str:
        return self.names.variable(TURN) if self.counter is not None else f"blockIdx.{'xyz'[axis]}"

    def write(self) -> None:
        """With a name for the number of a thread in its warp, where it reads for that, and for that of a group that waits."""
        lane = ((matrix_unit.LANE.name, "lane"),) if self.unit.products else ()
        turn = ((TURN, "group"), (BEGUN, "turn")) if self.counter is not None else ()
        with ExitStack() as names:
            for name, title in (*lane, *turn):
                names.enter_context(self.names.bound(name, title))
            super().write()

    @property
    def local_bytes(self) -> int:
        """With the number that a group that waits has taken."""
        return super().local_bytes + (4 if self.counter is not None else 0)

    def emit_for(self, s: loops.For) -> None:
        if id(s) in self.unit.products:
            self.multiply(self.unit.products[id(s)])
        else:
            super().emit_for(s)

    def multiply(self, p: MatrixProduct) -> None:
        """The lines of a product of tiles: for some steps at a time the warp reads both operands, and multiplies each block of
        rows with each of columns."""
        self.note(p.store)
        outer, bound = self.env, self.names.bound
        ends = {s.var: int(s.upper.value) for s in (p.steps, p.rows, p.columns) if isinstance(s.upper, loops.Const)}
        lane = {matrix_unit.LANE.name: intervals.Interval(0, 31)}
        with ExitStack() as names:
            step, row, column = (names.enter_context(bound(s.var, s.title)) for s in (p.steps, p.rows, p.columns))
            left, right = (names.enter_context(bound(f"parts of {n}", f"{n}_parts")) for n in _operands(p))
            rows, columns = ends[p.rows.var], ends[p.columns.var]
            self.enter({**outer, **lane, **{n: intervals.Interval(0, end - 1) for n, end in ends.items()}})

            def inside() -> None:
                self.line(f"unsigned int {left}[{rows // 2}][4], {right}[{columns // 2}][4];")
                self.repeated(row, rows, lambda: self.read(f"{left}[{row} / 2]", p.left, matrix_unit.left(p)))
                self.repeated(column, columns, lambda: self.read(f"{right}[{column} / 2]", p.right, matrix_unit.right(p)))
                self.repeated(row, rows, lambda: self.repeated(column, columns, lambda: self.call(
                    f"polytc_multiply_{_factors(p)}", *self.sums(p), f"{left}[{row} / 2]",
                    f"{right}[{column} / 2] + {column} % 2 * 2"), 1))
            self.repeated(step, ends[p.steps.var], inside, p.at_once)
        self.enter(outer)

    def repeated(self, var: str, count: int, inside: Callable[[], None], by: int = 2) -> None:
        """A loop that compilers write out."""
        self.line("#pragma unroll")
        step = f"++{var}" if by == 1 else f"{var} += {by}"
        self.scoped(inside, f"for ({self.itype} {var} = 0; {var} < {count}; {step}) {{")

    def sums(self, p: MatrixProduct) -> Iterator[str]:
        """Where a thread has the sums of the first and of the second row, two each."""
        b, row = p.store.buffer, loops.Var(p.rows.var)
        for n in range(2):
            at = loops.binary("+", row, loops.const(n)) if n else row
            indices = (*p.store.indices[:-3], at, loops.Var(p.columns.var), loops.const(0))
            place = self.places.place(b)
            yield f"{place.element(self.places.vector_offset(self.expressions, b, indices))}.lane" if place.lanes > 1 else \
                address_of(place.name, self.expressions.flat(b, indices))

    def read(self, parts: str, e: loops.Load, found: matrix_unit.Reads | None) -> None:
        """The line that reads blocks of an operand."""
        assert found is not None, "matrix unit: an operand lies otherwise"
        address = self.places.address(self.expressions, e.buffer, found.indices)
        self.call(f"polytc_read_blocks{'_across' * found.across}", parts, address)

    def call(self, name: str, *arguments: str) -> None:
        """The line that calls a function for matrix units."""
        self.preamble.add(name, matrix_functions.FUNCTIONS[name])
        self.line(f"{name}({', '.join(arguments)});")

    def store(self, s: loops.Store) -> None:
        """Tiles are filled with the bits of halves, or with words: copies pass no registers."""
        found, write = matrix_unit.copied(s.value), self.expressions
        if s.buffer not in self.unit.tiles or found is None:
            super().store(s)
            return
        load, there = found
        size = max(i.lanes for i in s.indices) * s.buffer.dtype.bytes
        together = self.halves.copied_together(s.buffer, s.indices) == size and self.halves.copies(load, size)
        condition = [write.condition(there)] if there is not None else []
        if together:
            self.call(f"polytc_copy_{size}", self.places.address(write, s.buffer, first(s.indices)),
                      address_of(self.places.place(load.buffer).name, write.flat(load.buffer, first(load.indices))), *condition)
            return
        if load.dtype != s.buffer.dtype:
            super().store(s)
            return
        for k in range(max(i.lanes for i in s.indices)):
            element = self.places.element(write, s.buffer, tuple(vector_lanes.lane(i, k) for i in s.indices))
            value = self.places.element(write, load.buffer, tuple(vector_lanes.lane(i, k) for i in load.indices))
            self.line(f"{element} = {f'{write.value(there)} ? {value} : 0' if there is not None else value};")

    def emit_barrier(self) -> None:
        if self.unit.tiles:
            self.call("polytc_wait_for_copies")
        super().emit_barrier()

    def begin(self) -> Iterable[str]:
        if self.unit.products:
            yield f"const int {self.names.variable(matrix_unit.LANE.name)} = threadIdx.x + threadIdx.y % 8 * 4;"
        if self.counter is not None:
            assert self.ndrange.groups[1:] == (1, 1), "groups that wait lie on one axis"
            turn, first = self.names.variable(BEGUN), " && ".join(f"{self.local_id(a)} == 0" for a in range(self.ndrange.rank))
            yield f"__shared__ unsigned int {turn};"
            yield f"if ({first}) {turn} = atomicInc((unsigned int*){self.places.place(self.counter).name}, gridDim.x - 1);"
            yield "__syncthreads();"
            yield f"const unsigned int {self.names.variable(TURN)} = {turn};"

    def barrier(self, all_memory: bool) -> str:
        """Global memory, too."""
        return "__syncthreads();"

    def plain_loop(self, s: loops.For) -> None:
        if s.kind in ("unroll", "rolled"):
            copies = f" {s.copies}" if s.copies else "" if s.kind == "unroll" else " 1"
            self.line(f"#pragma unroll{copies}")
        self.loop(s)


def _factors(p: MatrixProduct) -> str:
    """What the instruction's function is called after: `half`, or `u8i8`."""
    return memory.BITS.get(p.of[0]) or "".join(p.of)


def _operands(p: MatrixProduct) -> tuple[str, str]:
    return p.left.buffer.name, p.right.buffer.name


def _halves(kernel: loops.Kernel) -> list[str]:
    """The types of halves that a kernel loads and stores in its arguments."""
    found: dict[str, None] = {}
    for s in traverse.walk_stmt(kernel.body):
        buffers = [s.buffer] if isinstance(s, loops.Store) else []
        buffers += (e.buffer for top in traverse.expressions(s) for e, _ in traverse.loads(top))
        found.update((b.dtype.name, None) for b in buffers if b.dtype.is_half and b.space == "global")
    return list(found)
