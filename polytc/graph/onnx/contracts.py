"""What operators ask of their nodes, by onnx's schemas: attributes, numbers of inputs and outputs, element types, and bodies
that take and give what their nodes do. It is asked of the file, before any pass: also of what no run would come to."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import onnx

from polytc.errors import Diagnostic
from polytc.graph.ir import CONTROL, Node
from polytc.graph.onnx.choices import unknown_choice
from polytc.graph.onnx.domains import domain_of, operator_of
from polytc.graph.user_operators import OWN_TEXTS

_KINDS = onnx.AttributeProto

TENSORS: Mapping[int, str] = {element: f"tensor({name.lower()})" for name, element in onnx.TensorProto.DataType.items()
                              if element != onnx.TensorProto.UNDEFINED}
"""Element type of onnx -> the type of its tensors as onnx's schemas write it."""


Kinds: TypeAlias = "list[str | None]"
"""Types of values, None where unknown."""


@dataclass(frozen=True)
class _Port:
    """An input or output of an operator, or all of the last kind. alike: these are of one type."""

    variable: str
    types: frozenset[str]
    several: bool
    alike: bool


@dataclass(frozen=True)
class _Contract:
    """attributes: name -> its kind, and whether it must be there. inputs, outputs: (fewest, most) of each."""

    schema: onnx.defs.OpSchema
    since: int
    attributes: Mapping[str, tuple[int, bool]]
    inputs: tuple[int, int]
    outputs: tuple[int, int]
    takes: tuple[_Port, ...]
    gives: tuple[_Port, ...]


def contradictions(graph: onnx.GraphProto, opsets: Mapping[str, int]) -> list[Diagnostic]:
    """What is wrong with the nodes of a graph that is well wired, and with those of all bodies in it. opsets: domain -> version
    of its operators. E609: what a node has; E606: what the graph declares of its results."""
    walk = _Walk(opsets)
    walk.graph(graph, ChainMap())
    return walk.found


class _Walk:
    """found: what is wrong so far. Types are onnx's texts, tensor(float) for one; a value of an unknown type has none."""

    def __init__(self, opsets: Mapping[str, int]) -> None:
        self.opsets = opsets
        self.found: list[Diagnostic] = []

    def graph(self, graph: onnx.GraphProto, outer: ChainMap[str, str], given: Sequence[str | None] = ()) -> Kinds:
        """Look at the nodes of a graph in order; the types of its outputs. given: types of its inputs, by those around it."""
        own = {t.name: kind for t in graph.initializer if (kind := TENSORS.get(t.data_type))}
        types = outer.new_child(own)
        for i, v in enumerate(graph.input):
            kind = type_text(v.type) or (given[i] if i < len(given) else None)
            if kind and v.name not in own:
                own[v.name] = kind
        declared = {v.name: kind for v in (*graph.value_info, *graph.output) if (kind := type_text(v.type))}
        for node in graph.node:
            results = self.node(node, types)
            for name, kind in zip(node.output, results):
                said = declared.pop(name, None) if name else None
                if said and kind and said != kind:
                    self.refuse(_label(node), f"its result {name!r} is declared as {said}, and computed as {kind}", "E606")
                if name and (kind or said):
                    own[name] = kind or said or ""
        for name, said in declared.items():  # of what no node computes
            if types.get(name, said) != said:
                self.refuse(f"the graph {graph.name!r}", f"{name!r} is declared as {said}, and is {types[name]}", "E606")
        return [types.get(v.name) for v in graph.output]

    def node(self, proto: onnx.NodeProto, types: ChainMap[str, str]) -> Kinds:
        """Look at a node; the types of its outputs, None where unknown."""
        domain, key = domain_of(proto), operator_of(proto)
        contract = None if key in OWN_TEXTS else _contract(proto.op_type, self.opsets.get(domain, 1), domain)
        if contract is None:
            for a in proto.attribute:
                if a.type == _KINDS.GRAPH:
                    self.graph(a.g, types)
            return [None] * len(proto.output)
        wrong = [*_attributes(proto, contract), *_numbers(proto, contract)]
        bound: dict[str, tuple[str, str]] = {}
        given = [types.get(n) if n else None for n in proto.input]
        wrong += _bind(proto, contract, given, bound)
        if wrong or key in CONTROL:
            label = _label(proto)
            self.found += [Diagnostic("E609", f"{label}: {text}", None, notes) for text, notes in wrong]
            if key in CONTROL:
                return self.bodies(proto, label, given, types)
        return _results(proto, contract, given, bound) if not wrong else [None] * len(proto.output)

    def bodies(self, proto: onnx.NodeProto, label: str, given: Kinds, types: ChainMap[str, str]) -> Kinds:
        """Look at the bodies of a node, and at what goes in and out of them."""
        graphs = {a.name: a.g for a in proto.attribute if a.type == _KINDS.GRAPH}
        if proto.op_type == "If":
            both = [self.graph(body, types) for body in graphs.values()]
            for body, found in zip(graphs.values(), both):
                self.count(label, body, len(proto.output), len(found))
            for name, a, b in zip(proto.output, *both if len(both) == 2 else ([], [])):
                if a and b and a != b:
                    self.refuse(label, f"its result {name!r} is {a} in one branch, and {b} in the other")
            return _padded(both[0] if both else [], len(proto.output))
        body = graphs.get("body")
        if body is None:
            return [None] * len(proto.output)
        inside = list(given)
        if proto.op_type == "Loop":
            inside[:2] = ["tensor(int64)", "tensor(bool)"]
        elif proto.op_type == "Scan" and self.opsets.get("", 1) < 9:
            del inside[:1]
        elif proto.op_type == "SequenceMap":
            inside = [_element(kind) for kind in given]
        results = self.graph(body, types, inside)
        self.enter(label, body, inside)
        if proto.op_type == "Loop":
            results = self.loop(label, body, inside, results)
        if proto.op_type == "SequenceMap":
            results = [f"seq({kind})" if kind else None for kind in results]
        self.count(label, body, len(proto.output), len(results))
        return _padded(results, len(proto.output))

    def enter(self, label: str, body: onnx.GraphProto, given: Kinds) -> None:
        if len(given) != len(body.input):
            self.refuse(label, f"its body {body.name!r} has {len(body.input)} inputs, and is given {len(given)} values")
        for v, kind in zip(body.input, given):
            declared = type_text(v.type)
            if declared and kind and declared != kind:
                self.refuse(label, f"its body {body.name!r} takes {v.name!r} as {declared}, and is given {kind}")

    def loop(self, label: str, body: onnx.GraphProto, given: Kinds, results: Kinds) -> Kinds:
        """Without the condition, which is the first; states come out as they went in."""
        if results and results[0] not in (None, "tensor(bool)"):
            self.refuse(label, f"its body {body.name!r} gives the condition {body.output[0].name!r} as {results[0]}")
        for v, before, after in zip(body.output[1:], given[2:], results[1:]):
            if before and after and _content(before) != _content(after):
                self.refuse(label, f"its body {body.name!r} takes a state as {before}, and gives it as {v.name!r} of {after}")
        if len(results) < len(given) - 1:
            self.refuse(label, f"its body {body.name!r} has {len(results)} outputs, {len(given) - 1} are needed for the "
                        "condition and the states")
        return results[1:]

    def count(self, label: str, body: onnx.GraphProto, wanted: int, there: int) -> None:
        if wanted != there:
            self.refuse(label, f"the node names {wanted} results, its body {body.name!r} gives {there}")

    def refuse(self, label: str, text: str, code: str = "E609") -> None:
        self.found.append(Diagnostic(code, f"{label}: {text}"))


def type_text(proto: onnx.TypeProto) -> str | None:
    """A type as onnx's schemas write it, tensor(float); None for one that says nothing."""
    match proto.WhichOneof("value"):
        case "tensor_type":
            return TENSORS.get(proto.tensor_type.elem_type)
        case "sparse_tensor_type":
            kind = TENSORS.get(proto.sparse_tensor_type.elem_type)
            return f"sparse_{kind}" if kind else None
        case "sequence_type":
            inner = type_text(proto.sequence_type.elem_type)
            return f"seq({inner})" if inner else None
        case "optional_type":
            inner = type_text(proto.optional_type.elem_type)
            return f"optional({inner})" if inner else None
        case "map_type":
            key, inner = TENSORS.get(proto.map_type.key_type), type_text(proto.map_type.value_type)
            return f"map({key[7:-1]},{inner})" if key and inner else None
    return None


def _label(proto: onnx.NodeProto) -> str:
    return Node(operator_of(proto), proto.name, tuple(proto.input), tuple(proto.output)).label


def _element(kind: str | None) -> str | None:
    return kind[4:-1] if kind and kind.startswith("seq(") else kind


def _content(kind: str) -> str:
    """What is in a value that need not be there."""
    return kind[9:-1] if kind.startswith("optional(") else kind


def _padded(types: Kinds, count: int) -> Kinds:
    return [*types[:count], *[None] * (count - len(types))]


@lru_cache(maxsize=2048)
def _contract(op: str, version: int, domain: str) -> _Contract | None:
    """What onnx asks of the nodes of an operator; None for one that it does not have."""
    try:
        schema = onnx.defs.get_schema(op, version, domain)
    except onnx.defs.SchemaError:
        return None
    attributes = {name: (int(a.type.value), a.required) for name, a in schema.attributes.items()}
    return _Contract(schema, schema.since_version, attributes, (schema.min_input, schema.max_input),
                     (schema.min_output, schema.max_output), _ports(schema.inputs), _ports(schema.outputs))


def _ports(found: Sequence[onnx.defs.OpSchema.FormalParameter]) -> tuple[_Port, ...]:
    several = onnx.defs.OpSchema.FormalParameterOption.Variadic
    return tuple(_Port(p.type_str, frozenset(p.types), p.option == several, p.is_homogeneous) for p in found)


def _port(ports: Sequence[_Port], i: int) -> _Port | None:
    if i < len(ports):
        return ports[i]
    return ports[-1] if ports and ports[-1].several else None


Wrong = tuple[str, tuple[str, ...]]
"""What is wrong with a node, and notes on it."""


def _attributes(proto: onnx.NodeProto, contract: _Contract) -> Iterator[Wrong]:
    there = {a.name for a in proto.attribute}
    for a in proto.attribute:
        kind, _ = contract.attributes.get(a.name, (None, False))
        if kind is None:
            known = ", ".join(sorted(contract.attributes)) or "none"
            yield f"it has the attribute {a.name!r}, which the operator does not", (f"the operator has {known}",)
        elif a.type not in (kind, _KINDS.UNDEFINED):
            value = onnx.helper.get_attribute_value(a)
            text = repr(value.decode("utf-8", "replace") if isinstance(value, bytes) else value)
            yield (f"the attribute {a.name}={text[:60]} is {_KINDS.AttributeType.Name(a.type)}, "
                   f"{_KINDS.AttributeType.Name(kind)} is needed"), ()
        elif (why := unknown_choice(proto.op_type, contract.since, a)) is not None:
            yield why
    for name, (_, needed) in contract.attributes.items():
        if needed and name not in there:
            yield f"its attribute {name!r} is missing", ()


def _numbers(proto: onnx.NodeProto, contract: _Contract) -> Iterator[Wrong]:
    for what, names, (fewest, most) in (("inputs", proto.input, contract.inputs), ("outputs", proto.output, contract.outputs)):
        if not fewest <= len(names) <= most:
            some = f"{fewest}" if fewest == most else f"{fewest} or more" if most > len(names) else f"{fewest} to {most}"
            yield f"it has {len(names)} {what}, the operator has {some}", ()


def _bind(proto: onnx.NodeProto, contract: _Contract, given: Kinds, bound: dict[str, tuple[str, str]]
          ) -> Iterator[Wrong]:
    """Element types that do not go together. bound: takes each variable of the schema's types, with the input that says it."""
    for i, (name, kind) in enumerate(zip(proto.input, given)):
        port = _port(contract.takes, i)
        if kind is None or port is None:
            continue
        if kind not in port.types:
            yield f"its input {name!r} is {kind}", (f"the operator takes {', '.join(sorted(port.types))}",)
        elif port.alike:
            other, first = bound.setdefault(port.variable, (kind, name))
            if other != kind:
                yield f"its inputs {first!r} and {name!r} are {other} and {kind}, and must be of one type", ()


def _results(proto: onnx.NodeProto, contract: _Contract, given: Kinds, bound: Mapping[str, tuple[str, str]]
             ) -> Kinds:
    found: Kinds = []
    for i in range(len(proto.output)):
        port = _port(contract.gives, i)
        if port is None:
            found.append(None)
        elif port.variable in bound and port.alike:
            found.append(bound[port.variable][0])
        else:
            found.append(next(iter(port.types)) if len(port.types) == 1 else None)
    return found if None not in found else [a or b for a, b in zip(found, _inferred(proto, contract, given), strict=True)]


def _inferred(proto: onnx.NodeProto, contract: _Contract, given: Kinds) -> Kinds:
    """By onnx's inference for the one operator; a constant may be large, and says what it is."""
    if proto.op_type == "Constant":
        return [next((TENSORS.get(a.t.data_type) for a in proto.attribute if a.type == _KINDS.TENSOR), None)]
    kinds = {text: element for element, text in TENSORS.items()}
    types = {n: onnx.helper.make_tensor_type_proto(kinds[kind], None)
             for n, kind in zip(proto.input, given) if n and kind in kinds}
    try:
        inferred = onnx.shape_inference.infer_node_outputs(
            contract.schema, proto, types, opset_imports=[onnx.helper.make_opsetid(proto.domain, contract.since)])
    except Exception:  # whatever onnx's C++ code raises: it does not know
        return [None] * len(proto.output)
    return [type_text(inferred[n]) if n in inferred else None for n in proto.output]
