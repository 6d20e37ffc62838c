"""Graph to Plan: with the shapes of the inputs known, walk the nodes in order, fold what is known, and bind the rest to text.

Shapes and types of results come from the programs, so there is no shape inference beside the language's own.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from polytc.errors import CompileError, ModelError, fail
from polytc.graph import memory
from polytc.graph.binding import Apply, Known, Ref, Site, Step, View, text_of
from polytc.graph.bindings import TABLE
from polytc.graph.folding import evaluate, foldable
from polytc.graph.ir import Graph, Node
from polytc.graph.plan import Array, Call, Plan
from polytc.lang import build, signature
from polytc.lang.compose import embed, reshaped_input, with_zero_origins
from polytc.lang.program import Program
from polytc.lang.scalars import DTYPES, from_numpy


def specialise(graph: Graph, shapes: Mapping[str, tuple[int, ...]], values: Mapping[str, np.ndarray] | None = None) -> Plan:
    """The plan for inputs of these shapes, and of exactly these values where some are given.

    Raises ModelError (E605, E608, E609) where a node cannot be bound; NeedsValue where it could be if a value were known.
    """
    return _Specialisation(graph, shapes, values or {}).run()


class _Specialisation:
    """State of one walk. known: values that do not depend on the data; types: all others."""

    def __init__(self, graph: Graph, shapes: Mapping[str, tuple[int, ...]], values: Mapping[str, np.ndarray]) -> None:
        self.graph = graph
        self.known: dict[str, np.ndarray] = {**graph.constants, **values}
        self.types: dict[str, Array] = {}
        self.aliases: dict[str, str] = {}
        self.calls: list[Call] = []
        for v in graph.inputs:
            if v.dtype is None:
                raise fail("E608", f"the input {v.name!r} has an element type that polytc does not have", kind=ModelError)
            self.define(v.name, Array(v.dtype, tuple(shapes[v.name])), f"the input {v.name!r}")
            if 0 in shapes[v.name]:  # nothing to compute with: known, and folded through
                self.known[v.name] = np.zeros(tuple(shapes[v.name]), v.dtype.numpy)

    def run(self) -> Plan:
        for node in self.graph.nodes:
            self.guarded(node)
        outputs = tuple(v.name for v in self.graph.outputs)
        for name in outputs:
            if name in self.known:
                self.store(name, self.known[name], self.graph.name)
            elif name not in self.types:
                maker = next(n for n in self.graph.nodes if name in n.outputs)
                raise fail("E608", f"{maker.label}: its result {name!r}, an output of the model, is not computed by polytc",
                           kind=ModelError)
        used = {n for c in self.calls for n in c.inputs} | {*outputs}
        constants = {n: a for n, a in self.known.items() if n in used and n in self.types}
        inputs = tuple(v.name for v in self.graph.inputs)
        return Plan(self.graph.name, tuple(self.calls), inputs, outputs, self.types, self.aliases, constants)

    # ---- one node

    def guarded(self, node: Node) -> None:
        """A file may hold anything: what a binding row trips over becomes a refusal of the node, with its cause kept."""
        try:
            self.node(node)
        except CompileError:
            raise
        except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, MemoryError) as error:
            attributes = ", ".join(f"{k}={_brief(v)}" for k, v in node.attributes.items())
            inputs = ", ".join(f"{n}: {self.described(n)}" for n in node.inputs)
            raise fail("E608", f"{node.label} cannot be used with these inputs and attributes "
                       f"({type(error).__name__}: {error})", kind=ModelError,
                       notes=[f"inputs: {inputs or 'none'}", f"attributes: {attributes or 'none'}",
                              "check them against the operator's definition, and export the model again"]) from error

    def described(self, name: str) -> str:
        if name in self.known:
            return f"{self.known[name].dtype}{list(self.known[name].shape)}"
        return str(self.types.get(name, "not computed"))

    def define(self, name: str, t: Array, label: str) -> None:
        """Say the type of a value, one that memory can hold."""
        if t.bytes > memory.LARGEST:
            raise fail("E612", f"{label}: {name!r} would be {t}, {t.bytes / 1e9:,.1f} GB", kind=ModelError, notes=[
                f"a value may have up to {memory.LARGEST / 1e9:,.1f} GB on this machine; give the model smaller shapes"])
        self.types[name] = t

    def node(self, node: Node) -> None:
        if node.op in ("Shape", "Size"):
            self.known[node.outputs[0]] = self.shape_of(node)
            return
        values = [self.known.get(n) for n in node.inputs]
        if foldable(node) and all(v is not None or not n for n, v in zip(node.inputs, values, strict=True)):
            self.known |= {n: a for n, a in zip(node.outputs, evaluate(node, values), strict=True) if n}
            return
        binder = TABLE.get(node.op)
        if binder is None:
            raise fail("E605", f"polytc does not have the operator {node.op} ({node.label})", kind=ModelError)
        site = Site(node, tuple(self.shape(n) for n in node.inputs), tuple(self.dtype(n, node) for n in node.inputs),
                    tuple(values))
        lowering = binder(site)
        steps = lowering if isinstance(lowering, tuple) else (lowering,)
        names: dict[str, str] = {}
        for step in steps:
            self.step(node, step, names)

    def shape_of(self, node: Node) -> np.ndarray:
        shape = self.shape(node.inputs[0]) or ()
        if node.op == "Size":
            return np.array(math.prod(shape), np.int64)
        return np.array(shape[slice(node.attributes.get("start", 0), node.attributes.get("end"))], np.int64)

    def shape(self, name: str) -> tuple[int, ...] | None:
        if not name:
            return None
        return self.known[name].shape if name in self.known else self.types[name].shape

    def dtype(self, name: str, node: Node) -> Any:
        if not name:
            return None
        if name not in self.known:
            return self.types[name].dtype
        found = from_numpy(self.known[name].dtype)
        if found is None and self.known[name].dtype.kind != "O" and self.known[name].size:
            raise fail("E608", f"{node.label}: its input {name!r} has the element type {self.known[name].dtype}",
                       kind=ModelError, notes=[f"polytc has {', '.join(DTYPES)}"])
        return found

    # ---- one step of a lowering

    def step(self, node: Node, step: Step, names: dict[str, str]) -> None:
        if isinstance(step, Known):
            self.known[self.target(node, step.output, names)] = step.array
        elif isinstance(step, View):
            self.view(self.source(node, step.source, names), step.shape, self.target(node, step.output, names))
        else:
            self.apply(node, step, names)

    def source(self, node: Node, ref: Ref, names: dict[str, str]) -> str:
        if isinstance(ref, np.ndarray):
            name = f"{_own(node)}.constant{len(self.known)}"
            self.known[name] = ref
            return name
        return node.inputs[ref] if isinstance(ref, int) else names[ref]

    def target(self, node: Node, ref: int | str, names: dict[str, str]) -> str:
        if isinstance(ref, int):
            return node.outputs[ref]
        names[ref] = f"{_own(node)}.{ref}"
        return names[ref]

    def view(self, source: str, shape: tuple[int, ...], name: str) -> None:
        if source in self.known:
            self.known[name] = self.known[source].reshape(shape)
            return
        self.aliases[name] = source
        self.types[name] = Array(self.types[source].dtype, shape)

    def apply(self, node: Node, step: Apply, names: dict[str, str]) -> None:
        sources = [self.source(node, ref, names) for ref in step.inputs]
        arrays = tuple((self.shape(s) or (), self.dtype(s, node).name) for s in sources)
        text = text_of(step)
        try:
            program = _program(text, step.entry, arrays, _frozen(step.attrs), tuple(sorted(step.packs.items())))
        except CompileError as error:
            raise ModelError([*fail("E609", f"{node.label} does not fit its inputs").diagnostics, *error.diagnostics],
                             text) from None
        targets = tuple(self.target(node, ref, names) for ref in step.outputs)
        for name, tensor in zip(targets, program.outputs, strict=True):
            self.define(name, Array(program.tensor(tensor).dtype, program.tensor(tensor).shape), node.label)
        numbers = {t: self.known[s].reshape(-1)[0].item() for t, s in zip(program.inputs, sources, strict=True)
                   if s in self.known and self.known[s].size == 1}
        slim = embed(program, numbers)
        inputs = tuple(s for t, s in zip(program.inputs, sources, strict=True) if t in slim.inputs)
        for s in inputs:
            if s in self.known:
                self.store(s, self.known[s], node.label)
        slim, inputs = self.direct(slim, inputs)
        self.calls.append(Call(slim, inputs, targets, node.op))

    def direct(self, program: Program, inputs: tuple[str, ...]) -> tuple[Program, tuple[str, ...]]:
        """Read through views whose subscripts are simple, so that they do not stand between operators that could be fused."""
        names = list(inputs)
        for i, tensor in enumerate(program.inputs):
            base = names[i]
            while base in self.aliases:
                base = self.aliases[base]
            other = reshaped_input(program, tensor, self.types[base].shape) if base != names[i] else None
            if other is not None:
                program, names[i] = other, base
        return program, tuple(names)

    def store(self, name: str, array: np.ndarray, label: str) -> None:
        dtype = from_numpy(array.dtype)
        if dtype is None:
            raise fail("E608", f"{label}: the constant {name!r} has the element type {array.dtype}", kind=ModelError)
        self.types[name] = Array(dtype, array.shape)


def _own(node: Node) -> str:
    """What the values inside of a node's lowering are called after."""
    return next(filter(None, node.outputs), node.op)


def _brief(value: Any) -> str:
    text = f"array {value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)
    return text if len(text) <= 60 else text[:60] + "..."


def _frozen(attrs: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted((k, tuple(v) if isinstance(v, list | tuple) else v) for k, v in attrs.items()))


@functools.lru_cache(maxsize=4096)
def _program(text: str, entry: str, arrays: tuple[tuple[tuple[int, ...], str], ...], attrs: tuple[tuple[str, Any], ...],
             packs: tuple[tuple[str, int], ...]) -> Program:
    """The program of an operator's text; equal nodes share one."""
    names = [p.name for p in signature(text).inputs]
    shapes = {n: shape for n, (shape, _) in zip(names, arrays, strict=True)}
    dtypes = {n: dtype for n, (_, dtype) in zip(names, arrays, strict=True)}
    return with_zero_origins(build(text, shapes, dtypes, attrs=dict(attrs), packs=dict(packs), entry=entry.partition(".")[2]))
