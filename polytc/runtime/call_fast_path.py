"""The fast path of an op, for arrays of just the right kind: it needs neither conversion nor diagnosis."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from polytc.codegen.target import Executable, FastPath, Types
from polytc.runtime import arrays

if TYPE_CHECKING:
    from polytc.program.program import Program

CallFastPath: TypeAlias = Callable[[tuple[Any, ...], Any], Any]
"""(inputs, out) -> the result of the call; or None, with nothing done, where it takes the general way."""


def no_fast_path(args: tuple[Any, ...], out: Any) -> None:
    """The fast path where there is none."""


def fast_path(executable: Executable, inputs: Types, outputs: Types, result: Callable[..., Any] | None) -> CallFastPath:
    """inputs, outputs: shapes and dtypes, in the executable's order. result: what makes one value of several outputs."""
    call = executable.fast_path(inputs, outputs) if _affordable(outputs) and isinstance(executable, FastPath) else None
    if call is None:
        return no_fast_path
    return _one(call, *outputs[0]) if result is None else _several(call, outputs, result)


def of_program(executable: Executable, program: Program, result: Callable[..., Any] | None, *, fixed: bool) -> CallFastPath:
    """That of a program. fixed: are its sizes known?"""
    types = tuple((t.shape, t.dtype.numpy) for t in map(program.tensor, program.arrays))
    count = len(program.inputs)
    if not program.inouts:
        return fast_path(executable, types[:count], types[count:], result)
    return _in_place(executable, program, types, result) if fixed and not program.checked else no_fast_path


def _in_place(executable: Executable, program: Program, types: Types, result: Callable[..., Any] | None) -> CallFastPath:
    """That of a program that writes some of its inputs. From the first of them on each array must be writable and lie apart
    from those before it: that asks more of some inputs than the general way does, to which others go."""
    names, new = program.arrays, types[len(program.inputs):]
    first = min(map(names.index, program.inouts))
    call = executable.fast_path(types[:first], types[first:]) if _affordable(new) and isinstance(executable, FastPath) else None
    if call is None:
        return no_fast_path
    found, empty = tuple(map(names.index, program.outputs)), np.empty

    def run(args: tuple[Any, ...], out: Any) -> Any:
        if out is not None:
            return None
        try:
            made = [*args, *(empty(shape, dtype) for shape, dtype in new)]
            if not call(*made):
                return None
        except MemoryError:  # the general way says for what
            return None
        return made[found[0]] if result is None else result(*(made[n] for n in found))
    return run


def _affordable(outputs: Types) -> bool:
    """May so much memory be had?"""
    return arrays.MEMORY is None or sum(math.prod(shape) * dtype.itemsize for shape, dtype in outputs) <= arrays.MEMORY


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
