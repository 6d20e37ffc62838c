"""Calls that find indices outside of what they index, beside the calls of the nodes that have them (see
running/index_checks.py)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from polytc.graph.ir import Node
from polytc.graph.operators.binding import Apply, Indices, View
from polytc.graph.plan import NONE, Array, IndexCheck
from polytc.graph.user_operators import OWN_TEXTS
from polytc.program import program as pr
from polytc.program.program import Program
from polytc.rewrite.index_checks import Check, check_indices, decides

if TYPE_CHECKING:
    from polytc.graph.specialisation.specialise import Specialisation


def add_index_checks(walk: Specialisation, node: Node, inputs: Sequence[Indices]) -> None:
    """Look at the inputs of a node that hold indices, those that are not known now; the same ones once."""
    for k, each in enumerate(inputs):
        name, width = node.inputs[each.input], len(each.columns)
        ends = [(low, high) for low, high, _ in each.columns]
        shape = walk.shape(name) or ()
        key = (name, *ends, each.ignored, walk.under)
        if name in walk.known or key in walk.index_checks or not width * math.prod(shape):
            continue
        counts = f"&& I[i, d] != {each.ignored}" if each.ignored is not None else ""
        low, high = np.array(ends, np.int64).T.copy()
        names: dict[str, str] = {}
        walk.step(node, View(each.input, (math.prod(shape) // width, width), f"indices{k}"), names, frozenset())
        walk.step(replace(node, op="Indices"), Apply(
            "watching.Outside", (f"indices{k}", low, high), (f"first{k}", f"index{k}"), {"D": width, "nowhere": NONE},
            spell={"counts": counts}), names, frozenset())
        walk.index_checks[key] = IndexCheck(names[f"first{k}"], names[f"index{k}"], node.label, repr(name),
                                  tuple((0, e) for e in shape), (), tuple(f"{what}, {a}:{b}" for a, b, what in each.columns))


def with_index_checks(walk: Specialisation, node: Node, step: Apply, program: Program) -> tuple[Program, tuple[str, ...]]:
    """The program of a user's text with further outputs, and the values for these, where memory decides its subscripts."""
    if step.entry.rpartition(".")[0] not in OWN_TEXTS or not decides(program):
        return program, ()
    whole, checks = check_indices(program, numbered=True)
    values = tuple(f"{inner_name(node)}.{c.output.name}{len(walk.calls)}" for c in checks)
    for value, c in zip(values, checks, strict=True):
        walk.define(value, Array(c.output.dtype, c.output.shape), node.label)
        walk.index_checks[value] = _index_check(c, value, node)
    return whole, values


def _index_check(c: Check, value: str, node: Node) -> IndexCheck:
    place = c.subscript.a if isinstance(c.subscript, pr.Cast) else c.subscript
    low = c.tensor.lower[c.axis]
    return IndexCheck(value, "", node.label, pr.format_expr(place), tuple((r.lower, r.extent) for r in c.ranges),
                      tuple(r.index for r in c.ranges),
                      (f"dimension {c.axis} of {c.tensor.name}, {low}:{low + c.tensor.shape[c.axis]}",), c.width)


def inner_name(node: Node) -> str:
    """What the values inside of a node's lowering are called after."""
    return next(filter(None, node.outputs), node.op)
