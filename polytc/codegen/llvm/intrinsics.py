"""The intrinsic table of the LLVM target: LLVM's own operations, our vector functions, libm lane by lane."""

from __future__ import annotations

from collections.abc import Sequence

from polytc.codegen.llvm import arithmetic, ir, sines, vectormath
from polytc.lang.scalars import BOOL, F32, DType

NATIVE = {"sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "round": "rint", "abs": "fabs"}
"""Intrinsic -> LLVM intrinsic of one float."""

LIBM = {"exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10", "log1p": "log1p",
        "cbrt": "cbrt", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan",
        "atan2": "atan2", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "asinh", "acosh": "acosh",
        "atanh": "atanh", "erf": "erf", "pow": "pow"}
"""Intrinsic -> function of the C library on doubles; the one on floats has an f behind its name."""


def emit(fn: ir.Function, name: str, args: Sequence[ir.Value], dtype: DType, flags: str, has_fma: bool) -> ir.Value:
    """The value of a call. dtype: of the arguments, which have equal lanes."""
    if name in ("min", "max"):
        return arithmetic.extremum(fn, name, args[0], args[1], dtype)
    if name == "clamp":
        low = arithmetic.extremum(fn, "max", args[0], args[1], dtype)
        return arithmetic.extremum(fn, "min", low, args[2], dtype)
    if dtype.kind == "b":
        return _bool(fn, name, args)
    if not dtype.is_float:
        return _integer(fn, name, args, dtype)
    if name in NATIVE:
        return fn.intrinsic(NATIVE[name], args[:1])
    if name == "fma":
        return fn.intrinsic("fmuladd" if flags and not has_fma else "fma", args)
    if name == "fmod":
        return fn.binary("frem", args[0], args[1])
    if name in ("isnan", "isinf"):
        return _classify(fn, name, args[0])
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
        return arithmetic.cast(fn, emit(fn, name, wide, F32, flags, has_fma), F32, dtype)
    return _transcendental(fn, name, args, dtype)


def _bool(fn: ir.Function, name: str, args: Sequence[ir.Value]) -> ir.Value:
    if name in ("isnan", "isinf"):
        return ir.constant(False, args[0].type)
    if name == "pow":
        return fn.binary("or", args[0], fn.binary("xor", args[1], ir.constant(True, args[1].type)))
    if name == "fmod":
        return fn.binary("and", args[0], fn.binary("xor", args[1], ir.constant(True, args[1].type)))
    assert name in ("abs", "sign", "floor", "ceil", "trunc", "round"), f"{name} of {BOOL}"
    return args[0]


def _classify(fn: ir.Function, name: str, a: ir.Value) -> ir.Value:
    if name == "isnan":
        return fn.compare("fcmp uno", a, a)
    return fn.compare("fcmp oeq", fn.intrinsic("fabs", (a,)), ir.constant(float("inf"), a.type))


def _sign(fn: ir.Function, a: ir.Value) -> ir.Value:
    zero, one, minus = (ir.constant(x, a.type) for x in (0.0, 1.0, -1.0))
    below = fn.choose(fn.compare("fcmp olt", a, zero), minus, a)
    above = fn.choose(fn.compare("fcmp ogt", a, zero), one, below)
    return fn.choose(fn.compare("fcmp oeq", a, zero), zero, above)


def _power_by_constant(fn: ir.Function, x: ir.Value, y: ir.Value) -> ir.Value | None:
    """x ** n for the small integers n that models use, as products."""
    for exponent in (1, 2, 3, 4):
        if y == ir.constant(float(exponent), y.type):
            return _product(fn, x, exponent)
    if y == ir.constant(-1.0, y.type):
        return fn.binary("fdiv", ir.constant(1.0, x.type), x)
    return None


def _product(fn: ir.Function, x: ir.Value, exponent: int) -> ir.Value:
    op = "fmul" if ir.element(x.type) in ("float", "double", "half") else "mul"
    if exponent == 1:
        return x
    half = _product(fn, x, exponent // 2)
    square = fn.binary(op, half, half)
    return square if exponent % 2 == 0 else fn.binary(op, square, x)


def _transcendental(fn: ir.Function, name: str, args: Sequence[ir.Value], dtype: DType) -> ir.Value:
    """A call of a function of this module, made once for the type: branch-free where we have one, else lane by lane."""
    type_ = args[0].type
    own = f"polytc.{name}.{ir.mangle(type_)}"
    if not fn.text.defines(own):
        body = ir.Function(fn.text, own, [f"{type_} %x{i}" for i in range(len(args))], type_)
        params = [ir.Value(type_, f"%x{i}") for i in range(len(args))]
        if name in ("sin", "cos") and dtype == F32:
            result = sines.emit(body, name, params[0], lambda: _lane_by_lane(body, name, params, dtype))
        elif vectormath.has(name, dtype):
            body.extra = "alwaysinline "
            result = vectormath.emit(body, name, params, dtype)
        else:
            result = _lane_by_lane(body, name, params, dtype)
        body.do(f"ret {result}")
    return fn.emit(type_, f"call {type_} @{own}({', '.join(map(str, args))})")


def _lane_by_lane(fn: ir.Function, name: str, args: Sequence[ir.Value], dtype: DType) -> ir.Value:
    type_ = args[0].type
    scalar, lanes = ir.element(type_), ir.lanes_of(type_)
    if name == "sigmoid":
        one = ir.constant(1.0, type_)
        minus = fn.emit(type_, f"fneg {args[0]}")
        return fn.binary("fdiv", one, fn.binary("fadd", one, _transcendental(fn, "exp", (minus,), dtype)))
    function = LIBM[name] + ("f" if dtype == F32 else "")
    if lanes == 1:
        return fn.call(function, scalar, args)
    result = ir.Value(type_, "poison")
    for lane in range(lanes):
        result = fn.insert(result, fn.call(function, scalar, [fn.extract(a, lane) for a in args]), lane)
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
        case "isnan" | "isinf":
            return ir.constant(False, ir.vector("i1", ir.lanes_of(a.type)))
        case _:
            raise AssertionError(f"no intrinsic {name} of {dtype}")


def _integer_power(fn: ir.Function, a: ir.Value, b: ir.Value, dtype: DType) -> ir.Value:
    """a ** b modulo 2**bits; a negative exponent counts as 0 squarings: 1 for b < 0."""
    number = b.ref[b.ref.rindex(" ") + 1:-1] if b.ref.startswith("splat") else b.ref
    if number.isdigit() and 1 <= int(number) <= 16:
        return _product(fn, a, int(number))
    scalar = ir.register_type(dtype)
    own = f"polytc.pow.{dtype}"
    if not fn.text.defines(own):
        _define_integer_power(fn.text, own, scalar)
    call = f"call {scalar} @{own}"
    if ir.lanes_of(a.type) == 1:
        return fn.emit(scalar, f"{call}({a}, {b})")
    result = ir.Value(a.type, "poison")
    for lane in range(ir.lanes_of(a.type)):
        one = fn.emit(scalar, f"{call}({fn.extract(a, lane)}, {fn.extract(b, lane)})")
        result = fn.insert(result, one, lane)
    return result


def _define_integer_power(text: ir.Text, name: str, scalar: str) -> None:
    """Square and multiply."""
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
  ret {scalar} %next""".splitlines()
