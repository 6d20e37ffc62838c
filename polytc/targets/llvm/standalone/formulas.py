"""Formulas of sizes as LLVM IR: straight code on 64-bit integers, each sum and quotient once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polytc.program.scalars import DType
from polytc.program.traces.formulas import Guard, Quotient, Terms

FLOOR = """\
; a // b, rounded down; 0 for b = 0.
define internal i64 @floor.divided(i64 %a, i64 %b) {
  %none = icmp eq i64 %b, 0
  br i1 %none, label %zero, label %divide
zero:
  ret i64 0
divide:
  %q = sdiv i64 %a, %b
  %r = srem i64 %a, %b
  %inexact = icmp ne i64 %r, 0
  %signs = xor i64 %r, %b
  %apart = icmp slt i64 %signs, 0
  %less = and i1 %inexact, %apart
  %one = zext i1 %less to i64
  %down = sub i64 %q, %one
  ret i64 %down
}
"""
_QUESTIONS = {"==": "eq", "!=": "ne", ">": "sgt", "<=": "sle"}


class Formulas:
    """lines: the code so far. names: the registers that hold sizes."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names, self.lines = names, list[str]()
        self._sums: dict[Terms, str] = {}
        self._quotients: dict[Quotient, str] = {}
        self._divisors: list[str] = []

    def value(self, terms: Terms) -> str:
        """The register, or the number, that a formula is."""
        if all(not product for product, _ in terms):
            return str(sum(c for _, c in terms))
        if terms not in self._sums:
            total = ""
            for product, c in terms:
                term = self.product([*map(self._atom, product), *([str(c)] if c != 1 or not product else [])])
                total = self._line(f"add i64 {total}, {term}") if total else term
            self._sums[terms] = total
        return self._sums[terms]

    def met(self, guard: Guard) -> str:
        """The i1 that says whether a guard is met."""
        terms, question = guard
        return self._line(f"icmp {_QUESTIONS[question]} i64 {self.value(terms)}, 0")

    def converted(self, terms: Terms, dtype: DType) -> tuple[str, str]:
        """A formula as an element of an array: its register and LLVM's type."""
        value, kind = self.value(terms), f"i{dtype.bits}"
        if dtype.kind == "f":
            kind = {32: "float", 64: "double"}[dtype.bits]
            return self._line(f"sitofp i64 {value} to {kind}"), kind
        if dtype.kind == "b":
            bit = self._line(f"icmp ne i64 {value}, 0")
            return self._line(f"zext i1 {bit} to i8"), "i8"
        return (value if dtype.bits == 64 else self._line(f"trunc i64 {value} to {kind}")), kind

    def all(self, answers: Sequence[str]) -> str:
        """The i1 that says whether all of some are true."""
        found = "true"
        for each in answers:
            found = self._line(f"and i1 {found}, {each}")
        return found

    def product(self, factors: Sequence[str]) -> str:
        """The product of numbers and registers."""
        found = factors[0]
        for f in factors[1:]:
            found = self._line(f"mul i64 {found}, {f}")
        return found

    def divides(self) -> list[str]:
        """For each divisor so far, the i1 that says whether it is not 0."""
        return [self._line(f"icmp ne i64 {d}, 0") for d in self._divisors]

    def _line(self, text: str) -> str:
        name = f"%f{len(self.lines)}"
        self.lines.append(f"  {name} = {text}\n")
        return name

    def _atom(self, atom: str | Quotient) -> str:
        if isinstance(atom, str):
            return self.names[atom]
        if atom not in self._quotients:
            a, b = self.value(atom.a), self.value(atom.b)
            self._divisors += [b] if b.startswith("%") else []
            self._quotients[atom] = self._line(f"call i64 @floor.divided(i64 {a}, i64 {b})")
        return self._quotients[atom]
