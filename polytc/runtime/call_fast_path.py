"""The fast path of an op, for arrays of just the right kind: it needs neither conversion nor diagnosis."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from polytc.codegen.target import Executable, FastPath, Types
from polytc.runtime import arrays

CallFastPath: TypeAlias = Callable[[tuple[Any, ...], Any], Any]
"""(inputs, out) -> the result of the call; or None, with nothing done, where it takes the general way."""


def no_fast_path(args: tuple[Any, ...], out: Any) -> None:
    """The fast path where there is none."""


def fast_path(executable: Executable, inputs: Types, outputs: Types, result: Callable[..., Any] | None) -> CallFastPath:
    """inputs, outputs: shapes and dtypes, in the executable's order. result: what makes one value of several outputs."""
    memory = sum(math.prod(shape) * dtype.itemsize for shape, dtype in outputs)
    affordable = arrays.MEMORY is None or memory <= arrays.MEMORY
    call = executable.fast_path(inputs, outputs) if affordable and isinstance(executable, FastPath) else None
    if call is None:
        return no_fast_path
    return _one(call, *outputs[0]) if result is None else _several(call, outputs, result)


def _one(call: Callable[..., bool], shape: tuple[int, ...], dtype: np.dtype) -> CallFastPath:
    empty = np.empty

    def run(args: tuple[Any, ...], out: Any) -> Any:
        try:
            array = empty(shape, dtype) if out is None else out
            return array if call(*args, array) else None
        except MemoryError:  # the general way says for what
            return None
    return run


def _several(call: Callable[..., bool], outputs: Types, result: Callable[..., Any]) -> CallFastPath:
    empty = np.empty

    def run(args: tuple[Any, ...], out: Any) -> Any:
        if out is not None:
            return out if type(out) is tuple and len(out) == len(outputs) and call(*args, *out) else None
        try:
            made = [empty(shape, dtype) for shape, dtype in outputs]
            return result(*made) if call(*args, *made) else None
        except MemoryError:
            return None
    return run
