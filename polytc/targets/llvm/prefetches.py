"""Prefetches (codegen.prefetch) in LLVM IR."""

from __future__ import annotations

from polytc.codegen import prefetch
from polytc.targets.llvm import expressions, ir
from polytc.targets.llvm.function_state import Body


def emit(body: Body, ahead: prefetch.Prefetch) -> None:
    """The prefetches of one iteration, at the start of its loop's body."""
    fn, size = body.fn, ahead.buffer.dtype.bytes
    fn.text.declare("llvm.prefetch.p0", "void", ["ptr", "i32 immarg", "i32 immarg", "i32 immarg"])
    start = expressions.pointer(body, ahead.buffer, ahead.start)
    first = None
    if ahead.passed.terms:
        rate = ir.constant(ahead.rate, "i64")
        if not isinstance(ahead.repetitions, int):
            rate = fn.binary("udiv", rate, expressions.emit(body, ahead.repetitions))
        done = fn.binary("mul", expressions.offset(body, ahead.passed), rate)
        first = fn.binary("mul", fn.binary("lshr", done, ir.constant(prefetch.SHIFT, "i64")), ir.constant(prefetch.LINE, "i64"))
    for k in range(ahead.each):
        distance = ir.constant(ahead.distance * size + prefetch.LINE * k, "i64")
        place = fn.emit("ptr", f"getelementptr i8, {start}, {distance if first is None else fn.binary('add', first, distance)}")
        fn.do(f"call void @llvm.prefetch.p0({place}, i32 {int(ahead.write)}, i32 {3 if ahead.write else 2}, i32 1)")
