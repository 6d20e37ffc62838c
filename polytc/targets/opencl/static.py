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
from pathlib import Path

from polytc import errors
from polytc.codegen import loops
from polytc.codegen.target import Launch, Source
from polytc.machine import DEVICES
from polytc.targets.opencl import shims, warp_traffic
from polytc.targets.opencl.estimate import estimate, rates_of

errors.register(E515="no account of what kernels use on a GPU")

@dataclass(frozen=True)
class Resources:
    """What one kernel uses. registers: 32-bit ones of an item; spilled: bytes of an item that do not fit them; local_bytes: of
    a group; occupancy: items in flight on a compute unit, of those that there could be. vector_accesses: loads and stores of
    16 bytes of global memory, instructions in the text. hot: multiply-adds, and loads of local memory, in the straight code
    that has most of the former."""

    registers: int
    spilled: int
    local_bytes: int
    occupancy: float
    vector_accesses: tuple[int, int]
    hot: tuple[int, int]


SHARED = {"sm_80": 167936, "sm_90": 233472}
"""Bytes of shared memory that a multiprocessor has for its blocks (CUDA C++ Programming Guide, compute capabilities), each of
which takes 1 KiB more."""


def clang() -> str | None:
    """The compiler, if there is one."""
    return next((found for n in ("clang-22", "clang-21", "clang-20", "clang") if (found := shutil.which(n))), None)


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
        room = SHARED[architecture] // (local + 1024)
        groups = min(65536 // (-(-registers * 32 // 256) * 256 * warps), room, 64 // warps, 32)
        own = code.split(f".entry {launch.entry}(")[1].split(".entry ")[0]
        moves = (len(re.findall(rf"\b{what}\.global[.\w:]*\.v(?:4\.\w32|2\.\w64)\s", own)) for what in ("ld", "st"))
        found[launch.entry] = Resources(registers, spilled, local, groups * warps / 64, (next(moves), next(moves)),
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
        registers, spilled, local, waves = (_number(p, part) for p in (
            r"(?: VGPRs|NumVgprs): (\d+)", r"ScratchSize(?: \[bytes/lane\])?: (\d+)",
            r"(?:LDS Size \[bytes/block\]|LDSByteSize): (\d+)", r"Occupancy(?: \[waves/SIMD\])?: (\d+)"))
        own = code.split(f"\n{launch.entry}:")[1].split("s_endpgm")[0]
        if called := sorted(set(re.findall(r"(\w+)@rel32@lo", own))):
            raise ValueError(f"error: {launch.entry} calls {', '.join(called)}, whose registers are not known")
        moves = (own.count(f"global_{what}_dwordx4") for what in ("load", "store"))
        found[launch.entry] = Resources(registers, spilled, local, waves / 8, (next(moves), next(moves)),
                                        _hot(own, r"^\.L\w+:|s_c?branch|s_barrier", r"\bv_(?:pk_)?fma", r"\bds_read"))
    return found


CHECKS: dict[str, Callable[[Source], dict[str, Resources]]] = {"nvidia-sm90": nvidia, "amd-gfx90a": amd}
"""Device of machine.DEVICES -> what tells the resources of kernels for it."""

HEAD = (f"{'kernel':26}{'groups x items':>22}{'registers':>11}{'spilled':>9}{'local':>8}{'occupancy':>11}{'wide':>6}"
        f"{'fma:local':>11}{'sectors':>9}{'banks':>7}{'barriers':>10}{'moved':>7}{'bytes':>7}{'model us':>10}  bound")
"""Of the lines of `table`."""
ITEMS = 2048
"""That a compute unit of the devices of CHECKS holds at once."""


def missing(device: str) -> str:
    """The compiler that is not here and that `table` needs; '' if all are."""
    return "clang" if clang() is None else "ptxas" if device.startswith("nvidia") and ptxas() is None else ""


def table(source: Source, device: str, check: Callable[[Source], dict[str, Resources]] | None = None) -> list[str]:
    """A line for each kernel under HEAD. check: tells the resources, instead of that of CHECKS.

    wide: loads and stores of 16 bytes in its text. fma:local: see Resources.hot. sectors: bytes that warps ask for in those of
    the sectors of memory that they touch. banks: passes over local memory, in those that there would be without conflicts.
    barriers: that an item passes. moved: bytes of those sectors, in those of the kernel's arrays: above 1 is what caches must
    serve. bytes: of the arrays that the program's kernels are given, in those of its inputs and outputs: 1 where each is read
    or written by one kernel and nothing lies between. model us, bound: see `estimate`; '-' for open sizes.

    Raises TargetError E515 where the device's compiler is not here or refuses.
    """
    if check is None and (absent := missing(device)):
        raise errors.fail("E515", f"{absent} is not here, which says what kernels use on {device}", kind=errors.TargetError,
                          notes=["clang is a package of most systems",
                                 "ptxas is in NVIDIA's CUDA toolkit, and in `pip install nvidia-cuda-nvcc-cu12`"])
    try:
        found = (check or CHECKS[device])(source)
    except ValueError as e:
        raise errors.fail("E515", f"the compiler for {device} refuses '{source.module.name}'", kind=errors.TargetError,
                          notes=[line for line in str(e).splitlines() if "error" in line or "fatal" in line][:4]) from e
    moved = _moved(source)
    lines = []
    for launch, kernel, used in zip(source.launches, source.module.kernels, found.values(), strict=True):
        sizes = zip(launch.global_size, launch.local_size, strict=True)
        groups = "x".join(str(g // n) if isinstance(g, int) else "?" for g, n in sizes)
        items = "x".join(map(str, launch.local_size))
        name = launch.entry.removeprefix("polytc_")
        lines.append(f"{name:26}{f'{groups} x {items}':>22}{used.registers:>11}{used.spilled:>9}{used.local_bytes:>8}"
                     f"{used.occupancy:>11.2f}{'+'.join(map(str, used.vector_accesses)):>6}{':'.join(map(str, used.hot)):>11}"
                     f"{_counted(kernel, launch, used, device, moved)}")
    return lines


def _counted(kernel: loops.Kernel, launch: Launch, used: Resources, device: str, program: str) -> str:
    """The columns of `table` that are counted in the kernel. program: the column `bytes`."""
    machine, items = DEVICES[device], math.prod(launch.local_size)
    traffic = warp_traffic.count(kernel, launch.local_size, machine)
    sizes = [n for n in launch.global_size if isinstance(n, int)]
    if traffic is None or len(sizes) < len(launch.global_size):
        return f"{'-':>9}{'-':>7}{'-':>10}{'-':>7}{program:>7}{'-':>10}  -"
    groups, array_bytes = math.prod(sizes) // items, sum(b.size * b.dtype.bytes for b in kernel.args)
    guess = estimate(traffic, groups, int(used.occupancy * ITEMS / items), array_bytes, machine, rates_of(machine))
    return (f"{traffic.wanted / max(1.0, traffic.moved):>9.2f}{traffic.passes / max(1.0, traffic.words):>7.2f}"
            f"{traffic.barriers:>10.0f}{traffic.moved * groups / array_bytes:>7.2f}{program:>7}{guess.seconds * 1e6:>10.1f}"
            f"  {guess.bound}")


def _moved(source: Source) -> str:
    """The bytes of the kernels' arrays in those of the program's inputs and outputs; - where sizes are not fixed."""
    if source.module.sizes:
        return "-"
    least = sum(b.size * b.dtype.bytes for b in source.module.args)
    return f"{sum(b.size * b.dtype.bytes for k in source.module.kernels for b in k.args) / max(1, least):.2f}"


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
