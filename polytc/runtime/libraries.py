"""Results go back to the library that the arguments came from: tensors of torch, arrays of JAX."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from polytc.program import scalars


def library(values: Iterable[Any]) -> Callable[[np.ndarray], Any] | None:
    """What makes arrays of numpy to arrays of the library of the first argument that is not numpy's, without a copy where the
    library takes none; None where all are numpy's, or the library has no `from_dlpack`."""
    for value in values:
        if isinstance(value, (np.ndarray, np.generic, bool, int, float, complex)) or not hasattr(value, "__dlpack__"):
            continue
        namespace = value.__array_namespace__() if hasattr(value, "__array_namespace__") else \
            sys.modules.get(type(value).__module__.partition(".")[0])
        if hasattr(namespace, "from_dlpack"):
            return lambda array: _given(array, namespace)
        return None
    return None


def _given(array: np.ndarray, namespace: Any) -> Any:
    """DLPack of numpy has no bf16: its bits go as integers, and are viewed as bf16 over there."""
    if scalars.from_numpy(array.dtype) != scalars.BF16:
        return namespace.from_dlpack(array)
    bits = namespace.from_dlpack(array.view(np.int16))
    return bits.view(namespace.bfloat16)


def bits_of_bf16(value: Any) -> np.ndarray | None:
    """A bf16 tensor of another library, whose bits numpy takes as integers; None for any other array."""
    if not str(getattr(value, "dtype", "")).endswith("bfloat16") or scalars.BF16.numpy is None:
        return None
    namespace = sys.modules.get(type(value).__module__.partition(".")[0])
    integers = getattr(namespace, "int16", None)
    return np.from_dlpack(value.view(integers)).view(scalars.BF16.numpy) if integers is not None else None
