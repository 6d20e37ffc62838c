"""Size: an extent that is a formula of named sizes, such as `(H + 1)//2`, where a number stands for it.

A Size is an int, namely the formula's value at representative sizes, for which code is made to be fast, but it prints as its
formula, and what is computed from it by `+ - *const //const %const` is a formula again. All sizes are at least 1. A comparison
is answered if the answer is the same for all of them, and raises Undecided else, so that no decision about what is right is
taken by the representative by accident; one about what is fast says `representative(n)`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, NoReturn, TypeAlias

from polytc.program import affine
from polytc.program.affine import Affine, Atom, QuasiAffine, Quotient, Remainder, add


class Undecided(Exception):
    """A question about sizes whose answer depends on them."""


def may_be_less(a: int, b: int) -> bool:
    """Is a < b, or may it be so for some sizes?"""
    try:
        return a < b
    except Undecided:
        return True


def surely(question: Callable[[], bool]) -> bool:
    """Is the answer yes for all sizes? One that depends on them is no."""
    try:
        return question()
    except Undecided:
        return False


class Size(int):
    """form: over names of sizes, not a constant, its terms in a fixed order; the int: its value at the representative sizes."""

    form: QuasiAffine

    @classmethod
    def of(cls, value: int, form: QuasiAffine) -> int:
        """A Size, or a plain number where the form is one."""
        terms = tuple(sorted(((t, c) for t, c in form.terms if c), key=lambda term: (_depth(term[0]), _atom(term[0]))))
        if not terms:
            return form.constant
        made = cls(value)
        made.form = Affine(form.constant, terms)
        return made

    @classmethod
    def named(cls, name: str, value: int) -> int:
        """One of the sizes themselves."""
        return cls.of(value, Affine(0, ((name, 1),)))

    def __str__(self) -> str:
        return text(self.form)

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __reduce__(self) -> tuple[Callable[..., int], tuple[int, QuasiAffine]]:
        return Size.of, (int(self), self.form)

    def __hash__(self) -> int:
        return hash(self.form)

    # ---- arithmetic

    def __add__(self, other: int) -> int:
        return Size.of(int(self) + int(other), add(self.form, form_of(other)))

    __radd__ = __add__

    def __sub__(self, other: int) -> int:
        return Size.of(int(self) - int(other), add(self.form, form_of(other), -1))

    def __rsub__(self, other: int) -> int:
        return Size.of(int(other) - int(self), add(form_of(other), self.form, -1))

    def __pos__(self) -> int:
        return self

    def __neg__(self) -> int:
        return 0 - self

    def __abs__(self) -> int:
        return self if self > 0 else -self

    def __mul__(self, other: int) -> int:
        if isinstance(other, Size):
            raise Undecided(f"({self}) * ({other}) is no linear formula of sizes")
        return Size.of(int(self) * other, add(Affine(0), self.form, other))

    __rmul__ = __mul__

    def __floordiv__(self, other: int) -> int:
        return Size.of(int(self) // _divisor(other), _quotient(self.form, int(other)))

    def __mod__(self, other: int) -> int:
        return self - (self // other) * other

    # ---- questions

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int) and form_of(other) == self.form

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: int) -> bool:
        return _positive(other - self, f"{self} < {other}")

    def __gt__(self, other: int) -> bool:
        return _positive(self - other, f"{self} > {other}")

    def __le__(self, other: int) -> bool:
        return not self > other

    def __ge__(self, other: int) -> bool:
        return not self < other

    def __bool__(self) -> bool:
        return self > 0 or self < 0

    def _no(self, *_: object) -> NoReturn:
        raise Undecided(f"{self} is not a number")

    __truediv__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __pow__ = __rpow__ = __divmod__ = _no
    __and__ = __or__ = __xor__ = __rand__ = __ror__ = __rxor__ = _no
    __lshift__ = __rshift__ = __rlshift__ = __rrshift__ = _no


def _divisor(n: int) -> int:
    if isinstance(n, Size) or n <= 0:
        raise Undecided(f"a division by {n}")
    return n


def _quotient(form: QuasiAffine, divisor: int) -> QuasiAffine:
    """form // divisor; terms and constants that are multiples are taken out."""
    whole = tuple((t, c // divisor) for t, c in form.terms if c % divisor == 0)
    rest = tuple((t, c) for t, c in form.terms if c % divisor)
    outside, left = Affine(form.constant // divisor, whole), form.constant % divisor
    if not rest:
        return outside
    if rest[0][1] < 0:  # floor(-a/d) = -floor((a + d - 1)/d)
        return add(outside, _fraction(divisor - 1 - left, tuple((t, -c) for t, c in rest), divisor), -1)
    return add(outside, _fraction(left, rest, divisor))


def _fraction(constant: int, terms: tuple[tuple[Atom, int], ...], divisor: int) -> QuasiAffine:
    return Affine(0, ((Quotient(Affine(constant, terms), divisor), 1),))


def form_of(n: int) -> QuasiAffine:
    """The formula of a number, which may be a Size."""
    return n.form if isinstance(n, Size) else Affine(int(n))


def _positive(n: int, question: str) -> bool:
    """Is n > 0 for all sizes? Raises Undecided if for some only."""
    low, high = bounds(form_of(n))
    if low is not None and low > 0:
        return True
    if high is not None and high <= 0:
        return False
    raise Undecided(f"{question} depends on the sizes")


def bounds(form: QuasiAffine | Atom) -> tuple[int | None, int | None]:
    """The smallest and the largest value for all sizes from 1; None: there is none, or it is not known. (affine.interval is for
    boxes, whose ends are numbers.)"""
    match form:
        case str():
            return 1, None
        case Quotient():
            low, high = bounds(form.a)
            return None if low is None else low // form.divisor, None if high is None else high // form.divisor
        case Remainder():
            return 0, form.divisor - 1
    assert isinstance(form, Affine), "sizes: a formula has no pieces"
    ends = [(c, *bounds(atom)) for atom, c in form.terms]
    lows = [None if e is None else c * e for c, low, high in ends for e in ((low if c > 0 else high),)]
    highs = [None if e is None else c * e for c, low, high in ends for e in ((high if c > 0 else low),)]
    return _total(form.constant, lows), _total(form.constant, highs)


def shortfall(extent: int) -> int | None:
    """How far below 0 an extent may be for some sizes, as that of a loop without iterations; None where there is no bound."""
    low, _ = bounds(form_of(extent))
    return None if low is None else max(0, -low)


def none_negative(extents: Iterable[int]) -> bool:
    """May they be those of a tensor, whatever the sizes are?"""
    return all(shortfall(n) == 0 for n in extents)


def _total(constant: int, parts: list[int | None]) -> int | None:
    known = [p for p in parts if p is not None]
    return constant + sum(known) if len(known) == len(parts) else None


def at(n: int, sizes: Mapping[str, int]) -> int:
    """The number that an extent is for given sizes."""
    return affine.at(n.form, sizes) if isinstance(n, Size) else n


def replaced(n: int, sizes: Mapping[str, int]) -> int:
    """An extent with other extents for some of its sizes, which may be Sizes or numbers: `(K + 15)//16`, K being 2*M."""
    return _replaced(n.form, sizes) if isinstance(n, Size) else n


def _replaced(form: QuasiAffine | Atom, sizes: Mapping[str, int]) -> int:
    match form:
        case str():
            return sizes.get(form, Size.named(form, 1))
        case Quotient():
            return _replaced(form.a, sizes) // form.divisor
        case Remainder():
            return _replaced(form.a, sizes) % form.divisor
    assert isinstance(form, Affine), "sizes: a formula has no pieces"
    return sum((_replaced(atom, sizes) * c for atom, c in form.terms), form.constant)


Products: TypeAlias = Sequence[tuple[str, tuple[int, int]]]
"""Names of products of two extents, each after those in its extents."""


def with_products(sizes: Mapping[str, int], products: Products) -> dict[str, int]:
    """Sizes with the products of some extents for them."""
    found = dict(sizes)
    for name, (a, b) in products:
        found[name] = at(a, found) * at(b, found)
    return found


def text(form: QuasiAffine) -> str:
    """A formula in the language's notation, the number last: `2*M - 1`."""
    parts: list[str] = []
    for atom, c in form.terms:
        factor = _atom(atom) if isinstance(atom, str) else f"({_atom(atom)})"
        term = _atom(atom) if abs(c) == 1 else f"{abs(c)}*{factor}"
        parts.append(term if c > 0 and not parts else f"{'-' if c < 0 else '+'} {term}" if parts else f"-{term}")
    if form.constant or not parts:
        parts.append(str(form.constant) if not parts else f"{'-' if form.constant < 0 else '+'} {abs(form.constant)}")
    return " ".join(parts)


def _atom(atom: Atom) -> str:
    if isinstance(atom, str):
        return atom
    assert isinstance(atom, Quotient | Remainder), "sizes: a formula has no pieces"
    inner = text(atom.a)
    return f"{inner if ' ' not in inner else f'({inner})'}{'//' if isinstance(atom, Quotient) else '%'}{atom.divisor}"


def _depth(atom: Atom) -> int:
    return 0 if isinstance(atom, str) else 1


def representative(thing: Any) -> Any:
    """A number, or any value made of tuples and dataclasses, with the numbers that stand for its Sizes."""
    return mapped(thing, int)


def representatives(thing: Any) -> dict[str, int]:
    """The representative sizes, by name, that the Sizes of a value made of tuples and dataclasses tell: those of one name."""
    found = dict[str, int]()

    def note(n: Size) -> int:
        atom, factor = n.form.terms[0]
        if len(n.form.terms) == 1 and isinstance(atom, str):
            found[atom] = (int(n) - n.form.constant) // factor
        return n
    mapped(thing, note)
    return found


def specialised(thing: Any, sizes: Mapping[str, int]) -> Any:
    """A value made of tuples and dataclasses for given sizes."""
    return mapped(thing, lambda n: affine.at(n.form, sizes))


def mapped(thing: Any, number: Callable[[Size], int]) -> Any:
    """A value made of tuples and dataclasses with other numbers for its Sizes."""
    kind: type = type(thing)
    if kind is Size:
        return number(thing)
    if isinstance(thing, tuple):
        made = tuple([mapped(x, number) for x in thing])
        return thing if all(map(operator.is_, made, thing)) else made
    names_ = _fields(kind)
    if not names_:
        return thing
    old = [getattr(thing, n) for n in names_]
    new = [mapped(x, number) for x in old]
    return thing if all(map(operator.is_, new, old)) else kind(**dict(zip(names_, new, strict=True)))


@functools.cache
def _fields(kind: type) -> tuple[str, ...]:
    """The names of the fields of a dataclass; none of other types."""
    return tuple(f.name for f in fields(kind)) if is_dataclass(kind) else ()


def data(n: int) -> Any:
    """An extent as what JSON can hold; `from_data` reads it."""
    return ["size", int(n), _data(n.form)] if isinstance(n, Size) else n


def _data(form: QuasiAffine | Atom) -> Any:
    match form:
        case str():
            return form
        case Quotient() | Remainder():
            return ["//" if isinstance(form, Quotient) else "%", _data(form.a), form.divisor]
    assert isinstance(form, Affine), "sizes: a formula has no pieces"
    return [form.constant, [[_data(atom), c] for atom, c in form.terms]]


def from_data(found: Any) -> int:
    """What `data` wrote."""
    return Size.of(found[1], _form(found[2])) if isinstance(found, list) else int(found)


def _form(found: Any) -> QuasiAffine:
    return Affine(found[0], tuple((_read_atom(atom), c) for atom, c in found[1]))


def _read_atom(found: Any) -> Atom:
    if isinstance(found, str):
        return found
    kind = Quotient if found[0] == "//" else Remainder
    return kind(_form(found[1]), found[2])


def names(extents: Iterable[int]) -> tuple[str, ...]:
    """The sizes that occur in some extents, in order of appearance."""
    found: dict[str, None] = {}

    def visit(form: QuasiAffine | Atom) -> None:
        match form:
            case str():
                found[form] = None
            case Quotient() | Remainder():
                visit(form.a)
            case Affine():
                for atom, _ in form.terms:
                    visit(atom)
    for n in extents:
        visit(form_of(n))
    return tuple(found)


def rest_start(lower: int, upper: int) -> int:
    """Where the rest begins; of open sizes it has something for the typical ones, so that strategies see a loop."""
    return Size.of(min(int(lower), int(upper) - 1), lower.form) if isinstance(lower, Size) else lower
