"""Case: one computation, said once for each contender; Set: a table of cases with the goal that it is held to."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Peer = str
"""The name of a module of versus.peers, e.g. 'onnxruntime'."""


@dataclass(frozen=True)
class Tensor:
    """An input or an output.

    constant: its contents are known when the computation is prepared (weights). within: from where integers are drawn,
    (first, last + 1).
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    constant: bool = False
    within: tuple[int, int] = (-8, 8)

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize

    def random(self, rng: np.random.Generator) -> np.ndarray:
        """Floats from -0.5 to 0.5, or integers as `within` says."""
        dtype = np.dtype(self.dtype)
        if dtype.kind == "f":
            return rng.random(self.shape, dtype) - dtype.type(0.5)
        return rng.integers(*self.within, self.shape, dtype)


@dataclass(frozen=True)
class Node:
    """An ONNX node. inputs, outputs: names separated by blanks."""

    op: str
    inputs: str
    outputs: str
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """What is computed, and how each contender says it.

    text: the program in polytc's language; its inputs and outputs are the keys of `inputs` and `outputs`, in order.
    onnx: nodes with the same names; onnx_constants: further tensors that they need, such as axes.
    torch, jax, numpy: functions of their module, then of the inputs; with a parameter `out` where they write to given arrays.
    numba: name of a function in versus/numba_loops.py.  c: the body of a C function of the inputs, then outputs.
    clblast: name of a routine in versus/peers/clblast_peer.py.  loopy: name of a function in versus/loopy_kernels.py.
    flops: floating-point operations of the direct computation, 0 where bytes count.  bytes: the least that must be read and
    written; the sizes of all tensors where nothing is said.
    group: which of the set's goals it belongs to.  tolerance: of differences, relative to the largest magnitude.
    least: fraction of the machine's limit to reach, e.g. ('fma', 0.93) or ('copy', 0.85).
    compiled: torch.compile is to make the torch function.
    """

    name: str
    text: str
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    onnx: tuple[Node, ...] = ()
    onnx_constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    torch: Callable[..., Any] | None = None
    jax: Callable[..., Any] | None = None
    numpy: Callable[..., Any] | None = None
    numba: str = ""
    c: str = ""
    clblast: str = ""
    loopy: str = ""
    flops: float = 0.0
    bytes: int = 0
    group: str = ""
    tolerance: float = 1e-4
    least: tuple[str, float] | None = None
    compiled: bool = False

    @property
    def traffic(self) -> int:
        """Bytes that any implementation must read and write."""
        return self.bytes or sum(t.bytes for t in (*self.inputs.values(), *self.outputs.values()))

    @property
    def work(self) -> tuple[float, str]:
        """(amount, unit of a billion a second): by what the speed is quoted."""
        return (self.flops, "GFLOP/s") if self.flops else (float(self.traffic), "GB/s")

    def arrays(self) -> dict[str, np.ndarray]:
        """The inputs: the same in every process."""
        rng = np.random.default_rng(sum(map(ord, self.name)))
        return {name: t.random(rng) for name, t in self.inputs.items()}


@dataclass(frozen=True)
class Goal:
    """Bounds on the ratio of our time to that of the best of `against`: its geometric mean, and the worst case (if any)."""

    geomean: float
    worst: float | None
    against: tuple[Peer, ...]


@dataclass(frozen=True)
class Set:
    """A table. goals: by group."""

    name: str
    title: str
    cases: tuple[Case, ...]
    goals: Mapping[str, Goal]

    def case(self, name: str) -> Case:
        return next(c for c in self.cases if c.name == name)
