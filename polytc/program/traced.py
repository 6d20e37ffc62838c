"""Traced: an integer that follows from sizes, and a Trace of what was decided by such integers.

What is computed from sizes by `+ - * // %` is a formula again. A comparison is answered as it is at the sizes of the trace, and
is noted as a guard: for other sizes that meet all guards of a trace, whatever was computed under it would be the same, with its
formulas at these sizes.

    with n of 16:   n*64 > 512   ->   True, and the guard   64*n - 512 > 0

Note: why nothing escapes. A Traced is an `int` for `isinstance` and none for the interpreter, so that whoever needs the number
itself (an index, a range, an array) has to ask for it, and pins it: the guard is then that it stays the number that it is. In a
text a word stands for it, which is no number. As a key it is hashed as its number, and equality is noted; that two keys of different numbers stay different is not noted.
Tables by extents are memories of what was computed, for which that does not matter.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, NoReturn, TypeAlias

import numpy as np

Atom: TypeAlias = "str | tuple[str, Terms, Terms]"
"""A size, or ('//', a, b): the quotient of two formulas, rounded down."""
Monomial: TypeAlias = "tuple[Atom, ...]"
Terms: TypeAlias = "tuple[tuple[Monomial, int], ...]"
"""A sum of `coefficient * product of atoms`, no product twice and no coefficient 0, in a fixed order."""

WORD = "traced"
"""Words for formulas are this and a number."""

Guard: TypeAlias = "tuple[Terms, str]"
"""A formula and what it is compared with 0: '==', '!=', '>' or '<='."""


@dataclass
class Trace:
    """sizes: their values while tracing; least: the smallest value that each may have, None where it may be any integer. guards:
    what was decided so far; pinned: the formulas whose numbers somebody asked for; words: what stands for formulas in texts;
    closed: is it over? Nothing can be decided any more then."""

    sizes: Mapping[str, int]
    least: Mapping[str, int | None] = field(default_factory=dict)
    guards: dict[Guard, None] = field(default_factory=dict)
    pinned: dict[Terms, None] = field(default_factory=dict)
    words: dict[Terms, str] = field(default_factory=dict)
    closed: bool = False

    def size(self, name: str) -> Any:
        """The size as a traced integer."""
        return Traced(self, (((name,), 1),))

    def decide(self, terms: Terms, question: str) -> bool:
        """Is `terms question 0` so, at the sizes of the trace? Noted unless it is so for all sizes."""
        assert not self.closed, f"a size was looked at after its trace: {terms} {question} 0"
        value = evaluated(terms, self.sizes)
        answer = {"==": value == 0, ">": value > 0}[question]
        low, high = self._bounds(terms)
        always = {"==": low == high == 0, ">": low is not None and low > 0}[question]
        never = {"==": low is not None and low > 0 or high is not None and high < 0, ">": high is not None and high <= 0}[question]
        if not always and not never:
            self.guards[terms, question if answer else {"==": "!=", ">": "<="}[question]] = None
        return answer

    def pin(self, terms: Terms) -> int:
        """The number that a formula is, and stays."""
        value = evaluated(terms, self.sizes)
        if self.decide(_sum(terms, _constant(-value)), "=="):
            self.pinned[terms] = None
        return value

    def met(self, sizes: Mapping[str, int]) -> bool:
        """Do these sizes meet the guards so far?"""
        return all(holds(guard, sizes) for guard in self.guards) and all(
            sizes[n] >= least for n, least in self.least.items() if least is not None)

    def word(self, terms: Terms) -> str:
        """What stands for a formula in a text of the language, see `numbers_in`."""
        return self.words.setdefault(terms, f"{WORD}{len(self.words)}")

    def numbers_in(self, text: str) -> dict[str, Any]:
        """The formulas that a text names."""
        by_word = {word: terms for terms, word in self.words.items()}
        return {w: made(self, by_word[w]) for w in dict.fromkeys(re.findall(rf"\b{WORD}\d+\b", text))}

    @contextmanager
    def tentative(self) -> Iterator[Callable[[], None]]:
        """What is decided meanwhile is noted only if the function that this gives is called."""
        before, kept = (dict(self.guards), dict(self.pinned)), []
        yield lambda: kept.append(True)
        if not kept:
            self.guards, self.pinned = before

    def _bounds(self, terms: Terms) -> tuple[int | None, int | None]:
        """The smallest and the largest value; None where there is none or it is not known."""
        low: int | None = 0
        high: int | None = 0
        for product, c in terms:
            least = math.prod(n if n is not None and n >= 0 else -1 for n in map(self._least, product)) if all(
                (n := self._least(a)) is not None and n >= 0 for a in product) else None
            low = None if low is None or least is None or c < 0 and product else low + c * least
            high = None if high is None or least is None or c > 0 and product else high + c * least
        return low, high

    def _least(self, atom: Atom) -> int | None:
        if isinstance(atom, str):
            return self.least.get(atom)
        (low, _), (divisor, _) = self._bounds(atom[1]), self._bounds(atom[2])
        if low is None or divisor is None or low < 0 or divisor <= 0:
            return None
        return low // divisor if atom[2] == _constant(divisor) else 0


class Traced:
    """terms: its formula; trace: where decisions about it are noted."""

    __slots__ = ("terms", "trace")
    __array_ufunc__ = None  # arrays leave arithmetic and comparisons to it

    def __init__(self, trace: Trace, terms: Terms) -> None:
        self.trace, self.terms = trace, terms

    @property
    def __class__(self) -> type:  # type: ignore[override]
        return int

    # ---- arithmetic

    def _with(self, other: Any, combine: Callable[[Terms, Terms], Terms]) -> Any:
        theirs = terms_of(other, self.trace)
        return NotImplemented if theirs is None else made(self.trace, combine(self.terms, theirs))

    def __add__(self, other: Any) -> Any:
        return self._with(other, _sum)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: _sum(a, b, -1))

    def __rsub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: _sum(b, a, -1))

    def __mul__(self, other: Any) -> Any:
        return self._with(other, _product)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        return self._with(other, _quotient)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: _quotient(b, a))

    def __mod__(self, other: Any) -> Any:
        return self._with(other, _remainder)

    def __rmod__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: _remainder(b, a))

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __neg__(self) -> Any:
        return made(self.trace, _sum((), self.terms, -1))

    def __pos__(self) -> Traced:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    # ---- questions

    def _asked(self, difference: Any, question: str) -> Any:
        if difference is NotImplemented:
            return difference
        if type(difference) is Traced:
            return self.trace.decide(difference.terms, question)
        return {"==": difference == 0, ">": difference > 0}[question]

    def __eq__(self, other: object) -> Any:
        return self._asked(self.__sub__(other), "==")

    def __ne__(self, other: object) -> Any:
        same = self == other
        return same if same is NotImplemented else not same

    def __lt__(self, other: Any) -> Any:
        return self._asked(self.__rsub__(other), ">")

    def __gt__(self, other: Any) -> Any:
        return self._asked(self.__sub__(other), ">")

    def __le__(self, other: Any) -> Any:
        more = self > other
        return more if more is NotImplemented else not more

    def __ge__(self, other: Any) -> Any:
        less = self < other
        return less if less is NotImplemented else not less

    def __bool__(self) -> bool:
        return not self.trace.decide(self.terms, "==")

    def __hash__(self) -> int:
        return hash((WORD, evaluated(self.terms, self.trace.sizes)))  # no plain number's: memories of programs keep them apart

    # ---- the number itself

    def __int__(self) -> int:
        return self.trace.pin(self.terms)

    __index__ = __trunc__ = __int__

    def __float__(self) -> float:
        return float(self.trace.pin(self.terms))

    def __str__(self) -> str:
        return self.trace.word(self.terms)

    def __repr__(self) -> str:
        return self.trace.word(self.terms)

    def __format__(self, spec: str) -> str:
        return format(self.trace.pin(self.terms), spec) if spec else self.trace.word(self.terms)

    def _number(name: str) -> Callable[..., Any]:  # type: ignore[misc]
        def method(self: Traced, *others: Any) -> Any:
            return getattr(int(self), name)(*(int(o) if type(o) is Traced else o for o in others))
        return method

    for _name in ("pow", "rpow", "and", "rand", "or", "ror", "xor", "rxor", "lshift", "rlshift", "rshift",
                  "rrshift", "invert", "round", "floor", "ceil"):
        locals()[f"__{_name}__"] = _number(f"__{_name}__")
    del _name
    for _name in ("bit_length", "is_integer", "bit_count", "as_integer_ratio", "conjugate"):
        locals()[_name] = _number(_name)
    del _name

    def __reduce__(self) -> NoReturn:
        raise TypeError("a traced integer stays in its process")


def whole(n: Any) -> int:
    """An integer of any kind as Python's, a traced one as it is."""
    return n if type(n) is Traced else int(n)


def formula_text(n: int) -> str:
    """The formula of a traced integer as a text, which pins nothing: equal formulas have equal texts."""
    return repr(n.terms) if type(n) is Traced else repr(n)


def traced(n: object) -> bool:
    """Does a number follow from traced sizes?"""
    return type(n) is Traced


def any_traced(thing: Any) -> bool:
    """Is there a traced integer in a value made of tuples and dataclasses?"""
    return bool(sizes_in(thing))


# ---- the trace of now

_CURRENT: ContextVar[Trace | None] = ContextVar("trace", default=None)


@contextmanager
def tracing(trace: Trace) -> Iterator[Trace]:
    """What is computed meanwhile may name formulas of the trace in texts."""
    token = _CURRENT.set(trace)
    try:
        yield trace
    finally:
        _CURRENT.reset(token)


def named_numbers(text: str) -> dict[str, Any]:
    """What the words for formulas in a text stand for, while something is traced."""
    trace = _CURRENT.get()
    return trace.numbers_in(text) if trace is not None else {}


def is_tracing() -> bool:
    """Is something traced?"""
    return _CURRENT.get() is not None


def number_of_word(word: str) -> int:
    """The number of the formula that a word stands for."""
    return int(word.removeprefix(WORD))


def by_number(number: int) -> int:
    """The formula that the word of this number stands for, while something is traced. Raises LookupError."""
    word = f"{WORD}{number}"
    return named_numbers(word)[word]  # type: ignore[no-any-return]


# ---- formulas

def made(trace: Trace, terms: Terms) -> Any:
    """The integer that a formula is: a plain one where it is constant."""
    if not terms:
        return 0
    return terms[0][1] if len(terms) == 1 and not terms[0][0] else Traced(trace, terms)


def terms_of(n: object, trace: Trace) -> Terms | None:
    """The formula of a number; None for what is none, or belongs to another trace."""
    if type(n) is Traced:
        return n.terms if n.trace is trace else None
    if isinstance(n, bool | int):
        return _constant(int(n))
    return _constant(int(n)) if isinstance(n, np.integer) else None


def _constant(n: int) -> Terms:
    return (((), n),) if n else ()


def _ordered(total: Mapping[Monomial, int]) -> Terms:
    return tuple(sorted(((p, c) for p, c in total.items() if c), key=lambda t: (len(t[0]), repr(t[0]))))


def _sum(a: Terms, b: Terms, factor: int = 1) -> Terms:
    total = dict(a)
    for product, c in b:
        total[product] = total.get(product, 0) + factor * c
    return _ordered(total)


def _product(a: Terms, b: Terms) -> Terms:
    total: dict[Monomial, int] = {}
    for p, c in a:
        for q, d in b:
            both = tuple(sorted((*p, *q), key=repr))
            total[both] = total.get(both, 0) + c * d
    return _ordered(total)


def _quotient(a: Terms, b: Terms) -> Terms:
    """a // b: whole multiples of a divisor of one term are taken out. (2*n*m + n + 4) // n = 2*m + 1 + 4 // n."""
    if not b:
        raise ZeroDivisionError("division of a size by zero")
    outside: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for product, c in a:
        left = _without(product, b[0][0]) if len(b) == 1 and c % b[0][1] == 0 else None
        if left is None:
            rest[product] = c
        else:
            outside[left] = outside.get(left, 0) + c // b[0][1]
    constant = rest.get((), 0)
    if len(b) == 1 and not b[0][0] and constant:  # (n + 7) // 4 = (n + 3) // 4 + 1
        outside[()] = outside.get((), 0) + constant // b[0][1]
        rest[()] = constant % b[0][1]
    inner = _ordered(rest)
    if not inner:
        return _ordered(outside)
    if all(not p for p, _ in (*inner, *b)):
        return _sum(_ordered(outside), _constant(inner[0][1] // b[0][1]))
    atom: Atom = ("//", inner, b)
    return _sum(_ordered(outside), (((atom,), 1),))


def _remainder(a: Terms, b: Terms) -> Terms:
    return _sum(a, _product(_quotient(a, b), b), -1)


def _without(product: Monomial, factor: Monomial) -> Monomial | None:
    """A product without some of its atoms; None if it has them not all."""
    left = list(product)
    for atom in factor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def evaluated(terms: Terms, sizes: Mapping[str, int]) -> int:
    """The number that a formula is for given sizes."""
    return sum(c * math.prod(_atom(a, sizes) for a in product) for product, c in terms)


def sizes_in(thing: Any) -> set[str]:
    """The sizes that occur in a value made of tuples and dataclasses."""
    if type(thing) is Traced:
        return size_names([thing.terms])
    if isinstance(thing, tuple):
        return set().union(*map(sizes_in, thing))
    if is_dataclass(thing) and not isinstance(thing, type):
        return set().union(*(sizes_in(getattr(thing, f.name)) for f in fields(thing)))
    return set()


def size_names(formulas: Iterable[Terms]) -> set[str]:
    """The sizes in some formulas."""
    return {n for terms in formulas for product, _ in terms for atom in product
            for n in ([atom] if isinstance(atom, str) else size_names(atom[1:]))}


def holds(guard: Guard, sizes: Mapping[str, int]) -> bool:
    """Do these sizes meet a guard?"""
    terms, question = guard
    try:
        value = evaluated(terms, sizes)
    except ZeroDivisionError:
        return False
    return {"==": value == 0, "!=": value != 0, ">": value > 0, "<=": value <= 0}[question]


def _atom(atom: Atom, sizes: Mapping[str, int]) -> int:
    return sizes[atom] if isinstance(atom, str) else evaluated(atom[1], sizes) // evaluated(atom[2], sizes)


# ---- values made of traced integers

def at(thing: Any, sizes: Mapping[str, int]) -> Any:
    """A value made of tuples and dataclasses for given sizes."""
    if type(thing) is Traced:
        return evaluated(thing.terms, sizes)
    if isinstance(thing, tuple):
        items = tuple(at(x, sizes) for x in thing)
        return items if any(a is not b for a, b in zip(items, thing, strict=True)) else thing
    if is_dataclass(thing) and not isinstance(thing, type):
        old = {f.name: getattr(thing, f.name) for f in fields(thing)}
        new = {n: at(x, sizes) for n, x in old.items()}
        return type(thing)(**new) if any(new[n] is not old[n] for n in old) else thing
    return thing


class Formulas:
    """Formulas as a function of sizes, compiled once. names: of the sizes that they follow from."""

    def __init__(self, names: Iterable[str], formulas: Iterable[int]) -> None:
        self.names = tuple(names)
        place = _places(self.names)
        values = [_source(n.terms, place) if type(n) is Traced else str(int(n)) for n in formulas]
        self._values = _function(", ".join(place.values()), f"({''.join(f'{v}, ' for v in values)})")

    def values(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The formulas for these sizes."""
        found: tuple[int, ...] = self._values(*(sizes[n] for n in self.names))
        return found


class Guards:
    """The guards of a trace as a function of sizes, compiled once."""

    def __init__(self, trace: Trace) -> None:
        self.names = tuple(trace.sizes)
        place = _places(self.names)
        tests = [f"{place[n]} >= {low}" for n, low in trace.least.items() if low is not None]
        tests += [f"{_source(terms, place)} {question} 0" for terms, question in trace.guards]
        self._met = _function(", ".join(place.values()), " and ".join(tests) or "True")

    def met(self, sizes: Mapping[str, int]) -> bool:
        """Do these sizes meet all of them?"""
        try:
            return bool(self._met(*(sizes[n] for n in self.names)))
        except ZeroDivisionError:
            return False


def _places(names: Iterable[str]) -> dict[str, str]:
    return {n: f"s{k}" for k, n in enumerate(names)}


@functools.lru_cache(maxsize=256)
def _function(arguments: str, body: str) -> Callable[..., Any]:
    found: Callable[..., Any] = eval(f"lambda {arguments}: {body}")
    return found


def _source(terms: Terms, place: Mapping[str, str]) -> str:
    """A formula in Python's notation."""
    def atom(a: Atom) -> str:
        return place[a] if isinstance(a, str) else f"({_source(a[1], place)} // {_source(a[2], place)})"
    return f"({' + '.join('*'.join([str(c), *map(atom, product)]) for product, c in terms) or '0'})"
