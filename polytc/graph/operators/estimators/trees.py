"""TreeEnsembleClassifier, TreeEnsembleRegressor and TreeEnsemble."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from polytc.graph.operators.binding import Apply, Binder, Lowering, Ref, Site, Step
from polytc.graph.operators.estimators import tree_files, tree_tables
from polytc.graph.operators.estimators.scores import labels_of, rows_of, transformed
from polytc.graph.operators.estimators.tree_files import Ensemble
from polytc.graph.operators.estimators.tree_tables import HASH, Tables

FEW = 16
"""Rows below which a walk has its lanes over trees."""

AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""By their numbers in ai.onnx.ml 5."""


@dataclass(frozen=True)
class Forest:
    """Trees of a node. steps: to its input as rows, `source`, with columns for NaN where they are needed. turns: of each class
    there are so many trees, one class after another, where each tree is about one class; else None."""

    site: Site
    found: Ensemble
    tables: Tables
    steps: list[Step]
    source: Ref
    rows: int
    targets: int
    turns: int | None

    def values(self, weights: np.ndarray, nothing: float = 0.0, how: str = "+") -> np.ndarray:
        """What each leaf has for each target: [leaf, target], [leaf] if each tree is about one. nothing: where it has none."""
        one = self.turns is not None or self.targets == 1
        out = np.full((self.found.leaves, 1 if one else self.targets), nothing, self.tables.threshold.dtype)
        put = {"+": np.add, "min": np.minimum, "max": np.maximum}[how]
        target = np.zeros_like(self.found.target) if one else self.found.target
        put.at(out, (self.found.leaf, target), weights.astype(out.dtype))
        return out[:, 0] if one else out

    def sums(self, values: np.ndarray, how: str, output: int | str) -> Step:
        """What the leaves of each row have, put together. how: `+=`, `max=` or `min=`."""
        t, ends = self.tables, self.tables.leaf
        tree = "t" if self.turns is None else f"{self.turns} * c + g"
        where = "" if self.turns is None else f"  where g in 0:{self.turns}, c in 0:{self.targets}"
        code, shift = t.codes()
        walked, places = (code, t.threshold), {"shift": shift, "low": (1 << shift) - 1}
        if self.rows < FEW or not t.steps:
            place, text = f"P[n, {tree}]", "trees.Walk"
            inputs = [self.source, *walked]
            attrs = {"trees": len(self.found.roots), "steps": t.steps, **places}
        else:
            top = tree_tables.tops(t, len(self.found.roots))
            place, text, attrs = f"P[{tree}, n]", "trees.Top", {"hash": HASH}
            inputs = [self.source, top.feature, top.threshold, top.mask]
            if top.steps:
                text, attrs = "trees.TopAndWalk", {"hash": HASH, "steps": top.steps, **places}
                inputs += [top.end, *walked]
            else:
                ends = ends[top.end.reshape(-1)]
        leaves = values[ends]
        leaves[ends < 0] = 0
        column = "0" if self.targets == 1 else "c"
        term = f"value[{place}{', c' if values.ndim == 2 else ''}]"
        return Apply(text, (*inputs, leaves), (output,), attrs, spell={"sum": f"S[n, {column}] {how} {term}{where}"})


def forest(site: Site, found: Ensemble, targets: int, *, group: bool = True) -> Forest:
    """targets: of all leaves. group: may trees about one target each change their order? Raises ModelError E608, E609."""
    if len(found.target) and not 0 <= found.target.min() <= found.target.max() < targets:
        raise site.misfit(f"a leaf is about target {found.target.max()} of {targets}")
    steps, source, rows, width = rows_of(site)
    dtype = np.dtype(np.float64 if site.dtype(0).name == "f64" else np.float32)
    if site.dtype(0).kind != "f":
        steps.append(Apply("trees.Single", (source,), ("single",)))
        source = "single"
    made, turns = tree_tables.tables(site, found, width, dtype), None
    grouped = _by_target(found, made.trees, targets) if group and targets > 1 else None
    if grouped is not None:
        found, turns = grouped
        made = tree_tables.tables(site, found, width, dtype)
    if made.missing:
        columns = f"E[n, c] = X[n, c]; E[n, c + {width}] = isnan(X[n, c]) ? -inf : X[n, c]"
        steps.append(Apply("trees.Columns", (source,), ("columns",), spell={"columns": columns}))
        source = "columns"
    return Forest(site, found, made, steps, source, rows, targets, turns)


def _by_target(found: Ensemble, trees: np.ndarray, targets: int) -> tuple[Ensemble, int] | None:
    """Trees that are about one target each, in the order of the targets, and how many each of these gets, trees of one leaf
    without weights included; None for other trees."""
    used = trees[found.leaf] >= 0
    about = np.full(len(found.roots), -1)
    about[trees[found.leaf[used]]] = found.target[used]
    if (about[trees[found.leaf[used]]] != found.target[used]).any() or (about < 0).any():
        return None
    most = int(np.bincount(about, minlength=targets).max())
    if most * targets > 2 * len(about):
        return None
    roots = np.full((targets, most), ~found.leaves)  # a leaf more, with nothing in it
    for k in range(targets):
        own = found.roots[about == k]
        roots[k, :len(own)] = own
    return replace(found, roots=roots.reshape(-1), leaves=found.leaves + 1), most


# ---- regression

def regressor(site: Site) -> Lowering:
    targets = site.attr("n_targets", 1)
    base = _base(site)
    return _regression(site, tree_files.read(site, "target"), targets, site.attr("aggregate_function", "SUM"),
                       site.attr("post_transform", "NONE"), base)


def ensemble(site: Site) -> Lowering:
    """Of ai.onnx.ml 5."""
    return _regression(site, tree_files.read_newer(site), site.attr("n_targets", 1),
                       AGGREGATES[site.attr("aggregate_function", 1)], TRANSFORMS[site.attr("post_transform", 0)], None)


def _regression(site: Site, found: Ensemble, targets: int, aggregate: str, transform: str, base: np.ndarray | None) -> Lowering:
    best = {"MIN": "min", "MAX": "max"}.get(aggregate)
    made = forest(site, found, targets, group=best is None)
    if best is None:
        steps = [*made.steps, made.sums(made.values(made.found.weight), "+=", "sums")]
    else:
        nothing = np.inf if best == "min" else -np.inf
        steps = [*made.steps, made.sums(made.values(found.weight, nothing, best), f"{best}=", "best"),
                 Apply("scores.Found", ("best",), ("sums",))]
    last = "sums"
    if aggregate == "AVERAGE":
        steps.append(Apply("scores.Mean", (last,), ("mean",), {"count": len(found.roots)}))
        last = "mean"
    if base is not None and len(base) == targets:
        steps.append(Apply("scores.Added", (last, base.astype(made.tables.threshold.dtype)), ("added",)))
        last = "added"
    single = site.dtype(0).name == "f64" and not site.node.op.endswith("TreeEnsemble")
    steps += transformed(last, transform, targets, "scores" if single else 0)
    if single:
        steps.append(Apply("scores.Single", ("scores",)))
    return tuple(steps)


def _base(site: Site) -> np.ndarray | None:
    tensor = site.attr("base_values_as_tensor")
    if tensor is not None:
        return np.asarray(tensor).reshape(-1)
    return np.array(site.attr("base_values"), np.float32) if site.attr("base_values") else None


# ---- classification

def classifier(site: Site) -> Lowering:
    """Two classes of which one has weights: its score decides. Else the class of the best score among those that have one."""
    labels, base = labels_of(site, "classlabels_int64s"), _base(site)
    found = tree_files.read(site, "class")
    if len(labels) == 2 and len(found.target) and (found.target == found.target[0]).all():
        return _one_of_two(site, found, labels, base)
    made = forest(site, found, len(labels))
    dtype = made.tables.threshold.dtype
    steps: list[Step] = [*made.steps, made.sums(made.values(made.found.weight), "+=", "sums")]
    transform, scored = site.attr("post_transform", "NONE"), _scored(made)
    if base is not None and len(base) not in (0, len(labels)) and (len(base) != 1 or len(labels) > 2):
        raise site.misfit(f"it has {len(base)} base_values and {len(labels)} classes")
    if len(labels) > 2:
        steps += _best(made, labels, scored, base, "sums", "raw")
        steps += transformed("raw", transform, len(labels), "scores")
    elif len(labels) == 2:
        steps += _of_two(made, labels, scored, base, transform)
    else:
        b = np.zeros(1, dtype) if base is None else base.astype(dtype)
        steps += [Apply("scores.Added", ("sums", b), ("raw",)),
                  Apply("scores.Above", ("raw", np.array([0, 1])), (0,), {"column": 0, "bound": 0.0}),
                  *transformed("raw", transform, 1, "scores")]
    return (*steps, Apply("scores.Single", ("scores",), (1,)))


def _best(made: Forest, labels: np.ndarray, scored: np.ndarray, base: np.ndarray | None, sums: str, output: str) -> list[Step]:
    """Scores with their base values, and the label of the best. Without base values, classes that no leaf of a row is about
    have no part in it."""
    dtype = made.tables.threshold.dtype
    if base is not None and len(base):
        return [Apply("scores.Added", (sums, base.astype(dtype)), (output,)),
                Apply("scores.Best", (output, labels), (0,))]
    keep = [Apply("elementwise.Copy", (sums,), (output,))]
    if (scored == 1).all():
        return [*keep, Apply("scores.Best", (sums, labels), (0,))]
    if (scored >= 0).all():
        hidden = np.where(scored == 1, 0, -np.inf).astype(dtype)
        return [*keep, Apply("scores.Added", (sums, hidden), ("seen",)), Apply("scores.Best", ("seen", labels), (0,))]
    if made.turns is not None:
        raise made.site.unsupported("leaves without weights, in trees about one class each")
    flags = made.values(np.zeros(len(made.found.weight)), -np.inf, "max")
    return [*keep, made.sums(flags, "max=", "flags"), Apply("elementwise.Add", (sums, "flags"), ("seen",)),
            Apply("scores.Best", ("seen", labels), (0,))]


def _of_two(made: Forest, labels: np.ndarray, scored: np.ndarray, base: np.ndarray | None, transform: str) -> list[Step]:
    """Both have weights: the second one decides, and the labels are 0 and 1 if they are numbers, as in ONNX Runtime."""
    dtype = made.tables.threshold.dtype
    given = np.zeros(0, dtype) if base is None else base.astype(dtype)
    if not (scored == 1).all():
        raise made.site.unsupported("leaves without weights for classes that others have some for")
    if len(given) == 2:
        steps: list[Step] = [Apply("scores.Added", ("sums", np.array([given[1], 0], dtype)), ("first",)),
                             Apply("scores.Opposite", ("first",), ("raw",))]
    else:
        steps = [Apply("scores.Added", ("sums", np.array([*given, 0, 0][:2], dtype)), ("raw",))]
    both = labels if made.site.attr("coded") else np.array([0, 1])
    return [*steps, Apply("scores.Above", ("raw", both), (0,), {"column": 1, "bound": 0.0}),
            *transformed("raw", transform, 2, "scores")]


def _one_of_two(site: Site, found: Ensemble, labels: np.ndarray, base: np.ndarray | None) -> Lowering:
    """One of two classes has weights: it is the second one that wins above a bound, which is that of probabilities where no
    weight is negative."""
    made = forest(site, replace(found, target=np.zeros_like(found.target)), 1)
    dtype, transform = made.tables.threshold.dtype, site.attr("post_transform", "NONE")
    bound = {"column": 0, "bound": 0.5 if (found.weight >= 0).all() else 0.0}
    given = np.zeros(0, dtype) if base is None else base.astype(dtype)
    if len(given) > 2:
        raise site.misfit(f"it has {len(given)} base_values and two classes")
    steps = [*made.steps, made.sums(made.values(made.found.weight), "+=", "sums")]
    if found.target[0] == 1:
        if len(given) == 2:
            raise site.unsupported("two base values, and weights for the second class alone")
        steps += [Apply("scores.Above", ("sums", labels), (0,), bound), Apply("scores.Second", ("sums",), ("raw",)),
                  *transformed("raw", transform, 2, "scores")]
        return (*steps, Apply("scores.Single", ("scores",), (1,)))
    steps += [Apply("scores.Added", ("sums", np.array([*given, 0][:1], dtype)), ("raw",)),
              Apply("scores.Above", ("raw", labels), (0,), bound)]
    if len(given) == 2:
        steps += [Apply("scores.First", ("raw",), ("both",)), *transformed("both", transform, 2, "scores")]
    elif transform == "PROBIT":
        raise site.unsupported("PROBIT of one score for two classes")
    elif transform == "LOGISTIC":
        steps += [Apply("scores.Opposite", ("raw",), ("both",)), *transformed("both", transform, 2, "scores")]
    else:
        steps.append(Apply("scores.Complement" if bound["bound"] else "scores.Opposite", ("raw",), ("scores",)))
    return (*steps, Apply("scores.Single", ("scores",), (1,)))


def _scored(made: Forest) -> np.ndarray:
    """Which classes each row has a score for: 1 all rows, 0 none, -1 it depends."""
    pairs = np.unique(np.stack([made.found.leaf, made.found.target], 1), axis=0)
    trees = made.tables.trees
    pairs = pairs[trees[pairs[:, 0]] >= 0]
    leaves = np.bincount(trees[trees >= 0], minlength=len(made.found.roots))
    counts = np.zeros((len(made.found.roots), made.targets), np.int64)
    np.add.at(counts, (trees[pairs[:, 0]], pairs[:, 1]), 1)
    always = ((counts == leaves[:, None]) & (leaves > 0)[:, None]).any(0)
    return np.where(always, 1, np.where(counts.any(0), -1, 0))


ROWS: dict[str, Binder] = {
    "ai.onnx.ml::TreeEnsembleClassifier": classifier, "ai.onnx.ml::TreeEnsembleRegressor": regressor,
    "ai.onnx.ml::TreeEnsemble": ensemble}
