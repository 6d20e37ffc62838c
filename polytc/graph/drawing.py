"""A graph as a picture: SVG text, made here, that any browser shows.

Nodes stand in rows: each in the row after the last of those it reads from (longest paths, Sugiyama, Tagawa & Toda, Methods for
Visual Understanding of Hierarchical System Structures, IEEE Trans. SMC 1981). Within a row they are ordered by the places of
their neighbours in the rows above and below, a few sweeps of the barycentre method. Constants are not drawn: a node's title
(shown when the pointer rests on it) has its inputs, outputs and attributes.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from polytc.graph.ir import Graph, Node, Value

WIDTH, HEIGHT, GAP, DROP, MARGIN = 150, 34, 18, 36, 16
"""Pixels: of a box, between boxes of a row, between rows, around the picture."""
SWEEPS = 4
"""Times that the rows are ordered down and up again."""
LETTERS = 22
"""Of a box's two lines."""
COLOURS = {"input": "#dcedc8", "output": "#ffe0b2", "node": "#e3f2fd"}
STYLE = ("text{font:11px sans-serif;text-anchor:middle} .small{font-size:9px;fill:#555} "
         "rect{stroke:#607d8b} path{fill:none;stroke:#90a4ae}")


@dataclass(frozen=True)
class Box:
    """What is drawn for a node, an input or an output: two lines of text, and more on request."""

    kind: str
    name: str
    detail: str
    title: str


def draw(graph: Graph) -> str:
    """The graph as an SVG document."""
    boxes, edges = _boxes(graph)
    rows = _ordered(_rows(boxes, edges), edges)
    widest = max((len(row) for row in rows), default=1)
    width = 2 * MARGIN + widest * (WIDTH + GAP) - GAP
    height = 2 * MARGIN + max(1, len(rows)) * (HEIGHT + DROP) - DROP
    places = {box: (MARGIN + (width - 2 * MARGIN - len(row) * (WIDTH + GAP) + GAP) / 2 + k * (WIDTH + GAP),
                    MARGIN + r * (HEIGHT + DROP)) for r, row in enumerate(rows) for k, box in enumerate(row)}
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
             f'viewBox="0 0 {width:.0f} {height:.0f}">', f"<title>{_text(graph.name)}</title>", f"<style>{STYLE}</style>",
             '<rect width="100%" height="100%" style="fill:white;stroke:none"/>']
    lines += [_edge(places[a], places[b]) for a, b in edges]
    lines += [_box(box, *places[k]) for k, box in enumerate(boxes)]
    return "\n".join([*lines, "</svg>", ""])


def _boxes(graph: Graph) -> tuple[list[Box], list[tuple[int, int]]]:
    """Inputs, nodes and outputs, and which reads from which."""
    maker: dict[str, int] = {}
    boxes: list[Box] = []
    edges: dict[tuple[int, int], None] = {}
    for value in graph.inputs:
        maker[value.name] = len(boxes)
        boxes.append(Box("input", value.name, _type(value), str(value)))
    for node in graph.nodes:
        edges |= dict.fromkeys((maker[n], len(boxes)) for n in node.inputs if n in maker)
        maker |= dict.fromkeys((n for n in node.outputs if n), len(boxes))
        boxes.append(Box("node", node.op, _result(node, graph.values), _described(node, graph.values)))
    for value in graph.outputs:
        if value.name in maker:
            edges[maker[value.name], len(boxes)] = None
        boxes.append(Box("output", value.name, _type(value), str(value)))
    return boxes, list(edges)


def _type(value: Value) -> str:
    return str(value).removeprefix(f"{value.name}: ")


def _result(node: Node, values: Mapping[str, Value]) -> str:
    return next((_type(values[n]) for n in node.outputs if n in values), node.name)


def _described(node: Node, values: Mapping[str, Value]) -> str:
    lines = [node.label, *(f"reads {values.get(n, n)}" for n in node.inputs if n)]
    lines += [f"makes {values.get(n, n)}" for n in node.outputs]
    return "\n".join([*lines, *(f"{k} = {str(v)[:60]}" for k, v in sorted(node.attributes.items()))])


# ---- where boxes stand

def _rows(boxes: Sequence[Box], edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The boxes by their longest path from the top; edges lead from earlier boxes to later ones."""
    level = [0] * len(boxes)
    for a, b in sorted(edges, key=lambda e: e[1]):
        level[b] = max(level[b], level[a] + 1)
    rows: list[list[int]] = [[] for _ in range(max(level, default=-1) + 1)]
    for box, row in enumerate(level):
        rows[row].append(box)
    return rows


def _ordered(rows: list[list[int]], edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Each row sorted by the mean place of its boxes' neighbours."""
    near: tuple[dict[int, list[int]], dict[int, list[int]]] = ({}, {})
    for a, b in edges:
        near[0].setdefault(b, []).append(a)
        near[1].setdefault(a, []).append(b)
    place = {box: k - (len(row) - 1) / 2 for row in rows for k, box in enumerate(row)}
    for _, neighbours in itertools.product(range(SWEEPS), near):
        for row in rows if neighbours is near[0] else reversed(rows):
            mean = [(sum(place[n] for n in neighbours.get(b, [b])) / len(neighbours.get(b, [b])), b) for b in row]
            row[:] = [b for _, b in sorted(mean)]
            place |= {box: k - (len(row) - 1) / 2 for k, box in enumerate(row)}
    return rows


# ---- what is written

def _text(text: str) -> str:
    """As XML text: escaped, without characters that XML forbids."""
    return "".join(_ESCAPED.get(c, c) if c.isprintable() or c == "\n" else "?" for c in text)


_ESCAPED = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def _short(text: str) -> str:
    return text if len(text) <= LETTERS else f"{text[:LETTERS - 1]}…"


def _box(box: Box, x: float, y: float) -> str:
    middle = x + WIDTH / 2
    return (f'<g class="{box.kind}"><title>{_text(box.title)}</title>'
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{WIDTH}" height="{HEIGHT}" rx="5" style="fill:{COLOURS[box.kind]}"/>'
            f'<text x="{middle:.1f}" y="{y + 14:.1f}">{_text(_short(box.name))}</text>'
            f'<text class="small" x="{middle:.1f}" y="{y + 27:.1f}">{_text(_short(box.detail))}</text></g>')


def _edge(start: tuple[float, float], end: tuple[float, float]) -> str:
    x1, y1, x2, y2 = start[0] + WIDTH / 2, start[1] + HEIGHT, end[0] + WIDTH / 2, end[1]
    bend = max(DROP / 2, (y2 - y1) / 3)
    return f'<path d="M{x1:.1f},{y1:.1f} C{x1:.1f},{y1 + bend:.1f} {x2:.1f},{y2 - bend:.1f} {x2:.1f},{y2:.1f}"/>'
