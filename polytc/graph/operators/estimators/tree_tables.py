"""Tree ensembles as tables: a walk from the roots to the leaves is a fixed number of steps, each some reads of tables.

All tests become one, `x <= threshold`, and the two children of a node lie side by side, so that a step is

    P = left[P] < 0 ? P : left[P] + (X[n, feature[P]] <= threshold[P] ? 0 : 1)

with left and feature in one number. `x < v` is `x <= w` with w the next number below v, `x > v` the negation of `x <= v`,
`x == v` two nodes, and membership a search among the members. A NaN is never `<=` anything; for nodes that take it as true,
columns in which it is -inf follow those of X.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from polytc.graph.operators.binding import Site
from polytc.graph.operators.estimators.tree_files import EQ, GT, GTE, LT, MEMBER, NEQ, Ensemble


@dataclass(frozen=True)
class Tables:
    """Rows are nodes, those of the roots first. feature: a column, counted from `width` on if a NaN is true; threshold;
    left: the row of the first child, -1 for a leaf; leaf: the leaf's number, -1 for others. steps: to the deepest leaf of all.
    trees: the tree that each leaf is in, -1 for one that no tree has. missing: is some node's feature counted from `width`
    on?"""

    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    leaf: np.ndarray
    steps: int
    trees: np.ndarray
    missing: bool

    def codes(self) -> tuple[np.ndarray, int]:
        """left and feature of each row in one number, negative for a leaf, and how many bits the feature has."""
        shift = max(int(self.feature.max()).bit_length(), 1)
        codes = self.left.astype(np.int64) << shift | self.feature.astype(np.int64)
        return codes if len(self.left) >> (31 - shift) else codes.astype(np.int32), shift


def tables(site: Site, found: Ensemble, width: int, dtype: np.dtype) -> Tables:
    """width: columns of the input. dtype: of thresholds, and in which inputs are compared."""
    if len(found.feature) and not 0 <= found.feature.min() <= found.feature.max() < width:
        raise site.misfit(f"a node asks for the feature {found.feature.max()} of {width}")
    if np.isnan(found.value[found.mode != MEMBER]).any():
        raise site.unsupported("a node compares with NaN")
    feature, threshold, missing, yes, no = _uniform(site, found, dtype)
    steps, trees = _levels(site, yes, no, found)
    count, roots = len(feature), len(found.roots)
    nodes = np.concatenate([found.roots, np.stack([yes, no], 1).reshape(-1)]).astype(np.int64)
    inner = nodes >= 0
    k = np.where(inner, nodes, 0)
    if not count:
        feature, threshold, missing = np.zeros(1, np.int64), np.zeros(1, dtype), np.zeros(1, bool)
    column = feature[k] + width * missing[k]
    return Tables(np.where(inner, column, 0).astype(np.int32), np.where(inner, threshold[k], 0).astype(dtype),
                  np.where(inner, roots + 2 * k, -1).astype(np.int32), np.where(inner, -1, ~nodes), steps, trees,
                  bool(missing[k][inner].any()))


def _below(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return np.nextafter(values.astype(dtype), np.array(-np.inf, dtype))


def _uniform(site: Site, found: Ensemble, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    """Feature, threshold, whether a NaN is true, and children of nodes that all ask `x <= threshold`. The first of them are
    those of the ensemble, in their order."""
    mode, value = found.mode, found.value.astype(dtype)
    strict = (mode == LT) | (mode == GTE)
    if (strict & np.isneginf(value)).any():
        raise site.unsupported("a node asks for less than -inf")
    swapped = (mode == GTE) | (mode == GT)
    threshold = np.where(strict, _below(value, dtype), value)
    yes, no = np.where(swapped, found.no, found.yes), np.where(swapped, found.yes, found.no)
    more = _Grown(list(found.feature), list(threshold), list(found.missing ^ swapped), list(yes), list(no))
    for k in np.flatnonzero(mode >= EQ):
        members = np.unique(found.sets[int(k)].astype(dtype)) if mode[k] == MEMBER else value[k:k + 1]
        inside, outside = found.yes[k], found.no[k]
        if mode[k] == NEQ:
            inside, outside = outside, inside
        # Cuts below and at each member: between them lie the members, inside. A NaN is larger than all cuts, and so outside.
        cuts = np.stack([_below(members, dtype), members], 1).reshape(-1)
        more.search(int(k), cuts, inside, outside, bool(found.missing[k]) and mode[k] != NEQ)
    return (np.array(more.feature, np.int64), np.array(more.threshold, dtype), np.array(more.missing, bool),
            np.array(more.yes, np.int64), np.array(more.no, np.int64))


@dataclass
class _Grown:
    """Lists of nodes, to which some are added."""

    feature: list[Any]
    threshold: list[Any]
    missing: list[Any]
    yes: list[Any]
    no: list[Any]

    def search(self, k: int, cuts: np.ndarray, inside: int, outside: int, missing: bool) -> None:
        """Make node k the root of a search for the interval between cuts in which x lies, the odd ones of which lead inside."""
        column = self.feature[k]

        def node(low: int, high: int, at: int | None = None) -> int:
            if low == high:
                return inside if low % 2 else outside
            middle = (low + high) // 2
            if at is None:
                at = len(self.feature)
                for each in (self.feature, self.threshold, self.missing, self.yes, self.no):
                    each.append(0)
            self.feature[at], self.threshold[at], self.missing[at] = column, cuts[middle], False
            self.yes[at], self.no[at] = node(low, middle), node(middle + 1, high)
            return at
        if not missing:
            node(0, len(cuts), k)
            return
        # A node of its own finds the -inf that stands for NaN there.
        self.yes[k], self.no[k] = inside, node(0, len(cuts))
        self.threshold[k], self.missing[k] = -np.inf, True


def _levels(site: Site, yes: np.ndarray, no: np.ndarray, found: Ensemble) -> tuple[int, np.ndarray]:
    """Steps to the deepest leaf, and the tree of each leaf. Raises ModelError E609 where nodes lead back to themselves."""
    trees = np.full(found.leaves, -1)
    front, owner = found.roots, np.arange(len(found.roots))
    for step in range(len(yes) + 1):
        trees[~front[front < 0]] = owner[front < 0]
        front, owner = front[front >= 0], owner[front >= 0]
        if not len(front):
            return step, trees
        front, first = np.unique(np.concatenate([yes[front], no[front]]), return_index=True)
        owner = np.concatenate([owner, owner])[first]
    raise site.misfit("its nodes lead back to themselves")


@dataclass(frozen=True)
class Tops:
    """The upper part of each tree, for a decision at once: of all bits, the masks of its nodes that are false leave that of the
    part's leaf as the lowest one. feature, threshold, mask: [tree, node]; end: [tree, hash of a bit] the row behind it; steps:
    how many follow to the deepest leaf."""

    feature: np.ndarray
    threshold: np.ndarray
    mask: np.ndarray
    end: np.ndarray
    steps: int


BITS = 32
HASH = 0x077CB531
"""A de Bruijn sequence: the five upper bits of its products with powers of two are all different (Leiserson, Prokop and
Randall, Using de Bruijn Sequences to Index a 1 in a Computer Word, 1998)."""


def tops(found: Tables, roots: int) -> Tops:
    """Up to 32 leaves a tree, level by level; steps: how many follow. (Lucchese and others, QuickScorer, SIGIR 2015.)"""
    parts = [_top(found, root) for root in range(roots)]
    nodes = max((len(p[0]) for p in parts), default=0) or 1
    feature = np.zeros((roots, nodes), np.int32)
    threshold = np.full((roots, nodes), np.inf, found.threshold.dtype)
    mask = np.full((roots, nodes), (1 << BITS) - 1, np.uint32)
    end = np.zeros((roots, BITS), np.int32)
    for t, (rows, masks, ends) in enumerate(parts):
        feature[t, :len(rows)], threshold[t, :len(rows)] = found.feature[rows], found.threshold[rows]
        mask[t, :len(rows)] = masks
        end[t] = ends[0]  # of bits that no leaf has, too
        for bit, row in enumerate(ends):
            end[t, (HASH << bit & 0xFFFFFFFF) >> 27] = row
    return Tops(feature, threshold, mask, end, _rest(found, end))


def _top(found: Tables, root: int) -> tuple[list[int], list[int], list[int]]:
    """Rows of the nodes of a part, their masks, and the rows behind it from left to right."""
    left, places, children = found.left, [root], dict[int, int]()  # places of the part: a row may be at several
    front = deque([0])
    while front and len(children) + 1 < BITS:
        at = front.popleft()
        first = int(left[places[at]])
        if first >= 0:
            children[at] = len(places)
            front += [len(places), len(places) + 1]
            places += [first, first + 1]
    rows, masks, ends = list[int](), list[int](), list[int]()

    def visit(at: int) -> None:
        if at not in children:
            ends.append(places[at])
            return
        first = len(ends)
        visit(children[at])
        rows.append(places[at])
        masks.append(((1 << BITS) - 1) ^ ((1 << len(ends)) - (1 << first)))
        visit(children[at] + 1)
    visit(0)
    return rows, masks, ends


def _rest(found: Tables, end: np.ndarray) -> int:
    front, steps = np.unique(end), 0
    while len(front := front[found.left[front] >= 0]):
        steps += 1
        front = np.unique(np.concatenate([found.left[front], found.left[front] + 1]))
    return steps
