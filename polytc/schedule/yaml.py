"""The YAML of schedules, read strictly before isl sees it: isl's own reader ends the process on some texts with a mistake.

    domain: "{ S1[i] : 0 <= i <= 8 }"
    child:
      mark: "N0.S1 vector"
      child:
        schedule: "[{ S1[i] -> [(i)] }]"
        coincident: [ 1 ]

What isl writes is read, in block style as above and in flow style, `{ domain: "...", child: { ... } }`: nodes of one kind each,
strings in quotes on one line, lists of 0 and 1. The sets and
functions inside are read by isl one by one, which is safe; what they say must fit together: a band gives a time to all
instances that reach it, and the filters of a sequence share them out, none twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import islpy

from polytc.poly import isl

_LINE = re.compile(r'( *)((?:- )*)([a-z]+):(?: +(?:"([^"\\]*)"|([0-9])|\[ *([01](?: *, *[01])*) *\]))? *')
"""Indentation, dashes, a key, and its value: a string, a digit, or a list."""

_WORD = re.compile(r'"[^"\\]*"|\w+|[^\s]')
"""A string, a key or number, or another character of flow style."""

_DEEPEST = 200
"""Nodes below each other."""

_KINDS = ("domain", "mark", "schedule", "sequence", "set", "filter")


class Malformed(Exception):
    """What is wrong with a text."""


@dataclass(frozen=True)
class _Line:
    """column: of the key; first: whether a dash begins an entry of a list here; value: None where lines below have it."""

    number: int
    column: int
    first: bool
    key: str
    value: str | int | tuple[int, ...] | None


def well_formed(text: str, ctx: islpy.Context) -> str:
    """The schedule as isl writes it, from sets that isl has read. Raises Malformed."""
    if not text.isprintable() and any("\ud800" <= sign <= "\udfff" for sign in text):
        raise Malformed("it has a half of a sign (a surrogate), which no text has")
    flow = _flow(text)
    lines = [] if flow else list(_lines(text))
    if not flow and (not lines or lines[0].key != "domain" or lines[0].column):
        raise Malformed("it begins with `domain: \"{ ... }\"`")
    tree = _FlowReader(flow).whole() if flow else _Reader(lines).block(0, 0)
    return "\n".join(_Checker(ctx).root(tree)) + "\n"


def _flow(text: str) -> list[str]:
    """The words of a text in flow style, nothing for one in block style."""
    plain = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#")).strip()
    return _WORD.findall(plain) if plain.startswith("{") else []


def _lines(text: str) -> Iterator[_Line]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _LINE.fullmatch(line)
        if found is None or len(found[2]) > 2:
            raise Malformed(f"line {number} is no `key: value`: {line.strip()[:60]!r}")
        value: Any = found[4] if found[4] is not None else int(found[5]) if found[5] else tuple(
            int(n) for n in found[6].split(",")) if found[6] else None
        yield _Line(number, len(found[1]) + len(found[2]), bool(found[2]), found[3], value)


class _Reader:
    """Lines to nested dicts and lists."""

    def __init__(self, lines: list[_Line]) -> None:
        self.lines, self.at = lines, 0

    def block(self, column: int, depth: int) -> dict[str, Any]:
        """The keys at a column, the first of which may stand behind a dash."""
        found: dict[str, Any] = {}
        if depth > _DEEPEST:
            raise Malformed(f"it has more than {_DEEPEST} nodes below each other")
        while (line := self.peek()) is not None and line.column == column and not (line.first and found):
            self.at += 1
            if line.key in found:
                raise Malformed(f"`{line.key}` stands twice in line {line.number}")
            found[line.key] = line.value if line.value is not None else self.below(line, depth)
        line = self.peek()
        if line is not None and line.column > column:
            raise Malformed(f"line {line.number} is indented too far")
        return found

    def below(self, line: _Line, depth: int) -> Any:
        """What the lines below a key say: a node, or a list of nodes whose dashes may stand in the key's column."""
        first = self.peek()
        if first is None or first.column <= line.column:
            raise Malformed(f"`{line.key}` has no value in line {line.number}")
        if not first.first:
            return self.block(first.column, depth + 1)
        entries = []
        while (entry := self.peek()) is not None and entry.first and entry.column == first.column:
            entries.append(self.block(first.column, depth + 1))
        return entries

    def peek(self) -> _Line | None:
        return self.lines[self.at] if self.at < len(self.lines) else None


class _FlowReader:
    """Words of flow style to nested dicts and lists."""

    def __init__(self, words: list[str]) -> None:
        self.words = iter([*words, ""])
        self.next = next(self.words)

    def whole(self) -> dict[str, Any]:
        found: dict[str, Any] = self.value(0)
        if self.next:
            raise Malformed(f"{self.next[:60]!r} stands behind the end")
        return found

    def take(self, *expected: str) -> str:
        word = self.next
        if expected and word not in expected:
            raise Malformed(f"{word[:60]!r} stands in the place of {' or '.join(map(repr, expected))}")
        self.next = next(self.words, "")
        return word

    def value(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise Malformed(f"it has more than {_DEEPEST} nodes below each other")
        if self.next == "{":
            return self.node(depth)
        if self.next != "[":
            word = self.take()
            if word[:1] != '"' and word not in ("0", "1"):
                raise Malformed(f"{word[:60]!r} is no value")
            return word[1:-1] if word[0] == '"' else int(word)
        entries: list[Any] = []
        while self.take("[" if not entries else ",", *(["]"] if entries else [])) != "]":
            entries.append(self.value(depth + 1))
        return entries if isinstance(entries[0], dict) else tuple(entries)

    def node(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self.take("{" if not found else ",", *(["}"] if found else [])) != "}":
            key = self.take()
            self.take(":")
            if key in found:
                raise Malformed(f"`{key}` stands twice in one node")
            found[key] = self.value(depth + 1)
        return found


def _parameters(of: islpy.UnionSet | islpy.MultiUnionPwAff) -> set[str]:
    space, kind = of.get_space(), islpy.dim_type.param
    return {space.get_dim_name(kind, k) for k in range(space.dim(kind))}


class _Checker:
    """Nested dicts to text, with the instances that reach each node."""

    def __init__(self, ctx: islpy.Context) -> None:
        self.ctx = ctx

    def root(self, node: dict[str, Any]) -> Iterator[str]:
        domain = self.read(islpy.UnionSet, node, "domain")
        yield f'domain: "{domain}"'
        yield from self.child(node, {"domain"}, domain, "")

    def child(self, node: dict[str, Any], known: set[str], active: islpy.UnionSet, margin: str) -> Iterator[str]:
        """What is below a node, whose own keys are known."""
        if strange := sorted(node.keys() - known - {"child"}):
            raise Malformed(f"`{strange[0]}` does not belong beside {', '.join(f'`{k}`' for k in sorted(known))}")
        if "child" in node:
            if not isinstance(node["child"], dict):
                raise Malformed("`child` has one node below it")
            yield margin + "child:"
            yield from self.node(node["child"], active, margin + "  ")

    def node(self, node: dict[str, Any], active: islpy.UnionSet, margin: str) -> Iterator[str]:
        kinds = [k for k in _KINDS if k in node]
        if len(kinds) != 1 or kinds[0] in ("domain", "filter"):
            raise Malformed(f"a node is a mark, a schedule, a sequence or a set, not {', '.join(node) or 'nothing'}")
        match kinds[0]:
            case "mark":
                yield f'{margin}mark: "{self.string(node, "mark")}"'
                yield from self.child(node, {"mark"}, active, margin)
            case "schedule":
                yield from self.band(node, active, margin)
                yield from self.child(node, {"schedule", "permutable", "coincident"}, active, margin)
            case kind:
                yield from self.sequence(kind, node, active, margin)

    def band(self, node: dict[str, Any], active: islpy.UnionSet, margin: str) -> Iterator[str]:
        members = self.read(islpy.MultiUnionPwAff, node, "schedule")
        count = members.dim(islpy.dim_type.out)
        permutable, coincident = node.get("permutable", 0), node.get("coincident")
        if count == 0 or members.involves_nan() or not active.is_subset(members.domain()):
            raise Malformed(f"the band `{str(members)[:60]}` has no time for some instances")
        if strange := sorted(_parameters(members) - _parameters(active)):
            raise Malformed(f"the band `{str(members)[:60]}` has a parameter `{strange[0]}`, which the domain has not")
        flags = isinstance(coincident, tuple) and len(coincident) == count and all(n in (0, 1) for n in coincident)
        if permutable not in (0, 1) or not (coincident is None or flags):
            raise Malformed(f"`coincident` has a 0 or 1 for each of the {count} members of a band, `permutable` is 0 or 1")
        yield f'{margin}schedule: "{members}"'
        yield f"{margin}permutable: {permutable}"
        if coincident is not None:
            yield f"{margin}coincident: [ {', '.join(map(str, coincident))} ]"

    def sequence(self, kind: str, node: dict[str, Any], active: islpy.UnionSet, margin: str) -> Iterator[str]:
        entries = node[kind]
        if not isinstance(entries, list) or len(node) > 1:
            raise Malformed(f"a {kind} is a list of filters, and has nothing beside it")
        yield f"{margin}{kind}:"
        left = active
        for entry in entries:
            if not isinstance(entry, dict):
                raise Malformed(f"a {kind} is a list of filters")
            taken = self.read(islpy.UnionSet, entry, "filter")
            reached = active.intersect(taken)
            if not reached.is_subset(left):
                raise Malformed(f"two filters of a {kind} have the same instances: `{str(taken)[:60]}`")
            left = left.subtract(reached)
            yield f'{margin}- filter: "{taken}"'
            yield from self.child(entry, {"filter"}, reached, margin + "  ")
        if not left.is_empty():
            raise Malformed(f"no filter of a {kind} has {str(next(isl.sets(left)).sample_point())[:60]}")

    def read(self, kind: Any, node: dict[str, Any], key: str) -> Any:
        try:
            return kind.read_from_str(self.ctx, self.string(node, key))
        except islpy.Error as e:
            raise Malformed(f"`{key}` is not in isl's notation: {str(e).partition(chr(10))[0]}") from None

    def string(self, node: dict[str, Any], key: str) -> str:
        found = node.get(key)
        if not isinstance(found, str):
            raise Malformed(f"`{key}` has a text in quotes")
        return found
