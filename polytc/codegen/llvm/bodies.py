"""The functions `body(begin, end, context, arena)` that a region runs, which find in its context what they need."""

from __future__ import annotations

from collections.abc import Sequence

from polytc.codegen.llvm import ir

PARAMETERS = ("i64 %begin", "i64 %end", "ptr %context", "ptr %arena")


def unpack(text: ir.Text, name: str, pointers: int, numbers: int) -> None:
    """The function `name` of a loop: it calls `name.loop` with the pointers and numbers of the context as arguments."""
    fn = ir.Function(text, name, PARAMETERS)
    args = [_field(fn, i, "ptr" if i < pointers else "i64") for i in range(pointers + numbers)]
    fn.do(f"call void @{name}.loop(i64 %begin, i64 %end, {''.join(f'{a}, ' for a in args)}ptr %arena)")
    fn.do("ret void")


def in_turn(text: ir.Text, name: str, calls: Sequence[str]) -> None:
    """The function `name` of several loops, whose iterations are counted one after another. Its context has the context of each
    and how many iterations it has."""
    fn = ir.Function(text, name, PARAMETERS)
    begin, end, zero = ir.Value("i64", "%begin"), ir.Value("i64", "%end"), ir.constant(0, "i64")
    for i, call in enumerate(calls):
        context, count = _field(fn, 2 * i, "ptr"), _field(fn, 2 * i + 1, "i64")
        first = fn.call("llvm.smax.i64", "i64", (begin, zero))
        last = fn.call("llvm.smin.i64", "i64", (end, count))
        some, work, after = fn.compare("icmp slt", first, last), fn.fresh("work"), fn.fresh("after")
        fn.do(f"br {some}, label %{work}, label %{after}")
        fn.start(work)
        fn.do(f"call void @{call}({first}, {last}, {context}, ptr %arena)")
        fn.do(f"br label %{after}")
        fn.start(after)
        begin, end = fn.binary("sub nsw", begin, count), fn.binary("sub nsw", end, count)
    fn.do("ret void")


def _field(fn: ir.Function, number: int, type_: str) -> ir.Value:
    at = fn.emit("ptr", f"getelementptr inbounds i64, ptr %context, i64 {number}")
    return fn.emit(type_, f"load {type_}, {at}, align 8")
