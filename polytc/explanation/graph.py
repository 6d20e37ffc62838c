"""The two drawings of the page, as SVG: the roofline, and the dependences between statements."""

from __future__ import annotations

import math

from polytc.explanation.markup import plain, tag
from polytc.explanation.report import Report
from polytc.explanation.roofline import DATA_SHEET
from polytc.explanation.text import amount
from polytc.schedule.loop_report import Apart

WIDTH, HEIGHT, LEFT, BOTTOM = 440, 210, 20, 176
"""Pixels of the roofline: its size, and where its axes are."""
ROW, BOX, BULGE = 34, 140, 150
"""Pixels of the dependences: between statements, their width, how far an arc reaches at most."""


def roofline(r: Report) -> str:
    """Operations a second against operations a byte, logarithmic, with this program's place; '' if there are no roofs."""
    if r.bound is None:
        return ""
    roof, threads = r.bound.roofs, r.bound.threads
    peak, bandwidth, here = roof.operations * threads, roof.bandwidth, max(r.written.intensity, 1e-3)
    ridge = peak / bandwidth
    low, high = math.log10(min(here, ridge)) - 1, math.log10(max(here, ridge)) + 1
    top, floor = math.log10(peak) + 0.3, math.log10(bandwidth) + low

    def place(intensity: float, speed: float) -> tuple[float, float]:
        return (LEFT + (math.log10(intensity) - low) / (high - low) * (WIDTH - LEFT - 12),
                BOTTOM - (math.log10(speed) - floor) / (top - floor) * (BOTTOM - 14))
    corners = [place(10 ** low, bandwidth * 10 ** low), place(ridge, peak), place(10 ** high, peak)]
    x, y = place(here, min(peak, here * bandwidth))
    right = x > WIDTH * 0.6
    of = "" if roof.kind == DATA_SHEET else f", {threads} thread{'s' if threads > 1 else ''}"
    speed = f"{amount(peak, 'op/s')} ({roof.kind}{of})"
    drawing = [
        tag("line", "", "axis", x1=LEFT, y1=BOTTOM, x2=WIDTH - 8, y2=BOTTOM),
        tag("line", "", "axis", x1=LEFT, y1=8, x2=LEFT, y2=BOTTOM),
        tag("polyline", "", "roof", points=" ".join(f"{a:.1f},{b:.1f}" for a, b in corners)),
        tag("line", "", "drop", x1=x, y1=y, x2=x, y2=BOTTOM),
        tag("circle", "", "point", cx=x, cy=y, r=5),
        tag("text", f"{here:.3g} operations a byte", x=x + (-8 if right else 8), y=y + 22,
            text_anchor="end" if right else "start"),
        tag("text", plain(speed), x=WIDTH - 12, y=corners[1][1] - 6, text_anchor="end"),
        tag("text", plain(amount(bandwidth, "B/s")), x=corners[0][0] + 26, y=corners[0][1] - 4),
        tag("text", "operations a byte", x=(LEFT + WIDTH) / 2, y=HEIGHT - 10, text_anchor="middle")]
    return tag("section", tag("h2", "Roofline") + _svg(drawing, WIDTH, HEIGHT, "roofline", width="100%"))


def dependences(r: Report) -> str:
    """Statements in order, an arc for each pair that depends on each other."""
    rows = {s.name: 10 + ROW * k for k, s in enumerate(r.lowered.rewritten.statements)}
    arcs = [_arc(a, rows) for a in r.apart if a.first in rows and a.second in rows]
    boxes = [tag("rect", "", "node", x=8, y=y, width=BOX, height=26, rx=6)
             + tag("text", plain(n), "label", x=18, y=y + 17, data_s=n) for n, y in rows.items()]
    tip = tag("marker", tag("path", "", d="M0,0 L8,4 L0,8 z", fill="currentColor"), id="tip", viewBox="0 0 8 8", refX=7, refY=4,
              markerWidth=7, markerHeight=7, orient="auto")
    width, height = 8 + BOX + BULGE, 20 + ROW * len(rows)
    return (_svg([tag("defs", tip), *arcs, *boxes], width, height, "dependences", width=width, style="max-width:100%")
            + tag("p", "solid: flow; dashed: anti; dotted: output", "extent"))


def _arc(a: Apart, rows: dict[str, int]) -> str:
    kind = "flow" if "flow" in a.kinds else a.kinds[0]
    start, y1, y2 = 8 + BOX, rows[a.first] + 17, rows[a.second] + 11
    far = start + min(BULGE, 18 + abs(y2 - y1) * 0.28)
    return tag("path", tag("title", plain(f"{a.first} -> {a.second}: {', '.join(a.kinds)}")), f"arc {kind}",
               d=f"M{start},{y1} C{far:.0f},{y1} {far:.0f},{y2} {start + 5},{y2}", marker_end="url(#tip)")


def _svg(parts: list[str], view_width: int, view_height: int, label: str, **attributes: object) -> str:
    return tag("svg", "".join(parts), viewBox=f"0 0 {view_width} {view_height}", role="img", aria_label=label, **attributes)
