"""What runs between compiled parts: numpy routines, onnx's evaluator, and loops over bodies that are compiled themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from polytc.errors import ModelError, fail
from polytc.graph.ir import Graph
from polytc.graph.plan import Array

Work: TypeAlias = "Callable[..., Sequence[Any]]"
"""A function of the values of a host's inputs (None where one is left out) that returns those of its outputs."""

ENDLESS = 10**12
"""Iterations of a loop that nobody will see the end of: the shortest take some nanoseconds each."""


@dataclass(frozen=True)
class Repeat:
    """The body of a Loop, a Scan or a SequenceMap, to be compiled for the shapes that it meets.

    kind: the operator. body: its inputs are those that the file declares and then `captured`, values from outside. scanned: how
    many of the node's inputs a Scan reads slice by slice; axes and directions of these, and of its stacked results. batched: as
    Scan was before opset 9.
    """

    kind: str
    body: Graph
    captured: tuple[str, ...]
    scanned: int = 0
    in_axes: tuple[int, ...] = ()
    in_backwards: tuple[bool, ...] = ()
    out_axes: tuple[int, ...] = ()
    out_backwards: tuple[bool, ...] = ()
    batched: bool = False

    def length(self, shapes: Sequence[Sequence[int]]) -> int:
        """How many slices a Scan reads of arrays of these shapes. Raises ModelError E609 where they differ in that."""
        lengths = set()
        for shape, axis in zip(shapes, self.in_axes, strict=True):
            if not -len(shape) <= axis < len(shape):
                raise fail("E609", f"the body {self.body.name!r} scans axis {axis} of the shape {list(shape)}", kind=ModelError)
            lengths.add(shape[axis])
        if len(lengths) > 1:
            raise fail("E609", f"the body {self.body.name!r} scans inputs of the lengths {sorted(lengths)}", kind=ModelError)
        return lengths.pop()


def keeps_going(body: Graph) -> bool:
    """Does the body hand on the condition that it was given, or one that is always true?"""
    makers = {o: n for n in body.nodes for o in n.outputs}
    name = body.outputs[0].name
    while name in makers and makers[name].op == "Identity":
        name = makers[name].inputs[0]
    if name in makers and makers[name].op == "Constant":
        value = makers[name].attributes.get("value")
        return isinstance(value, np.ndarray) and bool(value.all())
    constant = body.constants.get(name)
    return name == body.inputs[1].name or (constant is not None and bool(constant.all()))


@dataclass(frozen=True)
class Host:
    """A step of a model outside of its compiled parts. label: of its node. why: of what onnx's evaluator or ONNX Runtime
    runs, the reason; else empty. inputs: values by name, '' for none; those that `work` captures follow the node's own. types:
    of all outputs if they are known before a run, else empty."""

    label: str
    op: str
    work: Work | Repeat
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    why: str = ""
    types: tuple[Array, ...] = ()
