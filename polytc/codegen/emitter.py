"""Emitter: the one recursion over the Loop AST for targets that produce text (OpenCL C, Python).

A target subclasses it and supplies the leaves: how a loop, a branch, a store, an allocation and a barrier read in its
language, and how expressions are written. Lines, indentation and identifiers are kept here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from polytc.codegen import loops


class Names:
    """Identifiers of one scope: each name of the Loop AST gets a legal spelling that no other name has."""

    def __init__(self, reserved: frozenset[str], reserved_prefixes: tuple[str, ...] = ()) -> None:
        self._reserved = reserved
        self._prefixes = reserved_prefixes
        self._spelling: dict[object, str] = {}
        self._taken: set[str] = set()

    def variable(self, name: str) -> str:
        """The spelling of a loop variable, always the same."""
        return self._spell(name, name)

    def buffer(self, b: loops.Buffer) -> str:
        """The spelling of a buffer, always the same; buffers of one name and different shapes have different ones."""
        return self._spell(b, b.name)

    def _spell(self, key: object, name: str) -> str:
        if key not in self._spelling:
            self._spelling[key] = self.fresh(name)
        return self._spelling[key]

    @contextmanager
    def bound(self, name: str, title: str = "") -> Iterator[str]:
        """The spelling of a variable inside of its scope: close to `title`, if it has one; free again behind it."""
        before = self._spelling.get(name)
        spelled = self._spelling[name] = self.fresh(title or name)
        yield spelled
        self._taken.discard(spelled)
        del self._spelling[name]
        if before is not None:
            self._spelling[name] = before

    def fresh(self, name: str) -> str:
        """A legal spelling close to `name` that is not in use."""
        base = identifier(name)
        if base in self._reserved or base.startswith(self._prefixes or ("\0",)):
            base += "_"
        spelling, number = base, 1
        while spelling in self._taken or spelling in self._reserved:
            number += 1
            spelling = f"{base}_{number}"
        self._taken.add(spelling)
        return spelling


def identifier(name: str) -> str:
    """`name` with every character that C and Python do not allow replaced by '_'."""
    text = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return text if text and not text[0].isdigit() else f"_{text}"


_PLACES = re.compile(r"[()\[\]{}]| (?=[?:+-] )|(?<= [=]) |(?<= &&) |(?<=,) ")
_LOOSEST = {"=": 3, "&": 2, ",": 1}


def _break(text: str, most: int) -> int:
    """Where to break a line of more than `most` characters: at a space, in as few parentheses and between as loose operators as
    can be; 0 if nowhere."""
    depth, best = 0, (-100, 0, 0)
    for m in _PLACES.finditer(text[:most]):
        if m[0] == " ":
            looseness = 3 if text[m.end()] in "?:" else _LOOSEST.get(text[m.start() - 1], 0)
            best = max(best, (-depth, looseness, m.start()))
        else:
            depth += 1 if m[0] in "([{" else -1
    return best[2]


class Emitter:
    """Collects lines while walking statements; subclasses write the leaves `emit_*`."""

    indent = "    "

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0

    width = 132
    """Characters of a line that is broken, where it can be."""

    def line(self, text: str) -> None:
        """Append one line at the current depth; a long one goes on two levels deeper."""
        margin = self.indent * self.depth
        while len(margin) + len(text) > self.width and (at := _break(text, self.width - len(margin))):
            self.lines.append(margin + text[:at])
            margin, text = self.indent * (self.depth + 2), text[at + 1:]
        self.lines.append(margin + text)

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """Lines inside are indented by one more level."""
        self.depth += 1
        yield
        self.depth -= 1

    def emit(self, s: loops.Stmt) -> None:
        """Write a statement and everything below it."""
        match s:
            case loops.For():
                self.emit_for(s)
            case loops.If():
                self.emit_if(s)
            case loops.Store():
                self.emit_store(s)
            case loops.Block():
                self.emit_block(s)
            case loops.Alloc():
                self.emit_alloc(s)
            case loops.Barrier():
                self.emit_barrier()

    def emit_block(self, s: loops.Block) -> None:
        for part in s.stmts:
            self.emit(part)

    def emit_for(self, s: loops.For) -> None:
        raise NotImplementedError

    def emit_if(self, s: loops.If) -> None:
        raise NotImplementedError

    def emit_store(self, s: loops.Store) -> None:
        raise NotImplementedError

    def emit_alloc(self, s: loops.Alloc) -> None:
        raise NotImplementedError

    def emit_barrier(self) -> None:
        raise NotImplementedError
