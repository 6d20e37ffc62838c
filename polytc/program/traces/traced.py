"""Traced: an integer that follows from sizes, and a Trace of what was decided by such integers.

What is computed from sizes by `+ - * // %` is a formula again. A comparison is answered as it is at the sizes of the trace, and
is noted as a guard: for other sizes that meet all guards of a trace, whatever was computed under it would be the same, with its
formulas at these sizes.

    with n of 16:   n*64 > 512   ->   True, and the guard   64*n - 512 > 0

Note: why nothing escapes. A Traced is an `int` for `isinstance` and none for the interpreter, so that whoever needs the number
itself (an index, a range, an array) has to ask for it, and pins it: the guard is then that it stays the number that it is. In a
text a word stands for it, which is no number. As a key it meets others of its number, whose equality is noted, and no plain
number; that two keys are different is not noted: tables by extents are memories of what was computed, for which that does not
matter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from polytc.program.traces.formulas import (
    Guard,
    Quotient,
    Terms,
    add,
    constant,
    divide,
    holds,
    multiply,
    remainder,
)

WORD = "traced"
"""Words for formulas are this and a number."""


@dataclass
class Trace:
    """sizes: their values while tracing; least: the smallest value that each may have, None where it may be any integer.
    guards: what was decided so far; pinned: the formulas whose numbers somebody asked for; words: what stands for formulas in
    texts; closed: is it over? Nothing can be decided any more then."""

    sizes: Mapping[str, int]
    least: Mapping[str, int | None] = field(default_factory=dict)
    guards: dict[Guard, None] = field(default_factory=dict)
    pinned: dict[Terms, None] = field(default_factory=dict)
    words: dict[Terms, str] = field(default_factory=dict)
    closed: bool = False

    def __post_init__(self) -> None:
        self._answers: dict[Guard, tuple[bool, Guard | None]] = {}
        self._numbers: dict[Quotient, tuple[int, int | None]] = {}

    def size(self, name: str) -> Any:
        """The size as a traced integer."""
        return Traced(self, (((name,), 1),))

    def decide(self, terms: Terms, question: str) -> bool:
        """Is `terms question 0` so, at the sizes of the trace? Noted unless it is so for all sizes."""
        assert not self.closed, f"a size was looked at after its trace: {terms} {question} 0"
        known = self._answers.get((terms, question))
        answer, guard = self._answers.setdefault((terms, question), self._answer(terms, question)) if known is None else known
        if guard is not None:
            self.guards[guard] = None
        return answer

    def _answer(self, terms: Terms, question: str) -> tuple[bool, Guard | None]:
        """What is so at the sizes of the trace, and what it depends on; None where it is so for all sizes."""
        value = self.value(terms)
        answer = {"==": value == 0, ">": value > 0}[question]
        low, high = self._bounds(terms)
        always = {"==": low == high == 0, ">": low is not None and low > 0}[question]
        never = high is not None and high < (question == ">") or question == "==" and low is not None and low > 0
        return answer, None if always or never else (terms, question if answer else {"==": "!=", ">": "<="}[question])

    def value(self, terms: Terms) -> int:
        """The number that a formula is at the sizes of the trace."""
        return sum(c * math.prod(self.sizes[a] if isinstance(a, str) else self._quotient(a)[0] for a in p) for p, c in terms)

    def pin(self, terms: Terms) -> int:
        """The number that a formula is, and stays."""
        value = self.value(terms)
        if self.decide(add(terms, constant(-value)), "=="):
            self.pinned[terms] = None
        return value

    def met(self, sizes: Mapping[str, int]) -> bool:
        """Do these sizes meet the guards so far?"""
        return self.admits(sizes) and all(holds(guard, sizes) for guard in self.guards)

    @property
    def conditions(self) -> tuple[Guard, ...]:
        """What sizes must meet: to be as large as they may be at least, and the guards so far."""
        least = [(add((((n,), 1),), constant(1 - low)), ">") for n, low in self.least.items() if low is not None]
        return *least, *self.guards

    def admits(self, sizes: Mapping[str, int]) -> bool:
        """May sizes be as small as these?"""
        return all(sizes[n] >= least for n, least in self.least.items() if least is not None)

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
            factors = [self.least.get(a) if isinstance(a, str) else self._quotient(a)[1] for a in product]
            least = math.prod(n for n in factors if n is not None) if all(n is not None and n >= 0 for n in factors) else None
            low = None if low is None or least is None or c < 0 and product else low + c * least
            high = None if high is None or least is None or c > 0 and product else high + c * least
        return low, high

    def _quotient(self, q: Quotient) -> tuple[int, int | None]:
        """The number that a quotient is at the sizes of the trace, and the smallest that it may be; None: it is not known."""
        if q not in self._numbers:
            (low, _), (divisor, _) = self._bounds(q.a), self._bounds(q.b)
            least = None if low is None or divisor is None or low < 0 or divisor <= 0 else \
                low // divisor if q.b == constant(divisor) else 0
            self._numbers[q] = self.value(q.a) // self.value(q.b), least
        return self._numbers[q]


class Traced:
    """terms: its formula; trace: where decisions about it are noted."""

    __slots__ = ("terms", "trace")
    __array_ufunc__ = None  # arrays leave arithmetic and comparisons to it

    def __init__(self, trace: Trace, terms: Terms) -> None:
        self.trace, self.terms = trace, terms

    __class__ = property(lambda self: int)

    # ---- arithmetic

    def _with(self, other: Any, combine: Callable[[Terms, Terms], Terms]) -> Any:
        theirs = terms_of(other, self.trace)
        return NotImplemented if theirs is None else made(self.trace, combine(self.terms, theirs))

    def __add__(self, other: Any) -> Any:
        return self._with(other, add)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: add(a, b, -1))

    def __rsub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: add(b, a, -1))

    def __mul__(self, other: Any) -> Any:
        return self._with(other, multiply)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        return self._with(_divisor(other), divide)

    def __rfloordiv__(self, other: Any) -> Any:
        return _divisor(self)._with(other, lambda a, b: divide(b, a))

    def __mod__(self, other: Any) -> Any:
        return self._with(_divisor(other), remainder)

    def __rmod__(self, other: Any) -> Any:
        return _divisor(self)._with(other, lambda a, b: remainder(b, a))

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __neg__(self) -> Any:
        return made(self.trace, add((), self.terms, -1))

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
        return hash((WORD, self.trace.value(self.terms)))  # no plain number's: memories of programs keep them apart

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


def _divisor(n: Any) -> Any:
    """A number that is not 0, which is noted. Raises ZeroDivisionError."""
    if not n:
        raise ZeroDivisionError("division of a size by zero")
    return n


def whole(n: Any) -> Any:
    """An integer of any kind as Python's, a traced one as it is."""
    return n if type(n) is Traced else int(n)


def same_extents(a: Sequence[int], b: Sequence[int]) -> bool:
    """Are these the same numbers? Plain ones are looked at first, so that nothing is noted where they tell."""
    pairs = list(zip(a, b))
    plain = [(x, y) for x, y in pairs if not traced(x) and not traced(y)]
    return len(a) == len(b) and all(x == y for x, y in plain) and all(x == y for x, y in pairs)


def formula_text(n: Any) -> str:
    """The formula of a traced integer as a text, which pins nothing: equal formulas have equal texts."""
    return repr(n.terms) if type(n) is Traced else repr(n)


def traced(n: object) -> bool:
    """Does a number follow from traced sizes?"""
    return type(n) is Traced


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
    found: int = named_numbers(word)[word]
    return found


# ---- numbers and formulas

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
        return constant(int(n))
    return constant(int(n)) if isinstance(n, np.integer) else None
