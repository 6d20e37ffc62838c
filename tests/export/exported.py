"""Running exported folders: the C host built with the system's compiler, and the Python host as a script of its own."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polytc.errors import TargetError
from polytc.program import scalars
from polytc.targets.opencl.driver import devices

INCLUDE = Path(__file__).parent / "include"
CC = shutil.which("cc") or shutil.which("gcc")
STRICT = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1"]

SCRIPT = """
import sys
import numpy as np
import pyopencl as cl
sys.path.insert(0, sys.argv[1])
module = __import__(sys.argv[2])
device = next(d for p in cl.get_platforms() for d in p.get_devices() if d.name.strip() == sys.argv[3])
context = cl.Context([device])
program = module.Program(context)
arrays = np.load(sys.argv[1] + "/in.npz")
found = program(*(arrays[n] for n in arrays.files))
np.savez(sys.argv[1] + "/out.npz", *(found if isinstance(found, tuple) else (found,)))
"""


MANY = """def many(f16[N] H, i8[N] Q, f64[N] D, bool[N] B) -> (P, R, S, T) {
    P[i] = H[i] * f16(1.0009765625)
    R[i] = B[i] && Q[i] > 3
    S[i] = D[i] * 0.5 + Q[i]
    T[i] = min(Q[i] * Q[i] // 3, abs(Q[i]))
}"""
"""A program over halves, bytes, doubles and booleans."""


def many() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Arrays for MANY, all halves among them, and its results."""
    r = np.random.default_rng(2)
    h = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    n = h.size
    q, d, b = r.integers(-128, 128, n).astype(np.int8), r.standard_normal(n), r.integers(0, 2, n).astype(bool)
    with np.errstate(all="ignore"):
        expected = {"P": h * np.float16(1.0009765625), "R": b & (q > 3), "S": d * 0.5 + q,
                    "T": np.minimum(q * q // np.int8(3), np.abs(q))}
    return {"H": h, "Q": q, "D": d, "B": b}, expected


def arguments(folder: Path, name: str) -> list[dict[str, Any]]:
    """What the description says about the arguments."""
    found: list[dict[str, Any]] = json.loads((folder / f"{name}.json").read_text())["arguments"]
    return found


def numpy_type(name: str) -> np.dtype:
    return np.dtype("uint16") if name == "bf16" else scalars.named(name).numpy


def device() -> devices.Device:
    """The device that polytc would choose; finding it points the drivers' loader at it. Skips without one."""
    try:
        return devices.choose()
    except TargetError:
        pytest.skip("there is no OpenCL device")


def in_c(folder: Path, name: str, inputs: Sequence[np.ndarray], libraries: Sequence[str] = ("-lOpenCL",),
         sizes: Mapping[str, int] | None = None, compiler: str | None = CC) -> dict[str, np.ndarray]:
    """The outputs of the C host, see `built` and `outputs`. Skips where it cannot be built."""
    built(folder, name, libraries, compiler)
    return outputs(folder, name, inputs, sizes)


def built(folder: Path, name: str, libraries: Sequence[str] = ("-lOpenCL",), compiler: str | None = CC) -> None:
    """Build the C host. Skips where it cannot be built."""
    if compiler is None:
        pytest.skip("there is no C compiler")
    if "-lOpenCL" in libraries:
        device()
        libraries = opencl(compiler)
    subprocess.run([compiler, *STRICT, "main.c", f"{name}.c", *libraries, "-o", "run"], cwd=folder, check=True)


@functools.cache
def opencl(compiler: str) -> list[str]:
    """The flags for OpenCL: of the system's header and loader, else of a header of the tests and the loader of pyopencl. Skips
    without either."""
    probe = "#define CL_TARGET_OPENCL_VERSION 120\n#include <CL/cl.h>\nint main(void) { return clGetPlatformIDs(0, 0, 0); }\n"
    found = importlib.util.find_spec("pyopencl")
    folders = Path(found.origin).parents[:2] if found is not None and found.origin else ()
    loaders = [p for folder in folders for p in folder.glob("*.libs/libOpenCL*")]
    for flags in (["-lOpenCL"], *([f"-I{INCLUDE}", str(p), f"-Wl,-rpath,{p.parent}"] for p in loaders)):
        command = [compiler, "-x", "c", "-", "-x", "none", *flags, "-o", os.devnull]
        if not subprocess.run(command, capture_output=True, text=True, input=probe).returncode:
            return flags
    pytest.skip("there are no header and loader of OpenCL for C")


def outputs(folder: Path, name: str, inputs: Sequence[np.ndarray], sizes: Mapping[str, int] | None = None,
            environment: Mapping[str, str] | None = None) -> dict[str, np.ndarray]:
    """What the built host computes. sizes: that are not fixed, in order. environment: what else it is to see."""
    files, given = [], iter(inputs)
    for k, a in enumerate(arguments(folder, name)):
        if a["role"] != "output":
            np.ascontiguousarray(next(given)).tofile(folder / f"{k}.raw")
        files.append(f"{k}.raw")
    done = subprocess.run(["./run", ".", *map(str, (sizes or {}).values()), *files], cwd=folder, capture_output=True, text=True,
                          env={**os.environ, **(environment or {})})
    assert done.returncode == 0, done.stderr
    return {a["name"]: np.fromfile(folder / f"{k}.raw", numpy_type(a["dtype"])).reshape(
                [n if isinstance(n, int) else (sizes or {})[n] for n in a["shape"]])
            for k, a in enumerate(arguments(folder, name)) if a["role"] != "input"}


def in_python(folder: Path, name: str, inputs: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of the Python host, in a process that knows nothing of polytc. Skips without a device."""
    np.savez(folder / "in.npz", *inputs)
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(folder), name, device().name], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names = [a["name"] for a in arguments(folder, name) if a["role"] != "input"]
    found = np.load(folder / "out.npz")
    return {n: found[key] for n, key in zip(names, found.files, strict=True)}


def agree(found: Mapping[str, np.ndarray], expected: Sequence[np.ndarray], rtol: float = 1e-5) -> None:
    assert len(found) == len(expected)
    for (name, got), wanted in zip(found.items(), expected, strict=True):
        exact = wanted.astype(np.float64)
        scale = np.abs(exact).max(initial=1)
        np.testing.assert_allclose(got.astype(np.float64), exact, rtol=rtol, atol=rtol * scale, err_msg=name)
