"""One kernel of the Loop AST as an OpenCL C function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from polytc.codegen import intervals, lanes, limits, loops, ndrange, traverse
from polytc.codegen.emitter import Emitter, Names
from polytc.codegen.opencl import types
from polytc.codegen.opencl.expressions import Expressions
from polytc.codegen.opencl.memory import Memory, allocated
from polytc.codegen.opencl.preamble import Preamble
from polytc.codegen.opencl.text import bare
from polytc.codegen.passes import items
from polytc.codegen.target import Launch
from polytc.lang.scalars import BOOL, I64

LARGEST_OPEN = 2**30
"""Elements of the largest array that kernels of open sizes are used for: they count in 32 bits, a little beyond arrays too."""


class KernelWriter(Emitter):
    """Writes a prepared kernel (see ndrange.prepare); `lines` is then its text, `ndrange` how it is launched, `sizes` the
    sizes that it takes as arguments behind its arrays. wide: see Memory; open_: sizes of the module that are not fixed."""

    def __init__(self, kernel: loops.Kernel, entry: str, preamble: Preamble, wide: bool, open_: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.kernel = kernel
        self.entry = entry
        self.ndrange = ndrange.extract(kernel)
        self.names = Names(types.RESERVED, types.RESERVED_PREFIXES)
        used = {e.name for s in traverse.walk_stmt(kernel.body) for top in traverse.expressions(s)
                for e in traverse.walk_expr(top) if isinstance(e, loops.Var)} if open_ else set()
        self.sizes = tuple(n for n in open_ if n in used)
        self.itype = "int" if open_ else index_type(kernel)  # see LARGEST_OPEN
        self.memory = Memory(kernel, self.names.buffer, wide)
        self.expressions = Expressions(preamble, self.memory, self.names.variable, self.itype)
        self.env: dict[str, intervals.Interval] = {}
        self.open_axes: set[int] = set()
        self.shared = items.shared(kernel)

    def write(self) -> None:
        """Fill `lines`."""
        size = ", ".join(map(str, self.ndrange.items))
        self.line(f"__kernel __attribute__((reqd_work_group_size({size})))")
        args = [f"__global {'' if b.name in self.kernel.writes else 'const '}{self.memory.place(b).ctype}* restrict "
                f"{self.memory.place(b).name}" for b in self.kernel.args]
        args += [f"const int {self.names.variable(n)}" for n in self.sizes]
        self.line(f"void {self.entry}({', '.join(args)})")
        self.line("{")
        with self.deeper():
            if self.kernel.precise:
                self.line("#pragma OPENCL FP_CONTRACT OFF")
            for b in allocated(self.kernel):
                if b.space == "local":
                    self.line(self.memory.place(b).declaration())
            for axis in sorted({int(v[-1]) for v in self.shared}):
                self.line(f"const {self.itype} {self.names.variable(f'item{axis}')} = get_local_id({axis});")
            self.emit(self.kernel.body)
        self.line("}")

    @property
    def launch(self) -> Launch:
        """How it is called."""
        args = (*(b.name for b in self.kernel.args), *self.sizes)
        return Launch(self.entry, args, self.ndrange.global_size, self.ndrange.local_size)

    @property
    def local_bytes(self) -> int:
        """Bytes of __local memory that a work-group uses."""
        local = (b for b in allocated(self.kernel) if b.space == "local")
        return sum(max(1, b.size) * types.memory_bytes(b.dtype, b.space) for b in local)

    # ---- statements

    def emit_block(self, s: loops.Block) -> None:
        for part in s.stmts:
            # declarations of one part must not be seen by the next
            if self.declares(part) and len(s.stmts) > 1:
                self.scoped(partial(self.emit, part))
            else:
                self.emit(part)

    def declares(self, s: loops.Stmt) -> bool:
        """Does a statement's text begin with declarations?"""
        while isinstance(s, loops.For) and s.var in self.shared:
            s = s.body
        return isinstance(s, loops.Alloc) or isinstance(s, loops.For) and s.kind in ("block", "thread") or (
            isinstance(s, loops.Block) and any(map(self.declares, s.stmts)))

    def scoped(self, write: Callable[[], None], head: str = "{") -> None:
        """Lines between braces."""
        self.line(head)
        with self.deeper():
            write()
        self.line("}")

    def emit_for(self, s: loops.For) -> None:
        outer = self.env
        env = {**outer, s.var: intervals.of_loop(s, outer)}
        if s.kind in ("block", "thread"):
            self.mapped(s, env)
        else:
            var = self.names.variable(s.var)
            lower, upper = bare(self.index(s.lower)), bare(self.index(s.upper), "+")
            step = f"++{var}" if s.step == 1 else f"{var} += {s.step}"
            if s.kind == "unroll":
                self.line("#pragma unroll")
            self.enter(env)
            self.scoped(lambda: self.emit(s.body), f"for ({self.itype} {var} = {lower}; {var} < {upper}; {step}) {{")
        self.enter(outer)

    def mapped(self, s: loops.For, env: Mapping[str, intervals.Interval]) -> None:
        """A block or thread loop: its variable follows from the id; a guard where not every id has an iteration."""
        var = self.names.variable(s.var)
        number, lower = self.iteration(s), bare(self.index(s.lower), "+")
        if s.step != 1 or lower != "0":
            number = f"({self.itype}){number}" if number.endswith(f"_id({s.axis})") else f"({number})"
            number += "" if s.step == 1 else f" * {s.step}"
            number = number if lower == "0" else f"{lower} + {number}"
        if s.var not in self.shared:
            self.line(f"const {self.itype} {var} = {number};")
        exact = ndrange.fills(s, self.ndrange, self.env)
        guard = "" if exact else f"if ({var} < {bare(self.index(s.upper), '+')}) {{"
        self.enter(env)
        if s.kind == "thread":
            self.open_axes.add(s.axis)
        if guard:
            self.scoped(lambda: self.emit(s.body), guard)
        else:
            self.emit(s.body)
        if s.kind == "thread":
            self.open_axes.remove(s.axis)

    def iteration(self, s: loops.For) -> str:
        """Which iteration of a block or thread loop this work-item runs, counted from 0."""
        if s.kind == "thread":
            return f"get_local_id({s.axis})"
        digit, number = self.ndrange.digits[s.var], f"get_group_id({s.axis})"
        if digit.divisor == 1 and digit.highest:
            return number
        # cast first: 32-bit division is much cheaper
        divisor, count = (self.index(limits.expression(n)) for n in (digit.divisor, digit.count))
        text = f"({self.itype}){number}" + ("" if digit.divisor == 1 else f" / {divisor}")
        return text if digit.highest else f"{text} % {count}"

    def enter(self, env: Mapping[str, intervals.Interval]) -> None:
        self.env = dict(env)
        self.expressions.env = self.env

    def index(self, e: loops.Expr) -> str:
        return self.expressions.index(e)

    def emit_if(self, s: loops.If) -> None:
        self.scoped(lambda: self.emit(s.then), f"if ({self.expressions.condition(s.cond)}) {{")
        orelse = s.orelse
        if orelse is not None:
            self.scoped(lambda: self.emit(orelse), "else {")

    def emit_store(self, s: loops.Store) -> None:
        idle = [a for a in self.ndrange.thread_axes if a not in self.open_axes] if s.buffer.space != "private" else []
        if idle:
            # outside of the loops over its work-items, a group writes once
            self.scoped(lambda: self.store(s), f"if ({' && '.join(f'get_local_id({a}) == 0' for a in idle)}) {{")
        else:
            self.store(s)

    def store(self, s: loops.Store) -> None:
        width = max([s.value.lanes, *(i.lanes for i in s.indices)])
        place, write = self.memory.place(s.buffer), self.expressions
        value = s.value if s.value.lanes == width else loops.Broadcast(s.value, width, s.value.dtype)
        text = write.value(value)
        text = f"as_uchar{width}({text} & (char)1)" if s.buffer.dtype == BOOL and width > 1 else bare(text)
        if width == 1:
            offset = write.flat(s.buffer, s.indices)
            if place.half:
                self.line(place.store_half(offset, 1, text))
            else:
                self.line(f"{place.element(offset)} = {text};")
        elif place.lanes > 1:
            self.line(f"{place.element(self.memory.vector_offset(write, s.buffer, s.indices))} = {text};")
        elif self.memory.is_contiguous(s.indices):
            self.line(self.memory.store_vector(write, s, width, text))
        else:
            self.scoped(lambda: self.scatter(s, width, text))

    def scatter(self, s: loops.Store, width: int, text: str) -> None:
        """Store a vector's lanes one by one, the last one last."""
        place, name = self.memory.place(s.buffer), self.names.fresh("lanes")
        ctype = f"uchar{width}" if s.buffer.dtype == BOOL else types.vector(s.buffer.dtype, width)
        self.line(f"const {ctype} {name} = {text};")
        for k in range(width):
            offset = self.expressions.flat(s.buffer, tuple(lanes.lane(i, k) for i in s.indices))
            value = f"{name}.{types.component(k)}"
            self.line(place.store_half(offset, 1, value) if place.half else f"{place.element(offset)} = {value};")

    def emit_alloc(self, s: loops.Alloc) -> None:
        if s.buffer.space != "local":
            self.line(self.memory.place(s.buffer).declaration())
        self.emit(s.body)

    def emit_barrier(self) -> None:
        loaded = {e.buffer.name for s in traverse.walk_stmt(self.kernel.body) for top in traverse.expressions(s)
                  for e in traverse.walk_expr(top) if isinstance(e, loops.Load)}
        both = loaded & set(self.kernel.writes)
        self.line(f"barrier(CLK_LOCAL_MEM_FENCE{' | CLK_GLOBAL_MEM_FENCE' if both else ''});")


def index_type(kernel: loops.Kernel) -> str:
    """'int' if no index, bound or offset of the kernel can leave 32 bits, else 'long'."""
    narrow = all(b.size < 2**31 for b in (*kernel.args, *allocated(kernel))) and _fits(kernel.body, {})
    return "int" if narrow else "long"


def _fits(s: loops.Stmt, env: Mapping[str, intervals.Interval]) -> bool:
    if not all(_expr_fits(e, env, False) for e in traverse.expressions(s)):
        return False
    match s:
        case loops.For():
            values = intervals.of_loop(s, env)
            # the variable steps once beyond its last value
            if not (values.fits32 and intervals.Interval(values.low, values.high + s.step).fits32):
                return False
            return _fits(s.body, {**env, s.var: values})
        case loops.If():
            return all(_fits(part, env) for part in (s.then, s.orelse) if part is not None)
        case loops.Block():
            return all(_fits(part, env) for part in s.stmts)
        case loops.Alloc():
            return _fits(s.body, env)
        case _:
            return True


def _expr_fits(e: loops.Expr, env: Mapping[str, intervals.Interval], as_index: bool) -> bool:
    """as_index: `e` is written as an index, whatever it is; pure index arithmetic always is."""
    if (as_index or intervals.is_index(e)) and e.dtype == I64 and not intervals.interval(e, env).fits32:
        return False
    if isinstance(e, loops.Load):
        return all(_expr_fits(i, env, True) for i in e.indices)
    return all(_expr_fits(o, env, False) for o in traverse.operands(e))
