"""One use of an operator, and arrays to make it from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

R = np.random.default_rng(7)


def f(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


def positive(*shape: int) -> np.ndarray:
    return (R.random(shape) + 0.25).astype(np.float32)


def ints(*shape: int, low: int = -5, high: int = 6, dtype: Any = np.int64) -> np.ndarray:
    return R.integers(low, high, shape).astype(dtype)


def flags(*shape: int) -> np.ndarray:
    return R.random(shape) < 0.5


def numbers(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


@dataclass
class Case:
    """op on inputs (None: left out). constant: numbers of the inputs that the model stores."""

    op: str
    inputs: list[np.ndarray | None]
    attributes: dict[str, Any] = field(default_factory=dict)
    constant: tuple[int, ...] = ()
    outputs: int = 1
    opset: int = 21

    def __str__(self) -> str:
        shapes = "x".join("-" if a is None else "_".join(map(str, a.shape)) or "s" for a in self.inputs)
        return f"{self.op}-{shapes}-{'-'.join(f'{k}{v}' for k, v in self.attributes.items())}-{self.opset}".replace(" ", "")


def case(op: str, *inputs: np.ndarray | None, constant: tuple[int, ...] = (), outputs: int = 1, opset: int = 21,
         **attributes: Any) -> Case:
    return Case(op, list(inputs), attributes, constant, outputs, opset)
