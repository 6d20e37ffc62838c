"""Collects the diagnostics of one program, so that all of them are shown together."""

from __future__ import annotations

from collections.abc import Iterable

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
            raise CompileError(sorted(self.found, key=lambda d: d.span.start if d.span else -1), self.source)


def closest(name: str, candidates: Iterable[str]) -> str:
    """'did you mean `x`?' for the candidate nearest to `name`, or '' where none is near."""
    import difflib  # only for messages

    spellings = {c.lower(): c for c in candidates}
    near = difflib.get_close_matches(name.lower(), spellings, n=1, cutoff=0.6)
    return f"did you mean `{spellings[near[0]]}`?" if near else ""
