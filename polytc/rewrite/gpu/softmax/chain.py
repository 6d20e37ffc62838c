"""Chains of statements in which one product's results are weighed by their exponentials, and a second product sums over them.

    S[h,i,j] += Q[h,i,d]*K[h,j,d]                       the scores
    L[h,i,j] = S[h,i,j]*0.125 + A[i,j]                  what becomes of one: any number of statements on single elements
    M[h,i] max= L[h,i,j]                                the maximum of a row
    E[h,i,j] = exp(L[h,i,j] - M[h,i])                   the weights
    Z[h,i] += E[h,i,j]                                  sums of a row: any number
    O[h,i,e] += E[h,i,j]*V[h,j,e]                       the second product
    R[h,i,e] = O[h,i,e]/Z[h,i]                          what becomes of rows and results

Any names, any number of batch indices, in any order. Weights may have factors that name no key, as `P[h,i,j] = E[h,i,j]/Z[h,i]`
has, which are applied to the sums. All statements of a chain are told in the indices of the scores.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from polytc.program import program as pr

WEIGHT = "weight"
"""The name of an index that stands for a weight in expressions of a chain: exp(value of a score - maximum of its row)."""


@dataclass(frozen=True)
class Sum:
    """What a row adds up over the keys. target: the tensor; value: of a key, over WEIGHT: what linear in it, so that it is
    the sum where WEIGHT is that of the weights."""

    target: str
    value: pr.Expr

@dataclass(frozen=True)
class Chain:
    """names: of its statements, those that set the beginnings of sums included. score: the first product; row, key, feature:
    the indices of a row, of a key, and of the sum; queries, keys: its operands. conditions: on rows and keys, under which a
    key counts; hides: under which its value is not -inf, conditions on rows and keys too; value: what becomes of a score then.
    maximum: the tensor of the largest value of a row; safe: a maximum of -inf counts as 0 in exponents. sums: of weights;
    product: that of weighted values, with a result for each `column`; term: what a weight is multiplied by, and `values` what
    is read there. tail: these sums, and what becomes of them, in the order of the text. cells: where the elements of rows and
    results lie.
    """

    names: tuple[str, ...]
    score: pr.Statement
    row: str
    key: str
    feature: str
    queries: pr.Read
    keys: pr.Read
    conditions: tuple[pr.Expr, ...]
    hides: tuple[pr.Expr, ...]
    value: pr.Expr
    maximum: str
    safe: bool
    sums: tuple[Sum, ...]
    product: Sum
    term: pr.Expr
    values: pr.Read
    column: pr.Range
    tail: tuple[pr.Statement | Sum, ...]
    cells: Mapping[str, tuple[pr.Expr, ...]]

    def is_wide(self, x: pr.Statement | Sum) -> bool:
        """Has what a row adds up, or becomes of that, an element for each column?"""
        if isinstance(x, Sum):
            return x.target == self.product.target
        return any(self.column.index in used(e) for e in x.subscripts)

    @property
    def batch(self) -> tuple[pr.Range, ...]:
        """The indices of the scores but for those of rows and keys."""
        return tuple(r for r in self.score.ranges if r.index not in (self.row, self.key, self.feature))


def conjuncts(e: pr.Expr) -> tuple[pr.Expr, ...]:
    """The conditions that hold where all of them do."""
    return (*conjuncts(e.a), *conjuncts(e.b)) if isinstance(e, pr.Binary) and e.op == "&&" else (e,)


def uncast(e: pr.Expr) -> pr.Expr:
    """A multiple of WEIGHT that is not rounded to another type of floats."""
    match e:
        case pr.Cast():
            return uncast(e.a)
        case pr.Binary() if WEIGHT in used(e.a):
            return replace(e, a=uncast(e.a))
        case pr.Binary():
            return replace(e, b=uncast(e.b))
        case pr.Select():
            return replace(e, a=uncast(e.a), b=uncast(e.b))
        case _:
            return e


def is_guard(value: pr.Expr, maximum: pr.Read) -> bool:
    """Is a value the maximum, but 0 where that is -inf?"""
    if not isinstance(value, pr.Select) or not isinstance(value.cond, pr.Binary) or value.cond.op != "==":
        return False
    c, lowest = value.cond, pr.Const(float("-inf"), maximum.dtype)
    return {c.a, c.b} == {maximum, lowest} and isinstance(value.a, pr.Const) and value.a.value == 0 and value.b == maximum


def used(e: pr.Expr) -> set[str]:
    """The indices of an expression."""
    return {x.name for x in pr.walk(e) if isinstance(x, pr.Index)}


def without_zeros(e: pr.Expr, sums: Collection[str]) -> pr.Expr:
    """A choice of 0 where a sum of all weights is 0, as one of WEIGHT, which is 0 then, for each key: so the 0 of each key
    multiplies the key's value, which may be infinite or NaN, as the text has it."""
    if not isinstance(e, pr.Select) or not isinstance(e.cond, pr.Binary) or e.cond.op not in ("==", "!="):
        return e
    a, b = e.cond.a, e.cond.b
    of_sum, number = (b, a) if isinstance(a, pr.Const) else (a, b)
    if not is_zero(number) or not isinstance(of_sum, pr.Read) or of_sum.tensor not in sums:
        return e
    weight = pr.Index(WEIGHT, e.dtype)
    if e.cond.op == "==":
        return replace(e, a=weight) if is_zero(e.a) else e
    return replace(e, b=weight) if is_zero(e.b) else e


def is_zero(e: pr.Expr) -> bool:
    """Is an expression the number 0?"""
    return isinstance(e, pr.Const) and e.value == 0


def is_linear(e: pr.Expr, key: str, *, zeros: bool = False) -> bool:
    """Is an expression a multiple of WEIGHT, by a factor that names no key? zeros: it may be chosen to be 0, whatever WEIGHT
    is. That is no factor of sums whose terms may be infinite or NaN."""
    def of_rows(x: pr.Expr) -> bool:
        return not used(x) & {key, WEIGHT}
    match e:
        case pr.Index(name=name):
            return name == WEIGHT
        case pr.Binary(op="*"):
            return is_linear(e.a, key, zeros=zeros) and of_rows(e.b) or is_linear(e.b, key, zeros=zeros) and of_rows(e.a)
        case pr.Binary(op="/"):
            return is_linear(e.a, key, zeros=zeros) and of_rows(e.b)
        case pr.Select():
            parts = (x for x in (e.a, e.b) if not (zeros and is_zero(x)))
            return of_rows(e.cond) and all(is_linear(x, key, zeros=zeros) for x in parts)
        case pr.Cast():
            return e.dtype.is_float and is_linear(e.a, key, zeros=zeros)
        case _:
            return False
