"""TopK: as text where rows are short, else a routine."""

from __future__ import annotations

import numpy as np

from polytc.graph.operators.binding import Apply, Binder, Lowering, Site, View
from polytc.graph.operators.index_packs import indices, spell
from polytc.graph.operators.routines import selection

FEW = 64
"""Elements of rows in which comparing each with each takes less than to leave the compiled code for the routine."""


def top_k(site: Site) -> Lowering:
    """The largest or smallest elements of an axis, see routines.selection."""
    shape = site.shape(0)
    axis = site.axis(site.attr("axis", -1), len(shape))
    given = np.array(site.attr("k")) if site.opset < 10 else site.value(1)
    if given is None or 0 in shape or not 0 < given.item() <= (shape[axis] if shape else 0) <= FEW:
        return selection.top_k(site)
    k = int(given.item())
    names = indices(len(shape), "c")

    def at(name: str) -> str:
        return spell([*names[:axis], name, *names[axis + 1:]])

    order = "Downwards" if site.attr("largest", 1) else "Upwards"
    steps = [Apply(f"ordering.{order}", (0,), ("places",), spell={"x": at("i"), "o": at("j")}),
             Apply("ordering.Placed", ("places",), ("which",), attrs={"k": k}, spell={"x": at("i"), "y": at("q")})]
    if site.wants(0):
        place = f"I[{at('q')}] % {shape[axis]}"
        steps.append(Apply("movement.Gather", (0, "which"), spell={"y": at("q"), "x": at(place)}))
    return (*steps, View("which", (*shape[:axis], k, *shape[axis + 1:]), 1)) if site.wants(1) else tuple(steps)


ROWS: dict[str, Binder] = {"TopK": top_k}
