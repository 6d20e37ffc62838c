"""Arithmetic on float values of one type, scalar or vector, as the elementary functions need it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polytc.machine import Machine
from polytc.program.scalars import F32, F64, DType
from polytc.targets.llvm import ir


@dataclass(frozen=True)
class Format:
    """Of a float type. integer: of its size. mantissa, bias: of its encoding. low, high: beyond them e^x is 0 and infinite.
    ln2: ln(2) in two parts, the first with trailing zeros so that its products with exponents are exact."""

    integer: str
    mantissa: int
    bias: int
    low: float
    high: float
    ln2: tuple[float, float]


FORMATS = {
    F32: Format("i32", 23, 127, -104.0, 89.0, (0.693145751953125, 1.42860682030941723212e-6)),
    F64: Format("i64", 52, 1023, -746.0, 710.0, (0.693147180369123816490, 1.90821492927058770002e-10)),
}


@dataclass
class Floats:
    """Operations on values of `type`, of a scalar type `dtype`, in a function for `machine`."""

    fn: ir.Function
    dtype: DType
    type: str
    machine: Machine

    @property
    def format(self) -> Format:
        return FORMATS[self.dtype]

    @property
    def lanes(self) -> int:
        return ir.lanes_of(self.type)

    @property
    def integer(self) -> str:
        """The integer type with the same lanes and bits."""
        return ir.vector(self.format.integer, self.lanes)

    @property
    def epsilon(self) -> float:
        """Half of the distance from 1 to the next number."""
        return 2.0 ** -(self.format.mantissa + 1)

    def of(self, dtype: DType) -> Floats:
        """The same for another float type."""
        return Floats(self.fn, dtype, ir.vector(ir.register_type(dtype), self.lanes), self.machine)

    # ---- arithmetic

    def number(self, x: float) -> ir.Value:
        return ir.constant(x, self.type)

    def add(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.fn.binary("fadd", a, b)

    def sub(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.fn.binary("fsub", a, b)

    def mul(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.fn.binary("fmul", a, b)

    def div(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.fn.binary("fdiv", a, b)

    def fma(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        """a*b + c, in one rounding where that is cheap."""
        return self.fn.intrinsic("fmuladd", (a, b, c))

    def fused(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        """a*b + c in one rounding, whatever it costs."""
        return self.fn.intrinsic("fma", (a, b, c))

    def neg(self, a: ir.Value) -> ir.Value:
        return self.fn.emit(self.type, f"fneg {a}")

    def abs(self, a: ir.Value) -> ir.Value:
        return self.fn.intrinsic("fabs", (a,))

    def sqrt(self, a: ir.Value) -> ir.Value:
        return self.fn.intrinsic("sqrt", (a,))

    def trunc(self, a: ir.Value) -> ir.Value:
        return self.fn.intrinsic("trunc", (a,))

    def copysign(self, size: ir.Value, sign: ir.Value) -> ir.Value:
        return self.fn.intrinsic("copysign", (size, sign))

    def polynomial(self, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
        """Horner's rule, coefficients from the constant up."""
        result = self.number(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            result = self.fma(result, x, self.number(c))
        return result

    def odd(self, x: ir.Value, z: ir.Value, coefficients: Sequence[float]) -> ir.Value:
        """x + x z P(z), z being x^2. -0 may become 0."""
        return self.fma(self.mul(x, z), self.polynomial(z, coefficients), x)

    # ---- comparisons; false for NaN

    def less(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.fn.compare("fcmp olt", a, b)

    def equal(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.fn.compare("fcmp oeq", a, b)

    def choose(self, cond: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.fn.choose(cond, a, b)

    def both(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.fn.binary("and", a, b)

    def at_most(self, a: ir.Value, high: float) -> ir.Value:
        """min(a, high); NaN stays NaN. One instruction of x86."""
        top = self.number(high)
        return self.choose(self.less(top, a), top, a)

    def at_least(self, a: ir.Value, low: float) -> ir.Value:
        """max(a, low); NaN stays NaN."""
        bottom = self.number(low)
        return self.choose(self.fn.compare("fcmp ogt", bottom, a), bottom, a)

    def limit(self, a: ir.Value, low: float, high: float) -> ir.Value:
        """a between two numbers; NaN stays NaN."""
        return self.at_least(self.at_most(a, high), low)

    # ---- bits

    def whole(self, x: int) -> ir.Value:
        """An integer of the same lanes and bits."""
        return ir.constant(x, self.integer)

    def bits(self, a: ir.Value) -> ir.Value:
        return self.fn.bitcast(a, self.integer)

    def from_bits(self, a: ir.Value) -> ir.Value:
        return self.fn.bitcast(a, self.type)

    def exponent_bits(self, n: ir.Value) -> ir.Value:
        """The number whose biased exponent is the last bits of an integer: 2**(n - bias)."""
        return self.from_bits(self.fn.binary("shl", n, self.whole(self.format.mantissa)))

    def magic(self, offset: int = 0) -> ir.Value:
        """Added to a moderate number, it leaves no bits for a fraction: the last bits of the sum are those of the nearest whole
        number + offset. Taken away again, it gives the whole number."""
        return self.number(1.5 * 2.0**self.format.mantissa + offset)

    def scale(self, a: ir.Value, whole: ir.Value, shifted: ir.Value, alive: ir.Value | None = None) -> ir.Value:
        """a * 2**n, where results may be subnormal or overflow. n is given as a float and as the last bits of a number that
        the magic with offset 2 * bias has made; |n| is less than 2 * bias. Where it is not `alive` the result is 0 without
        rounding: a product that underflows takes x86 some hundred cycles, and masks of attention make many."""
        if self.is_whole_avx512:
            return self._avx512("scalef", a, whole, where=alive)
        if alive is not None:
            a = self.choose(alive, a, self.number(0.0))
        n = self.bits(shifted)
        half = self.fn.binary("lshr", n, self.whole(1))
        rest = self.fn.binary("sub", n, half)
        return self.mul(self.mul(a, self.exponent_bits(half)), self.exponent_bits(rest))

    # ---- AVX-512

    @property
    def is_whole_avx512(self) -> bool:
        """Whether the type is a whole vector of a machine with AVX-512, which takes floats apart and puts them together."""
        return self.machine.has("avx512f") and self.lanes * self.dtype.bits == 512

    def take_apart(self, x: ir.Value) -> tuple[ir.Value, ir.Value]:
        """(e, m) of x = 2^e m, 1 <= m < 2, subnormal numbers included. Of 0 e is -infinity, of infinity infinity, and m is 1;
        of NaN and negative numbers m is NaN."""
        nan_if_negative = ir.Value("i32", str(0b1100))
        return self._avx512("getexp", x), self._avx512("getmant", x, nan_if_negative)

    def _avx512(self, name: str, *args: ir.Value, where: ir.Value | None = None) -> ir.Value:
        """An operation on whole vectors with the usual rounding, in all lanes or in some; 0 in the others."""
        name = f"llvm.x86.avx512.mask.{name}.p{'s' if self.dtype == F32 else 'd'}.512"
        lanes = f"i{self.lanes}"
        mask = ir.Value(lanes, "-1") if where is None else self.fn.bitcast(where, lanes)
        return self.fn.call(name, self.type, (*args, self.number(0.0), mask, ir.Value("i32", "4")))
