"""Convolutions and pools on blocks of channels (com.microsoft.nchwc) as plain ones.

ONNX Runtime's optimiser stores the channels of an image in blocks of 8 or 16, with zeros in what is left of the last block, and
the weights likewise; files that it saved at its highest level hold that. The graph without it is the one before:

    ReorderInput(x), ReorderOutput(x)   x
    Conv(x, weights in blocks)          FusedConv(x, weights without blocks and without the zeros)

How many channels a value has is the most that its makers and readers know of: rows and columns of weights up to the last
that is not zero, `channels` of ReorderOutput, those of what ReorderInput reads. Channels beyond are made by weights of zero
and read by none.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from polytc import processors
from polytc.graph.ir import Graph, Node

DOMAIN = "com.microsoft.nchwc::"
BLOCKS = (16, 8)
"""Numbers of channels in a block."""
_TO_BLOCKS, _FROM_BLOCKS, _CONV, _UPSAMPLE = (DOMAIN + n for n in ("ReorderInput", "ReorderOutput", "Conv", "Upsample"))
_POOLS = frozenset(DOMAIN + n for n in ("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool"))
_KEEPING = frozenset(
    "Abs Add AveragePool BatchNormalization Clip Div Dropout Elu Erf Exp Gelu GlobalAveragePool GlobalMaxPool HardSigmoid "
    "HardSwish Identity "
    "LRN LeakyRelu MaxPool Mish Mul Neg Relu Sigmoid Softplus Softsign Sqrt Sub Sum Swish Tanh com.microsoft::QuickGelu "
    "com.microsoft::Gelu com.microsoft::FastGelu".split())
"""Operators whose results have the channels of an input."""


def unblocked(graph: Graph, outer: Mapping[str, np.ndarray]) -> Graph:
    """The graph without blocks of channels; as it is where weights are computed. outer: constants of the graphs around."""
    stored = {**outer, **graph.constants}
    convolutions = [n for n in graph.nodes if n.op == _CONV]
    if not any(n.op.startswith(DOMAIN) for n in graph.nodes) or any(
            n.inputs[1] not in stored or stored[n.inputs[1]].ndim != 4 for n in convolutions):
        return graph
    return _Unblocking(graph, stored).run()


@dataclass
class _Channels:
    """Of values that have the same channels. known: how many there are at least; padded: with the zeros; whole: all are needed;
    open: by something that may not need whole blocks."""

    known: int = 0
    padded: int = 0
    whole: bool = False
    open: bool = False
    members: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        return self.padded if self.whole else self.known


class _Unblocking:
    """stored: constants that nodes may read. of: value in blocks -> its channels, the same object for values that have the
    same ones."""

    def __init__(self, graph: Graph, stored: Mapping[str, np.ndarray]) -> None:
        self.graph, self.stored = graph, stored
        self.constants = dict(graph.constants)
        self.makers = {o: n for n in graph.nodes for o in n.outputs if o}
        self.of: dict[str, _Channels] = {}
        self.block = 0

    def run(self) -> Graph:
        for node in self.graph.nodes:
            self.learn(node)
        for v in self.graph.outputs:
            if v.name in self.of:
                self.of[v.name].whole = self.of[v.name].open = True
        self.block = self.block_size()
        for node in self.graph.nodes:
            if node.op == _CONV:
                self.count(node)
        nodes = tuple(made for node in self.graph.nodes for made in self.plain(node))
        values = {n: v for n, v in self.graph.values.items() if n not in self.of}
        return replace(self.graph, nodes=nodes, constants=self.constants, values=values)

    # ---- which values are in blocks, and have the same channels

    def learn(self, node: Node) -> None:
        blocked = [n for n in node.inputs if n in self.of]
        if node.op == _TO_BLOCKS:
            self.channels(node.outputs[0]).known = self.entering_channels(node) or 0
        elif node.op == _FROM_BLOCKS:
            found = self.channels(node.inputs[0])
            found.known = max(found.known, int(node.attributes.get("channels", 0)))
        elif node.op == _CONV:
            self.learn_conv(node)
        elif node.op in _POOLS or node.op == _UPSAMPLE:
            self.same(node.inputs[0], node.outputs[0])
        elif blocked and node.op == "Concat":
            for name in (*node.inputs, *node.outputs):
                self.channels(name).whole = True
            self.channels(node.outputs[0]).padded = sum(self.channels(n).padded for n in node.inputs)
        elif blocked:
            self.same(*blocked, *node.outputs)
            if node.op not in _KEEPING and self.split(node) is None:
                self.of[blocked[0]].whole = self.of[blocked[0]].open = True

    def learn_conv(self, node: Node) -> None:
        weights = self.stored[node.inputs[1]]
        result = self.channels(node.outputs[0])
        result.padded = weights.shape[0]
        if len(node.inputs) > 3 and node.inputs[3]:
            self.same(node.inputs[3], node.outputs[0])
        if _is_depthwise(node, weights):
            self.same(node.inputs[0], node.outputs[0])
        elif node.attributes.get("group", 1) > 1:
            self.of[node.outputs[0]].whole = True
            self.channels(node.inputs[0]).whole = True
            self.channels(node.inputs[0]).padded = weights.shape[1] * node.attributes["group"]
        elif node.inputs[0] in self.of:
            self.of[node.inputs[0]].padded = weights.shape[1]

    def split(self, node: Node) -> int | None:
        """The size of a block if the node only writes blocks as an axis of their own, 0 if it joins them again; else None."""
        shape = self.stored.get(node.inputs[1]) if node.op == "Reshape" and node.inputs[0] in self.of else None
        if shape is None or shape.size not in (4, 5) or [*shape[[0, 2, 3]]] != [0, 0, 0]:
            return None
        return int(shape[4]) if shape.size == 5 else 0

    def channels(self, name: str) -> _Channels:
        return self.of.setdefault(name, _Channels(members=[name]))

    def same(self, *names: str) -> None:
        first = self.channels(names[0])
        for name in names[1:]:
            other = self.channels(name)
            if other is first:
                continue
            first.known, first.padded = max(first.known, other.known), max(first.padded, other.padded)
            first.whole, first.open = first.whole or other.whole, first.open or other.open
            first.members += other.members
            self.of.update(dict.fromkeys(other.members, first))

    def entering_channels(self, node: Node) -> int | None:
        """Of what a ReorderInput reads."""
        if not node.attributes.get("channels_last", 0):
            return self.plain_channels(node.inputs[0])
        declared = self.graph.values.get(node.inputs[0])
        last = declared.shape[-1] if declared is not None and declared.shape and len(declared.shape) == 4 else None
        return last if isinstance(last, int) else None

    def plain_channels(self, name: str) -> int | None:
        """Of a value that is not in blocks, as far as what made it tells."""
        while name:
            declared, maker = self.graph.values.get(name), self.makers.get(name)
            if declared is not None and declared.shape and len(declared.shape) == 4 and isinstance(declared.shape[1], int):
                return declared.shape[1]
            if maker is None or maker.op not in _KEEPING:
                return self.made_channels(maker) if maker is not None else None
            name = next((n for n in maker.inputs if n and n not in self.stored), "")
        return None

    def made_channels(self, maker: Node) -> int | None:
        """Of the result of a node that gives it others than its input has."""
        if maker.op == _FROM_BLOCKS:
            return None if maker.attributes.get("channels_last", 0) else int(maker.attributes["channels"])
        if maker.op in ("Conv", "com.microsoft::FusedConv"):
            weights = self.stored.get(maker.inputs[1])
            return None if weights is None else weights.shape[0]
        if maker.op == "Concat" and maker.attributes.get("axis") == 1:
            parts = [self.plain_channels(n) for n in maker.inputs]
            return sum(p for p in parts if p is not None) if None not in parts else None
        return None

    # ---- how many channels

    def block_size(self) -> int:
        """The one that fits all weights; of several that of this processor, as ONNX Runtime reads such a file itself."""
        own = 16 if processors.has_flag("avx512f") or platform.machine() in ("aarch64", "arm64") else 8
        fitting = [b for b in BLOCKS if all(self.fits(b, n) for n in self.graph.nodes)]
        return own if own in fitting or not fitting else fitting[0]

    def fits(self, block: int, node: Node) -> bool:
        """Is it a size of blocks that a node may have been made for?"""
        if node.op not in (_CONV, _FROM_BLOCKS):
            return self.split(node) in (None, 0, block)
        if node.op == _FROM_BLOCKS:
            channels, padded = int(node.attributes.get("channels", 0)), self.of[node.inputs[0]].padded
            return not padded or not channels or padded == -(-channels // block) * block
        weights = self.stored[node.inputs[1]]
        made, read = weights.shape[:2]
        if _is_depthwise(node, weights):
            return bool(made % block == 0)
        return bool(made % block == 0 and (read % block == 0 if node.inputs[0] in self.of else read < block))

    def count(self, node: Node) -> None:
        """What the weights and the bias of a convolution tell of the channels that it makes and reads."""
        weights = self.weights(node)
        made = self.of[node.outputs[0]]
        rows = np.flatnonzero(weights.reshape(weights.shape[0], -1).any(1))
        made.known = max(made.known, int(rows[-1]) + 1 if rows.size else 1)
        bias = self.stored.get(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] else None
        if bias is not None and bias.any():
            made.known = max(made.known, int(np.flatnonzero(bias)[-1]) + 1)
        elif len(node.inputs) > 2 and node.inputs[2] and bias is None:
            made.whole = made.open = True
        read = self.of.get(node.inputs[0])
        if read is not None and read is not made and not read.whole:
            columns = np.flatnonzero(weights.any((0, 2, 3)))
            read.known = max(read.known, int(columns[-1]) + 1 if columns.size else 1)

    def weights(self, node: Node) -> np.ndarray:
        """The weights of a convolution as Conv has them: [channels made, channels read, rows, columns]."""
        stored, b = self.stored[node.inputs[1]], self.block
        made, read, rows, columns = stored.shape
        if _is_depthwise(node, stored) or node.inputs[0] not in self.of:
            blocks = stored.reshape(made // b, read, rows, columns, b)
            return blocks.transpose(0, 4, 1, 2, 3).reshape(stored.shape)
        blocks = stored.reshape(made // b, read // b, rows, columns, b, b)
        return blocks.transpose(0, 5, 1, 4, 2, 3).reshape(stored.shape)

    # ---- nodes

    def plain(self, node: Node) -> Iterator[Node]:
        """What stands in place of a node."""
        if node.op == _TO_BLOCKS:
            yield from self.entered(node)
        elif node.op == _FROM_BLOCKS:
            yield from self.left(node)
        elif node.op == _CONV:
            yield self.convolution(node)
        elif node.op in _POOLS:
            yield replace(node, op=node.op.removeprefix(DOMAIN), opset=12)
        elif node.op == _UPSAMPLE:
            yield from self.resized(node)
        elif self.split(node) is not None:
            yield Node("Identity", node.name, node.inputs[:1], node.outputs, {}, 13)
        else:
            yield node

    def entered(self, node: Node) -> Iterator[Node]:
        """Channels that no weights read are cut off, if there may be some."""
        (name,), (result,), count = node.inputs, node.outputs, self.of[node.outputs[0]].count
        if node.attributes.get("channels_last", 0):
            yield Node("Transpose", node.name, (name,), (f"{result}.first",), {"perm": [0, 3, 1, 2]}, 13)
            name = f"{result}.first"
        channels = self.entering_channels(node)
        if self.of[result].open and self.of[result].padded and channels != count:
            yield from self.padded(name, result, node.name, count)
        elif channels == count or not count or self.of[result].whole:
            yield Node("Identity", node.name, (name,), (result,), {}, 13)
        else:
            yield self.cut(name, result, node.name, count)

    def padded(self, name: str, result: str, label: str, count: int) -> Iterator[Node]:
        """A value with zeros up to so many channels; how many it has, a run tells."""
        own = {f"{result}.count": np.array([count], np.int64), f"{result}.front": np.zeros(5, np.int64),
               f"{result}.end": np.zeros(2, np.int64)}
        self.constants |= own
        yield Node("Shape", label, (name,), (f"{result}.channels",), {"start": 1, "end": 2}, 15)
        yield Node("Sub", label, (f"{result}.count", f"{result}.channels"), (f"{result}.missing",), {}, 14)
        parts = f"{result}.front", f"{result}.missing", f"{result}.end"
        yield Node("Concat", label, parts, (f"{result}.pads",), {"axis": 0}, 13)
        yield Node("Pad", label, (name, f"{result}.pads"), (result,), {}, 13)

    def left(self, node: Node) -> Iterator[Node]:
        (name,), (result,) = node.inputs, node.outputs
        wanted = int(node.attributes.get("channels", 0))
        if wanted and self.of[name].count != wanted:
            yield self.cut(name, f"{result}.cut", node.name, wanted)
            name = f"{result}.cut"
        if node.attributes.get("channels_last", 0):
            yield Node("Transpose", node.name, (name,), (result,), {"perm": [0, 2, 3, 1]}, 13)
        else:
            yield Node("Identity", node.name, (name,), (result,), {}, 13)

    def cut(self, name: str, result: str, label: str, count: int) -> Node:
        """The first channels of a value."""
        own = {f"{result}.from": [0], f"{result}.to": [count], f"{result}.along": [1]}
        self.constants |= {n: np.array(v, np.int64) for n, v in own.items()}
        return Node("Slice", label, (name, *own), (result,), {}, 13)

    def convolution(self, node: Node) -> Node:
        result, weights, inputs = node.outputs[0], self.weights(node), [*node.inputs]
        made, attributes = self.of[result].count, dict(node.attributes)
        read = self.of.get(node.inputs[0])
        if _is_depthwise(node, weights):
            attributes["group"] = made
        elif attributes.get("group", 1) == 1 and read is not None:
            weights = weights[:, :read.count]
        inputs[1] = f"{result}.weights"
        self.constants[inputs[1]] = np.ascontiguousarray(weights[:made])
        if len(inputs) > 2 and inputs[2] in self.stored:
            self.constants[f"{result}.bias"] = self.stored[inputs[2]][:made]
            inputs[2] = f"{result}.bias"
        return Node("com.microsoft::FusedConv", node.name, tuple(inputs), node.outputs, attributes, 1)

    def resized(self, node: Node) -> Iterator[Node]:
        name = f"{node.outputs[0]}.scales"
        self.constants[name] = np.array(node.attributes["scales"], np.float32)
        linear = node.attributes.get("mode", "nearest") == "linear"
        points = node.attributes.get("coordinate_transformation_mode", "half_pixel") if linear else "asymmetric"
        own = {"mode": "linear" if linear else "nearest", "coordinate_transformation_mode": points, "nearest_mode": "floor"}
        yield Node("Resize", node.name, (node.inputs[0], "", name), node.outputs, own, 13)


def _is_depthwise(node: Node, weights: np.ndarray) -> bool:
    return bool(weights.shape[1] == 1 and weights.shape[0] == node.attributes.get("group", 1) > 1)
