"""Plan: a graph for concrete shapes, as calls of programs on named buffers. What specialisation makes, and fusion returns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from polytc.lang.program import Program
from polytc.lang.scalars import DType, from_numpy


@dataclass(frozen=True)
class Array:
    """Type of a value, e.g. f32[1, 64, 56, 56]."""

    dtype: DType
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.bytes

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Guard:
    """What it guards happens in runs in which `value`, one bool, is `taken`."""

    value: str
    taken: bool

    def __str__(self) -> str:
        return self.value if self.taken else f"not {self.value}"


@dataclass(frozen=True)
class Call:
    """A program applied to values, one for each input and output of it, in order. label: of the nodes it came from. guards: of
    the branches that it lies in, outermost first."""

    program: Program
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    label: str
    guards: tuple[Guard, ...] = ()


@dataclass(frozen=True)
class Plan:
    """calls: in order; none where their code was found on disk (stored.py). types: of every value. aliases: value -> the value
    whose elements it shows under its own shape; a result of a call that has one is what one branch makes of that value.
    constants: values known now. inputs, outputs: of the graph; an output may be any value."""

    name: str
    calls: tuple[Call, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    types: Mapping[str, Array]
    aliases: Mapping[str, str]
    constants: Mapping[str, np.ndarray]

    def base(self, name: str) -> str:
        """The value that owns the elements of `name`."""
        while name in self.aliases:
            name = self.aliases[name]
        return name

    def __str__(self) -> str:
        lines = [f"plan {self.name}({', '.join(f'{n}: {self.types[n]}' for n in self.inputs)})"]
        for c in self.calls:
            outputs = ", ".join(f"{n}: {self.types[n]}" for n in c.outputs)
            condition = "".join(f"if {g}: " for g in c.guards)
            lines.append(f"    {condition}{outputs} = {c.label}({', '.join(c.inputs)})")
        return "\n".join([*lines, f"    return {', '.join(self.outputs)}"])


def type_of(value: Any) -> Array | None:
    """The type of a tensor, None for any other value."""
    dtype = from_numpy(value.dtype) if isinstance(value, np.ndarray) else None
    return Array(dtype, value.shape) if dtype is not None else None
