"""Running the CUDA C that polytc writes without a GPU: built by the system's C++ compiler behind blocks_on_cpu.hpp, launched
with the grids that polytc's hosts launch."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from polytc.codegen import launch_order, size_names
from polytc.codegen.target import Binary, Executable, Source
from polytc.program import extents
from polytc.targets.cuda.target import CudaTarget
from tests.c_here import SENSE, TRAPS, Loaded

COMPILER = shutil.which("g++")
SHIM = Path(__file__).parent / "targets/cuda/blocks_on_cpu.hpp"
STRICT = ["-std=c++17", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wno-unknown-pragmas", "-Wno-unused-function",
          "-Wno-unused-parameter", "-O1",
          "-ffp-contract=off"]
ROOM = 4096
"""Bytes before and behind an array that is copied to where its address fits."""


class Divergent(AssertionError):
    """Some threads of a block wait at a barrier that others never reach."""


@dataclass(frozen=True)
class CompiledCuda(CudaTarget):
    """The target CUDA with a C++ compiler behind it. A source that the compiler warns of is an AssertionError. together: do
    blocks run at once, in several threads, the last ones first?"""

    together: bool = False

    def here(self) -> CompiledCuda:
        return self

    def build(self, source: Source) -> Binary:
        return Binary.of(source, library(f"{source.text}\n{callers(source.text)}", self.together))

    def load(self, binary: Binary, threads: int = 0) -> Executable:
        return (OpenCuda if "sizes" in binary.options else LoadedCuda)(binary)


INSTRUCTIONS = re.compile(r"^static __device__ inline void polytc_\w+\([^)]*\)\n\{\n    asm volatile.*?^\}\n",
                          re.MULTILINE | re.DOTALL)
"""Functions that are instructions of a GPU alone: the header has them in C."""


def library(text: str, together: bool = False) -> bytes:
    """CUDA C as a library of the processor. together: see CompiledCuda."""
    text = INSTRUCTIONS.sub("", text)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "k.cpp").write_text(text, encoding="ascii")
        many = ["-DPOLYTC_TOGETHER", "-pthread"] if together else []
        command = [COMPILER or "g++", *STRICT, *SENSE, *TRAPS, *many, "-include", str(SHIM), "-shared", "-fPIC", "k.cpp",
                   "-o", "k.so"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stderr[:4000]}\n{text}"
        return (Path(folder) / "k.so").read_bytes()


KERNEL = re.compile(r'^extern "C" __global__ void __launch_bounds__\((\d+)(?:, \d+)?\)\n(\w+)\((.*?)\)\n\{(.*?)^\}',
                    re.MULTILINE | re.DOTALL)
"""Threads of a block, name, parameters and body of a kernel."""


def callers(text: str) -> str:
    """For each kernel a function that runs it on a grid. Its arguments are given as the driver API has them: as addresses."""
    found = [_caller(m[2], re.sub(r"\s+", " ", m[3]), m[4], int(m[1])) for m in KERNEL.finditer(text)]
    assert len(found) == text.count("__global__"), "a kernel has another head"
    return "".join(found)


def _caller(name: str, parameters: str, body: str, threads: int) -> str:
    types = [re.sub(r"\s*\w+$", "", p.replace("__restrict__", "")) for p in parameters.split(", ") if p]
    given = ", ".join(f"*({t.rstrip()} *)p[{k}]" for k, t in enumerate(types))
    return f"""
static void polytc_call_{name}(void *given)
{{
    void **p = (void **)given;
    (void)p;
    {name}({given});
}}
extern "C" const int polytc_arguments_{name};
const int polytc_arguments_{name} = {len(types)};
extern "C" int polytc_launch_{name}(const unsigned *grid, const unsigned *block, void **p);
extern "C" int polytc_launch_{name}(const unsigned *grid, const unsigned *block, void **p)
{{
    if (block[0] * block[1] * block[2] != {threads}) return 2;
    return polytc_launch(grid, block, {str("__syncthreads()" in body).lower()}, polytc_call_{name}, p);
}}
"""


class LoadedCuda(Loaded):
    """A library, which runs on arrays. sizes: those that are not fixed, in order."""

    def __init__(self, binary: Binary, sizes: Mapping[str, int] | None = None) -> None:
        self.binary, self._sizes = binary, dict(sizes or {})
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(binary.code)
            file.flush()
            self._library = ctypes.CDLL(file.name)
        self._alignment = int(binary.options.get("alignment", 0)) or 1

    def call(self, arrays: Sequence[np.ndarray]) -> None:
        """Run on the arrays and temporaries; those that begin where the kernels do not take them in copies."""
        placed = [(a, *_moved(a)) if a.ctypes.data % self._alignment else (a, a, None) for a in arrays]
        names = [b.name for b in (*self.binary.args, *self.binary.scratch)]
        given = {n: own.ctypes.data for n, (_, own, _) in zip(names, placed, strict=True)} | self._sizes
        for made in launch_order.in_order(self.binary.launches, self._sizes):
            self._launch(made.number, {**given, **made.values})
        for a, own, memory in placed:
            if memory is not None:
                before = own.ctypes.data - memory.ctypes.data
                assert (memory[:before] == 0xFF).all(), "bytes before an array were written"
                assert (memory[before + own.nbytes:] == 0xFF).all(), "bytes behind an array were written"
                if a.flags.writeable:
                    a[...] = own

    def _launch(self, number: int, given: Mapping[str, int]) -> None:
        launch = self.binary.launches[number]
        items = (*launch.local_size, 1, 1)[:3]
        total = (*(extents.at(n, self._sizes) for n in launch.global_size), 1, 1)[:3]
        assert all(n % k == 0 for n, k in zip(total, items, strict=True)), "a grid is not of whole blocks"
        grid = [n // k for n, k in zip(total, items, strict=True)]
        assert max(grid[1:]) <= 65535, "a grid has too many blocks on an axis"
        values = (ctypes.c_int64 * (len(launch.args) + 1))(*(given[a] for a in launch.args))
        first = ctypes.addressof(values)
        places = (ctypes.c_void_p * (len(launch.args) + 1))(*(first + 8 * k for k in range(len(launch.args))))
        triple = ctypes.c_uint * 3
        if self._library[f"polytc_launch_{launch.entry}"](triple(*grid), triple(*items), places):
            raise Divergent(launch.entry)


def _moved(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A copy at a multiple of 64 bytes, and the memory around it."""
    memory = np.full(a.nbytes + 2 * ROOM + 64, 0xFF, np.uint8)
    first = ROOM + -(memory.ctypes.data + ROOM) % 64
    own = memory[first:first + a.nbytes].view(a.dtype).reshape(a.shape)
    own[...] = a
    return own, memory


class OpenCuda(LoadedCuda):
    """A library that is given the sizes."""

    def at(self, sizes: Mapping[str, int]) -> LoadedCuda:
        options = self.binary.options
        return LoadedCuda(self.binary, {**size_names.named(options, sizes), **size_names.spelled(options, sizes)})
