"""The contenders: a module each, which imports its library. They are loaded in processes of their own (versus.worker).

Each has `prepare(case, inputs, threads) -> Prepared | None`, None where the case does not say how, and `version()`.
"""

from __future__ import annotations

import ctypes.util
import importlib
import importlib.util
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from versus.case import Case


@dataclass(frozen=True)
class Prepared:
    """call: computes once, with as little overhead as the library's interface allows. results: what the last call made, from
    what it returned, in the order of the case's outputs."""

    call: Callable[[], Any]
    results: Callable[[Any], Sequence[np.ndarray]]


class Contender(Protocol):
    """What a module here offers."""

    def version(self) -> str: ...

    def prepare(self, case: Case, inputs: Mapping[str, np.ndarray], threads: int) -> Prepared | None: ...


PEERS = ("onnxruntime", "openvino", "torch", "jax", "numpy", "numba", "c")


def installed(peer: str) -> bool:
    """Whether the library is here; for `c`, a compiler; for `loopy`, the path of an interpreter that has it."""
    if peer == "c":
        return shutil.which("clang") is not None or shutil.which("gcc") is not None
    if peer == "clblast":
        return ctypes.util.find_library("clblast") is not None
    if peer == "loopy":
        return "LOOPY_PYTHON" in os.environ
    needs = {"onnxruntime": ("onnxruntime", "onnx"), "openvino": ("openvino", "onnx")}.get(peer, (peer,))
    return all(importlib.util.find_spec(n) is not None for n in needs)


def load(name: str) -> Contender:
    module: Any = importlib.import_module(f"versus.peers.{name}_peer")
    return module


def empty(case: Case) -> dict[str, np.ndarray]:
    """Arrays for the outputs, touched once."""
    return {name: np.zeros(t.shape, t.dtype) for name, t in case.outputs.items()}
