"""Explanation: a report that prints as text and saves as HTML."""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path

from polytc.compiler import Lowered
from polytc.explanation.page import to_html
from polytc.explanation.report import Report, report
from polytc.explanation.text import to_text
from polytc.targets.opencl.starvation import Starving


@dataclass(frozen=True)
class Explanation:
    """`print(explanation)` is the text; notebooks show the page. report: the same as data."""

    report: Report

    def __str__(self) -> str:
        return to_text(self.report)

    @property
    def starving(self) -> tuple[Starving, ...]:
        """The launches that leave most of a GPU idle although the program has more to do at once."""
        return self.report.starving

    @property
    def warnings(self) -> tuple[str, ...]:
        """What `polytc explain` and `export` warn of: launches that starve, and temporaries without room in local memory."""
        return tuple(map(str, (*self.report.starving, *self.report.too_large)))

    @property
    def html(self) -> str:
        """One static page: nothing is loaded from elsewhere."""
        return to_html(self.report)

    def save(self, path: str | Path) -> None:
        """Write the page to a file."""
        Path(path).write_text(self.html, encoding="utf-8")

    def _repr_html_(self) -> str:
        return f'<iframe style="width:100%;height:900px;border:0" srcdoc="{html.escape(self.html, quote=True)}"></iframe>'


def explain(lowered: Lowered, threads: int = 1, measure: bool = True) -> Explanation:
    """Explain one compilation. threads: for the roofline; measure: this machine's two roofs, where code is for it (a tenth of
    a second, once in a process)."""
    return Explanation(report(lowered, threads, measure))
