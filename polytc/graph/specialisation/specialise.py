"""Graph to Part: with the shapes of the inputs known, walk the nodes in order, fold what is known, and bind the rest to text.

Shapes and types of results come from the programs, so there is no shape inference beside the language's own. Where something
must be run before the walk can go on, it goes around that: what needs the missing value remains as a graph, to be specialised
when the value is there.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from polytc.errors import CompileError, ModelError, fail
from polytc.graph import passes
from polytc.graph.evaluation import fallback, value_hosts
from polytc.graph.evaluation.folding import evaluate, evaluate_or_leave, known_early
from polytc.graph.hosts import Host
from polytc.graph.ir import CONTROL, Graph, Node, Value, captured, foreign, reads, sources, without_dead_nodes
from polytc.graph.operators import binding, empty_tensors, index_checks, lowering_steps, refusals, registry
from polytc.graph.operators.index_checks import inner_name
from polytc.graph.operators.table import TABLE
from polytc.graph.plan import Array, Call, Guard, IndexCheck, Plan
from polytc.graph.planning import memory
from polytc.graph.specialisation import control, flow, traced_values
from polytc.graph.specialisation.declared import Promise, check_outputs, promised
from polytc.graph.specialisation.part import ByValue, Part, Types
from polytc.program.compose import embed, reshaped_input
from polytc.program.program import Program
from polytc.program.scalars import DTYPES, DType


def specialise(graph: Graph, types: Types, values: Mapping[str, np.ndarray] | None = None, *,
               by_value: ByValue = lambda name, inputs: True, strict: bool = False, guards: bool = True,
               checked: bool = False) -> Part:
    """The part for inputs of these types, and of exactly these values where some are given.

    by_value: may the caller be asked for the value `name`, which is computed from these inputs, by NeedsValue? If not, the node
    that needs it remains for later.
    strict: refuse what onnx's evaluator would have to run. guards: may calls have some? checked: are indices looked at? Raises
    ModelError (E605, E608, E609) where a node cannot be bound.
    """
    return Specialisation(graph, types, values or {}, by_value, strict, guards, checked).run()


class Specialisation:
    """State of one walk. known: values that do not depend on the data; types: tensors that this part computes or is given;
    opaque: other values that it is given; hosted: results of hosts; waiting: values for later; under: guards of new calls;
    halves: types of the values between steps of a node that are held in f32; index_checks: indices that are looked at, by what
    is looked at."""

    def __init__(self, graph: Graph, types: Types, values: Mapping[str, np.ndarray], by_value: ByValue,
                 strict: bool, guards: bool, checked: bool) -> None:
        self.graph, self.by_value, self.strict, self.guards, self.checked = graph, by_value, strict, guards, checked
        self.index_checks: dict[object, IndexCheck] = {}
        self.under: tuple[Guard, ...] = ()
        self.known: dict[str, np.ndarray] = {**graph.constants, **values}
        self.types: dict[str, Array] = {}
        self.halves: dict[str, DType] = {}
        self.aliases: dict[str, str] = {}
        self.calls: list[Call] = []
        self.opaque: set[str] = set()
        self.hosted: set[str] = set()
        self.waiting: set[str] = set()
        self.hosts: list[Host] = []
        self.deferred: list[Node] = []
        self.late: set[str] = set()
        self.promises: list[Promise] = []
        self.makers: dict[str, Node] = {}
        self.wanted = {v.name for v in graph.outputs} | {n for node in graph.nodes for n in reads(node)}
        for v in graph.inputs:
            t = types[v.name]
            if t is None:
                self.opaque.add(v.name)
                continue
            self.define(v.name, t, f"the input {v.name!r}")
            if 0 in t.shape:  # nothing to compute with: known, and folded through
                self.known[v.name] = np.zeros(t.shape, t.dtype.numpy)

    def run(self) -> Part:
        self.walk(self.graph.nodes)
        made = {*self.known, *self.types, *self.opaque, *self.hosted, *self.waiting}
        for v in self.graph.outputs:
            if v.name not in made:
                maker = next(n for n in self.graph.nodes if v.name in n.outputs)
                raise fail("E608", f"{maker.label}: its result {v.name!r}, an output of the model, is not computed by polytc",
                           kind=ModelError)
        check_outputs(promised(self.graph), self.promises, self.types, self.known)
        if self.hosts or self.deferred or self.opaque:
            return self.partitioned()
        return Part(self.plan([v.name for v in self.graph.outputs]))

    def walk(self, nodes: Iterable[Node]) -> None:
        """Deal with nodes, in order, and with what takes their places."""
        todo = deque(nodes)
        while todo:
            todo.extendleft(reversed(self.guarded(todo.popleft())))

    def plan(self, outputs: Sequence[str]) -> Plan:
        for name in outputs:
            if name in self.known:
                self.store(name, self.known[name], self.graph.name)
        used = {n for c in self.calls for n in c.inputs} | {*outputs}
        constants = {n: a for n, a in self.known.items() if n in used and n in self.types}
        inputs = tuple(v.name for v in self.graph.inputs if v.name not in self.opaque)
        return Plan(self.graph.name, tuple(self.calls), inputs, tuple(outputs), self.types, self.aliases, constants,
                    tuple(self.index_checks.values()))

    def partitioned(self) -> Part:
        """The part with what crosses its borders as outputs of its plan."""
        outputs = [v for v in self.graph.outputs if v.name in self.waiting]
        rest = without_dead_nodes(Graph(self.graph.name, tuple(self.deferred), (), tuple(outputs), self.known))
        here = [v.name for v in self.graph.outputs if v.name not in self.waiting]
        needed = dict.fromkeys([*here, *captured(rest)])
        hosts = list[Host]()
        for host in reversed(self.hosts):
            if any(n in needed for n in host.outputs):
                hosts.insert(0, host)
                needed |= dict.fromkeys(n for n in host.inputs if n)
        known = {n: self.known[n] for n in needed if n in self.known}
        given = {v.name for v in self.graph.inputs}
        plan = self.plan([n for n in needed if n in self.types and n not in self.known and n not in given])
        inputs = tuple(Value(n) for n in captured(rest))
        types = self.types | {n: t for h in hosts for n, t in zip(h.outputs, h.types)}
        ahead = {v.name: types[v.name] for v in inputs if v.name in types}
        return Part(plan, tuple(hosts), replace(rest, inputs=inputs) if rest.nodes else None,
                    frozenset(self.late.intersection(captured(rest))), known, ahead if len(ahead) == len(inputs) else None)

    # ---- one node

    def guarded(self, node: Node) -> Sequence[Node]:
        """A file may hold anything: what a binding row trips over becomes a refusal of the node, with its cause kept."""
        try:
            return self.node(node)
        except CompileError:
            raise
        except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, MemoryError, RuntimeError) as error:
            raise refusals.row_failure(node, self.described, error) from error

    def described(self, name: str) -> str:
        a = self.known.get(name)
        return str(self.types.get(name, "not computed")) if a is None else f"{a.dtype}{list(a.shape)}"

    def define(self, name: str, t: Array, label: str) -> None:
        """Say the type of a value, one that memory can hold."""
        if t.bytes > memory.LARGEST:
            raise fail("E612", f"{label}: {name!r} would be {t}, {t.bytes / 1e9:,.1f} GB", kind=ModelError, notes=[
                f"a value may have up to {memory.LARGEST / 1e9:,.1f} GB on this machine; give the model smaller shapes"])
        self.types[name] = t

    def node(self, node: Node) -> Sequence[Node]:
        """Deal with one node; the result is what takes its place."""
        needs = reads(node)
        self.makers |= dict.fromkeys(node.outputs, node)
        if self.waiting.intersection(needs):
            return self.defer(node)
        if node.op in CONTROL:
            return flow.control(self, node)
        if node.op in ("Shape", "Size") and self.hosted.intersection(needs):
            return self.defer(node)
        if node.op in ("Shape", "Size") and not self.opaque.intersection(needs):
            self.known[node.outputs[0]] = traced_values.extents(node, self.shape(node.inputs[0]) or ())
            return ()
        values = [self.known.get(n) for n in node.inputs]
        if known_early(node) and all(v is not None or not n for n, v in zip(node.inputs, values, strict=True)):
            if traced_values.concern(node, values):
                results = None if (found := traced_values.fold(node, values)) is None else [found]
            elif registry.known(node.op):
                empty_tensors.vet(TABLE[node.op], self.site(node, values))
                results = evaluate_or_leave(node, values)
            else:
                results = evaluate(node, values)
            if results is not None:
                self.known |= {n: a for n, a in zip(node.outputs, results) if n}
                return ()
        opaque = [n for n in needs if self.is_opaque(n)]
        if node.op in value_hosts.VALUE_HOSTS or node.op in fallback.OPTIONAL and (opaque or node.op != "Identity"):
            self.add(value_hosts.host(node))
        elif not registry.known(node.op) and foreign(node.op) and self.hosted.intersection(needs):
            return self.defer(node)  # its definition needs the types of its inputs
        elif not registry.known(node.op):
            why = fallback.reason(node)
            missing = f"polytc does not have the operator {node.op} ({node.label}): {why}"
            return self.outside(node, refusals.refusal("E605", missing), why)
        elif self.hosted.intersection(needs):
            return self.defer(node)
        elif opaque:
            return self.outside(node, refusals.refusal(
                "E608", f"{node.label}: its input {opaque[0]!r} is no tensor, or has an element type that is not there",
                f"polytc has {', '.join(DTYPES)}"))
        else:
            return self.bound(node, values)
        return ()

    def sources(self, name: str) -> frozenset[str]:
        """The inputs of the graph that a value is computed from, by the nodes so far."""
        return frozenset(sources(self.makers, name) & {v.name for v in self.graph.inputs})

    def site(self, node: Node, values: Sequence[np.ndarray | None]) -> binding.Site:
        return binding.Site(node, tuple(map(self.shape, node.inputs)), tuple(map(self.dtype, node.inputs)), tuple(values))

    def bound(self, node: Node, values: Sequence[np.ndarray | None]) -> Sequence[Node]:
        """Bind a node whose inputs are tensors to the steps of its row."""
        site = self.site(node, values)
        try:
            lowering = empty_tensors.bind(TABLE[node.op], site)
            self.complete(node, lowering)
        except binding.NeedsValue as need:
            if self.by_value(need.name, self.sources(need.name)):
                raise binding.NeedsValue(need, need.name, self.sources(need.name)) from None
            self.late.add(need.name)
            return self.defer(node)
        except binding.Unsupported as refusal:
            return self.outside(node, refusal)
        if isinstance(lowering, binding.Routine):
            inputs = tuple(node.inputs[i] if i < len(node.inputs) else "" for i in lowering.inputs)
            self.add(Host(node.label, node.op, lowering.run, inputs, node.outputs, types=lowering.types))
            return ()
        if self.checked:
            index_checks.add_index_checks(self, node, site.indices)
        names: dict[str, str] = {}
        several = lowering if isinstance(lowering, tuple) else (lowering,)
        local = lowering_steps.step_temporaries(several)
        for step in several:
            self.step(node, step, names, local)
        return ()

    def complete(self, node: Node, lowering: binding.Lowering) -> None:
        """Raise Unsupported if the steps leave out a result of the node that something reads."""
        if isinstance(lowering, binding.Routine):
            return
        each = lowering if isinstance(lowering, tuple) else (lowering,)
        made = {o for s in each for o in (s.outputs if isinstance(s, binding.Apply) else (s.output,))}
        for i, name in enumerate(node.outputs):
            if name in self.wanted and i not in made:
                raise refusals.refusal("E608", f"{node.label}: its result {name!r} is not computed by polytc")

    def defer(self, node: Node) -> Sequence[Node]:
        self.deferred.append(node)
        self.waiting.update(n for n in node.outputs if n)
        return ()

    @contextmanager
    def guarding(self, guard: Guard) -> Iterator[None]:
        """Calls that are added meanwhile have one more guard."""
        outer, self.under = self.under, (*self.under, guard)
        try:
            yield
        finally:
            self.under = outer

    def inside(self, body: control.Inlined, results: Iterable[str]) -> bool:
        """Deal with a body, which has these results. False if that took more than calls."""
        before = len(self.hosts), len(self.deferred)
        self.wanted |= {*results}
        self.walk(self.placed(body))
        return before == (len(self.hosts), len(self.deferred))

    def placed(self, found: control.Inlined) -> list[Node]:
        """Nodes that take the place of another, with what came with them."""
        self.known |= found.constants
        self.promises += found.promises
        self.wanted |= {n for each in found.nodes for n in reads(each)}
        return found.nodes

    def body(self, node: Node) -> Sequence[Node] | None:
        """What the operator of a node is defined as by others, as nodes in its place; None if it is not. Raises
        NoDefinition."""
        if any(n in self.hosted or self.is_opaque(n) for n in reads(node)):
            return None
        types = [None if not n else (self.dtype(n).numpy, self.shape(n) or ()) for n in node.inputs]
        found = fallback.function_body(node, types)
        if found is None:
            return None
        given = {v.name: n for v, n in zip(found.inputs, (n for n in node.inputs if n), strict=True)}
        return self.placed(control.inlined(passes.run(found), given, tuple(n for n in node.outputs if n), inner_name(node)))

    def outside(self, node: Node, refusal: ModelError, why: str = "") -> Sequence[Node]:
        """What takes the place of a node without text: its definition by others, or who else has it, if allowed and
        possible."""
        why = why or refusal.diagnostics[0].message
        try:
            nodes = self.body(node)
        except fallback.NoDefinition as error:
            nodes, why = None, str(error)
            refusal = refusals.refusal("E605", f"polytc does not have the operator {node.op} ({node.label}): {why}")
        if nodes is not None:
            return nodes
        if self.strict:
            raise refusal
        self.add(fallback.host(node, why))
        return ()

    def add(self, host: Host) -> None:
        self.hosts.append(host)
        self.hosted.update(n for n in host.outputs if n)

    def is_opaque(self, name: str) -> bool:
        """Is a value no tensor of polytc's types?"""
        if name in self.known:
            array = self.known[name]
            return array.size > 0 and traced_values.dtype_of(array) is None
        return name in self.opaque or name in self.hosted

    def shape(self, name: str) -> tuple[int, ...] | None:
        if not name:
            return None
        return self.known[name].shape if name in self.known else self.types[name].shape

    def dtype(self, name: str) -> Any:
        if not name:
            return None
        return traced_values.dtype_of(self.known[name]) if name in self.known else self.types[name].dtype

    # ---- one step of a lowering

    def step(self, node: Node, step: binding.Step, names: dict[str, str], local: frozenset[str]) -> None:
        """local: names of what only other steps read."""
        if isinstance(step, binding.Known):
            self.known[self.target(node, step.output, names)] = step.array
        elif isinstance(step, binding.View):
            self.view(self.source(node, step.source, names), step.shape, self.target(node, step.output, names))
        else:
            self.apply(node, step, names, local)

    def source(self, node: Node, ref: binding.Ref, names: dict[str, str]) -> str:
        if isinstance(ref, np.ndarray):
            name = f"{inner_name(node)}.constant{len(self.known)}"
            self.known[name] = ref
            return name
        return node.inputs[ref] if isinstance(ref, int) else names[ref]

    def target(self, node: Node, ref: int | str, names: dict[str, str]) -> str:
        if isinstance(ref, int):
            return node.outputs[ref]
        names[ref] = f"{inner_name(node)}.{ref}"
        return names[ref]

    def view(self, source: str, shape: tuple[int, ...], name: str) -> None:
        if source in self.known:
            self.known[name] = self.known[source].reshape(shape)
            return
        if math.prod(self.types[source].shape) != math.prod(shape) or any(d < 0 for d in shape):
            raise ValueError(f"{self.types[source]} has not the elements of {list(shape)}")
        self.aliases[name] = source
        self.types[name] = Array(self.types[source].dtype, shape)
        if source in self.halves:
            self.halves[name] = self.halves[source]

    def apply(self, node: Node, step: binding.Apply, names: dict[str, str], local: frozenset[str] = frozenset()) -> None:
        sources = [self.source(node, ref, names) for ref in step.inputs]
        given = [lowering_steps.Given(self.shape(s) or (), self.halves.get(s, self.dtype(s)), s in self.halves)
                 for s in sources]
        try:
            made = lowering_steps.step_program(step, given, local)
        except CompileError as error:
            raise ModelError([*fail("E609", f"{node.label} does not fit its inputs").diagnostics, *error.diagnostics],
                             binding.text_of(step)) from None
        program = made.program
        targets = tuple(self.target(node, ref, names) for ref in step.outputs)
        for name, t, half in zip(targets, made.results, made.halves, strict=True):
            self.define(name, t, node.label)
            if half is not None:
                self.halves[name] = half
        slim = embed(program, traced_values.embedded(program, {
            t: self.known[s] for t, s in zip(program.inputs, sources, strict=True) if s in self.known}))
        inputs = tuple(s for t, s in zip(program.inputs, sources, strict=True) if t in slim.inputs)
        for s in inputs:
            if s in self.known:
                self.store(s, self.known[s], node.label)
        slim, inputs = self.direct(slim, inputs)
        slim, told = index_checks.with_index_checks(self, node, step, slim) if self.checked else (slim, ())
        self.calls.append(Call(slim, inputs, targets + told, node.op, self.under))

    def base(self, name: str) -> str:
        """The value that owns the elements of `name`."""
        while name in self.aliases:
            name = self.aliases[name]
        return name

    def direct(self, program: Program, inputs: tuple[str, ...]) -> tuple[Program, tuple[str, ...]]:
        """Read through views whose subscripts are simple, so that they do not stand between operators that could be fused."""
        names = list(inputs)
        for i, tensor in enumerate(program.inputs):
            base = self.base(names[i])
            other = reshaped_input(program, tensor, self.types[base].shape) if base != names[i] else None
            if other is not None:
                program, names[i] = other, base
        return program, tuple(names)

    def store(self, name: str, array: np.ndarray, label: str) -> None:
        dtype = traced_values.dtype_of(array)
        if dtype is None:
            raise fail("E608", f"{label}: the constant {name!r} has the element type {array.dtype}", kind=ModelError)
        self.types[name] = Array(dtype, array.shape)
