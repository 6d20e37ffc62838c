"""A graph whose strings are numbers: those that come in are replaced by their places in a vocabulary, and those that go out by
the words there. In between, encoders, comparisons and movements of strings are those of numbers, and compiled as such.

    (s: string) LabelEncoder{keys_strings=[a, b], values_int64s=[7, 9]} (y)
    ->  codes, others = StringCodes{vocabulary=[a, b]}(s);  y = LabelEncoder{keys_int64s=[0, 1], values_int64s=[7, 9]}(codes)

Labels of classifiers become numbers likewise. What does more with strings than this stays on onnx's evaluator.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from polytc.graph.evaluation.value_hosts import CODES, STRINGS
from polytc.graph.ir import Graph, Node, Value, bodies, reads
from polytc.program.scalars import I64

ML = "ai.onnx.ml::"
MOVING = frozenset({
    "Identity", "Concat", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Gather", "GatherElements", "GatherND",
    "Slice", "Split", "Expand", "Tile", "Where", "Equal", "Shape", "Size", "Compress", f"{ML}ArrayFeatureExtractor"})
"""Operators that do with strings what they do with numbers."""
ENCODING = {f"{ML}LabelEncoder", f"{ML}OneHotEncoder", f"{ML}CategoryMapper"}
LABELS = {f"{ML}TreeEnsembleClassifier": "classlabels_int64s", f"{ML}LinearClassifier": "classlabels_ints",
          f"{ML}SVMClassifier": "classlabels_ints"}
"""Classifiers -> the attribute of their labels, if these are numbers."""
TO_STRING = 8
"""What Cast calls strings."""


def with_codes(graph: Graph) -> Graph:
    """The graph with codes for strings, as far as all that is done with them is done to codes."""
    given = {v.name for v in graph.inputs if v.kind == "tensor(string)"}
    stored = {n for n, a in graph.constants.items() if _is_strings(a)}
    for strings, left in ((given | stored, set[str]()), (stored, given), (set[str](), given | stored)):
        found = _coded(graph, strings, left)
        if found is not None:
            return found
    return graph


def _is_strings(array: np.ndarray) -> bool:
    return array.dtype.kind in "OUS" and array.size > 0


class _Vocabulary:
    def __init__(self) -> None:
        self.codes: dict[str, int] = {}

    def __call__(self, words: Iterable[Any]) -> list[int]:
        return [self.codes.setdefault(w.decode() if isinstance(w, bytes) else str(w), len(self.codes)) for w in words]


def _coded(graph: Graph, strings: set[str], left: set[str]) -> Graph | None:
    """The graph in which the values `strings`, inputs and constants, are codes; None where a node does with them what codes
    cannot. left: strings that stay as they are."""
    words, coded, plain = _Vocabulary(), set(strings), set(left)  # plain: strings, and what is made of them
    said = {n for n, v in graph.values.items() if v.kind == "tensor(string)"}
    nodes: list[Node] = []
    for node in graph.nodes:
        needs = reads(node)
        touched, beside = not coded.isdisjoint(needs), not plain.isdisjoint(needs)
        alone = beside or bool(bodies(node))
        made = _translated(node, words, touched) if not alone or node.op in LABELS else None
        if made is None and touched:
            return None
        other, gives = made if made is not None else (node, False)
        nodes.append(other)
        if gives:
            coded.update(n for n in (node.outputs[:1] if node.op in LABELS else node.outputs) if n)
        plain.update(n for n in node.outputs if n and n not in coded and (beside or n in said or _makes_strings(node)))
    return _bordered(graph, nodes, coded, words) if words.codes or coded else graph


def _makes_strings(node: Node) -> bool:
    """Of something else, in a way that stays as it is."""
    value = node.attributes.get("value")
    return node.op == "Cast" and node.attributes.get("to") == TO_STRING or (
        node.op == "Constant" and isinstance(value, np.ndarray) and _is_strings(value))


def _translated(node: Node, words: _Vocabulary, touched: bool) -> tuple[Node, bool] | None:
    """The node with codes in place of strings, and whether its results are codes; None where that cannot be."""
    a = node.attributes
    if node.op in LABELS and a.get("classlabels_strings") and not touched:
        rest = {k: v for k, v in a.items() if not k.startswith("classlabels_")}
        return replace(node, attributes=rest | {LABELS[node.op]: words(a["classlabels_strings"]), "coded": 1}), True
    if node.op in ENCODING:
        return _encoder(node, words, touched)
    if node.op == "Constant" and isinstance(a.get("value"), np.ndarray) and _is_strings(a["value"]):
        codes = np.array(words(a["value"].reshape(-1).tolist()), np.int64).reshape(a["value"].shape)
        return replace(node, attributes={"value": codes}), True
    if not touched:
        return node, False
    if node.op == "Cast" and a.get("to") == TO_STRING:
        return replace(node, op="Identity", attributes={}), True
    return (node, node.op not in ("Equal", "Shape", "Size")) if node.op in MOVING else None


def _encoder(node: Node, words: _Vocabulary, touched: bool) -> tuple[Node, bool] | None:
    a = dict(node.attributes)
    if node.op == f"{ML}OneHotEncoder":
        if touched:
            a = {"cats_int64s": words(a.get("cats_strings") or []), "zeros": a.get("zeros", 1)}
        return replace(node, attributes=a), False
    if node.op == f"{ML}CategoryMapper":
        names, numbers = a.get("cats_strings") or [], a.get("cats_int64s") or []
        pairs = {"keys_strings": names, "values_int64s": numbers, "default_int64": a.get("default_int64", -1)} if touched else {
            "keys_int64s": numbers, "values_strings": names, "default_string": a.get("default_string", "_Unused")}
        return _encoder(replace(node, op=f"{ML}LabelEncoder", attributes=pairs), words, touched)
    if node.opset < 2 and "classes_strings" in a:
        names = list(a["classes_strings"])
        pairs = {"keys_strings": names, "values_int64s": list(range(len(names))), "default_int64": a.get("default_int64", -1)} \
            if touched else {"keys_int64s": list(range(len(names))), "values_strings": names,
                             "default_string": a.get("default_string", "_Unused")}
        return _encoder(replace(node, opset=2, attributes=pairs), words, touched)
    for side in ("keys", "values"):
        given = a.pop(f"{side}_strings", None)
        tensor = a.get(f"{side}_tensor")
        if given is None and isinstance(tensor, np.ndarray) and tensor.dtype.kind in "OUS":
            given = a.pop(f"{side}_tensor").reshape(-1).tolist()
        if (given is not None) != touched and side == "keys":
            return None
        if given is not None:
            a[f"{side}_int64s"] = words(given)
            if side == "values":
                default = a.pop("default_tensor", None)
                word = default.reshape(-1)[0] if isinstance(default, np.ndarray) else a.get("default_string", "_Unused")
                a["default_int64"], gives = words([word])[0], True
                return replace(node, attributes=a), gives
    return replace(node, attributes=a), False


def _bordered(graph: Graph, nodes: list[Node], coded: set[str], words: _Vocabulary) -> Graph:
    """With steps where strings come in and go out. Codes have the names of what they stand for, and what comes in and goes out
    keeps its name outside."""
    constants = {n: np.array(words(a.reshape(-1).tolist()), np.int64).reshape(a.shape) if n in coded and _is_strings(a) else a
                 for n, a in graph.constants.items()}
    taken = {n for node in nodes for n in (*node.inputs, *node.outputs)} | set(constants) | {v.name for v in graph.inputs}
    fresh: Iterator[str] = (n for k in itertools.count() if (n := f"codes{k}") not in taken)
    coming = [v.name for v in graph.inputs if v.name in coded]
    going = [v.name for v in graph.outputs if v.name in coded]
    names = {n: next(fresh) for n in dict.fromkeys([*coming, *going])}
    others = next(fresh) if coming else ""
    vocabulary = {"vocabulary": list(words.codes)}
    before = [Node(CODES, "", tuple(coming), (*(names[n] for n in coming), others), vocabulary)] if coming else []
    inner = [replace(n, inputs=tuple(names.get(i, i) for i in n.inputs), outputs=tuple(names.get(o, o) for o in n.outputs))
             for n in nodes]
    after = [Node(STRINGS, "", (names[n], *([others] if others else [])), (n,), vocabulary)
             for n in dict.fromkeys(going) if n not in coming]
    values = {n: v for n, v in graph.values.items() if n not in coded or n in names}
    values |= {c: Value(c, I64, graph.values[n].shape) for n, c in names.items() if n in graph.values}
    return replace(graph, nodes=(*before, *inner, *after), constants=constants, values=values)

