"""Open sizes: one kernel of a program for all sizes, compiled once.

The program for given sizes is built, and so checked, at their first call; the kernel is used if the program that it was made
from is the same for these sizes (program.generalise), which it is but for 0 and rare small ones, which get a kernel of their
own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeAlias

from polytc import compiler, errors, lang
from polytc.codegen.target import Executable
from polytc.errors import CompileError, Span
from polytc.lang.parsing import syntax as sx
from polytc.lang.typing.dimensions import evaluate_size, solved
from polytc.options import check_typical
from polytc.poly.same_program import same_sizes
from polytc.program.generalise import NotGeneral, agrees, generalise
from polytc.program.program import Program
from polytc.program.sizes import representatives, specialised
from polytc.rewrite.long_sums import LIMIT
from polytc.runtime.arrays import argument_error
from polytc.runtime.sized import longest, room, sized, terms

errors.register(E412="sizes cannot stay open")

Dims: TypeAlias = Mapping[str, tuple[sx.Expr, ...]]
"""The dimensions of inputs, by name."""

TYPICAL = (512, 96, 24)
"""Sizes for which code is good where the caller names none: the first ones that the program allows, a little apart."""

BATCH, IMAGE = 4, 128
"""The same of a batch, the first size of a program, where it is the first axis of arrays with three axes and more; and of axes
of arrays with four and more. 512 images of 512 x 512 would let tiles run along the batch."""

APART = 64
"""So far are the typical values of different sizes apart, the first size being the largest."""

SMALLEST_TYPICAL = 48
"""Code made at a first call is made for sizes from here."""

KERNELS = 8
"""Kernels for all sizes that an Op makes at most, for types and for sizes that are special."""

ROOM = 1 << 28
"""Bytes of temporaries that a kernel for all sizes may take for any."""

MORE = 4
"""Beyond that, how many times as large, beside the arrays, temporaries may be as for the typical sizes."""

_NOWHERE = Span(0, 0, 1, 1)


@dataclass(frozen=True)
class _Kernel:
    """A program for all sizes, its code, and what its binary says."""

    program: Program
    executable: Executable
    options: Mapping[str, str]


class OpenSizes:
    """The sizes of a program that stay open. names: in order of appearance; typical: values for which code should be good."""

    def __init__(self, dims: Dims, typical: Mapping[str, int], fixed: Mapping[str, Any]) -> None:
        """fixed: values of scalars, which are no sizes."""
        found = [e.id for shape in dims.values() for d in shape for e in _names(d) if e.id not in fixed]
        self.dims, self.names, self._fixed = dims, tuple(dict.fromkeys(found)), dict(fixed)
        self.typical = check_typical(typical, self.names)
        self._kernels: list[_Kernel] = []
        if not self.names:
            raise argument_error("E412", "the program names no sizes",
                                 'name them, `shapes={"A": ("M", "K")}`, or in a `def f(f32[M,K] A)`')

    @property
    def kernels(self) -> int:
        """How many kernels for all sizes have been made."""
        return len(self._kernels)

    def shapes(self, sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
        """The shapes of the inputs for given sizes."""
        numbers = {**self._fixed, **sizes}
        return {n: tuple(_extent(d, numbers) for d in shape) for n, shape in self.dims.items()}

    def sizes(self, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
        """The sizes of given shapes. Raises ArgumentError E405 and E206 where they are not as declared."""
        found: dict[str, int] = {}
        where: dict[str, str] = {}
        for name, dims in self.dims.items():
            shape = shapes[name]
            if len(shape) != len(dims):
                raise argument_error("E405", f"{name} has {len(shape)} dimensions, declared are {len(dims)}")
            for d, n in zip(dims, shape, strict=True):
                if isinstance(d, sx.Name) and found.setdefault(d.id, n) != n:
                    raise argument_error("E206", f"the size {d.id} is {found[d.id]} in {where[d.id]} and {n} in {name}")
                if isinstance(d, sx.Name):
                    where.setdefault(d.id, name)
                elif isinstance(d, sx.Number) and d.value != n:
                    raise argument_error("E405", f"{name} has shape {tuple(shape)}, declared is {_listed(dims)}")
        found |= solved([pair for n, dims in self.dims.items() for pair in zip(dims, shapes[n], strict=True)],
                        {**self._fixed, **found})
        return {n: found[n] for n in self.names if n in found}

    def general(self, build: Callable[[dict[str, tuple[int, ...]]], Program]) -> Program:
        """The program for all sizes, good for typical ones. build: the program for given shapes.

        Raises CompileError E412 where there is none, and what the program for typical sizes raises.
        """
        return self._at_typical(build)[0]

    def same(self, build: Callable[[dict[str, tuple[int, ...]]], Program],
             presumed: Callable[[dict[str, tuple[int, ...]]], Program]) -> str:
        """The sizes at which `build` gives that program, as a set of isl. presumed: it without proofs, for traced sizes."""
        program, base = self._at_typical(build)
        return same_sizes(program, lambda sizes: presumed(self.shapes(sizes)), base)

    def _at_typical(self, build: Callable[[dict[str, tuple[int, ...]]], Program]) -> tuple[Program, dict[str, int]]:
        """The program of `general`, and the sizes that it was found at."""
        errors_: list[CompileError] = []
        for start, apart in product(TYPICAL, (APART, 0)):  # at last all sizes are equal, as some may have to be
            base = {n: self.typical.get(n, self._usual(n, start, apart)) for n in self.names}
            try:
                return self._general(build, base), base
            except CompileError as e:
                errors_.append(e)
        raise errors_[0]

    def _usual(self, name: str, start: int, apart: int) -> int:
        """A typical value of a size of which the caller says nothing."""
        after = len(self.names) - 1 - self.names.index(name)
        if apart and self._is_batch(name):
            return min(start, BATCH) + after
        places = self._places(name) if apart else []
        return (min(start, IMAGE) if places and all(rank > 3 for rank, _ in places) else start) + apart * after

    def _is_batch(self, name: str) -> bool:
        """Is it the first size of all, and the first axis? (That of an array behind others may count filters.)"""
        return name == self.names[0] and all(rank > 2 and axis == 0 for rank, axis in self._places(name) or [(0, 0)])

    def _places(self, name: str) -> list[tuple[int, int]]:
        """Where a size is an extent: the number of axes of the array, and the axis."""
        return [(len(dims), axis) for dims in self.dims.values() for axis, d in enumerate(dims)
                if isinstance(d, sx.Name) and d.id == name]

    def _general(self, build: Callable[[dict[str, tuple[int, ...]]], Program], base: Mapping[str, int]) -> Program:
        try:
            program = generalise(lambda sizes: build(self.shapes(sizes)), base)
        except NotGeneral as e:
            raise errors.fail("E412", f"the sizes {', '.join(base)} cannot stay open: {e}",
                              notes=["without names of sizes a kernel is made for each combination of shapes"]) from None
        both = [t.name for t in program.tensors if t.name in self.names]
        if both:
            raise errors.fail("E412", f"{both[0]} is a size, and a tensor of the program",
                              notes=["call the size by another name"])
        return program

    def load(self, program: Program, build: Callable[[dict[str, tuple[int, ...]]], Program],
             compiled: Callable[[Program], Executable]) -> Executable:
        """What runs a program, given for some sizes. build: the one for given shapes; compiled: code of a program. No kernel
        runs whose accumulators would add up too many terms for these sizes (rewrite.long_sums), whose temporaries would be too
        long, or that would take much more memory than one made for them."""
        sizes = self.sizes({n: program.tensor(n).shape for n in self.dims})
        if 0 in sizes.values():  # what kernels for all sizes know of them is that they are 1 at least
            return compiled(program)
        agreeing = [k for k in self._kernels if agrees(k.program, program, sizes)]
        for k in agreeing:
            if _too_large(program, k.options):
                return compiled(program)
            if _is_right(k.options, sizes) and _has_room(k, program, sizes):
                return sized(k.executable, k.options, sizes)
        larger = {n: max(v, BATCH if self._is_batch(n) else SMALLEST_TYPICAL) for n, v in sizes.items()}
        first, second = (sizes, larger) if agreeing else (larger | self.typical, sizes)  # a larger one may not be right either
        if len(self._kernels) < KERNELS:
            general = self._try(build, first, program, sizes) or self._try(build, second, program, sizes)
            if general is not None:
                executable, options = self.add(general, compiled)
                fits = _is_right(options, sizes) and not _too_large(program, options)
                return sized(executable, options, sizes) if fits else compiled(program)
        if not self._kernels:
            self.general(build)  # says why
        return compiled(program)

    def _try(self, build: Callable[[dict[str, tuple[int, ...]]], Program], base: Mapping[str, int], program: Program,
             sizes: Mapping[str, int]) -> Program | None:
        """The program for all sizes that is `program` for some; None if there is none with this base."""
        try:
            general = self._general(build, base)
        except CompileError:
            return None
        return general if agrees(general, program, sizes) else None

    def add(self, program: Program, compiled: Callable[[Program], Executable]) -> tuple[Executable, Mapping[str, str]]:
        """A kernel of a program for all sizes, with what its binary says."""
        executable = compiled(program)
        made = _Kernel(program, executable, compiler.options(executable))
        self._kernels.append(made)
        return executable, made.options


def _too_large(program: Program, options: Mapping[str, str]) -> bool:
    """Has an array more elements than a kernel for all sizes counts?"""
    return "elements" in options and any(t.size << t.dtype.is_complex > int(options["elements"]) for t in program.tensors)


def _is_right(options: Mapping[str, str], sizes: Mapping[str, int]) -> bool:
    """Do the accumulators of a kernel keep their digits for these sizes, and its indices their bits? Copies of a result may be
    longer than all arrays."""
    return terms(options, sizes) <= LIMIT and longest(options, sizes) <= int(options.get("elements", sys.maxsize))


def _has_room(k: _Kernel, program: Program, sizes: Mapping[str, int]) -> bool:
    """Are the temporaries of a kernel for these sizes few, or about as many beside the arrays as for its typical sizes? Copies
    of a result that share its work are as many as pay for these."""
    typical = representatives(k.program.tensors)
    mine, usual = room(k.options, sizes), room(k.options, typical)
    return mine <= ROOM or mine * _bytes(specialised(k.program, typical)) <= MORE * usual * _bytes(program)


def _bytes(program: Program) -> int:
    """Of the arrays of a program."""
    return sum(program.tensor(n).size * program.tensor(n).dtype.bytes for n in program.arrays)


def declared(text: str, entry: str | None, shapes: Mapping[str, Sequence[Any]], every: bool) -> dict[str, tuple[sx.Expr, ...]]:
    """The dimensions of inputs that are given as names and numbers, or, with `every`, that a `def` declares."""
    found = dict(lang.dimensions(text, entry)) if every else {}
    for name, shape in shapes.items():
        found[name] = tuple(sx.Name(d, _NOWHERE) if isinstance(d, str) else sx.Number(int(d), _NOWHERE) for d in shape)
    return found


def _names(e: sx.Expr) -> list[sx.Name]:
    return [e] if isinstance(e, sx.Name) else [n for part in sx.operands(e) for n in _names(part)]


def _extent(d: sx.Expr, numbers: Mapping[str, int]) -> int:
    value = evaluate_size(d, numbers)
    if value is None:
        raise argument_error("E412", "a dimension is no formula of named sizes")
    return value


def _listed(dims: tuple[sx.Expr, ...]) -> str:
    return f"({', '.join(d.id if isinstance(d, sx.Name) else str(d.value) if isinstance(d, sx.Number) else '?' for d in dims)})"
