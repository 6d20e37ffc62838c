"""C's fmod for vectors: x - y trunc(x / y), exactly.

The rounded quotient is the right whole number or one too many, so one fused multiply-add gives the remainder, or the remainder
minus y, without rounding: both are multiples of the smaller last place of x and y, and not larger than y. This holds while
quotients have fewer digits than a float, and for y = 0; elements for which it does not go to the C library.
"""

from __future__ import annotations

from polytc.targets.llvm import ir, memory

DIGITS = {"float": 22, "double": 51}


def fmod(fn: ir.Function, x: ir.Value, y: ir.Value) -> ir.Value:
    """The remainder with the sign of x."""
    digits = DIGITS.get(ir.element(x.type))
    if digits is None or ir.lanes_of(x.type) == 1:
        return fn.binary("frem", x, y)
    a, b = (fn.intrinsic("fabs", (v,)) for v in (x, y))
    quotient = fn.intrinsic("trunc", (fn.binary("fdiv", a, b),))
    rest = fn.intrinsic("fma", (fn.emit(x.type, f"fneg {quotient}"), b, a))
    below = fn.compare("fcmp olt", rest, ir.constant(0.0, x.type))
    rest = fn.choose(below, fn.binary("fadd", rest, b), rest)
    value = fn.intrinsic("copysign", (rest, x))
    few = fn.compare("fcmp olt", a, fn.binary("fmul", b, ir.constant(2.0**digits, x.type)))
    finite = fn.compare("fcmp olt", b, ir.constant(float("inf"), x.type))
    # Idle lanes at the end of an array hold 0, too.
    near = fn.binary("or", fn.binary("and", few, finite), fn.compare("fcmp oeq", b, ir.constant(0.0, x.type)))
    every = fn.call(f"llvm.vector.reduce.and.{ir.mangle(near.type)}", "i1", (near,))
    return memory.guarded(fn, every, lambda: value, lambda: fn.choose(near, value, _library(fn, x, y)))


def _library(fn: ir.Function, x: ir.Value, y: ir.Value) -> ir.Value:
    """A call that is not inlined, of a function that goes to the C library element by element."""
    own = f"polytc.fmod.{ir.mangle(x.type)}"
    if not fn.text.defines(own):
        body = ir.Function(fn.text, own, [f"{x.type} %x", f"{x.type} %y"], x.type)
        body.extra = "noinline cold "
        body.do(f"ret {body.binary('frem', ir.Value(x.type, '%x'), ir.Value(x.type, '%y'))}")
    return fn.emit(x.type, f"call {x.type} @{own}({x}, {y})")
