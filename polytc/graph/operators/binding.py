"""What a binding row is given (`Site`) and what it returns (`Lowering`: operators of .ein files applied to the node's inputs).

A row is a function Site -> Lowering. It chooses the operator's text and gives its attributes; shapes and types of the
results come from the text. Three kinds of steps exist: `Apply` (text), `View` (the same elements under another shape,
no code) and `Known` (a result that is known now). Where the data decide which elements there are, or where they go in a way
that no text says, a row returns one `Routine` instead.
"""

from __future__ import annotations

import functools
import importlib.resources
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from polytc import errors
from polytc.errors import ModelError, fail
from polytc.graph.ir import Node
from polytc.graph.plan import Array
from polytc.graph.user_operators import OWN_TEXTS
from polytc.program.scalars import DType
from polytc.program.traces.traced import whole

errors.register(E605="operators that polytc does not have", E608="use of an operator that polytc does not support",
                E609="inputs of a node do not fit")

Ref: TypeAlias = "int | str | np.ndarray"
"""What a step reads or writes: the number of an input (of an output, where written), a name local to the lowering, or a
constant."""


@dataclass(frozen=True)
class Apply:
    """The operator `entry` ('file.Op') on `inputs`, in the order of its signature.

    spell: index lists that replace `*name` in the text, e.g. {"x": "i0, r1", "y": "i0"}, for what packs cannot say.
    """

    entry: str
    inputs: tuple[Ref, ...]
    outputs: tuple[int | str, ...] = (0,)
    attrs: Mapping[str, Any] = field(default_factory=dict)
    packs: Mapping[str, int] = field(default_factory=dict)
    spell: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class View:
    """The elements of `source`, row-major, under another shape."""

    source: Ref
    shape: tuple[int, ...]
    output: int | str = 0


@dataclass(frozen=True)
class Known:
    """A result that does not depend on the data."""

    array: np.ndarray
    output: int | str = 0


@dataclass(frozen=True)
class Routine:
    """All results of a node by numpy, at each run, between the kernels before and after it.

    run: a function of the arrays of `inputs` (numbers of the node's inputs) that returns one array for each output of the node,
    in new memory or views of its arguments. Values that `run` holds already need not be among the inputs. types: of all outputs
    if they are known before a run, so that what follows can be compiled with what comes before; else empty.
    """

    run: Callable[..., Sequence[np.ndarray]]
    inputs: tuple[int, ...]
    types: tuple[Array, ...] = ()


Step: TypeAlias = Apply | View | Known
Lowering: TypeAlias = "Step | Routine | tuple[Step, ...]"
Binder: TypeAlias = "Callable[[Site], Lowering]"


class Unsupported(ModelError):
    """A mode or type of an operator that its row has no text for."""


class NeedsValue(Unsupported):
    """A node cannot be bound before the value `name` is known (a shape, an axis). A model answers by specialising on the
    arrays of the inputs that it comes from, or by computing the value first and the node in a part of its own.

    sources: the graph's inputs that the value is computed from, where that is known."""

    def __init__(self, refusal: ModelError, name: str, sources: frozenset[str] = frozenset()) -> None:
        super().__init__(refusal.diagnostics)
        self.name, self.sources = name, sources


@dataclass(frozen=True)
class Indices:
    """An input, by its number, that holds indices: `columns[k]` says for number k of each row of so many what is allowed, from
    where and up to before where, and of what they are indices. ignored: a number that is no index."""

    input: int
    columns: tuple[tuple[int, int, str], ...]
    ignored: int | None = None


@dataclass(frozen=True)
class Site:
    """A node with what is known of its inputs: shapes and dtypes always (None where the input is left out), values where they
    do not depend on the data. indices: what its row said about inputs that hold indices."""

    node: Node
    shapes: tuple[tuple[int, ...] | None, ...]
    dtypes: tuple[DType | None, ...]
    values: tuple[np.ndarray | None, ...]
    indices: list[Indices] = field(default_factory=list)

    @property
    def opset(self) -> int:
        return self.node.opset

    def attr(self, name: str, default: Any = None) -> Any:
        return self.node.attributes.get(name, default)

    def has(self, i: int) -> bool:
        """Is input i given?"""
        return i < len(self.shapes) and self.shapes[i] is not None

    def wants(self, i: int) -> bool:
        """Is output i asked for?"""
        return i < len(self.node.outputs) and bool(self.node.outputs[i])

    def shape(self, i: int) -> tuple[int, ...]:
        found = self.shapes[i] if i < len(self.shapes) else None
        if found is None:
            raise self.misfit(f"input {i} is missing")
        return found

    def dtype(self, i: int) -> DType:
        found = self.dtypes[i] if i < len(self.dtypes) else None
        if found is None:
            raise self.misfit(f"input {i} is missing")
        return found

    def rank(self, i: int) -> int:
        return len(self.shape(i))

    def value(self, i: int) -> np.ndarray | None:
        """Input i as a known array, None where it is left out or only known in a run."""
        return self.values[i] if i < len(self.values) else None

    def known(self, i: int, what: str) -> np.ndarray:
        """Input i, which must not depend on the data."""
        if not self.has(i):
            raise self.misfit(f"its input {what!r} is missing")
        found = self.value(i)
        if found is None:
            refusal = self.unsupported(f"its input {what!r} is computed from the data",
                                       "only a value that follows from the shapes of the inputs can be used here")
            raise NeedsValue(refusal, self.node.inputs[i])
        return found

    def ints(self, i: int, what: str) -> list[int]:
        return [whole(x) for x in self.known(i, what).reshape(-1)]

    def ints_of(self, attribute: str, i: int) -> list[int] | None:
        """Numbers that older versions of an operator have as an attribute and newer ones as input i."""
        given = self.attr(attribute)
        if given is not None:
            return [int(x) for x in (given if isinstance(given, list) else [given])]
        return self.ints(i, attribute) if self.has(i) else None

    def axis(self, number: int, rank: int) -> int:
        """A possibly negative axis as one of 0 .. rank-1."""
        if not -max(rank, 1) <= number < max(rank, 1):
            raise self.misfit(f"axis {number} of a tensor of rank {rank}")
        return number % rank if rank else 0

    def along(self, i: int, axis: int, *, back: bool = True) -> tuple[int, int, str]:
        """What indices of an axis of input i are allowed, for `within`. back: negative ones count from the end."""
        extent = self.shape(i)[axis]
        return -extent if back else 0, extent, f"axis {axis} of {self.node.inputs[i]!r}"

    def within(self, i: int, *columns: tuple[int, int, str], ignored: int | None = None) -> None:
        """Say that input i holds indices, see `Indices`. Those that are known now are refused if they are outside."""
        self.indices.append(Indices(i, columns, ignored))
        values = self.value(i)
        if values is None or not values.size or not columns:
            return
        rows = values.reshape(-1, len(columns))
        for column, (low, high, what) in zip(rows.T, columns, strict=True):
            used = column[column != ignored]
            ends = [v.item() if isinstance(v, np.generic) else v for v in (used.min(), used.max())] if used.size else []
            wrong = [v for v in ends if v < low or v >= high]
            if wrong:
                raise self.misfit(f"the index {wrong[0]} is out of range for {what}, {low}:{high}")

    def unsupported(self, why: str, *notes: str) -> Unsupported:
        error = fail("E608", f"{self.node.label}: {why}", kind=Unsupported, notes=notes)
        assert isinstance(error, Unsupported)
        return error

    def misfit(self, why: str) -> ModelError:
        shapes = ", ".join("-" if s is None else str(list(s)) for s in self.shapes)
        error = fail("E609", f"{self.node.label}: {why}", kind=ModelError, notes=[f"shapes of its inputs: {shapes}"])
        assert isinstance(error, ModelError)
        return error


# ---- texts

FAMILIES = ("dense", "elements", "movement", "estimators")
"""Folders of operators."""

@functools.cache
def operators(file: str) -> dict[str, str]:
    """name -> text of each `op` of FILE.ein, which lies beside its rows, or of a user's text."""
    if file in OWN_TEXTS:
        return OWN_TEXTS[file]
    here = importlib.resources.files("polytc.graph.operators")
    found = (folder / f"{file}.ein" for folder in (here, *(here / family for family in FAMILIES)))
    return texts(next(path for path in found if path.is_file()).read_text(encoding="utf-8"))


def texts(source: str) -> dict[str, str]:
    """name -> text of each `op` of an .ein file, without comments."""
    starts = [m.start() for m in re.finditer(r"^op ", source, re.MULTILINE)] + [len(source)]
    parts = [re.sub(r"#[^\n]*", "", source[a:b]).strip() for a, b in itertools.pairwise(starts)]
    return {re.match(r"op (\w+)", part)[1]: part for part in parts}  # type: ignore[index]


@functools.lru_cache(maxsize=4096)
def spelled(entry: str, spelling: tuple[tuple[str, str], ...]) -> str:
    """The text of an operator with the packs of `spelling` replaced by index lists; an empty list takes its comma along."""
    file, _, name = entry.rpartition(".")
    text = operators(file)[name]
    for pack, indices in spelling:
        if indices:
            text = re.sub(rf"\*{pack}\b", indices, text)
        else:
            text = re.sub(rf",\s*\*{pack}\b|\*{pack}\b\s*,?\s*", "", text)
    return text


def text_of(step: Apply) -> str:
    """The DSL text of a step."""
    return spelled(step.entry, tuple(sorted(step.spell.items())))
