"""What compilers for GPUs make of kernels, found out without a GPU: registers, spills, local memory and occupancy.

clang compiles OpenCL C to PTX, which NVIDIA's ptxas compiles on, or to AMD's code objects, and both say what a kernel uses.
Neither clang's libraries for GPUs nor a driver are needed for kernels of f32 that call no other mathematical functions than
exp, log, sqrt, tanh, erf, pow, fabs, floor and ceil, of one number or four (opencl.shims). Drivers may allot registers a
little differently.
"""

from __future__ import annotations

import importlib.util
import math
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from polytc.codegen.target import Launch, Source
from polytc.targets.opencl import shims


@dataclass(frozen=True)
class Resources:
    """What one kernel uses. registers: 32-bit ones of an item; spilled: bytes of an item that do not fit them; local_bytes: of
    a group; occupancy: items in flight on a compute unit, of those that there could be. vector_accesses: loads and stores of
    16 bytes of global memory, instructions in the text. hot: multiply-adds, and loads of local memory, in the straight code
    that has most of the former. accumulators: registers of an AMD item beside the others, which hold what a matrix unit adds
    up, or what the others have no room for."""

    registers: int
    spilled: int
    local_bytes: int
    occupancy: float
    vector_accesses: tuple[int, int]
    hot: tuple[int, int]
    accumulators: int = 0


LIMITS = {"sm_80": (167936, 64, 32), "sm_86": (102400, 48, 16), "sm_89": (102400, 48, 24), "sm_90": (233472, 64, 32)}
"""Of a multiprocessor: bytes of shared memory for its blocks, each of which takes 1 KiB more, warps, and blocks (CUDA C++
Programming Guide, compute capabilities)."""
WAVES = {"gfx90a": 8}
"""Of a SIMD of AMD's; 16 of RDNA."""
VERSIONS = range(22, 13, -1)
"""Of clang, by preference."""


def clang() -> str | None:
    """The compiler, if there is one."""
    names = (*(f"clang-{n}" for n in VERSIONS[:4]), "clang", *(f"clang-{n}" for n in VERSIONS[4:]))
    return next((found for n in names if (found := shutil.which(n))), None)


def ptxas() -> str | None:
    """NVIDIA's assembler, if there is one: the system's, or that of `pip install nvidia-cuda-nvcc-cu12`."""
    package = importlib.util.find_spec("nvidia")
    folders = [Path(p) / "cuda_nvcc" / "bin" for p in package.submodule_search_locations or ()] if package is not None else []
    return shutil.which("ptxas") or next((str(f / "ptxas") for f in folders if (f / "ptxas").exists()), None)


def nvidia(source: Source, architecture: str = "sm_90") -> dict[str, Resources]:
    """Kernel -> what it uses on an NVIDIA GPU, from sm_80 on. Needs clang and ptxas; raises ValueError with their words if one
    refuses."""
    # for sm_80, which all versions of clang know that there are: ptxas makes code for newer ones of that, too
    flags = ["-target", "nvptx64-nvidia-cuda", "-Xclang", "-target-cpu", "-Xclang", "sm_80", "-Xclang", "-target-feature",
             "-Xclang", "+ptx70"]
    with tempfile.TemporaryDirectory() as folder:
        _compile(source, flags, shims.NVIDIA, Path(folder))
        return of_ptx((Path(folder) / "k.s").read_text(), source.launches, architecture)


def of_ptx(code: str, launches: Sequence[Launch], architecture: str) -> dict[str, Resources]:
    """Kernel -> what it uses, of PTX that has the kernels of these launches. Needs ptxas; ValueError has its words where
    it refuses."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "k.ptx").write_text(code)
        log = _run([ptxas() or "ptxas", f"-arch={architecture}", "-v", f"{folder}/k.ptx", "-o", f"{folder}/k.cubin"])
    found: dict[str, Resources] = {}
    for launch in launches:
        part = log.split(f"Compiling entry function '{launch.entry}'")[1].split("Compiling entry function")[0]
        registers, spilled, local = (_number(p, part) for p in (
            r"Used (\d+) registers", r"(\d+) bytes spill stores", r"(\d+) bytes smem"))
        warps = -(-math.prod(launch.local_size) // 32)
        shared, most, blocks = LIMITS[architecture]
        groups = min(65536 // (-(-registers * 32 // 256) * 256 * warps), shared // (local + 1024), most // warps, blocks)
        own = code.split(f".entry {launch.entry}(")[1].split(".entry ")[0]
        moves = (len(re.findall(rf"\b{what}\.global[.\w:]*\.v(?:4\.\w32|2\.\w64)\s", own)) for what in ("ld", "st"))
        found[launch.entry] = Resources(registers, spilled, local, groups * warps / most, (next(moves), next(moves)),
                                        _hot(own, r"^\$?L\w+:|^\s+@?\S*\s*bra|bar\.sync", r"\bfma\.rn", r"\bld\.shared"))
    return found


def amd(source: Source, architecture: str = "gfx90a") -> dict[str, Resources]:
    """Kernel -> what it uses on an AMD GPU. Needs clang; raises ValueError with its words if it refuses."""
    flags = ["-target", "amdgcn-amd-amdhsa", f"-mcpu={architecture}", "-nogpulib", "-Rpass-analysis=kernel-resource-usage"]
    with tempfile.TemporaryDirectory() as folder:
        log = _compile(source, flags, shims.AMD, Path(folder))
        code = (Path(folder) / "k.s").read_text()
    found: dict[str, Resources] = {}
    for launch in source.launches:
        # clang's remarks, and before its version 15 the comments of its code
        part = [*log.split(f"Function Name: {launch.entry} ")[1:], code.split(f"\n{launch.entry}:")[1]][0]
        registers, accumulators, spilled, local, waves = (_number(p, part) for p in (
            r"(?: VGPRs|NumVgprs): (\d+)", r"(?: AGPRs|NumAgprs): (\d+)", r"ScratchSize(?: \[bytes/lane\])?: (\d+)",
            r"(?:LDS Size \[bytes/block\]|LDSByteSize): (\d+)", r"Occupancy(?: \[waves/SIMD\])?: (\d+)"))
        own = code.split(f"\n{launch.entry}:")[1].split("s_endpgm")[0]
        if called := sorted(set(re.findall(r"(\w+)@rel32@lo", own))):
            raise ValueError(f"error: {launch.entry} calls {', '.join(called)}, whose registers are not known")
        moves = (len(re.findall(rf"\bglobal_{what}_(?:dwordx4|b128)", own)) for what in ("load", "store"))
        found[launch.entry] = Resources(
            registers, spilled, local, waves / WAVES.get(architecture, 16), (next(moves), next(moves)),
            _hot(own, r"^\.L\w+:|s_c?branch|s_barrier", r"\bv_(?:pk_|dual_)?fma", r"\bds_(?:read|load)"), accumulators)
    return found


CHECKS: dict[str, Callable[[Source], dict[str, Resources]]] = {
    "nvidia-sm90": nvidia, **{f"nvidia-sm{n}": partial(nvidia, architecture=f"sm_{n}") for n in (80, 86, 89)},
    "amd-gfx90a": amd, **{f"amd-{n}": partial(amd, architecture=n) for n in ("gfx1030", "gfx1100")}}
"""Device of machine.DEVICES -> what tells the resources of kernels for it."""


def missing(device: str) -> str:
    """The compiler that is not here and that tells what kernels use on a device; '' if all are, or none would."""
    if device not in CHECKS:
        return ""
    return "clang" if clang() is None else "ptxas" if device.startswith("nvidia") and ptxas() is None else ""


def _compile(source: Source, flags: list[str], shim: str, folder: Path) -> str:
    compiler = clang()
    if compiler is None:
        raise ValueError("there is no clang here")
    (folder / "shim.h").write_text(shim)
    (folder / "k.cl").write_text(source.text)
    return _run([compiler, "-w", "-x", "cl", *source.options["build"].split(), "-O3", *flags, "-include", f"{folder}/shim.h",
                 "-S", f"{folder}/k.cl", "-o", f"{folder}/k.s"])


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(done.stderr[-2000:])
    return done.stderr


def _hot(code: str, ends: str, multiply: str, load: str) -> tuple[int, int]:
    """Of the stretches of code between what matches `ends`, in the one that has most of `multiply`: the matches of this and of
    `load`."""
    parts = re.split(ends, code, flags=re.MULTILINE)
    return max((len(re.findall(multiply, p)), len(re.findall(load, p))) for p in parts)


def _number(pattern: str, text: str) -> int:
    """The first number that the pattern finds, 0 if there is none."""
    found = re.search(pattern, text)
    return int(found[1]) if found else 0
