"""Loop AST -> Python source, one function a kernel."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Sequence
from dataclasses import replace

from polytc.codegen import intervals, loops, ndrange, traverse, vector_lanes
from polytc.codegen.emitter import Emitter, Names

_RESERVED = frozenset({*keyword.kwlist, *dir(builtins), "m"})
_DIRECT = {"+", "-", "*", "&", "|", "^", "//", "%", "==", "!=", "<", "<=", ">", ">="}


def kernel_source(kernel: loops.Kernel, name: str) -> str:
    """A function of that name (it starts with _, as no variable does) of the kernel's buffers, in the order of its args."""
    writer = _KernelWriter(kernel)
    writer.write(name)
    return "\n".join(writer.lines) + "\n"


def _needs_items(launched: loops.Stmt) -> bool:
    """Whether work-items must be told apart: a barrier, or private memory that lives longer than a thread loop."""
    if not any(isinstance(s, loops.For) and s.kind == "thread" for s in traverse.walk_stmt(launched)):
        return False
    if any(isinstance(s, loops.Barrier) for s in traverse.walk_stmt(launched)):
        return True
    return any(isinstance(a, loops.Alloc) and a.buffer.space == "private" for _, around, _ in ndrange.mapped_loops(launched)
               for a in around)


def _has_blocks(s: loops.Stmt) -> bool:
    return any(isinstance(x, loops.For) and x.kind == "block" for x in traverse.walk_stmt(s))


def is_index(e: loops.Expr) -> bool:
    """Whether `e` is scalar arithmetic on loop variables and constants, exact in Python integers."""
    return e.lanes == 1 and intervals.is_index(e)


def _is_strip(indices: Sequence[loops.Expr]) -> bool:
    """Is one of the indices a rising ramp, and the others scalars?"""
    vectors = [i for i in indices if i.lanes > 1]
    return len(vectors) == 1 and isinstance(vectors[0], loops.Ramp) and vectors[0].stride > 0


class _KernelWriter(Emitter):
    def __init__(self, kernel: loops.Kernel) -> None:
        super().__init__()
        self.kernel = kernel
        self.names = Names(_RESERVED, ("_",))
        self.around: dict[str, intervals.Interval] = {}
        self.items = None if _has_blocks(kernel.body) else self.launched(kernel.body)
        self.inside_item = False
        self.open_axes: set[int] = set()
        self.masked = 0

    def write(self, name: str) -> None:
        args = [self.names.buffer(b) for b in self.kernel.args]
        self.line(f"def {name}({', '.join(args)}):")
        with self.deeper():
            for b, arg in zip(self.kernel.args, args, strict=True):
                if b.name not in self.kernel.writes:
                    self.line(f"{arg} = {arg}.view()")
                    self.line(f"{arg}.flags.writeable = False")
            self.group_or(self.kernel.body)

    def launched(self, s: loops.Stmt) -> ndrange.NDRange | None:
        """The work-items of a launch, if they must be told apart."""
        return ndrange.extract(replace(self.kernel, body=s), self.around, counted=False) if _needs_items(s) else None

    def group_or(self, s: loops.Stmt) -> None:
        """Write `s`; below the last block loop, as the body of a work-item if items must be told apart."""
        if self.items is None or self.inside_item or _has_blocks(s):
            self.emit(s)
            return
        for alloc in [x for x in traverse.walk_stmt(s) if isinstance(x, loops.Alloc) and x.buffer.space == "local"]:
            self.allocate(alloc.buffer)
        self.inside_item = True
        self.line("def _item(_t2, _t1, _t0):")
        with self.deeper():
            self.emit(s)
            self.line("if False: yield")
        self.inside_item = False
        self.line(f"_run_group(_item, {tuple(reversed(self.items.items))})")

    # ---- statements

    def emit_for(self, s: loops.For) -> None:
        var, lower, upper = self.names.variable(s.var), self.index(s.lower), self.index(s.upper)
        if s.kind == "thread" and self.inside_item:
            self.line(f"for {var} in range({lower}, {upper}, {s.step})[_t{s.axis}:][:1]:")
            self.open_axes.add(s.axis)
        else:
            self.line(f"for {var} in range({lower}, {upper}, {s.step}):")
        before = self.items
        self.items = before or (self.launched(s) if s.kind == "block" else None)
        self.around[s.var] = intervals.of_loop(s, self.around)
        with self.deeper():
            self.group_or(s.body) if s.kind == "block" else self.emit(s.body)
            self.line("pass")
        self.items = before
        if s.kind == "thread" and self.inside_item:
            self.open_axes.remove(s.axis)

    def emit_if(self, s: loops.If) -> None:
        self.line(f"if {self.condition(s.cond)}:")
        with self.deeper():
            self.emit(s.then)
            self.line("pass")
        if s.orelse is not None:
            self.line("else:")
            with self.deeper():
                self.emit(s.orelse)
                self.line("pass")

    def emit_store(self, s: loops.Store) -> None:
        axes = self.items.thread_axes if self.items is not None and s.buffer.space != "private" else ()
        idle = [a for a in axes if a not in self.open_axes]
        guard = f"if {' and '.join(f'_t{a} == 0' for a in idle)}: " if idle else ""
        active = traverse.active_lanes(s.indices)
        index = self.place if active is None and _is_strip(s.indices) else self.index
        args = [repr(s.buffer.name), self.names.buffer(s.buffer), self.value(s.value), *map(index, s.indices)]
        self.line(f"{guard}_store({', '.join(args)}{'' if active is None else f', active={self.active(active, s.indices)}'})")

    def emit_alloc(self, s: loops.Alloc) -> None:
        if not (self.inside_item and s.buffer.space == "local"):
            self.allocate(s.buffer)
        self.emit(s.body)

    def allocate(self, b: loops.Buffer) -> None:
        self.line(f"{self.names.buffer(b)} = _poison({b.shape!r}, _np.dtype({b.dtype.numpy.name!r}))")

    def emit_barrier(self) -> None:
        self.line("yield" if self.inside_item else "pass")

    # ---- expressions

    def index(self, e: loops.Expr) -> str:
        """A Python integer, or an array of them for a vector."""
        if not is_index(e):
            if e.lanes > 1:
                return self.value(e)
            return f"_uniform({self.value(e)}, m)" if self.masked else f"int({self.value(e)})"
        match e:
            case loops.Var():
                return self.names.variable(e.name)
            case loops.Const():
                return str(int(e.value))
            case loops.Unary():
                return f"(-{self.index(e.a)})"
            case loops.Call():
                return f"{e.fn}({', '.join(map(self.index, e.args))})"
            case loops.Binary():
                op = {"&&": "and", "||": "or"}.get(e.op, e.op)
                return f"({self.index(e.a)} {op} {self.index(e.b)})"
            case _:
                raise AssertionError(e)

    def place(self, e: loops.Expr) -> str:
        """As `index`, but a strip for a ramp."""
        return f"_strip({self.index(e.base)}, {e.stride}, {e.lanes})" if isinstance(e, loops.Ramp) else self.index(e)

    def condition(self, e: loops.Expr) -> str:
        return self.index(e) if is_index(e) else self.value(e)

    def value(self, e: loops.Expr) -> str:
        """A numpy scalar of e's dtype, or an array of e.lanes of them."""
        match e:
            case loops.Var():
                return f"_{e.dtype}({self.names.variable(e.name)})"
            case loops.Const():
                text = f"_{e.dtype}({_number(e.value)})"
                return text if e.lanes == 1 else f"_np.full({e.lanes}, {text})"
            case loops.Unary():
                return f"({e.op}{self.value(e.a)})" if e.op != "!" else f"_np.logical_not({self.value(e.a)})"
            case loops.Binary():
                return self.binary(e)
            case loops.Call():
                call = f"_fn_{e.fn}({', '.join(map(self.value, e.args))})"
                return f"_cast({call}, _{e.dtype})" if e.dtype.kind != "f" else call
            case loops.Cast():
                return f"_cast({self.value(e.a)}, _{e.dtype})"
            case loops.Select():
                return self.select(e)
            case loops.Load():
                active = traverse.active_lanes(e.indices)
                masks = ["m"] * bool(self.masked) + ([self.active(active, e.indices)] if active is not None else [])
                mask = f", mask={' & '.join(masks)}" if masks else ""
                buffer = f"{e.buffer.name!r}, {self.names.buffer(e.buffer)}"
                if not masks and _is_strip(e.indices):
                    return f"_load_strip({', '.join((buffer, *map(self.place, e.indices)))})"
                return f"_load({', '.join((buffer, *map(self.index, e.indices)))}{mask})"
            case loops.Ramp():
                return f"_ramp({self.index(e.base)}, {e.stride}, {e.lanes}, _{e.dtype})"
            case loops.Broadcast():
                # a masked scalar load already has all lanes
                return f"_np.broadcast_to({self.value(e.a)}, {e.lanes})"
            case loops.Reduce():
                return f"_reduce({e.op!r}, {self.value(e.a)})"
            case loops.Shuffle():
                return f"_np.concatenate(({self.value(e.a)}, {self.value(e.b)}))[{list(e.order)}]"

    def active(self, active: int | loops.Expr, indices: tuple[loops.Expr, ...]) -> str:
        """The mask of the lanes that an access touches."""
        lanes = max(i.lanes for i in indices)
        return f"_first({active}, {lanes})" if isinstance(active, int) else self.value(active)

    def binary(self, e: loops.Binary) -> str:
        a, b = self.value(e.a), self.value(e.b)
        match e.op:
            case "/":
                return f"_divide({a}, {b})"
            case "<<" | ">>":
                return f"_shift({a}, {b}, {e.op == '<<'})"
            case "&&" | "||":
                return f"_np.logical_{'and' if e.op == '&&' else 'or'}({a}, {b})"
            case _:
                assert e.op in _DIRECT, e.op
                return f"({a} {e.op} {b})"

    def select(self, e: loops.Select) -> str:
        if e.cond.lanes == 1 and not self.masked:
            return f"({self.value(e.a)} if {self.condition(e.cond)} else {self.value(e.b)})"
        if not (self.masked or vector_lanes.has_load(e.a) or vector_lanes.has_load(e.b)):
            return f"_np.where({self.value(e.cond)}, {self.value(e.a)}, {self.value(e.b)})"
        cond, mask = self.value(e.cond), ", m" if self.masked else ""
        self.masked += 1
        text = f"_select({cond}, lambda m: {self.value(e.a)}, lambda m: {self.value(e.b)}{mask})"
        self.masked -= 1
        return text


def _number(value: int | float | bool) -> str:
    return f"float({str(value)!r})" if value != value or value in (float("inf"), float("-inf")) else repr(value)
