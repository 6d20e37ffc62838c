"""Code whose sizes are not fixed, with sizes: an executable for the arrays of one combination of them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from polytc.codegen import size_names
from polytc.codegen.buffers import Buffer
from polytc.codegen.target import Bound, Executable, FastPath, Resizable, Types
from polytc.program.scalars import DTYPES

if TYPE_CHECKING:  # programs that are loaded from the cache have no loops
    from polytc.codegen.loops import Module

ALIGN = 64


def described(workspace: Sequence[Buffer], module: Module, terms: Sequence[Sequence[int]]) -> dict[str, str]:
    """What a binary keeps of the temporaries that its caller provides, of the names that the sizes of its module have in it, of
    the terms that its accumulators add up, as extents to be multiplied, and of all temporaries."""
    from polytc.program.sizes import data  # only code of open sizes needs formulas of them

    products = [[data(n) for n in extents] for extents in terms]
    return {"workspace": json.dumps(_rows(workspace)), "terms": json.dumps(products),
            "temporaries": json.dumps(_rows(module.scratch)), **size_names.described(module)}


def _rows(buffers: Sequence[Buffer]) -> list[list[Any]]:
    """Type and extents of each buffer."""
    from polytc.program.sizes import data

    return [[b.dtype.name, [data(n) for n in b.shape]] for b in buffers]


def terms(options: Mapping[str, str], sizes: Mapping[str, int]) -> int:
    """The most terms that an accumulator of the code adds up one after another for these sizes, as far as they depend on them.
    options: of its binary."""
    every = size_names.named(options, sizes)
    return max((_product(extents, every) for extents in json.loads(options.get("terms", "[]"))), default=0)


def sized(executable: Executable, options: Mapping[str, str], sizes: Mapping[str, int]) -> Executable:
    """The executable for given sizes. options: of its binary."""
    if isinstance(executable, Resizable):
        return executable.at(sizes)
    return Sized(executable, np.array(list(sizes.values()), np.int64), workspace(options, sizes))


def workspace(options: Mapping[str, str], sizes: Mapping[str, int]) -> tuple[tuple[np.dtype, int], ...]:
    """Type and number of elements of each temporary that the code wants of its caller. options: of its binary."""
    every = size_names.named(options, sizes)
    return tuple((DTYPES[dtype].numpy, _product(shape, every)) for dtype, shape in json.loads(options["workspace"]))


def room(options: Mapping[str, str], sizes: Mapping[str, int]) -> int:
    """Bytes of all temporaries of the code for these sizes. options: of its binary."""
    every = size_names.named(options, sizes)
    return sum(DTYPES[dtype].bytes * _product(shape, every) for dtype, shape in json.loads(options.get("temporaries", "[]")))


def longest(options: Mapping[str, str], sizes: Mapping[str, int]) -> int:
    """Elements of the largest temporary of the code for these sizes. options: of its binary."""
    every = size_names.named(options, sizes)
    return max((_product(shape, every) for _, shape in json.loads(options.get("temporaries", "[]"))), default=0)


def _product(extents: Sequence[Any], sizes: Mapping[str, int]) -> int:
    """The product of extents as `described` keeps them, for given sizes."""
    from polytc.program.sizes import at, from_data

    return math.prod(at(from_data(n), sizes) for n in extents)


class Sized:
    """Code that takes the caller's arrays, then temporaries, then the sizes; each call at a time has temporaries of its own."""

    def __init__(self, executable: Executable, sizes: np.ndarray, workspace: Sequence[tuple[np.dtype, int]]) -> None:
        """workspace: type and number of elements of each temporary."""
        self.executable, self.sizes, self.workspace = executable, sizes, tuple(workspace)
        self._free: list[list[np.ndarray]] = []

    def run(self, buffers: Sequence[np.ndarray]) -> None:
        """Run on the caller's arrays. Raises MemoryError if there is none for the temporaries."""
        rest = self._take()
        self.executable.run([*buffers, *rest])
        self._free.append(rest)

    @property
    def needs(self) -> int:
        """Bytes of all temporaries."""
        return offsets(self.workspace)[1]

    def bind(self, buffers: Sequence[np.ndarray], memory: np.ndarray | None = None) -> Bound:
        """`run` on these arrays as a function. memory: bytes, `needs` of them on a cache line, for the temporaries; code that
        shares it runs one at a time. None: memory of its own."""
        if memory is None:
            return self.executable.bind([*buffers, *self._take()])
        parts = [memory[at:at + n * dtype.itemsize].view(dtype)
                 for at, (dtype, n) in zip(offsets(self.workspace)[0], self.workspace, strict=True)]
        return self.executable.bind([*buffers, *parts, self.sizes])

    def fast_path(self, inputs: Types, outputs: Types) -> Callable[..., bool] | None:
        """See codegen.target.FastPath."""
        if not isinstance(self.executable, FastPath):
            return None
        rest = [*(((n,), dtype) for dtype, n in self.workspace), (self.sizes.shape, self.sizes.dtype)]
        call = self.executable.fast_path(inputs, [*outputs, *rest])
        if call is None:
            return None
        take, free = self._take, self._free

        def run(*arrays: Any) -> bool:
            rest = take()
            fits: bool = call(*arrays, *rest)
            free.append(rest)
            return fits
        return run

    def _take(self) -> list[np.ndarray]:
        try:
            return self._free.pop()
        except IndexError:
            return [*(_aligned(*w) for w in self.workspace), self.sizes]


def offsets(workspace: Sequence[tuple[np.dtype, int]]) -> tuple[list[int], int]:
    """Where each temporary lies in memory for all of them, in bytes from its start, and the size of that."""
    found, end = [], 0
    for dtype, n in workspace:
        found.append(end)
        end += _rounded(n * dtype.itemsize)
    return found, end


def _rounded(size: int) -> int:
    return -(-size // ALIGN) * ALIGN


def _aligned(dtype: np.dtype, count: int) -> np.ndarray:
    raw = np.empty(count * dtype.itemsize + ALIGN, np.uint8)
    start = -raw.ctypes.data % ALIGN
    return raw[start:start + count * dtype.itemsize].view(dtype)
