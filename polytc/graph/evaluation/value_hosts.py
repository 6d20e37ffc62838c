"""Steps of a model on values that need not be tensors of numbers, by Python: maps, strings to and from their codes, and
optional values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polytc.graph.evaluation.fallback import OPTIONAL
from polytc.graph.hosts import Host, Work
from polytc.graph.ir import Node

CODES, STRINGS = "polytc::StringCodes", "polytc::CodedStrings"
"""Strings to numbers and back (graph/string_codes.py)."""


def host(node: Node) -> Host:
    """The step of an operator of `VALUE_HOSTS`, or of OPTIONAL."""
    work = VALUE_HOSTS[node.op](node) if node.op in VALUE_HOSTS else OPTIONAL[node.op]
    return Host(node.label, node.op, work, node.inputs, node.outputs)


def _zip_map(node: Node) -> Work:
    """A dict for each row, from the labels, in their order, to its numbers."""
    labels = node.attributes.get("classlabels_strings") or node.attributes.get("classlabels_int64s") or []
    order = sorted(range(len(labels)), key=lambda k: labels[k])
    keys = [labels[k] for k in order]

    def work(scores: np.ndarray) -> Sequence[Any]:
        rows = scores.reshape(1, -1) if scores.ndim < 2 else scores
        if rows.ndim != 2 or rows.shape[1] != len(labels):
            raise ValueError(f"{len(labels)} labels for an array of shape {list(scores.shape)}")
        return [[dict(zip(keys, row)) for row in rows[:, order].tolist()]]
    return work


def _string_codes(node: Node) -> Work:
    """The places of strings in a vocabulary; others, the last output, get the numbers behind it, in the order in which they
    come."""
    known: dict[str, int] = {s: k for k, s in enumerate(node.attributes["vocabulary"])}

    def work(*arrays: Any) -> Sequence[Any]:
        fresh: dict[str, int] = {}
        found = []
        for array in arrays:
            given = np.asarray(array)
            codes = np.empty(given.size, np.int64)
            for k, s in enumerate(given.reshape(-1).tolist()):
                code = known.get(s)
                if code is None:
                    code = fresh.setdefault(_text(s), len(known) + len(fresh))
                codes[k] = code
            found.append(codes.reshape(given.shape))
        return [*found, np.array([*fresh, ""], object)[:-1]]
    return work


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no string")
    return value


def _coded_strings(node: Node) -> Work:
    vocabulary = np.array([*node.attributes["vocabulary"], ""], object)[:-1]

    def work(codes: np.ndarray, others: np.ndarray | None = None) -> Sequence[Any]:
        words = vocabulary if others is None or not len(others) else np.concatenate([vocabulary, others])
        return [words[codes]]
    return work


VALUE_HOSTS: dict[str, Callable[[Node], Work]] = {
    "ai.onnx.ml::ZipMap": _zip_map, CODES: _string_codes, STRINGS: _coded_strings}
