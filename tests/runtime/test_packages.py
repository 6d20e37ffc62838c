"""Packages with a prologue: it runs when arrays are bound, once for the same constants, and leaves nothing but its results."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

import numpy as np

from polytc.codegen.buffers import Buffer
from polytc.codegen.package import Package, Part
from polytc.codegen.target import Binary, BoundRun
from polytc.program.scalars import F32
from polytc.runtime.packages import WithPrologue, keep

W, X, Y, TWICE = (Buffer(name, F32, (4,), "global") for name in ("W", "X", "Y", "twice"))


class Scratch:
    """What a Bound holds besides its arrays."""


class Prologue:
    """twice = 2 * W. scratch: of all Bounds; those of `run` stay for the next one."""

    def __init__(self) -> None:
        self.scratch: list[weakref.ref[Scratch]] = []
        self.kept: list[BoundRun] = []

    def run(self, buffers: Sequence[np.ndarray]) -> None:
        self.kept.append(self.bind(buffers))
        self.kept[-1]()

    def bind(self, buffers: Sequence[np.ndarray]) -> BoundRun:
        own = Scratch()
        self.scratch.append(weakref.ref(own))

        def run(arrays: Sequence[np.ndarray], _own: object = own) -> None:
            np.multiply(arrays[0], 2, out=arrays[1])
        return BoundRun(run, buffers)


class Main:
    """Y = X + twice."""

    def run(self, buffers: Sequence[np.ndarray]) -> None:
        np.add(buffers[0], buffers[1], out=buffers[2])

    def bind(self, buffers: Sequence[np.ndarray]) -> BoundRun:
        return BoundRun(self.run, buffers)


def package() -> WithPrologue:
    """W, X -> Y."""
    once = Binary("once", (W, TWICE), ("twice",), (), (), b"", {})
    main = Binary("main", (X, TWICE, Y), ("Y",), (), (), b"", {})
    return WithPrologue(Package(Part(main, (1, 3, 2)), Part(once, (0, 3)), (TWICE,)), Prologue(), Main())


def arrays() -> list[np.ndarray]:
    return [np.arange(4, dtype=np.float32), np.full(4, 100, np.float32), np.zeros(4, np.float32)]


def test_a_bound_package_keeps_what_its_prologue_made_and_no_more() -> None:
    found, (w, x, y) = package(), arrays()
    bound = found.bind([w, x, y])
    assert isinstance(found.once, Prologue)
    assert [s() for s in found.once.scratch] == [None]
    w[:] = 0  # it is not read again
    bound()
    np.testing.assert_array_equal(y, [100, 102, 104, 106])
    again = np.zeros(4, np.float32)
    other = found.bind([w, x, again])
    assert len(found.once.scratch) == 1
    other()
    np.testing.assert_array_equal(again, y)


def test_an_executable_that_keeps_arrays_is_the_same() -> None:
    found, (w, x, y) = package(), arrays()
    kept = keep(found, {0: w}, 3)
    assert isinstance(found.once, Prologue)
    assert [s() for s in found.once.scratch] == [None]
    kept.run([x, y])
    np.testing.assert_array_equal(y, [100, 102, 104, 106])
