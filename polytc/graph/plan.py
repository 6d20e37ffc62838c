"""Plan: a graph for concrete shapes, as calls of programs on named buffers. What specialisation makes, and fusion returns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from polytc.program.scalars import I64, DType, from_numpy, identity

if TYPE_CHECKING:
    from polytc.program.program import Program


@dataclass(frozen=True)
class Array:
    """Type of a value, e.g. f32[1, 64, 56, 56]."""

    dtype: DType
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * self.dtype.bytes

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


NONE = identity("min", I64)
"""What `IndexCheck.first` holds where all indices are inside."""


@dataclass(frozen=True)
class IndexCheck:
    """What a run finds out about indices of a node. first: the value that holds the number of the first one outside, or
    `NONE`; where that has several elements, each for `width` numbers. index: the value with that index itself; '':
    there is none. label: of the node; subject: what the indices are in; ranges: where its dimensions begin and how long
    they are, the last one fastest; names: of the program's indices that count them, none where they are those of `subject`
    itself. allowed: what the index must be, for numbers in a row in turn."""

    first: str
    index: str
    label: str
    subject: str
    ranges: tuple[tuple[int, int], ...]
    names: tuple[str, ...]
    allowed: tuple[str, ...]
    width: int = 1

    @staticmethod
    def of(row: Sequence[Any]) -> IndexCheck:
        """From a row of a stored model, its fields in order."""
        first, index, label, subject, ranges, names, allowed, width = row
        return IndexCheck(first, index, label, subject, tuple((low, extent) for low, extent in ranges), tuple(names),
                          tuple(allowed), width)


@dataclass(frozen=True)
class Plan:
    """calls: in order; none where their code was found on disk (stored.py). types: of every value. aliases: value -> the value
    whose elements it shows under its own shape; a result of a call that has one is what one branch makes of that value.
    constants: values known now. inputs, outputs: of the graph; an output may be any value. index_checks: indices that are
    looked at after a run. rounds: a run goes through the calls so often; split: the values of which each round has the next
    part, in the order of memory, and `types` the type of a part."""

    name: str
    calls: tuple[Call, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    types: Mapping[str, Array]
    aliases: Mapping[str, str]
    constants: Mapping[str, np.ndarray]
    index_checks: tuple[IndexCheck, ...] = ()
    rounds: int = 1
    split: frozenset[str] = frozenset()

    def outside(self, name: str) -> Array:
        """The type of an input or output for all rounds together."""
        t = self.types[name]
        return Array(t.dtype, (t.shape[0] * self.rounds, *t.shape[1:])) if name in self.split else t

    @property
    def lasting(self) -> tuple[str, ...]:
        """The values that are there after a run: outputs, and what tells of indices."""
        return (*self.outputs, *self.checked_values)

    @property
    def checked_values(self) -> tuple[str, ...]:
        """The values that tell of indices."""
        return tuple(n for w in self.index_checks for n in (w.first, w.index) if n)

    def base(self, name: str) -> str:
        """The value that owns the elements of `name`."""
        while name in self.aliases:
            name = self.aliases[name]
        return name

    def __str__(self) -> str:
        lines = [f"plan {self.name}({', '.join(f'{n}: {self.outside(n)}' for n in self.inputs)})"]
        for c in self.calls:
            outputs = ", ".join(f"{n}: {self.types[n]}" for n in c.outputs)
            condition = "".join(f"if {g}: " for g in c.guards)
            lines.append(f"    {condition}{outputs} = {c.label}({', '.join(c.inputs)})")
        if self.rounds > 1:
            parts = ", ".join(n for n in self.inputs + self.outputs if n in self.split)
            lines[1:1] = [f"    {self.rounds} times, each for the next part of {parts}:"]
        return "\n".join([*lines, f"    return {', '.join(self.outputs)}"])


def type_of(value: Any) -> Array | None:
    """The type of a tensor, None for any other value."""
    dtype = from_numpy(value.dtype) if isinstance(value, np.ndarray) else None
    return Array(dtype, value.shape) if dtype is not None else None
