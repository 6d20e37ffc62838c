"""One kernel of the Loop AST as a function that the work-items of a group run: what OpenCL C and CUDA C write alike."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack

from polytc.codegen import intervals, loops, ndrange, size_limits, traverse, vector_lanes
from polytc.codegen.emitter import Names
from polytc.codegen.passes import work_items
from polytc.codegen.target import Launch, Repeat
from polytc.machine import ALIGNMENT
from polytc.program.scalars import BOOL
from polytc.targets.ctext import common_subexpressions
from polytc.targets.ctext.calls import published_words
from polytc.targets.ctext.library import Parameter
from polytc.targets.ctext.places import Memory
from polytc.targets.ctext.preamble import Preamble
from polytc.targets.ctext.statements import Statements, allocated, index_type
from polytc.targets.ctext.text import bare

LARGEST_OPEN = 2**30
"""Elements of the largest array that kernels of open sizes are used for: they count in 32 bits, a little beyond arrays too."""


POSITION = 2
"""Uses of an item's position in an array from which on it has a name."""


class GroupWriter(Statements):
    """Writes a prepared kernel (see ndrange.prepare); `lines` is then its text, `ndrange` how it is launched, `sizes` the
    sizes that it takes as arguments behind its arrays, `counters` the variables of the host's loops behind them. Subclasses
    say what their dialect calls things.

    open_: sizes of the module that are not fixed, of which arrays have LARGEST_OPEN elements at most. wide: the index type of
    64 bits."""

    def __init__(self, kernel: loops.Kernel, names: Names, places: Memory, entry: str, preamble: Preamble, wide: str,
                 open_: tuple[str, ...] = (), notes: Mapping[str, str] | None = None) -> None:
        """kernel: whose digits are joined (see joined_digits)."""
        self.places = places
        super().__init__(kernel, names, places, preamble, "int" if open_ else index_type(kernel, wide), open_, notes)
        self.entry = entry
        self.ndrange = ndrange.extract(kernel)
        self.open_axes: set[int] = set()
        self.shared = work_items.shared_item_variables(kernel)
        read = {e.name for s in traverse.walk_stmt(kernel.body) for top in traverse.expressions(s)
                for e in traverse.walk_expr(top) if isinstance(e, loops.Var)} if kernel.host else set()
        self.counters = tuple(s.var for s in kernel.host if s.var in read)
        self.passed = _passed(kernel)
        self.positions = common_subexpressions.positions(kernel, POSITION)
        self.parameters: tuple[Parameter, ...] = ()

    @abstractmethod
    def head(self, arguments: Sequence[str]) -> Sequence[str]:
        """The lines before the braces."""

    @abstractmethod
    def argument(self, b: loops.Buffer, const: bool, restrict: bool) -> str:
        """The declaration of an array that is an argument."""

    @abstractmethod
    def local_id(self, axis: int) -> str:
        """The number of the work-item on an axis."""

    @abstractmethod
    def group_id(self, axis: int) -> str:
        """The number of the group on an axis."""

    @abstractmethod
    def barrier(self, all_memory: bool) -> str:
        """What all items of a group wait at. all_memory: for stores to global memory, too."""

    def begin(self) -> Iterable[str]:
        """Lines that the body begins with."""
        return ()

    def plain_loop(self, s: loops.For) -> None:
        """A loop that every item runs."""
        self.loop(s)

    def write(self) -> None:
        """Fill `lines`."""
        args = [self.argument(b, b.name not in self.kernel.writes, b.name not in self.passed) for b in self.kernel.args]
        access = [*map(self.access, self.kernel.args), *([""] * len((*self.sizes, *self.counters)))]
        args += [f"const int {self.names.variable(n)}" for n in (*self.sizes, *self.counters)]
        typed = [arg.rpartition(" ") for arg in args]
        self.parameters = tuple(Parameter(name, ctype, how) for (ctype, _, name), how in zip(typed, access, strict=True))
        for line in self.head(args):
            self.line(line)
        self.line("{")
        with self.deeper():
            for line in self.begin():
                self.line(line)
            for b in allocated(self.kernel):
                if b.space == "local":
                    self.line(self.places.place(b).declaration())
            with ExitStack() as scope:
                for axis in sorted({int(v[-1]) for v in self.shared}):
                    name = scope.enter_context(self.names.bound(f"item{axis}", f"item_{'xyz'[axis]}"))
                    self.line(f"const {self.itype} {name} = {self.local_id(axis)};")
                self.enter({v: intervals.Interval(0, self.ndrange.items[int(v[-1])] - 1) for v in self.shared})
                self.emit(self.kernel.body)
        self.line("}")

    def access(self, b: loops.Buffer) -> str:
        """How the kernel uses an array, in words."""
        loaded = any(e.buffer.name == b.name for s in traverse.walk_stmt(self.kernel.body)
                     for top in traverse.expressions(s) for e, _ in traverse.loads(top))
        if b.name not in self.kernel.writes:
            return "read"
        return "read_write" if loaded else "write"

    @property
    def launch(self) -> Launch:
        """How it is called."""
        args = (*(b.name for b in self.kernel.args), *self.sizes, *self.counters)
        return Launch(self.entry, args, self.ndrange.global_size, self.ndrange.local_size, self.repeats)

    @property
    def repeats(self) -> tuple[Repeat, ...]:
        """The loops of the host around it."""
        found = []
        for s in self.kernel.host:
            lower, upper = size_limits.formula(s.lower), size_limits.formula(s.upper)
            assert lower is not None, "the host cannot compute where its loop begins"
            assert upper is not None, "the host cannot compute where its loop ends"
            found.append(Repeat(s.var, lower, upper, s.step))
        return tuple(found)

    @property
    def local_bytes(self) -> int:
        """Bytes of local memory that a work-group uses; each array begins at a multiple of the alignment."""
        sizes = [max(1, b.size) * self.places.bytes_of(b) for b in allocated(self.kernel) if b.space == "local"]
        return sum(-(-n // ALIGNMENT) * ALIGNMENT for n in sizes[:-1]) + sum(sizes[-1:])

    # ---- statements

    def is_variable(self, b: loops.Buffer) -> bool:
        return b.space != "local" and self.places.place(b).count == 1

    def is_array(self, b: loops.Buffer) -> bool:
        return b.space != "local"

    def emit_for(self, s: loops.For) -> None:
        outer = self.env
        env = {**outer, s.var: intervals.of_loop(s, outer)}
        if s.var in self.shared:
            self.mapped(s, env, self.names.variable(s.var))
        elif s.kind in ("block", "thread"):
            with self.names.bound(s.var, s.title) as var:
                self.mapped(s, env, var)
        else:
            self.plain_loop(s)
        self.enter(outer)

    def mapped(self, s: loops.For, env: Mapping[str, intervals.Interval], var: str) -> None:
        """A block or thread loop: its variable follows from the id; a guard where not every id has an iteration."""
        number, lower = self.iteration(s), bare(self.index(s.lower), "+")
        if s.step != 1 or lower != "0":
            number = f"({self.itype}){number}" if number in (self.local_id(s.axis), self.group_id(s.axis)) else f"({number})"
            number += "" if s.step == 1 else f" * {s.step}"
            number = number if lower == "0" else f"{lower} + {number}"
        exact = ndrange.fills(s, self.ndrange, self.env)
        if s.var not in self.shared and not (exact and unused(s)):
            self.line(f"const {self.itype} {var} = {number};")
        guard = "" if exact else f"if ({var} < {bare(self.index(s.upper), '+')}) {{"
        self.enter(env)
        before = dict(self.expressions.known)
        self.name_positions(s)
        if s.kind == "thread":
            self.open_axes.add(s.axis)
        if guard:
            self.declare(s)
            self.scoped(lambda: self.body(s.body), guard)
        else:
            self.emit(s.body)
        if s.kind == "thread":
            self.open_axes.remove(s.axis)
        self.expressions.known = before

    def name_positions(self, s: loops.For) -> None:
        """Lines that compute where the item is, as soon as both numbers are known: `i = 8*i_group + i_item`."""
        if s.var in self.shared:
            return
        for e in self.positions:
            used = traverse.variables(e)
            if s.var in used and used <= {*self.env, *self.shared}:
                spelled = [self.names.variable(v) for v in used]
                title = next((x.removesuffix("_group") for x in spelled if x.endswith("_group")), "at")
                name = self.scope.enter_context(self.names.bound(f"position {title}", title))
                self.line(f"const {self.itype} {name} = {bare(self.index(e))};")
                self.expressions.known[e] = name

    def iteration(self, s: loops.For) -> str:
        """Which iteration of a block or thread loop this work-item runs, counted from 0."""
        if s.kind == "thread":
            return self.local_id(s.axis)
        digit, number = self.ndrange.digits[s.var], self.group_id(s.axis)
        if digit.divisor == 1 and digit.highest:
            return number
        # cast first: 32-bit division is much cheaper
        divisor, count = (self.index(size_limits.expression(n)) for n in (digit.divisor, digit.count))
        text = f"({self.itype}){number}" + ("" if digit.divisor == 1 else f" / {divisor}")
        return text if digit.highest else f"{text} % {count}"

    def emit_store(self, s: loops.Store) -> None:
        idle = [a for a in self.ndrange.thread_axes if a not in self.open_axes] if s.buffer.space != "private" else []
        if idle:
            # outside of the loops over its work-items, a group writes once
            self.note(s)
            self.scoped(lambda: self.store(s), f"if ({' && '.join(f'{self.item(a)} == 0' for a in idle)}) {{")
        else:
            super().emit_store(s)

    def item(self, axis: int) -> str:
        """The number of the work-item on an axis."""
        return self.names.variable(f"item{axis}") if f"item{axis}" in self.shared else self.local_id(axis)

    def store(self, s: loops.Store) -> None:
        if s.atomic:
            self.line(self.atomic(s))
            return
        if (word := published_words.of(s.value)) is not None:
            self.line(published_words.publish(self.expressions, s, word))
            return
        width = max([s.value.lanes, *(i.lanes for i in s.indices)])
        place, write = self.places.place(s.buffer), self.expressions
        value = s.value if s.value.lanes == width else loops.Broadcast(s.value, width, s.value.dtype)
        text = write.value(value)
        if s.buffer.dtype == BOOL and width > 1:
            text = f"{write.c.vectors.bits(write.c.byte(width))}({text} & (char)1)"
        text = bare(text)
        if width == 1 and place.half:
            self.line(self.places.store_half(write, s.buffer, s.indices, text))
        elif width == 1:
            self.assign(s, self.places.element(write, s.buffer, s.indices), text)
        elif place.lanes > 1:
            self.assign(s, place.element(self.places.vector_offset(write, s.buffer, s.indices)), text)
        elif self.places.is_contiguous(s.indices):
            self.line(self.places.store_vector(write, s, width, text))
        elif (line := self.places.scatter(write, s, width, text)) is not None:
            self.line(line)
        else:
            self.scoped(lambda: self.scatter(s, width, text))

    def atomic(self, s: loops.Store) -> str:
        """`atomicAdd(&H[k], x);`"""
        found = loops.update(s)
        assert found is not None, "an atomic store that is no update"
        op, x = found
        address = self.places.address(self.expressions, s.buffer, s.indices)
        return f"{self.expressions.c.atomics[op]}({address}, {bare(self.expressions.value(x))});"

    def scatter(self, s: loops.Store, width: int, text: str) -> None:
        """Store a vector's lanes one by one, the last one last."""
        place, write = self.places.place(s.buffer), self.expressions
        ctype = write.c.byte(width) if s.buffer.dtype == BOOL else write.c.vector(s.buffer.dtype, width)
        with self.names.bound("lanes") as name:
            self.line(f"const {ctype} {name} = {text};")
            for k in range(width):
                indices, value = tuple(vector_lanes.lane(i, k) for i in s.indices), write.c.vectors.lane(name, k)
                self.line(self.places.store_half(write, s.buffer, indices, value) if place.half else
                          f"{self.places.element(write, s.buffer, indices)} = {value};")

    def emit_barrier(self) -> None:
        self.line(self.barrier(bool(self.passed)))


def unused(s: loops.For) -> bool:
    """Does nothing in a loop use its variable?"""
    return not any(isinstance(e, loops.Var) and e.name == s.var for x in traverse.walk_stmt(s.body)
                   for top in traverse.expressions(x) for e in traverse.walk_expr(top))


def _passed(kernel: loops.Kernel) -> frozenset[str]:
    """The global buffers through which work-items may hand on values at barriers. They are not `restrict`: compilers would take
    it that nothing but the item itself writes what it reads."""
    inside = list(traverse.walk_stmt(kernel.body))
    met = [s.through for s in inside if isinstance(s, loops.Barrier)]
    if not met:
        return frozenset()
    loaded = {e.buffer.name for s in inside for top in traverse.expressions(s)
              for e in traverse.walk_expr(top) if isinstance(e, loops.Load)}
    return frozenset(loaded & set(kernel.writes)).union(*met)
