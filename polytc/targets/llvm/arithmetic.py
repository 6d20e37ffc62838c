"""Operators, casts and reductions of values, scalar or vector, with numpy's meaning and no undefined behaviour."""

from __future__ import annotations

import math
from collections.abc import Collection

from polytc.machine import Machine
from polytc.program.scalars import BF16, F32, F64, DType
from polytc.targets.llvm import ir, remainder

CONTRACTION = "contract "
"""Flags of sums and products: the two may become one operation with one rounding."""
LOOSE = "reassoc nsz contract "
"""Flags of sums and products of a kernel that is `fast`. Never nnan or ninf: NaN and infinity keep their meaning. Never arcp:
reciprocals are taken where they have all their digits, by codegen.passes.reciprocal."""

_FLOAT = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
_INT = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor"}
_BOOL = {"+": "or", "*": "and", "&": "and", "|": "or", "^": "xor", "-": "xor", "&&": "and", "||": "or"}
_COMPARE = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


def binary(fn: ir.Function, op: str, a: ir.Value, b: ir.Value, dtype: DType, flags: str, *,
           nonnegative: bool = False) -> ir.Value:
    """`a op b`; dtype: of the operands. nonnegative: a is known to be >= 0 (then // and % by a positive constant are cheap)."""
    if op in _COMPARE:
        return compare(fn, op, a, b, dtype)
    if dtype.kind == "b":
        return fn.binary(_BOOL[op], a, b)
    if dtype.is_float:
        if op in ("//", "%"):
            return _float_floor(fn, op, a, b)
        return fn.binary(f"{_FLOAT[op]} {flags if op != '/' else ''}".rstrip(), a, b)
    if op in _INT:
        return fn.binary(_INT[op], a, b)
    if op in ("<<", ">>"):
        return _shift(fn, op, a, b, dtype)
    return _divide(fn, op, a, b, dtype, nonnegative)


def compare(fn: ir.Function, op: str, a: ir.Value, b: ir.Value, dtype: DType) -> ir.Value:
    """A comparison; with NaN everything is false except `!=`."""
    name = _COMPARE[op]
    if dtype.is_float:
        return fn.compare(f"fcmp {'u' if op == '!=' else 'o'}{name}", a, b)
    sign = "" if op in ("==", "!=") else "s" if dtype.kind == "i" else "u"
    return fn.compare(f"icmp {sign}{name}", a, b)


def unary(fn: ir.Function, op: str, a: ir.Value, dtype: DType) -> ir.Value:
    """'-', '!', '~'."""
    if op == "-" and dtype.is_float:
        return fn.emit(a.type, f"fneg {a}")
    if op == "-":
        return fn.binary("sub", ir.constant(0, a.type), a) if dtype.kind != "b" else a
    if op == "!" and dtype.kind != "b":
        return fn.compare("fcmp oeq" if dtype.is_float else "icmp eq", a, ir.constant(0, a.type))
    return fn.binary("xor", a, ir.constant(True if dtype.kind == "b" else -1, a.type))


def _shift(fn: ir.Function, op: str, a: ir.Value, b: ir.Value, dtype: DType) -> ir.Value:
    """Shifts by the number of bits or more give what an endless shift would."""
    name = "shl" if op == "<<" else "ashr" if dtype.kind == "i" else "lshr"
    known = _constant_of(b)
    if known is not None and 0 <= known < dtype.bits:
        return fn.binary(name, a, b)
    inside = fn.compare("icmp ult", b, ir.constant(dtype.bits, b.type))
    if name == "ashr":
        return fn.binary(name, a, fn.choose(inside, b, ir.constant(dtype.bits - 1, b.type)))
    shifted = fn.binary(name, a, fn.choose(inside, b, ir.constant(0, b.type)))
    return fn.choose(inside, shifted, ir.constant(0, a.type))


def _constant_of(v: ir.Value) -> int | None:
    """The number of an integer constant, scalar or splat."""
    return v.number if isinstance(v.number, int) else None


def _divide(fn: ir.Function, op: str, a: ir.Value, b: ir.Value, dtype: DType, nonnegative: bool) -> ir.Value:
    """Integer `//` and `%` (floor), `/` and 'rem' (towards zero). Division by zero gives 0 as in numpy, and never traps."""
    known = _constant_of(b)
    if known is None or known <= 0:
        return _divide_any(fn, op, a, b, dtype)
    unsigned = dtype.kind == "u" or nonnegative
    if known & (known - 1) == 0 and (unsigned or op in ("//", "%")):
        if op in ("%", "rem"):
            return fn.binary("and", a, ir.constant(known - 1, a.type))
        return fn.binary("lshr" if unsigned else "ashr", a, ir.constant(known.bit_length() - 1, a.type))
    return _quotient(fn, op, a, b, unsigned)


def _divide_any(fn: ir.Function, op: str, a: ir.Value, b: ir.Value, dtype: DType) -> ir.Value:
    zero = ir.constant(0, a.type)
    by_zero = fn.compare("icmp eq", b, zero)
    trap = by_zero
    if dtype.kind == "i":
        by_minus_one = fn.compare("icmp eq", b, ir.constant(-1, b.type))
        trap = fn.binary("or", by_zero, by_minus_one)
    result = _quotient(fn, op, a, fn.choose(trap, ir.constant(1, b.type), b), dtype.kind == "u")
    if op in ("%", "rem"):
        return fn.choose(trap, zero, result)
    if dtype.kind == "i":
        result = fn.choose(by_minus_one, fn.binary("sub", zero, a), result)
    return fn.choose(by_zero, zero, result)


def _quotient(fn: ir.Function, op: str, a: ir.Value, b: ir.Value, unsigned: bool) -> ir.Value:
    if unsigned:
        return fn.binary("urem" if op in ("%", "rem") else "udiv", a, b)
    if op in ("/", "rem"):
        return fn.binary("sdiv" if op == "/" else "srem", a, b)
    zero = ir.constant(0, a.type)
    rest = fn.binary("srem", a, b)
    differ = fn.compare("icmp slt", fn.binary("xor", rest, b), zero)
    down = fn.binary("and", differ, fn.compare("icmp ne", rest, zero))
    if op == "%":
        return fn.choose(down, fn.binary("add", rest, b), rest)
    return fn.binary("add", fn.binary("sdiv", a, b), fn.convert("sext", down, ir.element(a.type)))


def _float_floor(fn: ir.Function, op: str, a: ir.Value, b: ir.Value) -> ir.Value:
    """numpy's floor_divide and remainder: the remainder has the divisor's sign, and the quotient agrees with it."""
    zero = ir.constant(0.0, a.type)
    rest = remainder.fmod(fn, a, b)
    nonzero = fn.compare("fcmp une", rest, zero)
    differ = fn.binary("xor", fn.compare("fcmp olt", rest, zero), fn.compare("fcmp olt", b, zero))
    down = fn.binary("and", nonzero, differ)
    if op == "%":
        signed_zero = fn.intrinsic("copysign", (zero, b))
        return fn.choose(nonzero, fn.choose(down, fn.binary("fadd", rest, b), rest), signed_zero)
    quotient = fn.binary("fdiv", fn.binary("fsub", a, rest), b)
    quotient = fn.choose(down, fn.binary("fsub", quotient, ir.constant(1.0, a.type)), quotient)
    floor = fn.intrinsic("floor", (quotient,))
    high = fn.compare("fcmp ogt", fn.binary("fsub", quotient, floor), ir.constant(0.5, a.type))
    rounded = fn.choose(high, fn.binary("fadd", floor, ir.constant(1.0, a.type)), floor)
    plain = fn.binary("fdiv", a, b)
    rounded = fn.choose(fn.compare("fcmp oeq", quotient, zero), fn.intrinsic("copysign", (zero, plain)), rounded)
    return fn.choose(fn.compare("fcmp oeq", b, zero), plain, rounded)


def extremum(fn: ir.Function, op: str, a: ir.Value, b: ir.Value, dtype: DType, numbers: Collection[ir.Value] = ()) -> ir.Value:
    """min or max; a NaN in either operand gives NaN. numbers: values that are known not to be NaN, beside constants."""
    if dtype.kind == "b":
        return fn.binary("and" if op == "min" else "or", a, b)
    if not dtype.is_float:
        return fn.intrinsic(f"{'s' if dtype.kind == 'i' else 'u'}{op}", (a, b))
    for number, x in ((a, b), (b, a)):
        if not (_is_number(number) or number in numbers):
            continue
        # One maxps: it gives its second operand, x, when either is NaN.
        first = fn.compare("fcmp ogt" if op == "max" else "fcmp olt", number, x)
        return fn.choose(first, number, x)
    return fn.intrinsic("maximum" if op == "max" else "minimum", (a, b), "nsz ")


def _is_number(v: ir.Value) -> bool:
    """A float constant that is not NaN."""
    return isinstance(v.number, float) and not math.isnan(v.number)


def cast(fn: ir.Function, a: ir.Value, source: DType, target: DType, machine: Machine | None = None) -> ir.Value:
    """numpy's astype. A float out of the integer's range gives some number, never undefined behaviour.

    machine: may have an instruction for bf16.
    """
    if source == target:
        return a
    if source.is_half:
        single = _from_bfloat(fn, a) if source == BF16 else fn.convert("fpext", a, "float")
        return cast(fn, single, F32, target)
    scalar = ir.register_type(target)
    if target.kind == "b":
        return fn.compare("fcmp une" if source.is_float else "icmp ne", a, ir.constant(0, a.type))
    if target.is_half:
        single = _odd_single(fn, a) if source == F64 else cast(fn, a, source, F32)
        return _to_bfloat(fn, single, machine) if target == BF16 else fn.convert("fptrunc", single, "half")
    if source.is_float and target.is_float:
        return fn.convert("fpext" if target.bits > source.bits else "fptrunc", a, scalar)
    if target.is_float:
        return fn.convert("sitofp" if source.kind == "i" else "uitofp", a, scalar)
    if source.is_float:
        return _float_to_int(fn, a, target)
    if source.bits == target.bits and source.kind != "b":
        return a
    if target.bits < source.bits:
        return fn.convert("trunc", a, scalar)
    return fn.convert("sext" if source.kind == "i" else "zext", a, scalar)


def _from_bfloat(fn: ir.Function, a: ir.Value) -> ir.Value:
    """bf16 is the upper half of an f32."""
    wide = fn.convert("zext", a, "i32")
    single = ir.vector("float", ir.lanes_of(a.type))
    return fn.bitcast(fn.binary("shl", wide, ir.constant(16, wide.type)), single)


def _to_bfloat(fn: ir.Function, a: ir.Value, machine: Machine | None) -> ir.Value:
    """Round to nearest, ties to even, by adding half of the last place that stays; NaN would overflow."""
    lanes = ir.lanes_of(a.type)
    if machine is not None and machine.has("avx512bf16") and machine.has("avx512vl"):
        return _bfloat_instruction(fn, a, lanes)
    integer = ir.vector("i32", lanes)
    bits = fn.bitcast(a, integer)
    odd = fn.binary("and", fn.binary("lshr", bits, ir.constant(16, integer)), ir.constant(1, integer))
    rounded = fn.binary("add", fn.binary("add", bits, ir.constant(0x7FFF, integer)), odd)
    nan = fn.compare("fcmp uno", a, a)
    quiet = fn.binary("or", bits, ir.constant(1 << 22, integer))
    upper = fn.binary("lshr", fn.choose(nan, quiet, rounded), ir.constant(16, integer))
    return fn.convert("trunc", upper, "i16")


def _bfloat_instruction(fn: ir.Function, a: ir.Value, lanes: int) -> ir.Value:
    """By vcvtneps2bf16, which has 8 or 16 lanes and takes subnormal numbers for 0."""
    if lanes == 1:
        return fn.extract(_bfloat_instruction(fn, fn.insert(ir.Value("<8 x float>", "poison"), a, 0), 8), 0)
    if lanes > 16:
        half = lanes // 2
        low, high = (_bfloat_instruction(fn, fn.shuffle(a, None, range(k, k + half)), half) for k in (0, half))
        return fn.shuffle(low, high, range(lanes))
    width = 8 if lanes <= 8 else 16
    padded = a if lanes == width else fn.shuffle(a, None, [*range(lanes), *[-1] * (width - lanes)])
    made = fn.call(f"llvm.x86.avx512bf16.cvtneps2bf16.{32 * width}", f"<{width} x bfloat>", (padded,))
    raw = fn.bitcast(made, f"<{width} x i16>")
    return raw if lanes == width else fn.shuffle(raw, None, range(lanes))


def _odd_single(fn: ir.Function, a: ir.Value) -> ir.Value:
    """f64 to f32 towards zero, with the last bit set if that lost anything: rounding it again to f16 is right."""
    near = fn.convert("fptrunc", a, "float")
    back = fn.convert("fpext", near, "double")
    integer = ir.vector("i32", ir.lanes_of(a.type))
    bits = fn.bitcast(near, integer)
    beyond = fn.compare("fcmp ogt", fn.intrinsic("fabs", (back,)), fn.intrinsic("fabs", (a,)))
    bits = fn.choose(beyond, fn.binary("sub", bits, ir.constant(1, integer)), bits)
    inexact = fn.compare("fcmp one", back, a)
    bits = fn.choose(inexact, fn.binary("or", bits, ir.constant(1, integer)), bits)
    return fn.bitcast(bits, near.type)


def _float_to_int(fn: ir.Function, a: ir.Value, target: DType) -> ir.Value:
    """Through a wider signed type, as processors do it, so that small out-of-range numbers wrap."""
    wide = "i32" if target.bits < 32 or target.name == "i32" else "i64"
    raw = fn.convert("fptosi", a, wide)
    found = fn.emit(raw.type, f"freeze {raw}")
    if target.name == "u64":  # nothing is wider, and unsigned conversions of AVX-512 give all ones for numbers below 0
        large = fn.convert("fptoui", a, wide)
        below = fn.compare("fcmp olt", a, ir.constant(0.0, a.type))
        found = fn.choose(below, found, fn.emit(large.type, f"freeze {large}"))
    return fn.convert("trunc", found, ir.register_type(target))


def reduce(fn: ir.Function, op: str, a: ir.Value, dtype: DType, flags: str) -> ir.Value:
    """A vector's lanes combined into one; in their order if there are no flags. What makes the lanes, and what is done with the
    result, carries no `reassoc`, so that nothing but the lanes is reordered."""
    scalar = ir.element(a.type)
    if scalar == a.type:
        return a
    name = ir.mangle(a.type)
    if dtype.kind == "b":
        boolean = {"+": "or", "*": "and", "min": "and", "max": "or", "&": "and", "|": "or", "^": "xor"}[op]
        return fn.call(f"llvm.vector.reduce.{boolean}.{name}", scalar, (a,))
    if dtype.is_float and op in "+*":
        start = ir.constant(-0.0 if op == "+" else 1.0, scalar)
        order = "reassoc " if flags else ""
        return fn.call(f"llvm.vector.reduce.{'fadd' if op == '+' else 'fmul'}.{name}", scalar, (start, a), order)
    if dtype.is_float:
        return fn.call(f"llvm.vector.reduce.f{op}imum.{name}", scalar, (a,), "nsz ")
    sign = "s" if dtype.kind == "i" else "u"
    plain = {"+": "add", "*": "mul", "&": "and", "|": "or", "^": "xor", "min": f"{sign}min", "max": f"{sign}max"}[op]
    return fn.call(f"llvm.vector.reduce.{plain}.{name}", scalar, (a,))
