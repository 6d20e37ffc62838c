"""The sizes that a library leaves open: what the model and the caller say of the shapes of its inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from polytc.errors import ModelError, fail
from polytc.graph.ir import Graph, Value
from polytc.graph.plan import Array
from polytc.targets.llvm.standalone.chain import OpenSize

LARGEST = 1 << 31
"""A size that may be larger has no range that memory could be there for."""

Range = int | tuple[int, int]
"""The largest value of a size, or the least and the largest."""


def declared(graph: Graph, shapes: Mapping[str, Sequence[int | str]], sizes: Mapping[str, Range]
             ) -> tuple[Graph, dict[str, Array | None], tuple[OpenSize, ...]]:
    """(the graph with these shapes of its inputs, their types for the largest sizes, the open sizes in order of appearance).
    Raises ModelError E621 for an input whose type or shape is not known, a size without a range, and a range without a size."""
    inputs = tuple(replace(v, shape=tuple(shapes[v.name])) if v.name in shapes else v for v in graph.inputs)
    names = dict.fromkeys(d for v in inputs for d in v.shape or () if isinstance(d, str))
    unknown = [n for n in sizes if n not in names]
    if unknown:
        raise fail("E621", f"no input has a size {unknown[0]!r}", kind=ModelError,
                   notes=[f"the open sizes are {', '.join(names) or 'none'}"])
    for v in inputs:
        open_ = [d for d in v.shape or () if not isinstance(d, int) and d not in sizes]
        if v.shape is None or v.dtype is None or open_:
            raise fail("E621", f"the input {v} has no fixed type and shape", kind=ModelError, notes=_cures(v, open_))
    found = tuple(_range(n, sizes[n]) for n in names)
    largest = {s.name: s.largest for s in found}
    types = {v.name: Array(v.dtype, tuple(largest[d] if isinstance(d, str) else d for d in v.shape if d is not None))
             for v in inputs if v.dtype is not None and v.shape is not None}
    return replace(graph, inputs=inputs), dict(types), found


def _cures(v: Value, open_: Sequence[str | None]) -> list[str]:
    named = [d for d in open_ if d]
    cures = ["code that is compiled ahead of time is for one set of shapes, or for ranges of sizes: say which"]
    if named:
        cures.append(f"--size {named[0]}=1:64 leaves {named[0]} open from 1 to 64")
    elif v.shape is not None and open_:
        cures.append(f"--shape {v.name}={','.join('n' if d is None else str(d) for d in v.shape)} names what has no name, "
                     "--size n=1:64 leaves it open")
    return cures


def _range(name: str, given: Range) -> OpenSize:
    least, largest = (1, given) if isinstance(given, int) else given
    if not 1 <= least <= largest < LARGEST:
        raise fail("E621", f"the size {name} cannot be from {least} to {largest}", kind=ModelError,
                   notes=["sizes are numbers from 1 on, the least first"])
    return OpenSize(name, least, largest)
