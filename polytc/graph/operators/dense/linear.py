"""Matrix products and general contractions."""

from __future__ import annotations

import numpy as np

from polytc.graph.operators.binding import Apply, Binder, Known, Lowering, Ref, Site, Step
from polytc.graph.operators.index_packs import broadcast, broadcast_shapes, fits, indices, spell


def leading(site: Site, a: tuple[int, ...], b: tuple[int, ...]) -> list[str]:
    """Indices of the leading axes of a product of such arrays, 0 for an extent of 1. Refuses shapes that do not fit."""
    if not a or not b or a[-1] != b[-2 if len(b) > 1 else 0]:
        raise site.misfit("the inner extents of a product differ")
    try:
        batch = broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        raise site.misfit("the leading extents of a product do not broadcast") from None
    return ["0" if extent == 1 else name for name, extent in zip(indices(len(batch), "b"), batch)]


def matmul(site: Site) -> Lowering:
    """numpy's matmul: vectors, and leading axes that broadcast."""
    a, b = site.shape(0), site.shape(1)
    names = leading(site, a, b)
    spelling = {"y": spell(names), "a": spell(broadcast(names, a[:-2])), "b": spell(broadcast(names, b[:-2]))}
    entries = {(True, True): "MatMul", (True, False): "MatVec", (False, True): "VecMat", (False, False): "Dot"}
    entry = entries[len(a) > 1, len(b) > 1]
    return Apply(f"linear.{entry}", (0, 1), spell=spelling)


def gemm(site: Site) -> Lowering:
    """alpha * A' B' + beta * C; a constant B is stored as it is read."""
    alpha, beta = site.attr("alpha", 1.0), site.attr("beta", 1.0)
    turned = bool(site.attr("transB", 0))
    rows, inner = site.shape(0)[::-1 if site.attr("transA", 0) else 1]
    if not inner and site.has(2):  # a product over nothing
        zeros = Known(np.zeros((rows, site.shape(1)[0 if turned else 1]), site.dtype(0).numpy), "p")
        return zeros, Apply("linear.AddScaled", ("p", 2), attrs={"beta": beta})
    columns, depth = site.shape(1)[::1 if turned else -1]
    if depth != inner:
        raise site.misfit(f"a product of {rows} x {inner} and {depth} x {columns}")
    if site.has(2) and not fits(site.shape(2), (rows, columns)):
        raise site.misfit(f"the third input does not fit a result of {rows} x {columns}")
    weights = site.value(1)
    b: Ref = 1
    if weights is not None:
        b = np.ascontiguousarray(weights.T) if turned else weights
        if alpha != 1 and not site.dtype(1).is_half:
            b, alpha = (np.float64(alpha) * b).astype(weights.dtype), 1
        turned = False
    entry = f"linear.Gemm{'T' if site.attr('transA', 0) else 'N'}{'T' if turned else 'N'}"
    biased = site.has(2) and beta != 0
    steps: list[Step] = [Apply(entry, (0, b), ("t",))]
    if alpha != 1:
        steps.append(Apply("linear.Scale", ("t",), ("s",), attrs={"alpha": alpha}))
    if biased and beta == 1:
        steps.append(Apply("elementwise.Add", (_last(steps), 2), ("r",)))
    elif biased:
        steps.append(Apply("linear.AddScaled", (_last(steps), 2), ("r",), attrs={"beta": beta}))
    if not site.dtype(0).is_float and (alpha != 1 or biased and beta != 1):
        steps.append(Apply(f"elementwise.Cast_{site.dtype(0)}", (_last(steps),), ("i",)))
    last = steps.pop()
    assert isinstance(last, Apply)
    return (*steps, Apply(last.entry, last.inputs, (0,), last.attrs))


def _last(steps: list[Step]) -> int | str:
    last = steps[-1]
    assert isinstance(last, Apply)
    return last.outputs[0]


ROWS: dict[str, Binder] = {"MatMul": matmul, "Gemm": gemm}
