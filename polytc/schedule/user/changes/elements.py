"""Which elements an update adds up into, and how they tell its indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from polytc import errors
from polytc.program import names
from polytc.program import program as pr
from polytc.program.linear import linear
from polytc.program.scalars import I64


@dataclass(frozen=True)
class Elements:
    """Each element of a tensor once. ranges, where: of the indices; subscripts: where each point's element lies."""

    ranges: tuple[pr.Range, ...]
    where: tuple[pr.Expr, ...]
    subscripts: tuple[pr.Expr, ...]


def plain(program: pr.Program, statement: str, what: str) -> pr.Statement:
    """The statement, if all that it does can be read off its text. what: is asked of it, for messages.

    Raises E707 for an unknown one, E708 for one in a `for` loop, with ranges in memory, or that scatters or scans.
    """
    s = next((x for x in program.statements if x.name == statement), None)
    if s is None:
        raise errors.fail("E707", f"there is no statement {statement!r}", notes=["the schedule asks for a change of it"])
    why = ("stands in a `for` loop" if s.loops else "has ranges in memory" if s.bounds else
           "writes where memory says" if pr.scatters(s) else
           "reads what it writes" if s.target in {r.tensor for r in pr.reads(s)} else "")
    if why:
        raise errors.fail("E708", f"{s.name} {why}: no {what} for it", notes=["leave this statement as it is"])
    return s


def initialisation(program: pr.Program, s: pr.Statement) -> pr.Statement | None:
    """The statement that writes the identity to the whole tensor before the update, if nothing touches that in between."""
    at = program.statements.index(s)
    for x in reversed(program.statements[:at]):
        if x.name == names.initialisation(s.name) and x.target == s.target and x.op is None and not x.loops:
            return x if _is_whole(x, program.tensor(s.target)) else None
        if s.target == x.target or s.target in {r.tensor for r in pr.reads(x)}:
            return None
    return None


def _is_whole(s: pr.Statement, tensor: pr.Tensor) -> bool:
    """Does the statement write each element once, one for each point of its box?"""
    box = [(pr.Index(x.index), x.lower, x.upper) for x in s.ranges]
    return not s.where and not s.bounds and box == [
        (sub, low, low + extent) for sub, low, extent in zip(s.subscripts, tensor.lower, tensor.shape, strict=True)]


def touched(program: pr.Program, s: pr.Statement, what: str) -> Elements:
    """The elements that a statement writes: those of its initialisation, if it has one, else the points of its own subscripts.

    Raises E708 where subscripts are not plain indices, or a condition on other indices decides which elements it writes.
    """
    init = initialisation(program, s)
    if init is not None:
        return Elements(init.ranges, init.where, init.subscripts)
    found = cell(s)
    if found is None:
        raise errors.fail("E708", f"the elements that {s.name} writes are not told by an index each: no {what} for it",
                          notes=["write plain indices on the left side, and the other subscripts on the right"])
    indices = [i for i, _ in found if i]
    kept = tuple(c for c in s.where if set(pr.index_names(c)) <= set(indices))
    mixed = any(c not in kept and set(indices) & set(pr.index_names(c)) for c in s.where)
    if mixed or (s.op is None and set(indices) < set(s.indices)):
        raise errors.fail("E708", f"conditions decide which elements {s.name} writes: no {what} for it",
                          notes=["initialise the tensor in the same statement: a fresh one is written as a whole"])
    return Elements(tuple(r for r in s.ranges if r.index in indices), kept, s.subscripts)


@dataclass(frozen=True)
class Told:
    """What one statement knows of another one's instances. indices: the other one's, by its own, where these tell them; values:
    (what a loop of the other one counts, the same for itself), where no single index tells it."""

    indices: Mapping[str, pr.Expr]
    values: tuple[tuple[pr.Expr, pr.Expr], ...] = ()

    def of(self, value: pr.Expr) -> pr.Expr | None:
        """What a loop of the other statement counts, by the indices of this one; None if they do not tell it."""
        for known, own in self.values:
            if known == value:
                return own
        return pr.substitute(value, dict(self.indices)) if set(pr.index_names(value)) <= self.indices.keys() else None


def told(s: pr.Statement, places: Sequence[pr.Expr]) -> Told:
    """What an element of its target tells of a statement. places: where the element lies, by the indices of another one."""
    indices: dict[str, pr.Expr] = {}
    values = []
    for sub, place in zip(s.subscripts, places, strict=True):
        form = shifted(sub)
        if form is None:
            values.append((sub, place))
        elif form[0]:
            indices.setdefault(form[0], minus(place, form[1]))
    return Told(indices, tuple(values))


def cell(s: pr.Statement) -> tuple[tuple[str, int], ...] | None:
    """The index and the number in each subscript of the target, see `shifted`; None if one has more, or two have one index."""
    found = [shifted(x) for x in s.subscripts]
    known = tuple(x for x in found if x is not None)
    named = [i for i, _ in known if i]
    return known if len(known) == len(found) and len(set(named)) == len(named) else None


def shifted(e: pr.Expr) -> tuple[str, int] | None:
    """(index, number) of an index plus a number, ('', number) of a number."""
    form = linear(e)
    if form is None or len(form.terms) > 1 or any(c != 1 for _, c in form.terms):
        return None
    return (form.terms[0][0] if form.terms else "", form.constant)


def minus(e: pr.Expr, number: int) -> pr.Expr:
    """The expression less a number."""
    return pr.Binary("-", e, pr.Const(number, I64), I64) if number else e
