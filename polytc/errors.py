"""Diagnostics: what every refusal of the compiler looks like.

A `Diagnostic` has a stable code (`E203`), one sentence, the place in the source text, and notes (what was found, what was
expected, a concrete witness, the cure). All diagnostics of a program are collected and raised together as a `CompileError`.
docs/errors.md lists every code of `TITLES` with its cause and its cure.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

TITLES: dict[str, str] = {}
"""Code -> short title of every diagnostic; the modules of this package register theirs through `register`."""


def register(**titles: str) -> None:
    """Add diagnostic codes with their titles; a code means one thing for ever, so a second registration is a mistake."""
    for code, title in titles.items():
        assert TITLES.get(code, title) == title, f"diagnostic {code} is registered twice"
        TITLES[code] = title


@dataclass(frozen=True)
class Span:
    """A place in source text: half-open character offsets, and the 1-based line and column of its start."""

    start: int
    end: int
    line: int
    column: int


@dataclass(frozen=True)
class Diagnostic:
    """One refusal. `notes` are further lines: witnesses ("with M=3: i=1 reads A[3], extent 3") and cures."""

    code: str
    message: str
    span: Span | None = None
    notes: tuple[str, ...] = ()

    def render(self, source: str | None) -> str:
        """The diagnostic as text, with the source line and carets under the place when both are known."""
        lines = [f"{self.code}: {self.message}"]
        if self.span is not None and source is not None:
            lines += _excerpt(source, self.span)
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)


SHOWN = 160
"""Characters of a line of source text that a message shows, around the carets."""


def _excerpt(source: str, span: Span) -> list[str]:
    text = source.splitlines()
    line, column = text[span.line - 1] if 0 < span.line <= len(text) else "", span.column - 1
    width = max(1, min(span.end - span.start, len(line) - column))
    if len(line) > SHOWN:
        first = max(0, min(column - SHOWN // 4, len(line) - SHOWN))
        before, after = "... " * (first > 0), " ..." * (first + SHOWN < len(line))
        column, width = column - first + len(before), min(width, first + SHOWN - column)
        line = f"{before}{line[first:first + SHOWN]}{after}"
    number = str(span.line)
    margin = " " * len(number)
    return [f" {number} | {line}", f" {margin} | {' ' * column}{'^' * width}"]


class PolytcError(Exception):
    """Base of every error that polytc raises on purpose."""


class CompileError(PolytcError):
    """One or more diagnostics. `str()` draws each with its source line and carets.

    code, span, notes: those of the first diagnostic; `diagnostics` has all of them.
    """

    def __init__(self, diagnostics: Iterable[Diagnostic], source: str | None = None) -> None:
        self.diagnostics = tuple(diagnostics)
        self.source = source
        assert self.diagnostics, "a CompileError carries at least one diagnostic"
        super().__init__("\n".join(d.render(source) for d in self.diagnostics))

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.diagnostics, self.source), dict(vars(self))

    @property
    def code(self) -> str:
        return self.diagnostics[0].code

    @property
    def span(self) -> Span | None:
        return self.diagnostics[0].span

    @property
    def notes(self) -> tuple[str, ...]:
        return self.diagnostics[0].notes


def _again(kind: type[CompileError], diagnostics: tuple[Diagnostic, ...], source: str | None) -> CompileError:
    """A copied or unpickled error; what its class adds comes from its attributes."""
    error = kind.__new__(kind)
    CompileError.__init__(error, diagnostics, source)
    return error


class IllegalTransform(CompileError):
    """A schedule that would break a dependence; the notes name the dependence and two concrete instances."""


class ArgumentError(CompileError, ValueError):
    """The arrays or options of a call do not fit (codes E4xx): wrong shape, dtype, layout, overlap."""


class IndexOutOfBounds(CompileError, IndexError):
    """A run of a program with `checked=True` met an index in memory that lies outside of its tensor (E418)."""


class TargetError(CompileError):
    """A target cannot be used here (codes E5xx): no OpenCL driver, a device that fails its probe."""


class ModelError(CompileError):
    """A model file cannot be imported (codes E6xx): truncated, not ONNX, unsupported operators, unsafe external data."""


def shortened(error: PolytcError) -> PolytcError:
    """The error without the frames of polytc's own modules, so that the line of the user's that led to it stands before the
    message. POLYTC_TRACEBACK=full keeps them."""
    return error if os.environ.get("POLYTC_TRACEBACK") == "full" else error.with_traceback(None)


def fail(code: str, message: str, span: Span | None = None, notes: Iterable[str] = (), *,
         source: str | None = None, kind: type[CompileError] = CompileError) -> CompileError:
    """The exception for a single diagnostic, ready to be raised: `raise fail("E401", ...)`."""
    return kind([Diagnostic(code, message, span, tuple(notes))], source)
