"""What the text of an operator depends on, and pieces that texts share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import onnx

Shape: TypeAlias = "tuple[int | str | None, ...] | None"
"""None, or an extent that is no number, for what is not known."""


class NoText(Exception):
    """A mode of an operator that polytc has no text for; the message says which."""


class ShapesNeeded(Exception):
    """The text depends on shapes or types that are not known yet."""


@dataclass(frozen=True)
class Site:
    """A node by the formal names of its operator. given: the inputs that it has; shapes, types: what is known of them; wanted:
    the outputs that it names."""

    attributes: Mapping[str, Any]
    given: frozenset[str]
    wanted: frozenset[str]
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    types: Mapping[str, np.dtype] = field(default_factory=dict)

    def number(self, name: str, default: float) -> Any:
        """An attribute that is a number."""
        return self.attributes.get(name, default)

    def word(self, name: str, default: str) -> str:
        """An attribute that is a text."""
        return str(self.attributes.get(name, default))

    def has(self, name: str) -> bool:
        """Is the input there?"""
        return name in self.given

    def optional(self, *names: str) -> str:
        """Names of inputs as further arguments, '' for those that are left out."""
        return "".join(f", {n if n in self.given else ''}" for n in names)

    def rank(self, name: str) -> int:
        """Of an input that is there. Raises ShapesNeeded."""
        shape = self.shapes.get(name)
        if shape is None:
            raise ShapesNeeded(name)
        return len(shape)

    def shape(self, name: str) -> tuple[int, ...]:
        """Of an input that is there. Raises ShapesNeeded."""
        numbers = tuple(d for d in self.shapes.get(name) or (None,) if isinstance(d, int))
        if len(numbers) != self.rank(name):
            raise ShapesNeeded(name)
        return numbers

    def dtype(self, name: str) -> np.dtype:
        """Of an input that is there. Raises ShapesNeeded."""
        found = self.types.get(name)
        if found is None:
            raise ShapesNeeded(name)
        return found

    def element(self, name: str) -> int:
        """onnx's number of the type of an input. Raises ShapesNeeded."""
        return int(onnx.helper.np_dtype_to_tensor_dtype(self.dtype(name)))

    def refuse(self, *names: str) -> None:
        """Raise NoText for an input or output of these names that the node has."""
        for name in names:
            if name in self.given or name in self.wanted:
                raise NoText(f"it has {name!r}")

    def only(self, attribute: str, *values: Any) -> None:
        """Raise NoText for an attribute of another value than these; the first is its default."""
        found = self.attributes.get(attribute, values[0])
        if found not in values:
            raise NoText(f"its attribute {attribute!r} is {found!r}")


def ints(name: str, *values: int) -> str:
    """A vector of integers."""
    return f"{name} = Constant <value_ints: ints = [{', '.join(map(str, values))}]> ()\n"


def scalar(name: str, value: int) -> str:
    """An integer of rank 0."""
    return f"{name} = Constant <value_int: int = {value}> ()\n"


def constant(name: str, value: float, like: str) -> str:
    """A number of rank 0 in the type of `like`."""
    return f"{name}_f = Constant <value_float: float = {real(value)}> ()\n{name} = CastLike({name}_f, {like})\n"


def real(value: float) -> str:
    """A number as onnx's notation has it: with a point, and without infinities, which are the largest numbers of f32."""
    largest = float(np.finfo(np.float32).max)
    return repr(float(min(max(float(value), -largest), largest)))


def written(attributes: Mapping[str, Any], names: tuple[str, ...]) -> str:
    """Attributes in onnx's notation, those that are there."""
    parts = []
    for n in names:
        value = attributes.get(n)
        if isinstance(value, str | bytes):
            parts.append(f'{n}: string = "{value if isinstance(value, str) else value.decode()}"')
        elif isinstance(value, int):
            parts.append(f"{n}: int = {value}")
        elif isinstance(value, float):
            parts.append(f"{n}: float = {real(value)}")
        elif value is not None:
            parts.append(f"{n}: ints = [{', '.join(map(str, value))}]")
    return f" <{', '.join(parts)}>" if parts else ""
