"""Reductions over chosen axes, and operators made of them."""

from __future__ import annotations

import math

from polytc.graph.operators.binding import Apply, Binder, Lowering, Site, View
from polytc.graph.operators.elements.elementwise import kept
from polytc.graph.operators.index_packs import indices, spell


def reduce(entry: str, boolean: str | None = None) -> Binder:
    """A row for a reduction whose axes are an attribute or, since opset 13 or 18, input 1."""
    def bind(site: Site) -> Lowering:
        rank = site.rank(0)
        given = site.ints_of("axes", 1)
        if not given and site.attr("noop_with_empty_axes", 0):
            return View(0, site.shape(0))
        axes = sorted({site.axis(a, rank) for a in given}) if given else list(range(rank))
        attrs = {"count": math.prod(site.shape(0)[a] for a in axes)} if entry == "ReduceMean" else {}
        name = boolean if boolean and site.dtype(0).kind == "b" else entry
        return Apply(f"reduction.{name}", (0,), attrs=attrs, spell=_kept(rank, axes, bool(site.attr("keepdims", 1))))
    return bind


def _kept(rank: int, axes: list[int], keep: bool) -> dict[str, str]:
    """Spelling of all indices (x) and of those that stay (y)."""
    names = indices(rank)
    stay = [("0" if i in axes else name) for i, name in enumerate(names) if keep or i not in axes]
    return {"x": spell(names), "y": spell(stay)}


def extremum(kind: str) -> Binder:
    """ArgMax and ArgMin."""
    def bind(site: Site) -> Lowering:
        rank = site.rank(0)
        axis = site.axis(site.attr("axis", 0), rank)
        spelling = _named_axis(rank, axis, bool(site.attr("keepdims", 1)))
        last = bool(site.attr("select_last_index", 0))
        attrs = {} if last else {"n": site.shape(0)[axis]}
        return Apply(f"reduction.{kind}{'Last' if last else ''}", (0,), attrs=attrs, spell=spelling)
    return bind


def _named_axis(rank: int, axis: int, keep: bool) -> dict[str, str]:
    """The reduced index is called k."""
    names = indices(rank)
    names[axis] = "k"
    stay = [("0" if i == axis else name) for i, name in enumerate(names) if keep or i != axis]
    return {"x": spell(names), "y": spell(stay)}


def softmax(entry: str) -> Binder:
    """Before opset 13 the operator worked on all axes from the given one on, together."""
    def bind(site: Site) -> Lowering:
        rank, old = site.rank(0), site.opset < 13
        axis = site.axis(site.attr("axis", 1 if old else -1), rank)
        axes = list(range(axis, rank)) if old else [axis]
        return Apply(f"reduction.{entry}", (0,), spell=_kept(rank, axes, keep=False))
    return bind


def hardmax(site: Site) -> Lowering:
    axis = site.axis(site.attr("axis", -1 if site.opset >= 13 else 1), site.rank(0))
    if site.opset < 13 and axis != site.rank(0) - 1:
        raise site.unsupported("Hardmax over several axes, as before opset 13")
    return Apply("reduction.Hardmax", (0,), attrs={"n": site.shape(0)[axis]}, spell=_named_axis(site.rank(0), axis, keep=False))


def lp_normalization(site: Site) -> Lowering:
    axis = site.axis(site.attr("axis", -1), site.rank(0))
    p = site.attr("p", 2)
    if p not in (1, 2):
        raise site.misfit(f"the norm of order {p}; there are 1 and 2")
    return Apply(f"reduction.LpNormalization{p}", (0,), spell=_kept(site.rank(0), [axis], keep=False))


def cumulative(entry: str) -> Binder:
    """Running sums or products."""
    def bind(site: Site) -> Lowering:
        return _cumulative(site, entry)
    return bind


def _cumulative(site: Site, entry: str) -> Lowering:
    axis = site.axis(site.ints(1, "axis")[0], site.rank(0))
    extent = site.shape(0)[axis]
    seen, places = indices(site.rank(0)), indices(site.rank(0))
    seen[axis], places[axis] = "k", "q"
    backwards, exclusive = bool(site.attr("reverse", 0)), bool(site.attr("exclusive", 0))
    if exclusive:
        seen[axis] = "k + 1" if backwards else "k - 1"
    return Apply(f"reduction.{entry}{'Exclusive' if exclusive else ''}", (0,), spell={
        "x": spell(seen), "y": spell(places), "ranges": f"q in 0:{extent}, k in 0:{extent}, k {'>=' if backwards else '<='} q"})


ROWS: dict[str, Binder] = {name: reduce(name) for name in ("ReduceSum", "ReduceProd", "ReduceL1", "ReduceSumSquare")} | {
    name: kept(reduce(name)) for name in ("ReduceL2", "ReduceMean", "ReduceLogSum", "ReduceLogSumExp")} | {
    "ReduceMax": reduce("ReduceMax", "ReduceAny"), "ReduceMin": reduce("ReduceMin", "ReduceAll"),
    "ArgMax": extremum("ArgMax"), "ArgMin": extremum("ArgMin"), "Softmax": softmax("Softmax"),
    "LogSoftmax": softmax("LogSoftmax"), "Hardmax": hardmax, "LpNormalization": lp_normalization,
    "CumSum": cumulative("CumSum"), "CumProd": cumulative("CumProd")}
