"""Packages made to run: the part that follows from constants runs when arrays are bound, once, and what it made stays there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

import numpy as np

from polytc.codegen.buffers import Buffer
from polytc.codegen.package import Package
from polytc.codegen.target import Binary, Bound, BoundRun, Executable, Loader, Resizable
from polytc.native.aligned import aligned_bytes, origin, usable
from polytc.native.huge_pages import lasting_bytes
from polytc.runtime.sized import Sized


def load(package: Package, target: Loader, threads: int) -> Executable:
    """The package's code as an executable on the caller's arrays."""
    main = target.load(package.main.binary, threads)
    own = len(package.main.arrays)
    if package.once is None and package.main.arrays == tuple(range(own)):
        return main
    once = target.load(package.once.binary, threads) if package.once is not None else None
    return (ResizableWithPrologue if isinstance(main, Resizable) else WithPrologue)(package, once, main)


def binary(executable: Executable) -> Binary:
    """What runs in each call."""
    if isinstance(executable, WithPrologue):
        return executable.package.main.binary
    found: Binary = executable.binary  # type: ignore[attr-defined]
    return found


class PrologueResults:
    """What a prologue made of constants, or of copies of them; they must stay where they are as long as it is known by their
    addresses."""

    def __init__(self, arrays: Sequence[np.ndarray], constants: Sequence[np.ndarray]) -> None:
        self.arrays, self.constants = tuple(arrays), tuple(constants)
        self._unread: dict[int, np.ndarray] = {}

    def unread(self, position: int, a: np.ndarray) -> np.ndarray:
        """An array in place of an argument that nobody reads, which need not be kept for that. As nobody touches it, it takes
        no memory."""
        known = self._unread.get(position)
        if known is None or (known.shape, known.dtype) != (a.shape, a.dtype):
            known = self._unread[position] = np.zeros(a.shape, a.dtype)
        return known


@dataclass(frozen=True)
class WithPrologue:
    """The executables of a package's two parts, run as one. `bind` promises that the constants' contents will not change.

    known: what is made of constants at these addresses, as long as somebody uses it.
    """

    package: Package
    once: Executable | None
    main: Executable
    known: WeakValueDictionary[tuple[int, ...], PrologueResults] = field(
        default_factory=WeakValueDictionary, compare=False, repr=False)

    def run(self, buffers: Sequence[np.ndarray]) -> None:
        """Both parts, on the caller's arrays: inputs, then outputs."""
        made = [aligned(b) for b in self.package.made]
        if self.once is not None:
            self.once.run(self._for_prologue(buffers, made))
        self.main.run(self._in_order(buffers, made))

    def bind(self, buffers: Sequence[np.ndarray]) -> Bound:
        """Run the prologue now, unless what it makes of these constants is there; the result runs the main part. Constants
        cannot be moved; those that only the prologue reads may lie at odd addresses."""
        places: dict[int, list[int]] = {}
        for place, n in enumerate(self.package.main.arrays):
            places.setdefault(n, []).append(place)
        once = self.package.once.arrays if self.package.once is not None else ()
        constants = [origin(buffers[n]) for n in once if n < len(buffers)]
        key = tuple(a.ctypes.data for a in constants)
        made = self.known.get(key)
        if made is None:
            arrays = [lasting(b) for b in self.package.made]
            if self.once is not None:
                self.once.bind(self._for_prologue(buffers, arrays))()  # what it needs on the way goes with the Bound
            made = self.known[key] = PrologueResults(arrays, constants)
        used = [a if n not in once or in_use(self, n) else made.unread(n, a) for n, a in enumerate(buffers)]
        return Rearranged(self.main.bind(self._in_order(used, made.arrays)), places, made)

    def _for_prologue(self, buffers: Sequence[np.ndarray], made: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The arrays that the prologue runs on. made: for what it makes."""
        arrays = [*buffers, *made]
        return [usable(arrays[n]) for n in self.package.once.arrays] if self.package.once is not None else []

    def _in_order(self, buffers: Sequence[np.ndarray], made: Sequence[np.ndarray]) -> list[np.ndarray]:
        arrays = [*buffers, *made]
        return [arrays[n] for n in self.package.main.arrays]


class ResizableWithPrologue(WithPrologue):
    """One whose main part has sizes that are not fixed."""

    def at(self, sizes: Mapping[str, int]) -> Executable:
        """Both parts for these sizes."""
        assert isinstance(self.main, Resizable)
        return WithPrologue(self.package, self.once, self.main.at(sizes), self.known)


def in_use(executable: object, position: int) -> bool:
    """Does the part that runs in every call use this argument, or was it only needed to make something once?"""
    if isinstance(executable, Sized):
        executable = executable.executable
    if not isinstance(executable, WithPrologue):
        return True
    main = executable.package.main
    read = {name for launch in main.binary.launches for name in launch.args}
    return any(n == position and b.name in read for n, b in zip(main.arrays, main.binary.args, strict=True))


def keep(executable: Executable, fixed: Mapping[int, np.ndarray], count: int) -> Executable:
    """The executable with arrays for some of its `count` arguments, which take the others from now on. What follows from the
    fixed ones alone is computed now; their contents must not change."""
    if not isinstance(executable, WithPrologue):
        known, main, arrays = dict(fixed), executable, tuple(range(count))
    else:
        package = executable.package
        known = dict(fixed) | {count + k: lasting(b) for k, b in enumerate(package.made)}
        if executable.once is not None and package.once is not None:
            executable.once.bind([known[n] for n in package.once.arrays])()
        main, arrays = executable.main, package.main.arrays
    free = [n for n in range(count) if n not in fixed]
    return _Kept(main, tuple(known[n] if n in known else free.index(n) for n in arrays))


@dataclass(frozen=True)
class _Kept:
    """arguments: of `main`, each an array that stays or the number of the caller's."""

    main: Executable
    arguments: tuple[np.ndarray | int, ...]

    def run(self, buffers: Sequence[np.ndarray]) -> None:
        """Run on the arrays that are not fixed."""
        self.main.run([buffers[a] if isinstance(a, int) else a for a in self.arguments])

    def bind(self, buffers: Sequence[np.ndarray]) -> Bound:
        """`run` on these arrays as a function."""
        return BoundRun(self.run, buffers)


@dataclass(frozen=True)
class Rearranged:
    """A Bound whose arguments lie elsewhere among those of another. places: of each argument, in the other's order; made: what
    it needs to stay alive."""

    bound: Bound
    places: dict[int, list[int]]
    made: PrologueResults

    def __call__(self) -> None:
        self.bound()

    def move(self, position: int, array: np.ndarray) -> None:
        """Use another array."""
        for place in self.places.get(position, ()):
            self.bound.move(place, array)


def aligned(b: Buffer) -> np.ndarray:
    """An array of zeros for a buffer, which starts on a cache line."""
    return aligned_bytes(b.size * b.dtype.bytes).view(b.dtype.numpy).reshape(b.shape)


def lasting(b: Buffer) -> np.ndarray:
    """The same for what is read in every run."""
    return lasting_bytes(b.size * b.dtype.bytes).view(b.dtype.numpy).reshape(b.shape)
