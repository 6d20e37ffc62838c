"""The case's loops in C, by clang with Polly if it is here, else by gcc."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from versus.case import Case, Tensor
from versus.peers import Prepared, empty

TYPES = {"float32": "float", "float64": "double", "int8": "signed char", "int32": "int", "int64": "long long"}
FLAGS = ["-O3", "-march=native", "-ffast-math", "-shared", "-fPIC", "-std=c11"]
POLLY = ["-mllvm", "-polly"]


def version() -> str:
    return subprocess.run([_compiler(), "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]


def prepare(case: Case, inputs: Mapping[str, np.ndarray], threads: int) -> Prepared | None:
    """threads: 1 is all that the loops use, but for what Polly finds parallel."""
    if not case.c:
        return None
    outputs = empty(case)
    function = _build(case, threads)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*inputs.values(), *outputs.values())]
    return Prepared(lambda: function(*pointers), lambda _: tuple(outputs.values()))


def _compiler() -> str:
    return shutil.which("clang") or "gcc"


def _build(case: Case, threads: int) -> Any:
    parameters = [f"const {_pointer(n, t)}" for n, t in case.inputs.items()]
    parameters += [_pointer(n, t) for n, t in case.outputs.items()]
    text = f"void run({', '.join(parameters)}) {{\n{case.c}\n}}\n"
    flags = list(FLAGS)
    if Path(_compiler()).name == "clang":
        flags += POLLY + (["-mllvm", "-polly-parallel", "-lgomp"] if threads > 1 else [])
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "case.so"
        subprocess.run([_compiler(), *flags, "-x", "c", "-", "-o", str(library), "-lm"], input=text, text=True, check=True,
                       capture_output=True)
        return ctypes.CDLL(str(library)).run


def _pointer(name: str, t: Tensor) -> str:
    return f"{TYPES[t.dtype]} *restrict {name}"
