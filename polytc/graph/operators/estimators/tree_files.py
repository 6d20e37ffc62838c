"""Tree ensembles as files have them: nodes of all trees in parallel lists, in two notations (ai.onnx.ml 1 to 4, and 5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polytc.graph.operators.binding import Site

MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
"""Tests of a node, by their numbers in ai.onnx.ml 5."""
LEQ, LT, GTE, GT, EQ, NEQ, MEMBER = range(7)


@dataclass(frozen=True)
class Ensemble:
    """Trees of a node. Its inner nodes have numbers from 0 on; a child or root is the number of one, or ~l for leaf l.

    feature, value, mode, missing: of each inner node; missing: is a NaN true? yes, no: its children. sets: of nodes that ask
    for membership, by number. leaf, target, weight: what leaves add to targets.
    """

    feature: np.ndarray
    value: np.ndarray
    mode: np.ndarray
    missing: np.ndarray
    yes: np.ndarray
    no: np.ndarray
    roots: np.ndarray
    sets: dict[int, np.ndarray]
    leaves: int
    leaf: np.ndarray
    target: np.ndarray
    weight: np.ndarray


def read(site: Site, kind: str) -> Ensemble:
    """Of a TreeEnsembleClassifier ('class') or TreeEnsembleRegressor ('target'). Raises ModelError E609 for what are no
    trees."""
    def ints(name: str) -> np.ndarray:
        return np.array(site.attr(name) or [], np.int64)

    trees, ids = ints("nodes_treeids"), ints("nodes_nodeids")
    modes = site.attr("nodes_modes") or []
    values = _floats(site, "nodes_values")
    many = {len(trees), len(ids), len(modes), len(values), *(len(ints(f"nodes_{n}")) for n in (
        "featureids", "truenodeids", "falsenodeids"))}
    if len(many) != 1 or not len(trees):
        raise site.misfit("the lists of its nodes have different lengths, or no nodes")
    number = {m: k for k, m in enumerate((*MODES[:MEMBER], "LEAF"))}
    mode = np.array([number[m] for m in modes], np.int64)
    inner = mode != number["LEAF"]
    place = np.where(inner, np.cumsum(inner) - 1, ~(np.cumsum(~inner) - 1))  # of each node: an inner one's number, or ~leaf
    find = _Finder(site, trees, ids)
    missing = ints("nodes_missing_value_tracks_true")
    starts = np.flatnonzero(np.r_[True, trees[1:] != trees[:-1]])
    leaf = place[find(ints(f"{kind}_treeids"), ints(f"{kind}_nodeids"))]
    if (leaf >= 0).any():
        leaf = leaf.copy()  # weights of inner nodes are never met
    use = leaf < 0
    return Ensemble(ints("nodes_featureids")[inner], values[inner], mode[inner],
                    missing[inner] != 0 if len(missing) else np.zeros(int(inner.sum()), bool),
                    place[find(trees[inner], ints("nodes_truenodeids")[inner])],
                    place[find(trees[inner], ints("nodes_falsenodeids")[inner])], place[starts], {}, int((~inner).sum()),
                    ~leaf[use], ints(f"{kind}_ids")[use], _floats(site, f"{kind}_weights")[use])


def read_newer(site: Site) -> Ensemble:
    """Of a TreeEnsemble, of ai.onnx.ml 5."""
    def ints(name: str) -> np.ndarray:
        return np.array(site.attr(name) or [], np.int64)

    def child(side: str) -> np.ndarray:
        ids = ints(f"nodes_{side}nodeids")
        leaf = ints(f"nodes_{side}leafs") != 0
        return np.where(leaf, ~ids, ids)

    mode = np.asarray(site.attr("nodes_modes")).astype(np.int64).reshape(-1)
    members = np.flatnonzero(mode == MEMBER)
    values = site.attr("membership_values")
    sets = {} if values is None else dict(zip(members.tolist(), _separated(np.asarray(values).reshape(-1))))
    if len(sets) < len(members):
        raise site.misfit(f"{len(members)} nodes ask for membership, and there are {len(sets)} sets")
    missing = ints("nodes_missing_value_tracks_true")
    weight = np.asarray(site.attr("leaf_weights")).reshape(-1)
    count = len(mode)
    found = Ensemble(ints("nodes_featureids"), np.asarray(site.attr("nodes_splits")).reshape(-1), mode,
                     missing != 0 if len(missing) else np.zeros(count, bool), child("true"), child("false"), ints("tree_roots"),
                     sets, len(weight), np.arange(len(weight)), ints("leaf_targetids"), weight)
    for places in (found.yes, found.no, found.roots):
        if len(places) and not -len(weight) <= places.min() <= places.max() < count:
            raise site.misfit("a node or leaf is named that is not there")
    return found


def _separated(values: np.ndarray) -> list[np.ndarray]:
    """The sets in a list, each of which ends with a NaN."""
    ends = np.flatnonzero(np.isnan(values))
    starts = [0, *(ends[:-1] + 1)] if len(ends) else []
    return [values[a:b] for a, b in zip(starts, ends)]


def _floats(site: Site, name: str) -> np.ndarray:
    """Numbers that are f32 in a list, or of any float type in a tensor."""
    tensor = site.attr(f"{name}_as_tensor")
    return np.array(site.attr(name) or [], np.float32) if tensor is None else np.asarray(tensor).reshape(-1)


class _Finder:
    """From trees and numbers in them to places in the lists of nodes."""

    def __init__(self, site: Site, trees: np.ndarray, ids: np.ndarray) -> None:
        self.site, self.width = site, int(max(ids.max(), 0)) + 1
        keys = trees * self.width + ids
        self.order = np.argsort(keys, kind="stable")
        self.keys = keys[self.order]
        if (self.keys[1:] == self.keys[:-1]).any():
            raise site.misfit("two of its nodes have the same number in one tree")

    def __call__(self, trees: np.ndarray, ids: np.ndarray) -> np.ndarray:
        wanted = trees * self.width + ids
        at = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        if ((ids < 0) | (ids >= self.width) | (self.keys[at] != wanted)).any():
            raise self.site.misfit("a node is named that is not there")
        return np.asarray(self.order[at])
