"""One kernel of the Loop AST as a C function. Vectors are loops over their lanes, which compilers make vectors again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from polytc.codegen import intervals, loops, traverse, vector_lanes
from polytc.codegen.emitter import Names
from polytc.program.scalars import I64
from polytc.targets.c import language
from polytc.targets.c.memory import Memory
from polytc.targets.ctext.preamble import Preamble
from polytc.targets.ctext.statements import Statements, index_type
from polytc.targets.ctext.text import bare

_LANE = "lane of the vector"
"""The variable of a loop over lanes; no loop of the program has such a name."""


class KernelWriter(Statements):
    """Writes a kernel; `lines` is then its text, `sizes` the sizes that it takes as arguments behind its arrays."""

    language = "c"

    def __init__(self, kernel: loops.Kernel, entry: str, preamble: Preamble, open_: tuple[str, ...] = (),
                 notes: Mapping[str, str] | None = None) -> None:
        names = Names(language.RESERVED, language.RESERVED_PREFIXES)
        self.places = Memory(kernel, names.buffer, preamble)
        wide = "int64_t"
        super().__init__(kernel, names, self.places, preamble, wide if open_ else index_type(kernel, wide), open_, notes)
        self.entry = entry
        self.inside = 0
        for b in kernel.args:
            if half := self.places.place(b).half:
                for word in (f"polytc_{half}", f"polytc_of_{half}"):
                    preamble.add(word, language.WORDS[word])

    def write(self) -> None:
        """Fill `lines`."""
        args = [f"{'' if b.name in self.kernel.writes else 'const '}{self.places.place(b).ctype} *restrict "
                f"{self.places.place(b).name}" for b in self.kernel.args]
        args += [f"const int64_t {self.names.variable(n)}" for n in self.sizes]
        self.line(f"static void {self.entry}({', '.join(args) or 'void'})")
        self.line("{")
        with self.deeper():
            self.emit(self.kernel.body)
        self.line("}")

    @property
    def args(self) -> tuple[str, ...]:
        """Names of the arrays and sizes that it takes."""
        return (*(b.name for b in self.kernel.args), *self.sizes)

    def is_variable(self, b: loops.Buffer) -> bool:
        return self.places.place(b).sides == ()

    def is_array(self, b: loops.Buffer) -> bool:
        return True

    def emit_for(self, s: loops.For) -> None:
        if s.kind == "parallel" and not self.inside:
            self.line("PARALLEL")
            self.inside += 1
            self.loop(s)
            self.inside -= 1
        else:
            self.loop(s)

    def emit_alloc(self, s: loops.Alloc) -> None:
        self.inside += 1  # threads would share it
        super().emit_alloc(s)
        self.inside -= 1

    def emit_barrier(self) -> None:
        """Work-items run one after another, phase by phase."""

    # ---- stores

    def emit_store(self, s: loops.Store) -> None:
        reduced = [e for e in traverse.walk_expr(s.value) if isinstance(e, loops.Reduce) and e.a.lanes > 1]
        if not reduced:
            super().emit_store(s)
            return
        self.note(s)
        self.declare(s)
        self.scoped(lambda: self.reduced(s, reduced))

    def reduced(self, s: loops.Store, rest: list[loops.Reduce]) -> None:
        """A store behind the reductions of vectors in its value, which are combined as trees."""
        if not rest:
            super().emit_store(s)
            return
        e, width = rest[0], rest[0].a.lanes
        ctype, known = language.scalar(e.dtype), self.expressions.known
        with self.names.bound(f"{_LANE} of a reduction", "lanes") as name, self.names.bound(_LANE, "lane") as lane, \
                self.names.bound(f"{_LANE} half", "half") as half:
            self.line(f"{ctype} {name}[{width}];")
            self.lanes(width, lambda: self.line(f"{name}[{lane}] = {bare(self.expressions.value(at(e.a)))};"))
            both = self.expressions.combine(e.op, e.dtype, 1, f"{name}[{lane}]", f"{name}[{lane} + {half}]")
            self.line(f"for (int {half} = {width // 2}; {half} > 0; {half} /= 2)")
            with self.deeper():
                self.line(f"for (int {lane} = 0; {lane} < {half}; ++{lane})")
                with self.deeper():
                    self.line(f"{name}[{lane}] = {bare(both)};")
            self.expressions.known = {**known, e: f"{name}[0]"}
            self.reduced(s, rest[1:])
            self.expressions.known = known

    def store(self, s: loops.Store) -> None:
        width = max([s.value.lanes, *(i.lanes for i in s.indices)])
        if width == 1:
            self.one(s)
        elif any(isinstance(e, loops.Shuffle) for e in traverse.walk_expr(s.value)):
            for k in range(width):
                indices = tuple(vector_lanes.lane(i, k) for i in s.indices)
                self.one(loops.Store(s.buffer, indices, vector_lanes.lane(s.value, k)))
        elif any(e.buffer == s.buffer and e.indices != s.indices for e, _ in traverse.loads(s.value)):
            self.scoped(lambda: self.apart(s, width))
        else:
            with self.names.bound(_LANE, "lane"):
                self.lanes(width, lambda: self.one(loops.Store(s.buffer, tuple(map(at, s.indices)), at(s.value))))

    def apart(self, s: loops.Store, width: int) -> None:
        """A store of lanes that are all computed before the first is stored."""
        with self.names.bound(f"{_LANE} of a store", "lanes") as name, self.names.bound(_LANE, "lane") as lane:
            self.line(f"{language.scalar(s.buffer.dtype)} {name}[{width}];")
            self.lanes(width, lambda: self.line(f"{name}[{lane}] = {bare(self.expressions.value(at(s.value)))};"))
            indices = tuple(map(at, s.indices))
            self.lanes(width, lambda: self.put(s.buffer, indices, f"{name}[{lane}]"))

    def lanes(self, width: int, write: object) -> None:
        """A loop over the lanes of a vector around one line."""
        lane = self.names.variable(_LANE)
        outer = self.env
        self.enter({**outer, _LANE: intervals.Interval(0, width - 1)})
        self.line(f"for (int {lane} = 0; {lane} < {width}; ++{lane})")
        with self.deeper():
            write()  # type: ignore[operator]
        self.enter(outer)

    def one(self, s: loops.Store) -> None:
        """A store of a scalar."""
        text = bare(self.expressions.value(s.value))
        if self.places.place(s.buffer).half:
            self.put(s.buffer, s.indices, text)
        else:
            self.assign(s, self.places.element(self.expressions, s.buffer, s.indices), text)

    def put(self, b: loops.Buffer, indices: tuple[loops.Expr, ...], text: str) -> None:
        """The line that stores a value that is written already."""
        place, write = self.places.place(b), self.expressions
        self.line(place.store_half(write.flat(b, indices), 1, text) if place.half else
                  f"{self.places.element(write, b, indices)} = {text};")


def at(e: loops.Expr) -> loops.Expr:
    """The lane of a vector that the loop over lanes is at; a scalar expression stays itself."""
    if e.lanes == 1:
        return e
    match e:
        case loops.Ramp():
            lane: loops.Expr = loops.Var(_LANE)
            step = loops.binary("*", lane, loops.const(e.stride)) if e.stride != 1 else lane
            return step if e.base == loops.const(0) else loops.Binary("+", e.base, step, I64)
        case loops.Broadcast():
            return e.a
        case _:
            return replace(traverse.with_operands(e, tuple(at(o) for o in traverse.operands(e))), lanes=1)
