"""What a dialect of C has of its own: how it calls types, constants and functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from polytc.program.scalars import DType
from polytc.targets.ctext.vectors import NoVectors, Vectors


@dataclass(frozen=True)
class Language:
    """name: for messages. lanes: the widths of its vectors, 1 among them.

    scalar, vector, unsigned, mask, constant, value_bits: see opencl/types.py. floats, integers, unsigneds, booleans:
    intrinsics, see ctext/intrinsics.py. helpers: functions that the preamble has in place of those of ctext/preamble.py.
    limits: 'min' and 'max' of index arithmetic are functions of the language. words: functions that helpers call, by name.
    atomics: the functions of an address and a number that update numbers of 32 bits in one step, by the operator. byte: an
    element of an array of bools. function: what the head of a helper begins with. vectors: how they are written. dots:
    functions of words of bytes, by name (see word_dots.py). published: those of values that groups wait for, by name (see
    published_words.py).
    """

    name: str
    lanes: tuple[int, ...]
    scalar: Callable[[DType], str]
    vector: Callable[[DType, int], str]
    unsigned: Callable[..., str]
    mask: Callable[[int, int], str]
    constant: Callable[[int | float | bool, DType], str]
    value_bits: Callable[[DType], int]
    floats: Mapping[str, str]
    integers: Mapping[str, str]
    unsigneds: Mapping[str, str]
    booleans: Mapping[str, str]
    helpers: Mapping[str, tuple[int, str]]
    limits: bool = True
    words: Mapping[str, str] = field(default_factory=dict)
    byte: Callable[[int], str] = lambda lanes: "uint8_t"
    function: str = "static inline"
    vectors: Vectors = field(default_factory=NoVectors)
    atomics: Mapping[str, str] = field(default_factory=dict)
    dots: Mapping[str, str] = field(default_factory=dict)
    published: Mapping[str, str] = field(default_factory=dict)

    def word(self, dtype: DType, lanes: int) -> str:
        """The type of a vector as a part of a name."""
        return self.vector(dtype, lanes).replace(" ", "_")
