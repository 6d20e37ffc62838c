"""The arguments of a call, converted and checked: arrays that kernels may trust, numbers, and what tells calls apart."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from polytc.arguments import check_declared, check_number, given_outputs
from polytc.program.places import Place
from polytc.program.scalars import DType
from polytc.runtime import strided
from polytc.runtime.arrays import allocate, argument_error, as_array, contiguous, dtype_of, output_buffers

if TYPE_CHECKING:
    from polytc.op import Op
    from polytc.program.program import Program
    from polytc.stored_calls import Specialisation


@dataclass
class Converted:
    """arrays, shapes, dtypes: of what is an array, by name; an array among `places` is that which the argument lies in.
    scalars: the numbers. copied: names of the arrays that are not the caller's own any more. key: by which code is found;
    program: that reads arrays at their places, if there are some."""

    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    dtypes: dict[str, DType] = field(default_factory=dict)
    scalars: dict[str, complex] = field(default_factory=dict)
    places: dict[str, Place] = field(default_factory=dict)
    copied: set[str] = field(default_factory=set)
    key: list[Any] = field(default_factory=list)
    program: Program | None = None


def convert(given: Mapping[str, Any], out: Any, numbers: Mapping[str, DType | None], shapes: Mapping[str, tuple[int, ...]],
            dtypes: Mapping[str, DType], in_place: Callable[[Mapping[str, Place], Converted], Program | None]) -> Converted:
    """numbers: the scalars of the program; shapes, dtypes: as declared. out: what `out=` gave, which may lie between elements
    of an input. in_place: the program that reads arrays where they lie, None where they are to be copied. Raises E402 to E406,
    E409."""
    found = Converted()
    lying = dict[str, tuple[Place, np.ndarray]]()
    for name, value in given.items():
        value = check_number(name, value, numbers[name]) if name in numbers else value
        if name in numbers and not isinstance(value, (np.ndarray, np.generic)):
            found.scalars[name] = value
            continue
        array = check_declared(name, as_array(name, value), shapes.get(name), dtypes.get(name))
        found.arrays[name], found.shapes[name], found.dtypes[name] = array, array.shape, dtype_of(name, array.dtype)
        place = None if array.flags.c_contiguous else strided.lying_in(array)
        if place is not None and not any(np.may_share_memory(place[1], o) for o in _arrays(out)):
            lying[name] = place
    if lying and not found.scalars:
        places = {n: place for n, (place, _) in lying.items()}
        found.program = in_place(places, found)
        found.places = places if found.program is not None else {}
    for name, value in given.items():
        if name in found.places:
            found.arrays[name] = lying[name][1]
            found.key += (found.shapes[name], found.arrays[name].dtype, found.places[name])
        elif name in found.arrays:
            array = contiguous(found.arrays[name])
            found.copied |= {name} if array.flags.owndata and array is not value else set()
            found.arrays[name] = array
            found.key += (array.shape, array.dtype)
        else:
            number = found.scalars[name]
            found.key += (repr(number), type(number))
    return found


def _arrays(out: Any) -> list[np.ndarray]:
    """The arrays of numpy that `out=` gives."""
    given = out.values() if isinstance(out, Mapping) else out if isinstance(out, tuple) else (out,)
    return [a for a in given if isinstance(a, np.ndarray)]


def run(found: Specialisation, inputs: tuple[np.ndarray, ...], out: Any, op: Op, copied: Collection[str] = ()) -> Any:
    """Run the code of an op. copied: names of the inputs that are not the caller's own arrays any more."""
    copies: list[tuple[np.ndarray, ...]] = []
    if found.program is not None and found.program.inouts:
        from polytc.runtime.inplace import arranged

        given = dict(zip(op.outputs, given_outputs(out, op.outputs))) if out is not None else {}
        arrays = arranged(found.program, dict(zip(found.order, inputs)), copied, op.outputs, given)
        buffers, results = list(arrays.values()), [arrays[n] for n in op.outputs]
    elif out is None:
        results = [allocate(n, *expected) for n, expected in zip(op.outputs, found.outputs)]
        buffers = [*inputs, *results]
    else:
        results, copies = output_buffers(op.outputs, given_outputs(out, op.outputs), found.outputs, found.order, inputs)
        buffers = [*inputs, *results]
    try:
        found.executable.run(buffers)
    except MemoryError:
        raise argument_error("E209", f"there is no memory for the temporaries of {op.name}",
                             "compute it in parts") from None
    for place, made in copies:
        np.copyto(place, made)
    if out is not None:
        return out
    return results[0] if op._result is None else op._result(*results)
