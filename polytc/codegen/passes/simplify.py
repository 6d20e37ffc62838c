"""Integer simplification: index expressions in linear normal form, bounds and conditions decided by intervals.

    for i in 0:8 { if i < 9 { Y[i + 2*i - i] = X[(8*i + 3) // 8] } }    with X[9], Y[20]
    ->  for i in 0:8 { Y[i * 2] = X[i] }

Guarantees: every i64 expression is a sum of distinct terms in a fixed order; a min, max, comparison, floor division or modulo
that the loop bounds decide is gone; loops without iterations and decided branches are gone, and so are accesses in no lane.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from operator import is_
from typing import TypeAlias

from polytc.codegen import linear_forms, loops, traverse
from polytc.program.calls.matrix_rows import is_rows_call, total
from polytc.program.scalars import BOOL, I64, MIRRORED

Interval: TypeAlias = tuple[int | None, int | None]
"""Smallest and largest value, None where unknown."""
_ANY: Interval = (None, None)


def simplify_kernel(kernel: loops.Kernel) -> loops.Kernel:
    """The kernel with a simplified body. Of parallel loops side by side those that run once stay loops: threads share what the
    last, partial tile does as well."""
    body = kernel.body
    if not isinstance(body, loops.Block) or sum(map(traverse.is_parallel, body.stmts)) < 2:
        return replace(kernel, body=simplify(body, {}))
    parts = (_for(x, {}, dissolve=x.kind != "parallel") if isinstance(x, loops.For) else simplify(x, {}) for x in body.stmts)
    return replace(kernel, body=loops.block(*parts))


def simplify(s: loops.Stmt, known: dict[str, Interval]) -> loops.Stmt:
    """known: intervals of the loop variables in scope."""
    match s:
        case loops.For():
            return _for(s, known)
        case loops.If():
            return _if(s, known)
        case loops.Store():
            indices = tuple([expr(i, known) for i in s.indices])
            if _untouched(indices):
                return loops.Block(())
            found = value(s.value, known)
            same = found is s.value and all(map(is_, indices, s.indices))
            return s if same else loops.Store(s.buffer, indices, found, s.origin, s.atomic)
        case loops.Block():
            return loops.block(*(simplify(x, known) for x in s.stmts))
        case loops.Alloc():
            body = simplify(s.body, known)
            return s if body is s.body else loops.Alloc(s.buffer, body)
        case loops.Barrier():
            return s


def _for(s: loops.For, known: dict[str, Interval], *, dissolve: bool = True) -> loops.Stmt:
    lower, upper = expr(s.lower, known), expr(s.upper, known)
    count = interval(expr(loops.binary("-", upper, lower), known), known)
    if count[1] is not None and count[1] <= 0:
        return loops.Block(())
    once = count[0] is not None and count[1] is not None and 1 <= count[0] <= count[1] <= s.step
    if once and dissolve and s.kind in ("sequential", "parallel", "unroll", "vector", "reduce"):
        return at(s.body, s.var, int(lower.value), known) if isinstance(lower, loops.Const) else \
            simplify(traverse.substitute(s.body, {s.var: lower}), known)
    body = simplify(s.body, known | {s.var: values(s, known)})
    if body is s.body and lower is s.lower and upper is s.upper:
        return s
    return body if body == loops.Block(()) else replace(s, lower=lower, upper=upper, body=body)


def values(s: loops.For, known: dict[str, Interval]) -> Interval:
    """What the variable of a loop lies between, in its body."""
    low, high = interval(s.lower, known)[0], interval(s.upper, known)[1]
    if s.step > 1 and low is not None and high is not None and isinstance(s.lower, loops.Const):
        return low, max(low, high - 1 - (high - 1 - low) % s.step)
    return low, None if high is None else high - 1


def at(s: loops.Stmt, var: str, number: int, known: dict[str, Interval]) -> loops.Stmt:
    """A statement simplified for one value of a loop variable."""
    return simplify(s, known | {var: (number, number)})


def _if(s: loops.If, known: dict[str, Interval]) -> loops.Stmt:
    cond = expr(s.cond, known)
    if isinstance(cond, loops.Const):
        chosen = s.then if cond.value else s.orelse
        return simplify(chosen, known) if chosen is not None else loops.Block(())
    return loops.If(cond, simplify(s.then, known), simplify(s.orelse, known) if s.orelse is not None else None)


def expr(e: loops.Expr, known: dict[str, Interval]) -> loops.Expr:
    """An expression simplified bottom-up."""
    if isinstance(e, loops.Var):
        low, high = known.get(e.name, _ANY)
        return loops.const(low) if low is not None and low == high else e
    if isinstance(e, loops.Const):
        return e
    names = traverse.variables(e)
    if not known.keys().isdisjoint(names):
        if not traverse.exact(e):
            return _simplified(e, known)
        return _remembered(e, tuple([(n, known[n]) for n in sorted(names) if n in known]))
    try:
        return e._normal
    except AttributeError:
        normal = _simplified(e, {})
        object.__setattr__(e, "_normal", normal)
        object.__setattr__(normal, "_normal", normal)
        return normal


@lru_cache(maxsize=4096)
def _remembered(e: loops.Expr, known: tuple[tuple[str, Interval], ...]) -> loops.Expr:
    """An expression simplified where these are the intervals of its variables. Passes, and copies of statements, ask for it
    again: four times in five it is known. Equal results are one object, so that its hash and variables are known as well."""
    return _simplified(e, dict(known))


def _simplified(e: loops.Expr, known: dict[str, Interval]) -> loops.Expr:
    if _is_sum(e):
        return linear_forms.build(_terms(e, known))
    return _rewrite(traverse.with_operands(e, tuple([expr(o, known) for o in traverse.operands(e)])), known)


def _is_sum(e: loops.Expr) -> bool:
    return e.dtype is I64 and e.lanes == 1 and (
        isinstance(e, loops.Binary) and e.op in ("+", "-", "*") or isinstance(e, loops.Unary) and e.op == "-")


def _terms(e: loops.Expr, known: dict[str, Interval]) -> linear_forms.Terms:
    """The linear form of a scalar i64 expression whose atoms have been simplified."""
    if not _is_sum(e):
        simple = expr(e, known)
        return {simple: 1} if isinstance(simple, loops.Var) else linear_forms.linear(simple)
    if isinstance(e, loops.Unary):
        return linear_forms.scaled(_terms(e.a, known), -1)
    assert isinstance(e, loops.Binary)
    left, right = _terms(e.a, known), _terms(e.b, known)
    if e.op == "*":
        return linear_forms.product(left, right)
    return linear_forms.added(left, right, 1 if e.op == "+" else -1)


def value(e: loops.Expr, known: dict[str, Interval]) -> loops.Expr:
    """A stored value with its indices and conditions simplified; arithmetic on data, integers too, keeps its form, so that an
    update stays recognisable as one."""
    if isinstance(e, loops.Load):
        indices = tuple([expr(i, known) for i in e.indices])
        return _nothing(e) if _untouched(indices) else _loaded_once(replace(e, indices=indices) if indices != e.indices else e)
    if not traverse.loads(e):
        return expr(e, known)
    if isinstance(e, loops.Call) and is_rows_call(e.fn) and (row := number_in_lanes(expr(e.args[0], known))) is not None:
        return value(row_of(e, row), known)
    result = traverse.with_operands(e, tuple([value(o, known) for o in traverse.operands(e)]))
    decided = _decided(result.cond) if isinstance(result, loops.Select) else None
    return result if decided is None or not isinstance(result, loops.Select) else result.a if decided else result.b


def row_of(e: loops.Call, row: int) -> loops.Expr:
    """The sum for one row of a matrix (program.calls.matrix_rows)."""
    def times(c: float, term: loops.Expr) -> loops.Expr:
        return loops.Binary("*", loops.Const(c, e.dtype, e.lanes), term, e.dtype, e.lanes)
    return total(e.fn, row, e.args[1:], lambda op, a, b: loops.Binary(op, a, b, e.dtype, e.lanes), times)


def number_in_lanes(e: loops.Expr) -> int | None:
    """The number that an index is in all lanes, if it is known."""
    e = e.a if isinstance(e, loops.Broadcast) else e
    return int(e.value) if isinstance(e, loops.Const) else None


def _untouched(indices: tuple[loops.Expr, ...]) -> bool:
    """Is it known that no lane of an access counts?"""
    active = traverse.active_lanes(indices)
    return active is not None and not isinstance(active, int) and _decided(active) is False


def _nothing(e: loops.Load) -> loops.Expr:
    """What an access in no lane loads: it may be anything."""
    return loops.Const(0.0 if e.dtype.is_float else e.dtype is not BOOL and 0, e.dtype, e.lanes)


def _decided(cond: loops.Expr) -> bool | None:
    """The value that a condition has in all lanes, if it is known."""
    cond = traverse.repeated(cond)
    return bool(cond.value) if isinstance(cond, loops.Const) else None


def _rewrite(e: loops.Expr, known: dict[str, Interval]) -> loops.Expr:
    """A node that is no sum, with simplified operands."""
    match e:
        case loops.Ramp(active=loops.Const() as all_or_none) if all_or_none.value:
            return replace(e, active=None)
        case loops.Load():
            return _loaded_once(e)
        case loops.Ramp() | loops.Broadcast():
            return e
        case loops.Binary(op="//" | "%", lanes=1) if e.dtype is I64:
            return _division(e, known)
        case loops.Binary(op="//" | "%") if e.dtype is I64:
            return _lanes_divided(e, known)
        case loops.Call(fn="min" | "max", lanes=1) if e.dtype is I64:
            return _extremum(e, known)
        case loops.Call() if is_rows_call(e.fn) and (row := number_in_lanes(e.args[0])) is not None:
            return row_of(e, row)
        case loops.Binary(lanes=1) if e.a.dtype is I64 and e.op in ("==", "!=", "<", "<=", ">", ">="):
            return _comparison(e, known)
        case loops.Binary() if e.a.dtype is I64 and e.op in ("<", ">="):
            return _lanes_compared(e, known)
        case loops.Binary(op="&&" | "||"):
            return _logic(e)
        case loops.Unary(op="!", a=loops.Const() as a):
            return loops.Const(not a.value, BOOL, e.lanes)
        case loops.Select(cond=loops.Const() as c) if e.lanes == 1:
            return e.a if c.value else e.b
        case loops.Cast(a=loops.Const() as a) if e.dtype is I64 and isinstance(a.value, int):
            return loops.Const(int(a.value), I64, e.lanes)
        case _:
            return e


def interval(e: loops.Expr, known: dict[str, Interval]) -> Interval:
    """Bounds of an index expression. Sums are added up first, so that `i - i` is 0, and what would wrap has none. What types
    say of other values, codegen.intervals tells."""
    match e:
        case loops.Const():
            return (int(e.value), int(e.value))
        case loops.Var():
            return known.get(e.name, (e.least, e.most))
        case loops.Call(fn="min" | "max"):
            return _extremum_interval(e.fn, [interval(a, known) for a in e.args])
        case loops.Select():
            both = [interval(e.a, known), interval(e.b, known)]
            return _extremum_interval("min", both)[0], _extremum_interval("max", both)[1]
        case loops.Binary(op="+" | "-" | "*") | loops.Unary(op="-") if e.dtype == I64:
            return _sum_interval(linear_forms.linear(e), known)
        case loops.Binary(op="//", b=loops.Const() as b) if b.value > 0:
            low, high = interval(e.a, known)
            return (None if low is None else low // int(b.value), None if high is None else high // int(b.value))
        case loops.Binary(op="%", b=loops.Const() as b) if b.value > 0:
            return (0, int(b.value) - 1)
        case _:
            return _ANY


def _sum_interval(terms: linear_forms.Terms, known: dict[str, Interval]) -> Interval:
    low: int | None = 0
    high: int | None = 0
    if not linear_forms.small(terms):
        return _ANY
    for atom, c in terms.items():
        product = isinstance(atom, loops.Binary) and atom.op in ("+", "-", "*")
        a, b = (1, 1) if atom == linear_forms.ONE else _ANY if product else interval(atom, known)
        ends = (a, b) if c > 0 else (b, a)
        low = None if low is None or ends[0] is None else low + c * ends[0]
        high = None if high is None or ends[1] is None else high + c * ends[1]
    return low, high


def _extremum_interval(fn: str, parts: list[Interval]) -> Interval:
    lows, highs = [p[0] for p in parts], [p[1] for p in parts]
    if fn == "min":
        return (None if None in lows else min(x for x in lows if x is not None),
                min((x for x in highs if x is not None), default=None))
    return (max((x for x in lows if x is not None), default=None),
            None if None in highs else max(x for x in highs if x is not None))


def _difference(a: loops.Expr, b: loops.Expr, known: dict[str, Interval]) -> Interval:
    return _sum_interval(linear_forms.linear(loops.Binary("-", a, b, I64)), known)


def _division(e: loops.Binary, known: dict[str, Interval]) -> loops.Expr:
    if not isinstance(e.b, loops.Const) or e.b.value <= 0:
        return e
    divisor = int(e.b.value)
    terms = linear_forms.linear(e.a)
    if not linear_forms.small(terms):
        return e
    whole = {a: c // divisor for a, c in terms.items() if c % divisor == 0}
    rest = {a: c for a, c in terms.items() if c % divisor}
    low, high = _sum_interval(rest, known)
    if low is not None and high is not None and low // divisor == high // divisor:
        quotient = low // divisor
        if e.op == "//":
            return linear_forms.build(linear_forms.plus(whole, quotient))
        return linear_forms.build(linear_forms.plus(rest, -quotient * divisor))
    if whole and rest:
        inner = loops.Binary(e.op, linear_forms.build(rest), e.b, I64)
        return inner if e.op == "%" else linear_forms.build(linear_forms.added(whole, {inner: 1}, 1))
    shared = _shared(terms, divisor)
    if e.op == "//" and shared > 1:  # (16*x + 3) // 32 is x // 2
        return loops.Binary("//", linear_forms.build({a: c // shared for a, c in terms.items() if c // shared}),
                            loops.const(divisor // shared), I64)
    return e


def _shared(terms: linear_forms.Terms, divisor: int) -> int:
    """What divides the divisor and all terms but the constant."""
    return math.gcd(divisor, *(c for a, c in terms.items() if a != linear_forms.ONE))


def _lanes_divided(e: loops.Binary, known: dict[str, Interval]) -> loops.Expr:
    """The quotient of a ramp that is the same in all lanes, as they lie between two multiples of what divides both the divisor
    and where they may begin. The remainder is a ramp then."""
    ramp, number = e.a, traverse.repeated(e.b)
    if not isinstance(ramp, loops.Ramp) or ramp.active is not None or not isinstance(number, loops.Const) or number.value <= 0:
        return e
    terms = linear_forms.linear(ramp.base)
    if not linear_forms.small(terms):
        return e
    shared = _shared(terms, int(number.value))
    if not 0 <= terms.get(linear_forms.ONE, 0) % shared + ramp.stride * (ramp.lanes - 1) < shared:
        return e
    first = _division(loops.Binary(e.op, ramp.base, loops.const(int(number.value)), I64), known)
    return loops.Broadcast(first, e.lanes, I64) if e.op == "//" else replace(ramp, base=first)


def _loaded_once(e: loops.Load) -> loops.Expr:
    """A load of one element for all lanes is a load of it alone."""
    if e.lanes == 1 or any(i.lanes > 1 and not isinstance(i, loops.Broadcast) for i in e.indices):
        return e
    indices = tuple(i.a if isinstance(i, loops.Broadcast) else i for i in e.indices)
    return loops.Broadcast(loops.Load(e.buffer, indices, e.dtype), e.lanes, e.dtype)


def _extremum(e: loops.Call, known: dict[str, Interval]) -> loops.Expr:
    a, b = e.args
    low, high = _difference(a, b, known)
    first_smaller = high is not None and high <= 0
    first_larger = low is not None and low >= 0
    if first_smaller or first_larger:
        return a if first_smaller == (e.fn == "min") else b
    return e


def _comparison(e: loops.Binary, known: dict[str, Interval]) -> loops.Expr:
    if isinstance(e.b, loops.Select) and e.lanes == 1:
        a, b = (_comparison(replace(e, b=x), known) for x in (e.b.a, e.b.b))
        if isinstance(a, loops.Const) and isinstance(b, loops.Const):
            return a if a.value == b.value else e.b.cond if a.value else loops.Unary("!", e.b.cond, BOOL)
    low, high = _difference(e.a, e.b, known)
    below = high is not None and high < 0
    above = low is not None and low > 0
    equal = low == high == 0
    at_most, at_least = high is not None and high <= 0, low is not None and low >= 0
    true = {"<": below, "<=": at_most, ">": above, ">=": at_least, "==": equal, "!=": below or above}[e.op]
    false = {"<": at_least, "<=": above, ">": at_most, ">=": below, "==": below or above, "!=": equal}[e.op]
    return loops.Const(True, BOOL) if true else loops.Const(False, BOOL) if false else _pruned(e, known)


def _pruned(e: loops.Binary, known: dict[str, Interval]) -> loops.Expr:
    """A comparison with a minimum or maximum without the part that decides nothing: `x >= max(0, y)` is `x >= y` for x >= 0."""
    for op, one, other in ((e.op, e.a, e.b), (MIRRORED.get(e.op, ""), e.b, e.a)):
        terms = linear_forms.linear(other)
        for x in terms if op in MIRRORED else ():
            if not isinstance(x, loops.Call) or x.fn not in ("min", "max") or terms[x] != 1:
                continue
            rest = {t: c for t, c in terms.items() if t != x}
            sums = (linear_forms.added(rest, linear_forms.linear(a), 1) for a in x.args)
            parts = [loops.Binary(op, one, linear_forms.build(terms), BOOL) for terms in sums]
            idle = (op in ("<", "<=")) == (x.fn == "min")  # what is idle is true where both must be, else false
            for part, left in zip(parts, reversed(parts)):
                if _comparison(part, known) == loops.Const(idle, BOOL):
                    return _comparison(left, known)
    return e


def _lanes_compared(e: loops.Binary, known: dict[str, Interval]) -> loops.Expr:
    """A comparison of a ramp with a number that all lanes decide alike."""
    if not isinstance(e.a, loops.Ramp) or not isinstance(e.b, loops.Broadcast | loops.Const):
        return e
    number = e.b.a if isinstance(e.b, loops.Broadcast) else loops.const(int(e.b.value))
    low, high = _difference(e.a.base, number, known)
    last = e.a.stride * (e.a.lanes - 1)
    above = low is not None and low + min(0, last) >= 0
    below = high is not None and high + max(0, last) < 0
    return loops.Const(above == (e.op == ">="), BOOL, e.lanes) if above or below else e


def _logic(e: loops.Binary) -> loops.Expr:
    for a, b in ((e.a, e.b), (e.b, e.a)):
        if isinstance(a, loops.Const) and a.lanes == b.lanes:
            neutral = a.value == (e.op == "&&")
            return b if neutral else a
    return e
