"""What a node gives for halves if its arithmetic is exact: onnx's evaluator on f64, each result rounded to its type once.

The evaluator itself computes halves in halves, so that sums overflow and lose terms that polytc and other runtimes keep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polytc.program.scalars import from_numpy


def is_half(a: Any) -> bool:
    """Is it an array of f16 or bf16?"""
    dtype = from_numpy(a.dtype) if isinstance(a, np.ndarray) else None
    return dtype is not None and dtype.is_half


def is_float(a: Any) -> bool:
    """Is it an array or a number of a float type?"""
    dtype = from_numpy(a.dtype) if isinstance(a, np.ndarray | np.generic) else None
    return dtype is not None and dtype.is_float


def rounded_once(run: Callable[[Sequence[Any]], Sequence[Any]], given: Sequence[Any],
                 widened: Callable[[Any], bool] = is_half) -> list[Any]:
    """The results of `run`, those that are floats computed from f64 in place of what is `widened`.

    run: from the values of a node's inputs to those of its outputs; given: these values, of any kind. A result keeps its type
    and shape. What is no float (places, comparisons, quantised numbers) is as the halves have it, and so is everything where
    `run` has no f64, or gives another shape for it.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        found = list(run(given))
    if not any(map(widened, given)) or not any(map(is_float, found)):
        return found
    try:
        with np.errstate(all="ignore"):
            exact = run([a.astype(np.float64) if widened(a) else a for a in given])
            return [_as(x, y) for x, y in zip(exact, found, strict=True)]
    except Exception:  # the evaluator raises whatever its numpy code raises
        return found


def _as(exact: Any, found: Any) -> Any:
    fits = is_float(found) and is_float(exact) and np.shape(exact) == np.shape(found)
    return np.asarray(exact).astype(found.dtype) if fits else found
