"""The record of what polytc decides for a program: a line a decision, in the order in which they are made.

    polytc decisions 1
    inline: all
    winograd S1: results=4 block=14                                  # tiles of 4 x 4 results: 0.47 of the cycles
    pack S1_S30: tensor=O_U operand=1 along=m width=64
    lanes: none
    fusion: policy=smart
    tile S1: rows=m,h sizes=64,4 order=h,m vector=m

A line names a step, the statement as it is called before that step, and what is done to it. `none`: the step does nothing;
`all`: a step without choices does what it finds to do. polytc decides what no line is about, so that a record may be cut down
to the lines that matter. The rest of a line behind `#` is a comment, here the reason. Each step has its own type of choices, a
frozen dataclass whose first field is `statement`; `entry` and `choice` translate.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import itertools
import re
import typing
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from polytc import errors
from polytc.errors import CompileError, Span

errors.register(E709="the text is no record of decisions", E710="a decision does not fit the program")

VERSION = 1
HEAD = "polytc decisions"
NONE, ALL = "none", "all"
SEPARATOR = "\n---\n"
"""Between a record and a schedule that takes the place of its lines about schedules."""

Value = int | str | tuple[int, ...] | tuple[str, ...]
C = TypeVar("C")

_LINE = re.compile(r"(?P<step>[^\s:#=]+)(?:[ \t]+(?P<statement>[^\s:#=]+))?[ \t]*:(?P<rest>[^#]*)")
_VALUE = re.compile(r"(\w+)=(\S*)")


@dataclass(frozen=True)
class Entry:
    """One decision. step: who takes it. statement: whom it is about; '' for the program. what: `none`, `all`, or '' where
    `values` say it. reason: why, for the reader. span: where it stands in the text that it was read from."""

    step: str
    statement: str = ""
    what: str = ""
    values: tuple[tuple[str, Value], ...] = ()
    reason: str = ""
    span: Span | None = dataclasses.field(default=None, compare=False)

    def __str__(self) -> str:
        head = f"{self.step} {self.statement}:" if self.statement else f"{self.step}:"
        line = " ".join([head, *filter(None, [self.what]), *(f"{k}={_written(v)}" for k, v in self.values)])
        return f"{line}  # {' '.join(self.reason.split())}" if self.reason else line


@dataclass(frozen=True)
class Record:
    """entries: in order. source: the text that it was read from, where it was. asks: what it leaves open is not decided by
    polytc, but raises Open."""

    entries: tuple[Entry, ...] = ()
    source: str | None = dataclasses.field(default=None, compare=False)
    asks: bool = dataclasses.field(default=False, compare=False)

    def __str__(self) -> str:
        return "\n".join([f"{HEAD} {VERSION}", *map(str, self.entries)])

    def of(self, step: str) -> tuple[Entry, ...] | None:
        """What is given for a step; () if it is to do nothing, None if polytc is to decide."""
        found = tuple(e for e in self.entries if e.step == step)
        return tuple(e for e in found if e.what != NONE) if found else None

    def refused(self, entry: Entry, why: str, notes: Iterable[str] = ()) -> CompileError:
        """The exception for an entry that does not fit."""
        about = f" of {entry.statement}" if entry.statement else ""
        return errors.fail("E710", f"the decision `{entry.step}`{about} does not fit: {why}", entry.span, source=self.source,
                           notes=[*notes, "a step without a line in the record is decided by polytc"])


@dataclass(frozen=True)
class Way:
    """One way to take a decision. entries: its lines; cost: estimated, in the unit of `COSTS`, None where the decision is taken
    by a rule, not by an estimate."""

    entries: tuple[Entry, ...]
    cost: float | None = None


COSTS = dict.fromkeys(("local_tiles", "work_groups_in_loops"), "multiply-adds of an item")
"""Unit of the estimates of a step; the others are in seconds."""


class Open(Exception):
    """The first decision that a record which asks leaves open. before: what was decided before it; ways: to take it, of which
    there are at least two, polytc's own first and the others in the order of their estimates."""

    def __init__(self, before: tuple[Entry, ...], ways: Iterator[Way]) -> None:
        super().__init__()
        self.before, self.ways = before, ways


@dataclass(frozen=True)
class Alternative:
    """A way to take the first open decision. record: what was given, what follows from that without a choice, and the lines of
    this way: what to go on from. cost: see Way."""

    entries: tuple[Entry, ...]
    cost: float | None
    record: Record

    def __str__(self) -> str:
        unit = COSTS.get(self.entries[0].step, "seconds")
        told = [f"{self.cost:.3g} {unit}"] if self.cost is not None else []
        return "\n".join(str(replace(e, reason=", ".join([*told, *filter(None, [e.reason])]))) for e in self.entries)


def completed(so_far: Record, before: tuple[Entry, ...], way: Way, in_turn: Iterable[str]) -> Alternative:
    """The alternative that a way is. before: all that is decided before it; in_turn: the steps that have a line for each
    statement, whose lines for others are still to come."""
    met, each = (*before, *way.entries), frozenset(in_turn)
    steps, lines = {e.step for e in met} - each, Counter((e.step, e.statement) for e in met)
    rest = list[Entry]()
    for e in so_far.entries:
        lines[e.step, e.statement] -= 1
        rest += [e] if e.step not in steps and lines[e.step, e.statement] < 0 else []
    return Alternative(way.entries, way.cost, Record((*met, *rest)))


def at_least_two(ways: Iterable[Way]) -> Iterator[Way] | None:
    """The ways, if there is a choice among them."""
    found = iter(ways)
    first = [w for _, w in zip(range(2), found, strict=False)]
    return itertools.chain(first, found) if len(first) == 2 else None


def is_record(text: str | None) -> bool:
    """Is a text meant as a record?"""
    lines = (line.strip() for line in (text or "").splitlines())
    return next((line for line in lines if line and not line.startswith("#")), "").startswith(HEAD)


@functools.lru_cache(maxsize=64)
def read(text: str) -> Record:
    """The record of a text. Raises E709 for a text that is none."""
    entries = list[Entry]()
    headed = False
    for start, number, line in _lines(text):
        if not line.split("#")[0].strip():
            continue
        span = Span(start, start + len(line.rstrip()), number, 1)
        if not headed:
            _check_head(line, span, text)
            headed = True
            continue
        entries.append(_entry(line, span, text))
    if not headed:
        raise errors.fail("E709", "the text is empty", notes=[f"a record begins with `{HEAD} {VERSION}`"])
    return Record(tuple(entries), text)


def split(request: str | None) -> tuple[Record | None, str | None]:
    """The record at the beginning of what a schedule was asked for, and the rest. Raises E709."""
    if request is None or not is_record(request):
        return None, request
    text, _, rest = request.partition(SEPARATOR)
    return read(text), rest or None


def joined(record: str, request: str | None) -> str:
    """Both as one request."""
    return record if request is None else f"{record}{SEPARATOR}{request}"


def _lines(text: str) -> Iterator[tuple[int, int, str]]:
    start = 0
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        yield start, number, line
        start += len(line)


def _check_head(line: str, span: Span, text: str) -> None:
    version = line.strip().removeprefix(HEAD).split("#")[0].strip()
    if version != str(VERSION):
        raise errors.fail("E709", f"this polytc reads version {VERSION} of the record, not {version or 'none'!r}", span,
                          source=text, notes=[f"a record begins with `{HEAD} {VERSION}`"])


def _entry(line: str, span: Span, text: str) -> Entry:
    found = _LINE.match(line)
    if found is None:
        raise _unreadable("a line is `step statement: key=value ...`, `step: none` or `step: all`", span, text)
    rest, values = found["rest"].split(), dict[str, Value]()
    if rest in ([NONE], [ALL]):
        return Entry(found["step"], found["statement"] or "", rest[0], span=span)
    for part in rest:
        pair = _VALUE.fullmatch(part)
        if pair is None or pair[1] in values:
            raise _unreadable(f"`{part}` is no `key=value`" if pair is None else f"`{pair[1]}` stands twice", span, text)
        values[pair[1]] = _value(pair[2])
    return Entry(found["step"], found["statement"] or "", "", tuple(values.items()), span=span)


def _unreadable(why: str, span: Span, text: str) -> CompileError:
    return errors.fail("E709", why, span, source=text,
                       notes=["`polytc emit --stage decisions` prints the record of a program to begin with"])


def _value(text: str) -> Value:
    parts = text.split(",")
    if len(parts) == 1:
        return _atom(text)
    atoms = [_atom(p) for p in parts if p]
    whole = [a for a in atoms if isinstance(a, int)]
    return tuple(whole) if len(whole) == len(atoms) else tuple(map(str, atoms))


def _atom(text: str) -> int | str:
    return int(text) if re.fullmatch(r"-?\d{1,18}", text) else text


def _written(value: Value) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value)


# ---- entries and choices of steps

def entry(step: str, choice: Any, reason: str = "") -> Entry:
    """The entry for a choice of a step: its fields, but for those that have their defaults."""
    values = tuple((f.name, getattr(choice, f.name)) for f in dataclasses.fields(choice)
                   if f.name != "statement" and getattr(choice, f.name) != f.default)
    return Entry(step, choice.statement, "", values, reason)


def choice(kind: type[C], given: Entry, record: Record) -> C:
    """The choice that an entry is. Raises E710 for values that are missing, unknown or of another type."""
    fields = {f.name: f for f in dataclasses.fields(typing.cast(Any, kind)) if f.name != "statement"}
    needed = [n for n, f in fields.items() if f.default is dataclasses.MISSING]
    values = dict(given.values)
    stated = f"a line is `{given.step} STATEMENT: {' '.join(f'{n}=...' for n in needed)}`"
    if given.what:
        raise record.refused(given, f"`{given.what}` leaves open what is done", [stated])
    for name in values:
        if name not in fields:
            near = difflib.get_close_matches(name, fields, 1)
            raise record.refused(given, f"it has no `{name}`" + (f"; `{near[0]}`?" if near else ""),
                                 [f"its values are {', '.join(fields)}"])
    for name in needed:
        if name not in values:
            raise record.refused(given, f"`{name}` is missing", [stated])
    types = typing.get_type_hints(kind)
    typed = {name: _typed(given, record, name, value, types[name]) for name, value in values.items()}
    return kind(**{"statement": given.statement, **typed})


def _typed(given: Entry, record: Record, name: str, value: Value, kind: Any) -> Value:
    """The value as the type that the field has; a list of one may be written as an element."""
    of = typing.get_args(kind)[0] if typing.get_origin(kind) is tuple else None
    if of is None:
        if kind is str and isinstance(value, int):
            value = str(value)
        if not isinstance(value, kind):
            raise record.refused(given, f"`{name}={_written(value)}` is no {_NAMES[kind]}")
        return value
    parts = value if isinstance(value, tuple) else () if value == "" else (value,)
    parts = tuple(map(str, parts)) if of is str else parts
    if not all(isinstance(p, of) for p in parts):
        raise record.refused(given, f"`{name}={_written(value)}` is no list of {_NAMES[of]}s")
    return typing.cast(Value, parts)


_NAMES = {int: "number", str: "name"}
