"""The functions `body(begin, end, context, arena)` that a region runs, which find in its context what they need; and what a
loop in a function of its own needs."""

from __future__ import annotations

from collections.abc import Mapping

from polytc.codegen import loops, traverse
from polytc.targets.llvm import ir
from polytc.targets.llvm.function_state import Body

PARAMETERS = ("i64 %begin", "i64 %end", "ptr %context", "ptr %arena")


def unpack(text: ir.Text, name: str, pointers: int, numbers: int) -> None:
    """The function `name` of a loop: it calls `name.loop` with the pointers and numbers of the context as arguments."""
    fn = ir.Function(text, name, PARAMETERS)
    args = [_field(fn, i, "ptr" if i < pointers else "i64") for i in range(pointers + numbers)]
    fn.do(f"call void @{name}.loop(i64 %begin, i64 %end, {''.join(f'{a}, ' for a in args)}ptr %arena)")
    fn.do("ret void")


def in_turn(text: ir.Text, name: str, calls: Mapping[str, int]) -> None:
    """The function `name` of several loops, whose iterations are counted one after another, each as often as it weighs: it
    belongs to whom the number in its middle does. calls: function of a loop -> its weight. The context has the context of each
    loop and how many iterations it has."""
    fn = ir.Function(text, name, PARAMETERS)
    begin, end, zero = ir.Value("i64", "%begin"), ir.Value("i64", "%end"), ir.constant(0, "i64")
    for i, (call, weight) in enumerate(calls.items()):
        context, count = _field(fn, 2 * i, "ptr"), _field(fn, 2 * i + 1, "i64")
        ends = [fn.call("llvm.smax.i64", "i64", (x, zero)) for x in (begin, end)]
        if weight != 1:
            up = ir.constant(weight // 2, "i64")
            ends = [fn.binary("sdiv", fn.binary("add nsw", x, up), ir.constant(weight, "i64")) for x in ends]
        first, last = ends[0], fn.call("llvm.smin.i64", "i64", (ends[1], count))
        some, work, after = fn.compare("icmp slt", first, last), fn.fresh("work"), fn.fresh("after")
        fn.do(f"br {some}, label %{work}, label %{after}")
        fn.start(work)
        fn.do(f"call void @{call}({first}, {last}, {context}, ptr %arena)")
        fn.do(f"br label %{after}")
        fn.start(after)
        total = weighed(fn, count, weight)
        begin, end = fn.binary("sub nsw", begin, total), fn.binary("sub nsw", end, total)
    fn.do("ret void")


def weighed(fn: ir.Function, count: ir.Value, weight: int) -> ir.Value:
    """What so many iterations count for."""
    return count if weight == 1 else fn.binary("mul nsw", count, ir.constant(weight, "i64"))


def _field(fn: ir.Function, number: int, type_: str) -> ir.Value:
    at = fn.emit("ptr", f"getelementptr inbounds i64, ptr %context, i64 {number}")
    return fn.emit(type_, f"load {type_}, {at}, align 8")


def parameter(b: loops.Buffer, written: bool, captured: bool) -> str:
    """A buffer as a function's parameter."""
    size = f"dereferenceable({b.size * b.dtype.bytes}) " if b.size else ""
    access = "" if written else "readonly "
    capture = "" if captured else "captures(none) "
    return f"ptr noalias nonnull {capture}{access}{size}align {b.dtype.bytes} %p.{ir.symbol(b.name)}"


def needs(s: loops.For, body: Body) -> tuple[list[loops.Buffer], list[str]]:
    """The buffers and loop variables from outside that a loop uses, in order of first use."""
    buffers: dict[str, loops.Buffer] = {}
    names: dict[str, None] = {}
    for x in traverse.walk_stmt(s):
        if isinstance(x, loops.Store):
            buffers.setdefault(x.buffer.name, x.buffer)
        for e in (y for root in traverse.expressions(x) for y in traverse.walk_expr(root)):
            if isinstance(e, loops.Load):
                buffers.setdefault(e.buffer.name, e.buffer)
            elif isinstance(e, loops.Var):
                names.setdefault(e.name)
    return [b for n, b in buffers.items() if n in body.pointers], [n for n in names if n in body.values]


def are_launches(s: loops.Stmt) -> bool:
    """Are all statements parallel loops, each of which becomes functions of its own?"""
    if isinstance(s, loops.Block):
        return all(map(are_launches, s.stmts))
    return isinstance(s, loops.For) and s.kind == "parallel" and not traverse.runs_once(s)
