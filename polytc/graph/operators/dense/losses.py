"""Losses of classifiers."""

from __future__ import annotations

from polytc.graph.operators.binding import Apply, Binder, Lowering, Ref, Site, Step, View
from polytc.graph.operators.index_packs import indices, spell


def negative_log_likelihood(site: Site) -> Lowering:
    return _chosen(site, 0)


def softmax_cross_entropy(site: Site) -> Lowering:
    """The same of the logarithms of softmax over the classes, which are the second output."""
    names = indices(site.rank(0))
    steps: list[Step] = [Apply("reduction.LogSoftmax", (0,), ("log",), spell={
        "x": spell(names), "y": spell([names[0], *names[2:]])})]
    if len(site.node.outputs) > 1 and site.node.outputs[1]:
        steps.append(View("log", site.shape(0), 1))
    return *steps, *_chosen(site, "log")


def _chosen(site: Site, scores: Ref) -> tuple[Step, ...]:
    """Without an attribute `ignore_index` the number C is ignored, which no class has."""
    classes = site.shape(0)[1]
    attrs = {"C": classes, "ignore": site.attr("ignore_index", classes)}
    site.within(1, site.along(0, 1, back=False), ignored=site.attr("ignore_index"))
    weighted = "Weighted" if site.has(2) else ""
    inputs: tuple[Ref, ...] = (scores, 1, 2) if weighted else (scores, 1)
    reduction = site.attr("reduction", "mean")
    if reduction == "none":
        return (Apply(f"losses.Chosen{weighted}", inputs, attrs=attrs),)
    if reduction == "mean":
        spelling = {} if weighted else {"type": site.dtype(0).name}
        return (Apply(f"losses.Chosen{weighted}Mean", inputs, attrs=attrs, spell=spelling),)
    if reduction != "sum":
        raise site.misfit(f"the reduction {reduction!r}; 'none', 'sum' and 'mean' are known")
    return (Apply(f"losses.Chosen{weighted}", inputs, ("each",), attrs=attrs),
            Apply("reduction.ReduceSum", ("each",), spell={"x": spell(indices(site.rank(1))), "y": ""}))


ROWS: dict[str, Binder] = {"NegativeLogLikelihoodLoss": negative_log_likelihood,
                           "SoftmaxCrossEntropyLoss": softmax_cross_entropy}
