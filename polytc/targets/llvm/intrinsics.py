"""The intrinsic table of the LLVM target: LLVM's own operations, and our elementary functions."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from polytc.machine import Machine
from polytc.program.scalars import F32, F64, DType
from polytc.targets.llvm import arithmetic, ir, memory, remainder
from polytc.targets.llvm.elementary import circular
from polytc.targets.llvm.elementary.floats import Floats
from polytc.targets.llvm.elementary.table import CALLED, EXPANSIONS, NEAR_ONLY

NATIVE = {"sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "rint", "abs": "fabs"}
"""Intrinsic -> LLVM intrinsic of one float."""
BITS = {"half": 16, "float": 32, "double": 64}


def emit(fn: ir.Function, name: str, args: Sequence[ir.Value], dtype: DType, flags: str, machine: Machine,
         numbers: Collection[ir.Value] = ()) -> ir.Value:
    """The value of a call. dtype: of the arguments, which have equal lanes. numbers: arguments that are known not to be NaN."""
    if name in ("min", "max"):
        return arithmetic.extremum(fn, name, args[0], args[1], dtype, numbers)
    if name == "clamp":
        low = arithmetic.extremum(fn, "max", args[0], args[1], dtype, numbers)
        return arithmetic.extremum(fn, "min", low, args[2], dtype, numbers)
    if not dtype.is_float:
        return _integer(fn, name, args, dtype)
    if name in NATIVE:
        return fn.intrinsic(NATIVE[name], args[:1])
    if name in ("fma", "muladd"):
        return fn.intrinsic("fmuladd" if name == "muladd" and flags and not machine.has_fma else "fma", args)
    if name == "fmod":
        return remainder.fmod(fn, args[0], args[1])
    if name in ("isnan", "isinf", "isfinite", "signbit"):
        return _classify(fn, name, args[0])
    if name == "copysign":
        return fn.intrinsic("copysign", args)
    if name == "sign":
        return _sign(fn, args[0])
    if name == "rsqrt":
        return fn.binary("fdiv", ir.constant(1.0, args[0].type), fn.intrinsic("sqrt", args))
    if name == "pow":
        special = _power_by_constant(fn, args[0], args[1])
        if special is not None:
            return special
    if dtype.bits < 32:
        wide = [arithmetic.cast(fn, a, dtype, F32) for a in args]
        return arithmetic.cast(fn, emit(fn, name, wide, F32, flags, machine), F32, dtype, machine)
    return _elementary(fn, name, args, dtype, machine)


def _classify(fn: ir.Function, name: str, a: ir.Value) -> ir.Value:
    if name == "isnan":
        return fn.compare("fcmp uno", a, a)
    if name == "signbit":
        bits = fn.bitcast(a, ir.vector(f"i{BITS[ir.element(a.type)]}", ir.lanes_of(a.type)))
        return fn.compare("icmp slt", bits, ir.constant(0, bits.type))
    kind = "fcmp oeq" if name == "isinf" else "fcmp olt"
    return fn.compare(kind, fn.intrinsic("fabs", (a,)), ir.constant(float("inf"), a.type))


def _sign(fn: ir.Function, a: ir.Value) -> ir.Value:
    zero, one, minus = (ir.constant(x, a.type) for x in (0.0, 1.0, -1.0))
    below = fn.choose(fn.compare("fcmp olt", a, zero), minus, a)
    above = fn.choose(fn.compare("fcmp ogt", a, zero), one, below)
    return fn.choose(fn.compare("fcmp oeq", a, zero), zero, above)


def _power_by_constant(fn: ir.Function, x: ir.Value, y: ir.Value) -> ir.Value | None:
    """x ** n for the exponents that models use, as products, a quotient or a root."""
    for exponent in (1, 2, 3, 4):
        if y == ir.constant(float(exponent), y.type):
            return _product(fn, x, exponent)
    if y == ir.constant(-1.0, y.type):
        return fn.binary("fdiv", ir.constant(1.0, x.type), x)
    if y == ir.constant(0.5, y.type):  # unlike those of a root, the powers of -0 and -infinity are 0 and infinity
        root = fn.intrinsic("sqrt", (fn.binary("fadd", x, ir.constant(0.0, x.type)),))
        infinite = fn.compare("fcmp oeq", x, ir.constant(-float("inf"), x.type))
        return fn.choose(infinite, ir.constant(float("inf"), x.type), root)
    return None


def _product(fn: ir.Function, x: ir.Value, exponent: int) -> ir.Value:
    op = "fmul" if ir.element(x.type) in ("float", "double", "half") else "mul"
    if exponent == 1:
        return x
    half = _product(fn, x, exponent // 2)
    square = fn.binary(op, half, half)
    return square if exponent % 2 == 0 else fn.binary(op, square, x)


def _elementary(fn: ir.Function, name: str, args: Sequence[ir.Value], dtype: DType, machine: Machine) -> ir.Value:
    """A call of a function of this module, made once for the type, to be inlined unless it is long."""
    type_ = args[0].type
    own = f"polytc.{name}.{ir.mangle(type_)}"
    if not fn.text.defines(own):
        body = ir.Function(fn.text, own, [f"{type_} %x{i}" for i in range(len(args))], type_)
        body.extra = "noinline " if name in CALLED else "alwaysinline "
        m = Floats(body, dtype, type_, machine)
        params = [ir.Value(type_, f"%x{i}") for i in range(len(args))]
        result = _by_distance(m, name, params[0]) if name in NEAR_ONLY else EXPANSIONS[name](m, *params)
        body.do(f"ret {result}")
    return fn.emit(type_, f"call {type_} @{own}({', '.join(map(str, args))})")


def _by_distance(m: Floats, name: str, x: ir.Value) -> ir.Value:
    """sin, cos or tan: by their expansion where x is near 0; what is not, if there is any, by a call that takes all."""
    value, near = EXPANSIONS[name](m, x), circular.near(m, x)
    every = near
    if m.lanes > 1:
        every = m.fn.call(f"llvm.vector.reduce.and.{ir.mangle(near.type)}", "i1", (near,))
    return memory.guarded(m.fn, every, lambda: value, lambda: m.choose(near, value, _far(m, name, x)))


def _far(m: Floats, name: str, x: ir.Value) -> ir.Value:
    """A call of a function that is not inlined: f32 through f64, f64 by the C library, element by element."""
    own = f"polytc.far.{name}.{ir.mangle(m.type)}"
    if not m.fn.text.defines(own):
        body = ir.Function(m.fn.text, own, [f"{m.type} %x"], m.type)
        body.extra = "noinline cold "
        slow = Floats(body, m.dtype, m.type, m.machine)
        argument = ir.Value(m.type, "%x")
        if m.dtype == F32:
            wide = slow.of(F64)
            result = arithmetic.cast(body, _by_distance(wide, name, body.convert("fpext", argument, "double")), F64, F32)
        else:
            result = _library(slow, name, argument)
        body.do(f"ret {result}")
    return m.fn.emit(m.type, f"call {m.type} @{own}({x})")


def _library(m: Floats, name: str, x: ir.Value) -> ir.Value:
    """The C library's function of f64, element by element."""
    if m.lanes == 1:
        return m.fn.call(name, m.type, (x,))
    result = ir.Value(m.type, "poison")
    for lane in range(m.lanes):
        result = m.fn.insert(result, m.fn.call(name, "double", (m.fn.extract(x, lane),)), lane)
    return result


def _integer(fn: ir.Function, name: str, args: Sequence[ir.Value], dtype: DType) -> ir.Value:
    a = args[0]
    zero = ir.constant(0, a.type)
    match name:
        case "floor" | "ceil" | "trunc" | "round":
            return a
        case "abs":
            return a if dtype.kind == "u" else fn.call(f"llvm.abs.{ir.mangle(a.type)}", a.type, (a, ir.Value("i1", "false")))
        case "sign":
            above = fn.compare("icmp ne" if dtype.kind == "u" else "icmp sgt", a, zero)
            positive = fn.convert("zext", above, ir.element(a.type))
            if dtype.kind == "u":
                return positive
            negative = fn.convert("sext", fn.compare("icmp slt", a, zero), ir.element(a.type))
            return fn.binary("or", positive, negative)
        case "fmod":
            return arithmetic.binary(fn, "rem", a, args[1], dtype, "")
        case "pow":
            return _integer_power(fn, a, args[1], dtype)
        case _:
            raise AssertionError(f"no intrinsic {name} of {dtype}")


def _integer_power(fn: ir.Function, a: ir.Value, b: ir.Value, dtype: DType) -> ir.Value:
    """a ** b modulo 2**bits; for b < 0 the quotient cut off: 1 or -1 of these, 0 of all others."""
    if isinstance(b.number, int) and 1 <= b.number <= 16:
        return _product(fn, a, b.number)
    scalar = ir.register_type(dtype)
    own = f"polytc.pow.{dtype}"
    if not fn.text.defines(own):
        _define_integer_power(fn.text, own, scalar, dtype.kind == "i")
    call = f"call {scalar} @{own}"
    if ir.lanes_of(a.type) == 1:
        return fn.emit(scalar, f"{call}({a}, {b})")
    result = ir.Value(a.type, "poison")
    for lane in range(ir.lanes_of(a.type)):
        one = fn.emit(scalar, f"{call}({fn.extract(a, lane)}, {fn.extract(b, lane)})")
        result = fn.insert(result, one, lane)
    return result


def _define_integer_power(text: ir.Text, name: str, scalar: str, signed: bool) -> None:
    """Square and multiply. The bits of a negative exponent, read as a positive one, are right for -1, 0 and 1."""
    inverse = f"""\
  %negative = icmp slt {scalar} %b, 0
  %above = add {scalar} %a, 1
  %large = icmp ugt {scalar} %above, 2
  %none = and i1 %negative, %large
  %result = select i1 %none, {scalar} 0, {scalar} %next
  ret {scalar} %result""" if signed else f"  ret {scalar} %next"
    fn = ir.Function(text, name, [f"{scalar} %a", f"{scalar} %b"], scalar)
    fn.lines += f"""\
  br label %loop
loop:
  %n = phi {scalar} [ %b, %entry ], [ %half, %loop ]
  %x = phi {scalar} [ %a, %entry ], [ %square, %loop ]
  %r = phi {scalar} [ 1, %entry ], [ %next, %loop ]
  %bit = trunc {scalar} %n to i1
  %factor = select i1 %bit, {scalar} %x, {scalar} 1
  %next = mul {scalar} %r, %factor
  %square = mul {scalar} %x, %x
  %half = lshr {scalar} %n, 1
  %done = icmp eq {scalar} %half, 0
  br i1 %done, label %end, label %loop
end:
{inverse}""".splitlines()
