"""Quasi-affine expressions in one normal form, so that a schedule that is saved and read reads the same.

    i % 32 // 4   and   i // 4 - 8*(i // 32)   ->   i // 4 % 8

First every remainder becomes a quotient (a % d = a - d*(a // d)) and nested quotients one; then pairs of terms that make a
remainder become one again.
"""

from __future__ import annotations

from polytc.program import program as pr
from polytc.program.affine import Affine, Atom, QuasiAffine, Quotient, Remainder, add, affine
from polytc.program.scalars import I64


def normal(e: pr.Expr) -> pr.Expr:
    """The normal form of a quasi-affine integer expression."""
    form = affine(e)
    assert form is not None, f"quasi: {pr.format_expr(e)} is not affine"
    return _expression(_paired(_flat(form)))


def _flat(a: QuasiAffine) -> QuasiAffine:
    """Without remainders."""
    total: QuasiAffine = Affine(a.constant)
    for atom, c in a.terms:
        if isinstance(atom, str):
            part: QuasiAffine = Affine(0, ((atom, 1),))
        elif isinstance(atom, Quotient) and (value := _fixed(atom)) is not None:
            part = Affine(value)
        else:
            assert isinstance(atom, Quotient | Remainder), "quasi: a row has no pieces"
            inside = _flat(atom.a)
            part = _quotient(inside, atom.divisor)
            if isinstance(atom, Remainder):
                part = add(inside, part, -atom.divisor)
        total = add(total, part, c)
    return Affine(total.constant, tuple(sorted(total.terms, key=lambda t: _key(t[0]))))


def _fixed(q: Quotient) -> int | None:
    """The value of a quotient of remainders that is the same for all indices, such as i % 2 // 3."""
    if not all(isinstance(t, Remainder) for t, _ in q.a.terms):
        return None
    ends = [sorted((0, c * (t.divisor - 1))) for t, c in q.a.terms if isinstance(t, Remainder)]
    low, high = q.a.constant + sum(e[0] for e in ends), q.a.constant + sum(e[1] for e in ends)
    return low // q.divisor if low // q.divisor == high // q.divisor else None


def _quotient(a: QuasiAffine, d: int) -> QuasiAffine:
    """a // d: what d divides stands outside, and (x // e + k) // d is (x + k*e) // (d*e)."""
    outside = Affine(a.constant // d, tuple((t, c // d) for t, c in a.terms if c % d == 0))
    rest = Affine(a.constant % d, tuple((t, c) for t, c in a.terms if c % d))
    if not rest.terms:
        return outside
    (atom, c), *others = rest.terms
    if isinstance(atom, Quotient) and c == 1 and not others:
        return add(outside, _quotient(add(atom.a, Affine(rest.constant * atom.divisor)), d * atom.divisor))
    return add(outside, Affine(0, ((Quotient(rest, d), 1),)))


def _paired(a: QuasiAffine) -> QuasiAffine:
    """With remainders for pairs: c*x - c*d*(x // d) is c*(x % d), where x may be a quotient itself."""
    for atom, q in a.terms:
        for base, d in _bases(atom, a):
            if q % d:
                continue
            rest = add(add(a, Affine(0, ((atom, q),)), -1), base, q // d)
            if len(rest.terms) == len(a.terms) - 1 - len(base.terms):
                return add(_paired(rest), Affine(0, ((Remainder(base, d), -q // d),)))
    return a


def _bases(atom: Atom, a: QuasiAffine) -> list[tuple[QuasiAffine, int]]:
    """The forms x and numbers d such that the atom is x // d: its own, and those over the other quotients of `a`."""
    if not isinstance(atom, Quotient):
        return []
    others = [t for t, _ in a.terms
              if isinstance(t, Quotient) and t.a == atom.a and atom.divisor % t.divisor == 0 and t != atom]
    return [(atom.a, atom.divisor), *((Affine(0, ((t, 1),)), atom.divisor // t.divisor) for t in others)]


def _key(atom: Atom) -> tuple[int, str]:
    return (0, atom) if isinstance(atom, str) else (1, repr(atom))


def _expression(a: QuasiAffine) -> pr.Expr:
    result: pr.Expr | None = None
    for atom, c in sorted(a.terms, key=lambda t: t[1] < 0):
        term = _atom(atom) if abs(c) == 1 else pr.Binary("*", pr.Const(abs(c), I64), _atom(atom), I64)
        if result is None:
            result = term if c > 0 else pr.Unary("-", term, I64)
        else:
            result = pr.Binary("+" if c > 0 else "-", result, term, I64)
    if result is None:
        return pr.Const(a.constant, I64)
    if a.constant:
        result = pr.Binary("+" if a.constant > 0 else "-", result, pr.Const(abs(a.constant), I64), I64)
    return result


def _atom(atom: Atom) -> pr.Expr:
    if isinstance(atom, str):
        return pr.Index(atom)
    assert isinstance(atom, Quotient | Remainder), "quasi: a row has no pieces"
    op = "//" if isinstance(atom, Quotient) else "%"
    return pr.Binary(op, _expression(_paired(atom.a)), pr.Const(atom.divisor, I64), I64)
