"""What the generator knows while it writes a program: tensors with their bounds, and the space of indices of a statement."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod

from tests.generator.choices import Choices

FLOATS = ["f32", "f32", "f32", "f64", "f64", "f16", "bf16"]
INTEGERS = ["i32", "i64", "i32", "i64", "i8", "u8", "i16", "u16", "u32", "u64"]
POINTS = 6000
"""Points of one statement's box."""
ITERATIONS = 160
"""Iterations of all `for` loops around a statement."""

Box = list[tuple[int, int]]
Space = dict[str, tuple[int, int]]
"""index -> its smallest value, and the one behind its largest."""


@dataclass(frozen=True)
class Form:
    """A subscript as text, and its smallest and largest value."""

    text: str
    low: int
    high: int


@dataclass
class Tensor:
    """box: [lower, upper) of each dimension; kind: 'f', 'i' or 'b'; dtype: of an input; values: what an input holds, see
    case.array; pending: written by a `for` that is still open, so that it is not to be read yet."""

    name: str
    box: Box
    kind: str
    dtype: str | None = None
    values: tuple[str | int, ...] = ("any",)
    inout: bool = False
    pending: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(b for _, b in self.box)


@dataclass
class State:
    """smooth: floats that are no integers, and functions that round; then nothing may depend on the last bit. whole: the text
    is a `def`. dynamic: memory may decide ranges and conditions. tame: tensors whose values are small.
    special: floats may be NaN and infinite. skips: `else identity` may stand in the statement. large: too much for the slow
    target."""

    c: Choices
    smooth: bool
    whole: bool
    dynamic: bool
    tensors: dict[str, Tensor] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    scalars: dict[str, int | float] = field(default_factory=dict)
    definitions: dict[str, str] = field(default_factory=dict)
    loops: Space = field(default_factory=dict)
    counted: int = 0
    tame: set[str] = field(default_factory=set)
    special: bool = False
    skips: bool = False
    large: bool = False

    def fresh(self, prefix: str) -> str:
        self.counted += 1
        return f"{prefix}{self.counted}"

    def input(self, shape: Iterable[int], kind: str, values: tuple[str | int, ...] = ("any",), dtype: str | None = None
              ) -> Tensor:
        """A new input."""
        if self.special and kind == "f" and values == ("any",) and self.c.likely(60):
            values = ("special",)
        named = dtype or self.c.of({"f": FLOATS, "i": INTEGERS, "b": ["bool"]}[kind])
        prefix = {"any": "X", "special": "X", "index": "I", "rows": "R"}[str(values[0])]
        made = Tensor(self.fresh(prefix), [(0, n) for n in shape], kind, named, values)
        self.tensors[made.name] = made
        self.inputs.append(made.name)
        return made

    def readable(self, kind: str | None = None) -> list[Tensor]:
        return [t for t in self.tensors.values()
                if not t.pending and t.values[0] in ("any", "special") and kind in (None, t.kind)]

    def writable(self) -> list[Tensor]:
        """Tensors all of whose elements have been written, and which may be written again."""
        return [t for t in self.tensors.values() if not t.pending and (t.inout or t.name not in self.inputs)
                and prod(b - a for a, b in t.box) <= POINTS]


SIZES = (0, 1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 15, 16, 17, 31, 32, 33, 37, 63, 64, 65)
"""Of extents that may be any number: primes, powers of two and their neighbours."""


def extent(c: Choices, large: bool = True) -> int:
    n = c.of([3, 2, 4, 5, 1, 6, 7, 8, 9, 3, 5, 1, 11, 13])
    return c.of([16, 17, 31, 32, 33, 15, 37, 63, 64, 65]) if large and c.likely(8) else n


def size(space: Space) -> int:
    n = 1
    for a, b in space.values():
        n *= b - a
    return n
