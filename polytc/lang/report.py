"""Collects the diagnostics of one program, so that all of them are shown together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from polytc.errors import CompileError, Diagnostic, Span


class Report:
    """The diagnostics found so far in `source`."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.found: list[Diagnostic] = []

    def add(self, code: str, message: str, span: Span | None = None, *notes: str) -> None:
        """Note one refusal; the same refusal twice is noted once."""
        diagnostic = Diagnostic(code, message, span, tuple(n for n in notes if n))
        if diagnostic not in self.found:
            self.found.append(diagnostic)

    def stop(self) -> None:
        """Raise what was found, in the order of the text; nothing happens if nothing was found."""
        if self.found:
            found = [_quoting(d, self.source) for d in self.found]
            raise CompileError(sorted(found, key=lambda d: d.span.start if d.span else -1), self.source)


def _quoting(d: Diagnostic, source: str) -> Diagnostic:
    """The diagnostic with the read itself in the cure that guards it:  `(T[...] else 0)` -> `(T[i-1] else 0)`."""
    read = source[d.span.start:d.span.end] if d.span is not None else ""
    general = f"({read.partition('[')[0]}[...] else 0)"
    if not read.endswith("]") or "\n" in read:
        return d
    return replace(d, notes=tuple(n.replace(general, f"({read} else 0)") for n in d.notes))


def closest(name: str, candidates: Iterable[str]) -> str:
    """'did you mean `x`?' for the candidate nearest to `name`, or '' where none is near."""
    import difflib  # only for messages

    spellings = {c.lower(): c for c in candidates}
    exchanged = [c for low, c in spellings.items() if sorted(low) == sorted(name.lower()) and len(low) > 2]
    if exchanged:
        return f"did you mean `{exchanged[0]}`?"
    near = difflib.get_close_matches(name.lower(), spellings, n=1, cutoff=0.6)
    return f"did you mean `{spellings[near[0]]}`?" if near else ""
