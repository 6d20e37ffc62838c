"""Schedules as text in sketches: loops with their kinds and what they count, around the statements as the program prints them.

    parallel j // 32, i // 14 { for k { unroll i % 14, vector j % 32 { C[i,j] += A[i,k]*B[k,j] } } }

`for` is a sequential loop. Loops with nothing between them stand in a row, with the kind of the one before where none is said.
What statements count differently in a loop that they share has `|` between. Statements that fill a tensor with a number, and
loops around these alone, need not be shown; `...` stands for a part of a statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from polytc.poly.nest import Leaf
from polytc.program import program as pr
from polytc.program.kinds import KINDS
from polytc.schedule.tree import Schedule
from polytc.schedule.user import pseudocode, reading
from polytc.schedule.user.loopnest import Body

_CONTINUED = re.compile(r"(?<=[-+*/,(\[<>=?:&|%])[ ]*\n\s*")
"""Line breaks that end no statement."""
_TOKEN = re.compile(r"[{};]|[^{};]+")
_HEAD = re.compile(rf"(?:({'|'.join(('for', *KINDS))})\s+)?(.*)", re.DOTALL)


@dataclass(frozen=True)
class Loop:
    """counts: the distinct expressions of its statements, without spaces."""

    kind: str
    counts: frozenset[str]
    body: tuple[Node, ...]

    def __str__(self) -> str:
        return f"{self.kind} {' | '.join(sorted(self.counts))} {{ {'; '.join(map(str, self.body))} }}"


Node: TypeAlias = Loop | str
"""A statement is its text, without spaces."""


def made(schedule: Schedule, program: pr.Program) -> tuple[Node, ...]:
    """The loops of a schedule."""
    return _made(reading.body(schedule.tree, program), program)


def _made(body: Body, program: pr.Program) -> tuple[Node, ...]:
    return tuple(_bare(pseudocode.statement(program.statement(n.statement))) if isinstance(n, Leaf) else
                 Loop("for" if n.kind == "sequential" else n.kind, frozenset(_bare(pr.format_expr(r.value)) for r in n.rows),
                      _made(n.body, program)) for n in body)


def shown(text: str) -> tuple[Node, ...]:
    """The loops of a sketch."""
    found = list(_shown(iter(t for t in _TOKEN.findall(re.sub(r"\n", ";", _CONTINUED.sub(" ", text))) if t.strip())))
    return tuple(found)


def _shown(tokens: Iterator[str]) -> Iterator[Node]:
    """The nodes up to the end of the loop around."""
    before = ""
    for token in tokens:
        if token == "{":
            yield _nested(before, tuple(_shown(tokens)))
            before = ""
        elif token in ";}":
            if before:
                yield _bare(before)
            before = ""
            if token == "}":
                return
        else:
            before = token
    if before:
        yield _bare(before)


def _nested(heads: str, body: tuple[Node, ...]) -> Loop:
    """Loops in a row around a body."""
    kind, found = "", list[tuple[str, str]]()
    for part in heads.split(","):
        said = _HEAD.fullmatch(part.strip())
        assert said is not None
        kind = said[1] or kind
        assert kind, f"no kind of loop: {heads}"
        found.append((kind, said[2]))
    for kind, counts in reversed(found):
        body = (Loop(kind, frozenset(map(_bare, counts.split("|"))), body),)
    (loop,) = body
    assert isinstance(loop, Loop)
    return loop


def _bare(text: str) -> str:
    return "".join(text.split())


def difference(wanted: tuple[Node, ...], found: tuple[Node, ...]) -> str:
    """What a sketch shows that is not so, or the other way round; '' if it shows the schedule."""
    left = list(found)
    for node in wanted:
        while left and _fills(left[0]) and _apart(node, left[0]):
            left.pop(0)
        if not left:
            return f"not made: {node}"
        apart = _apart(node, left.pop(0))
        if apart:
            return apart
    rest = [node for node in left if not _fills(node)]
    return f"not shown: {rest[0]}" if rest else ""


def _apart(node: Node, found: Node) -> str:
    match node, found:
        case Loop(), Loop() if (node.kind, node.counts) == (found.kind, found.counts):
            return difference(node.body, found.body)
        case str(), str() if re.fullmatch(".*".join(map(re.escape, node.split("..."))), found):
            return ""
        case _:
            return f"shown: {node}\nmade: {found}"


def _fills(node: Node) -> bool:
    """Does it fill tensors with numbers, and nothing else?"""
    if isinstance(node, Loop):
        return all(map(_fills, node.body))
    return re.fullmatch(r"\w+(\[[^\]]*\])?=(-?[\d.]+(e[-+]?\d+)?|-?inf|\w+\(-?[\d.]+\))", node) is not None
