"""Comparing a compiled model with onnx's reference evaluator, node by node, to find the first that computes something else.

Each node runs alone, compiled, on the inputs that the reference computed for it, so an error does not hide behind an earlier
one. Where the two differ, another reference may say that onnx's is the one that is wrong or overflows: onnx's evaluator in
f64, then ONNX Runtime, where that is installed. Then the whole model runs. Where only the whole is wrong, the graph pass, the
fusion or the layouts that make it so are found by leaving them out; and where none is the cause, whether the model itself
turns rounding into differences as large.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polytc.errors import CompileError, ModelError, fail
from polytc.graph import onnx as door
from polytc.graph import passes
from polytc.graph.comparison import worst
from polytc.graph.evaluation.folding import RANDOM, evaluate, foldable
from polytc.graph.ir import REPEATED, Graph, Node, Value, captured, reads
from polytc.graph.operators.binding import NeedsValue
from polytc.graph.plan import type_of
from polytc.graph.running.loop_operators import loop_work
from polytc.graph.specialisation import control
from polytc.graph.specialisation.specialise import specialise
from polytc.graph.tools.exact_halves import is_float, is_half, rounded_once
from polytc.graph.tools.memory_limit import memory_limit
from polytc.program.scalars import from_numpy

DRAWN = "random"
"""The remark on a node whose result is not decided by its inputs."""

_EXPLAINED = 8.0
"""How many times as far as rounding moves the reference's outputs a model may be off by rounding: one sample of it, or two,
is not its largest."""


@dataclass(frozen=True)
class Finding:
    """What one node came to. error: the largest difference relative to the largest magnitude, None where the node did not run.
    remark: why it did not, or which other reference it agrees with. inputs, text: the arrays and programs of a node that is
    wrong. stuck: the reference has no result, so nothing behind the node can be compared."""

    node: Node
    error: float | None
    allowed: float = 0.0
    remark: str = ""
    inputs: Mapping[str, np.ndarray] | None = None
    text: str = ""
    stuck: bool = False

    @property
    def wrong(self) -> bool:
        return self.error is not None and not self.error <= self.allowed


@dataclass(frozen=True)
class Whole:
    """The compiled model's outputs against the reference's. error: largest of all outputs. culprit: the pass, 'fusion' or
    'layouts', without which the model is right, if it is wrong and there is one. moved: how far the reference's own outputs
    move by rounding, looked at if there is no culprit."""

    error: float
    allowed: float
    culprit: str | None = None
    moved: float = 0.0

    @property
    def unstable(self) -> bool:
        """Does rounding decide, so that no two implementations can agree? It explains errors as large as what it moves itself,
        a few times as large at most, and no NaN and no infinity if that is finite."""
        if self.error <= self.allowed or self.moved <= self.allowed:
            return False
        return self.error <= _EXPLAINED * self.moved if math.isfinite(self.moved) else True

    @property
    def wrong(self) -> bool:
        return not self.error <= self.allowed and not self.unstable


def nodes(graph: Graph, feeds: Mapping[str, np.ndarray], target: str) -> Iterator[Finding]:
    """A finding for each node in order. graph: as imported, no pass run; feeds: an array for each input.

    Ends early, with a remark, where the reference evaluator itself fails and no other knows better.
    """
    values: dict[str, np.ndarray] = {**graph.constants, **feeds}
    last = {name: k for k, node in enumerate(graph.nodes) for name in reads(node)}
    kept = {v.name for v in graph.outputs}
    for k, node in enumerate(graph.nodes):
        try:
            expected: Sequence[np.ndarray] = reference(node, values)
        except CompileError as error:
            yield Finding(node, None, remark=f"the reference fails: {error.diagnostics[0].message}", stuck=True)
            return
        finding, expected = _alone(node, values, expected, target, set(graph.constants))
        yield finding
        values |= {n: a for n, a in zip(node.outputs, expected, strict=True) if n}
        for name in reads(node):
            if last[name] == k and name not in kept and name not in graph.constants:
                del values[name]


def reference(node: Node, values: Mapping[str, np.ndarray], widened: Callable[[Any], bool] = is_half) -> list[np.ndarray]:
    """The outputs of a node by onnx's reference evaluator, which also runs each node of a body; halves, and whatever else is
    `widened`, by way of f64. Where that fails, or wants more memory than there is, by ONNX Runtime. Raises CompileError where
    neither has any."""
    try:
        with memory_limit():
            return _by_evaluator(node, values, widened)
    except CompileError:
        other = _by_runtime(node, values)
        if other is None:
            raise
        return list(other)


def _by_evaluator(node: Node, values: Mapping[str, np.ndarray], widened: Callable[[Any], bool]) -> list[np.ndarray]:
    given = [values[n] if n else None for n in node.inputs]
    try:
        if node.op == "If":
            body = node.attributes["then_branch" if np.asarray(given[0]).item() else "else_branch"]
            return outputs(body, {n: values[n] for n in captured(body)})
        if node.op in REPEATED:
            work = control.repeat(node, {})
            names = [v.name for v in work.body.inputs]
            run = loop_work(work, lambda inner: outputs(work.body, dict(zip(names, inner, strict=True))))
            return list(run(*given, *(values[n] for n in work.captured)))
        if not foldable(node) and node.op not in RANDOM:
            return rounded_once(door.evaluator(node), given, widened)
    except CompileError:
        raise
    except Exception as error:  # the evaluator raises whatever its numpy code raises
        raise fail("E609", f"{node.label} cannot be evaluated: {error}", kind=ModelError) from error
    return rounded_once(lambda inputs: evaluate(node, inputs), given, widened)


def outputs(graph: Graph, feeds: Mapping[str, np.ndarray], widened: Callable[[Any], bool] = is_half) -> list[np.ndarray]:
    """The outputs of a graph by onnx's reference evaluator, what is `widened` by way of f64 in each node."""
    values: dict[str, np.ndarray] = {**feeds, **graph.constants}
    for node in graph.nodes:
        values |= {n: a for n, a in zip(node.outputs, reference(node, values, widened), strict=True) if n}
    return [values[v.name] for v in graph.outputs]


def _alone(node: Node, values: Mapping[str, np.ndarray], expected: Sequence[np.ndarray], target: str, constants: set[str]
           ) -> tuple[Finding, Sequence[np.ndarray]]:
    """The node as a model of its own, and the outputs to go on with: those of the reference that was believed."""
    if node.op in RANDOM:
        return Finding(node, None, remark=DRAWN), expected
    names = reads(node)
    given = {n: values[n] for n in names}
    if not all(isinstance(a, np.ndarray) for a in (*given.values(), *expected)):
        return Finding(node, None, remark="not only tensors"), expected
    typed = {n: from_numpy(a.dtype) for n, a in given.items()}
    results = tuple(Value(n) for n in node.outputs if n)
    graph = Graph(node.label, (node,), tuple(Value(n, typed[n], given[n].shape) for n in names if n not in constants), results,
                  {n: given[n] for n in names if n in constants})
    feeds = {n: a for n, a in given.items() if n not in constants}
    try:
        found = graph.compile(target=target).run(None, feeds)
    except CompileError as refusal:
        return Finding(node, None, remark=refusal.diagnostics[0].message), expected
    error, allowed = _compared(node, found, expected)
    if error <= allowed:
        return Finding(node, error, allowed), expected
    for name, opinion in _OTHERS.items():
        other = opinion(node, values)
        nearer = _compared(node, found, other)[0] if other is not None else math.inf
        if other is not None and nearer <= allowed:
            return Finding(node, nearer, allowed, f"as {name}; onnx's reference differs by {error:.2g}"), other
    return Finding(node, error, allowed, inputs=given, text=_programs(graph, feeds)), expected


def _compared(node: Node, found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> tuple[float, float]:
    """The largest error of the outputs that have names, and the largest that is allowed."""
    return worst(found, [a for n, a in zip(node.outputs, expected, strict=True) if n])


def _in_double(node: Node, values: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
    """By onnx's evaluator in f64 for all floats, rounded at the end."""
    return reference(node, values, is_float)


def _by_runtime(node: Node, values: Mapping[str, np.ndarray]) -> Sequence[np.ndarray] | None:
    """By ONNX Runtime, with an empty array for an output that has no name."""
    given = [values[n] if n else None for n in node.inputs]
    found = door.second_opinion(node, given)
    if found is None or len(found) != sum(map(bool, node.outputs)):
        return None
    results = iter(found)
    return [next(results) if n else np.empty(0) for n in node.outputs]


_OTHERS: Mapping[str, Callable[[Node, Mapping[str, np.ndarray]], Sequence[np.ndarray] | None]] = {
    "onnx's reference in f64": _in_double, "ONNX Runtime": _by_runtime}
"""What is asked when a node is not as onnx's reference has it, in this order."""


def _programs(graph: Graph, feeds: Mapping[str, np.ndarray]) -> str:
    """The texts of the programs that a graph becomes."""
    types = {n: type_of(a) for n, a in feeds.items()}
    try:
        part = specialise(graph, types)
    except NeedsValue as need:
        part = specialise(graph, types, {need.name: feeds[need.name]})
    return "\n\n".join(str(call.program) for call in part.plan.calls)


def whole(graph: Graph, feeds: Mapping[str, np.ndarray], expected: Sequence[np.ndarray], target: str,
          second: Callable[[], Sequence[np.ndarray] | None] = lambda: None) -> Whole:
    """The model as users get it. graph: as imported, no pass run; expected: the reference's outputs; second: those of another,
    asked if the model is not as the first has it."""
    _, allowed = worst(expected, expected)

    def error(without: Sequence[str] = (), fusion: bool = True, layouts: bool = True, of: Sequence[Any] = expected) -> float:
        found = passes.run(graph, without).compile(target=target, fusion=fusion, layouts=layouts).run(None, feeds)
        return worst(found, of)[0]

    total = error()
    if total <= allowed:
        return Whole(total, allowed)
    other = second()
    if other is not None:
        nearer = error(of=other)
        if nearer <= allowed:
            return Whole(nearer, allowed)
    if error(fusion=False) <= allowed:
        return Whole(total, allowed, "fusion")
    if error(layouts=False) <= allowed:
        return Whole(total, allowed, "layouts")
    culprit = next((name for name in passes.PIPELINE if error([name]) <= allowed), None)
    return Whole(total, allowed, culprit, 0.0 if culprit else _moved(graph, feeds))


def _moved(graph: Graph, feeds: Mapping[str, np.ndarray]) -> float:
    """The largest difference that rounding makes in the reference's outputs: that of a last place of the inputs, and that of
    each node's result, which is rounded once instead of at each operation. A quantised model meets the second: a sum beside
    the middle of two steps becomes the one or the other."""
    near = {n: _neighbours(a) if a.dtype.kind == "f" else a for n, a in feeds.items()}
    here = outputs(graph, feeds)
    return max(worst(there, here)[0] for there in (outputs(graph, near), outputs(graph, feeds, is_float)))


def _neighbours(a: np.ndarray) -> np.ndarray:
    """The next larger floats. Zeros stay: that they are none would be more than rounding; and so does the largest number."""
    above = np.nextafter(a, a.dtype.type(np.inf))
    return np.where((a == 0) | np.isinf(above), a, above)


def imported(source: object) -> Graph:
    """The graph of a model before any pass."""
    return door.import_model(*door.read_model(source))
