"""Broken ONNX files out of good ones: bytes changed, and messages changed so that they still parse."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import onnx

NAMES = ('"; int evil(void) { return 1; } //', "a\nb\rc", "*/ x /*", "%s%n", "", "\0", "../../etc/passwd", "é\u202e",
         "x" * 5000, "{0}", "T[i] = 1", "S1")
NUMBERS = (0, -1, 1, 2, 3, 7, 63, 64, 2**31 - 1, 2**31, -2**31, 2**32, 2**62, 2**63 - 1, -2**63, 10**6)
FILES = ("../secret.bin", "/etc/passwd", "secret.bin", "", "a/../../secret.bin", "~/.bashrc", "sub\\..\\..\\secret.bin", "\0")


def mutant(seeds: Sequence[bytes], seed: int) -> bytes:
    """A file made from one of the seeds; the same for the same number."""
    r = random.Random(seed)
    data = r.choice(seeds)
    if r.random() < 0.35:
        return _bytes(r, data)
    model = onnx.ModelProto()
    model.ParseFromString(data)
    for _ in range(r.choice((1, 1, 1, 2, 4))):
        r.choice(_CHANGES)(r, model)
    return bytes(model.SerializeToString())


def _bytes(r: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(r.choice((1, 1, 2, 3, 8, 30))):
        at = r.randrange(len(out) + 1)
        kind = r.randrange(6)
        if kind == 0 and at < len(out):
            out[at] ^= 1 << r.randrange(8)
        elif kind == 1 and at < len(out):
            out[at] = r.randrange(256)
        elif kind == 2:
            del out[at:at + r.choice((1, 2, 8, 100))]
        elif kind == 3:
            out[at:at] = r.randbytes(r.choice((1, 2, 9)))
        elif kind == 4:
            out = out[:at]
        else:
            start = r.randrange(len(out) + 1)
            out[at:at] = out[start:start + r.choice((4, 32, 200))]
    return bytes(out)


def _node(r: random.Random, model: onnx.ModelProto) -> Any:
    nodes = list(model.graph.node)
    nodes += [n for node in nodes for a in node.attribute for n in a.g.node]
    return r.choice(nodes) if nodes else onnx.NodeProto()


def _names(model: onnx.ModelProto) -> list[str]:
    g = model.graph
    return [*(n for node in g.node for n in (*node.input, *node.output)), *(v.name for v in (*g.input, *g.output)),
            *(t.name for t in g.initializer)] or ["x"]


def _operator(r: random.Random, model: onnx.ModelProto) -> None:
    schemas = onnx.defs.get_all_schemas()
    _node(r, model).op_type = r.choice([r.choice(schemas).name, r.choice(NAMES)])


def _wiring(r: random.Random, model: onnx.ModelProto) -> None:
    node, name = _node(r, model), r.choice([*_names(model), "", "nowhere"])
    side = node.input if r.random() < 0.6 else node.output
    kind = r.randrange(3)
    if kind == 0 and side:
        side[r.randrange(len(side))] = name
    elif kind == 1 and side:
        del side[r.randrange(len(side))]
    else:
        side.append(name)


def _order(r: random.Random, model: onnx.ModelProto) -> None:
    nodes = list(model.graph.node)
    r.shuffle(nodes)
    if nodes and r.random() < 0.5:
        nodes.append(r.choice(nodes))
    del model.graph.node[:]
    model.graph.node.extend(nodes)


def _attribute(r: random.Random, model: onnx.ModelProto) -> None:
    node = _node(r, model)
    if not node.attribute or r.random() < 0.2:
        names = r.choice(onnx.defs.get_all_schemas()).attributes
        node.attribute.append(onnx.helper.make_attribute(r.choice([*names, "axis"]), r.choice(NUMBERS)))
        return
    a = r.choice(node.attribute)
    kind = r.randrange(6)
    if kind == 0 and a.ints:
        a.ints[r.randrange(len(a.ints))] = r.choice(NUMBERS)
    elif kind == 1:
        a.i = r.choice(NUMBERS)
    elif kind == 2:
        a.type = r.choice(range(15))
    elif kind == 3:
        a.ints.extend([r.choice(NUMBERS)] * r.choice((1, 3, 1000)))
    elif kind == 4:
        a.f = r.choice((0.0, -1.0, float("nan"), float("inf"), 1e30))
    else:
        a.s = r.choice(NAMES).encode()


def _tensor(r: random.Random, model: onnx.ModelProto) -> None:
    tensors = [*model.graph.initializer, *(a.t for n in model.graph.node for a in n.attribute if a.HasField("t"))]
    if not tensors:
        name = r.choice(_names(model))
        model.graph.initializer.append(onnx.TensorProto(name=name, dims=[2], data_type=1, raw_data=b"\0" * 8))
        return
    t = r.choice(tensors)
    kind = r.randrange(4)
    if kind == 0:
        t.dims.append(r.choice(NUMBERS))
    elif kind == 1 and t.dims:
        t.dims[r.randrange(len(t.dims))] = r.choice(NUMBERS)
    elif kind == 2:
        t.data_type = r.choice([*range(30), 2**31 - 1])
    else:
        t.ClearField("raw_data")
        t.data_location = onnx.TensorProto.EXTERNAL
        fields = {"location": r.choice(FILES), "offset": str(r.choice(NUMBERS)), "length": str(r.choice(NUMBERS))}
        for key, value in fields.items():
            entry = t.external_data.add()
            entry.key, entry.value = key, value


def _shape(r: random.Random, model: onnx.ModelProto) -> None:
    values = [*model.graph.input, *model.graph.output, *model.graph.value_info]
    if not values:
        return
    v = r.choice(values)
    dims = v.type.tensor_type.shape.dim
    kind = r.randrange(4)
    if kind == 0 and dims:
        r.choice(dims).dim_value = r.choice(NUMBERS)
    elif kind == 1 and dims:
        r.choice(dims).dim_param = r.choice(NAMES)
    elif kind == 2:
        dims.add().dim_value = r.choice(NUMBERS)
    else:
        v.type.tensor_type.elem_type = r.choice(range(30))


def _rename(r: random.Random, model: onnx.ModelProto) -> None:
    """One name, wherever it occurs."""
    old, new = r.choice(_names(model)), r.choice(NAMES)
    for node in model.graph.node:
        for side in (node.input, node.output):
            for k, name in enumerate(side):
                if name == old:
                    side[k] = new
    for v in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        if v.name == old:
            v.name = new
    model.graph.name = _node(r, model).name = r.choice(NAMES)


def _version(r: random.Random, model: onnx.ModelProto) -> None:
    if model.opset_import:
        chosen = r.choice(model.opset_import)
        chosen.version = r.choice((0, 1, 5, 6, 7, 9, 11, 13, 17, 18, 21, 23, 99, -1))
        chosen.domain = r.choice(("", "", "ai.onnx", "ai.onnx.ml", r.choice(NAMES)))


def _drop(r: random.Random, model: onnx.ModelProto) -> None:
    part = r.choice((model.graph.node, model.graph.input, model.graph.output, model.graph.initializer, model.opset_import))
    if part:
        del part[r.randrange(len(part))]


_CHANGES: tuple[Callable[[random.Random, onnx.ModelProto], None], ...] = (
    _operator, _wiring, _wiring, _order, _attribute, _attribute, _attribute, _tensor, _tensor, _shape, _shape, _rename,
    _version, _drop)
