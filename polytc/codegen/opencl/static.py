"""What compilers for GPUs make of kernels, found out without a GPU: registers, spills, local memory and occupancy.

clang compiles OpenCL C to PTX, which NVIDIA's ptxas compiles on, or to AMD's code objects, and both say what a kernel uses.
Neither clang's libraries for GPUs nor a driver are needed for kernels of f32 that call no other mathematical functions than exp
and sqrt, of one number or four, of which exp is the devices' instruction; drivers may allot registers a little differently.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from polytc import errors
from polytc.codegen.target import Source

errors.register(E515="no account of what kernels use on a GPU")

_ITEMS = "#define get_{0}_id(n) ((n) == 0 ? {1}x() : (n) == 1 ? {1}y() : {1}z())\n"
_STORE = "const float4 w = (v); (p)[0] = w.s0; (p)[1] = w.s1; (p)[2] = w.s2; (p)[3] = w.s3;"
_VECTORS = f"#define vload4(o, p) ((float4)((p)[0], (p)[1], (p)[2], (p)[3]))\n#define vstore4(v, o, p) {{ {_STORE} }}\n"
_EXP = ("#define exp polytc_exp\n#define sqrt polytc_sqrt\n#define OF(type) static inline type __attribute__((overloadable))\n"
        "OF(float) exp(float x) {{ return {0}(x * 1.44269504f); }}\nOF(float) sqrt(float x) {{ return __builtin_sqrtf(x); }}\n"
        "OF(float4) exp(float4 x) {{ return (float4)(exp(x.s0), exp(x.s1), exp(x.s2), exp(x.s3)); }}\n"
        "OF(float4) sqrt(float4 x) {{ return (float4)(sqrt(x.s0), sqrt(x.s1), sqrt(x.s2), sqrt(x.s3)); }}\n"
        "#define select(a, b, c) ((c) ? (b) : (a))\n#define min(a, b) ((a) < (b) ? (a) : (b))\n"
        "#define max(a, b) ((a) > (b) ? (a) : (b))\n")
_NVIDIA = (_VECTORS + _EXP.format("__nvvm_ex2_approx_f") + _ITEMS.format("local", "__nvvm_read_ptx_sreg_tid_") +
           _ITEMS.format("group", "__nvvm_read_ptx_sreg_ctaid_") + "#define barrier(f) __nvvm_bar_sync(0)\n")
_AMD = (_VECTORS + _EXP.format("__builtin_amdgcn_exp2f") + _ITEMS.format("local", "__builtin_amdgcn_workitem_id_") +
        _ITEMS.format("group", "__builtin_amdgcn_workgroup_id_") +
        '#define barrier(f) __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); __builtin_amdgcn_s_barrier(); '
        '__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup")\n')
"""The functions of OpenCL that every kernel calls, by the compilers' own names."""


@dataclass(frozen=True)
class Resources:
    """What one kernel uses. registers: 32-bit ones of an item; spilled: bytes of an item that do not fit them; local_bytes: of
    a group; occupancy: items in flight on a compute unit, of those that there could be. wide: loads and stores of 16 bytes of
    global memory, instructions in the text."""

    registers: int
    spilled: int
    local_bytes: int
    occupancy: float
    wide: tuple[int, int]


def clang() -> str | None:
    """The compiler, if there is one."""
    return next((found for n in ("clang-22", "clang-21", "clang-20", "clang") if (found := shutil.which(n))), None)


def nvidia(source: Source, architecture: str = "sm_90") -> dict[str, Resources]:
    """Kernel -> what it uses on an NVIDIA GPU. Needs clang and ptxas; raises ValueError with their words if one refuses."""
    flags = ["-target", "nvptx64-nvidia-cuda", "-Xclang", "-target-cpu", "-Xclang", architecture, "-Xclang", "-target-feature",
             "-Xclang", "+ptx80"]
    with tempfile.TemporaryDirectory() as folder:
        _compile(source, flags, _NVIDIA, Path(folder))
        log = _run(["ptxas", f"-arch={architecture}", "-v", f"{folder}/k.s", "-o", f"{folder}/k.cubin"])
        code = (Path(folder) / "k.s").read_text()
    found: dict[str, Resources] = {}
    for launch in source.launches:
        part = log.split(f"Compiling entry function '{launch.entry}'")[1]
        registers, spilled, local = (_number(p, part) for p in (
            r"Used (\d+) registers", r"(\d+) bytes spill stores", r"(\d+) bytes smem"))
        warps = -(-_items(launch.local_size) // 32)
        groups = min(65536 // (-(-registers * 32 // 256) * 256 * warps), 233472 // (local + 1024), 64 // warps, 32)
        own = code.split(f".entry {launch.entry}(")[1].split(".entry ")[0]
        moves = (len(re.findall(rf"\b{what}\.global[.\w:]*\.v(?:4\.\w32|2\.\w64)\s", own)) for what in ("ld", "st"))
        found[launch.entry] = Resources(registers, spilled, local, groups * warps / 64, (next(moves), next(moves)))
    return found


def amd(source: Source, architecture: str = "gfx90a") -> dict[str, Resources]:
    """Kernel -> what it uses on an AMD GPU. Needs clang; raises ValueError with its words if it refuses."""
    flags = ["-target", "amdgcn-amd-amdhsa", f"-mcpu={architecture}", "-nogpulib", "-Rpass-analysis=kernel-resource-usage"]
    with tempfile.TemporaryDirectory() as folder:
        log = _compile(source, flags, _AMD, Path(folder))
        code = (Path(folder) / "k.s").read_text()
    found: dict[str, Resources] = {}
    for launch in source.launches:
        part = log.split(f"Function Name: {launch.entry} ")[1]
        registers, spilled, local, waves = (_number(p, part) for p in (
            r" VGPRs: (\d+)", r"ScratchSize \[bytes/lane\]: (\d+)", r"LDS Size \[bytes/block\]: (\d+)",
            r"Occupancy \[waves/SIMD\]: (\d+)"))
        own = code.split(f"\n{launch.entry}:")[1].split("s_endpgm")[0]
        if called := sorted(set(re.findall(r"(\w+)@rel32@lo", own))):
            raise ValueError(f"error: {launch.entry} calls {', '.join(called)}, whose registers are not known")
        moves = (own.count(f"global_{what}_dwordx4") for what in ("load", "store"))
        found[launch.entry] = Resources(registers, spilled, local, waves / 8, (next(moves), next(moves)))
    return found


CHECKS: dict[str, Callable[[Source], dict[str, Resources]]] = {"nvidia-sm90": nvidia, "amd-gfx90a": amd}
"""Device of machine.DEVICES -> what tells the resources of kernels for it."""

HEAD = f"{'kernel':26}{'groups x items':>22}{'registers':>11}{'spilled':>9}{'local':>8}{'occupancy':>11}{'wide':>6}{'bytes':>7}"
"""Of the lines of `table`."""


def missing(device: str) -> str:
    """The compiler that is not here and that `table` needs; '' if all are."""
    return "clang" if clang() is None else "ptxas" if device.startswith("nvidia") and shutil.which("ptxas") is None else ""


def table(source: Source, device: str) -> list[str]:
    """A line for each kernel under HEAD. wide: loads and stores of 16 bytes in its text. bytes: of the arrays that the kernels
    are given, in those of the program's inputs and outputs: 1 where each is read or written by one kernel and nothing lies
    between.

    Raises TargetError E515 where the device's compiler is not here or refuses.
    """
    if absent := missing(device):
        raise errors.fail("E515", f"{absent} is not here, which says what kernels use on {device}", kind=errors.TargetError,
                          notes=["clang is a package of most systems; ptxas is part of NVIDIA's CUDA toolkit"])
    try:
        found = CHECKS[device](source)
    except ValueError as e:
        raise errors.fail("E515", f"the compiler for {device} refuses '{source.module.name}'", kind=errors.TargetError,
                          notes=[line for line in str(e).splitlines() if "error" in line or "fatal" in line][:4]) from e
    moved = _moved(source)
    lines = []
    for launch, used in zip(source.launches, found.values(), strict=True):
        sizes = zip(launch.global_size, launch.local_size, strict=True)
        groups = "x".join(str(g // n) if isinstance(g, int) else "?" for g, n in sizes)
        items = "x".join(map(str, launch.local_size))
        name = launch.entry.removeprefix("polytc_")
        lines.append(f"{name:26}{f'{groups} x {items}':>22}{used.registers:>11}{used.spilled:>9}"
                     f"{used.local_bytes:>8}{used.occupancy:>11.2f}{'+'.join(map(str, used.wide)):>6}{moved:>7}")
    return lines


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


def _number(pattern: str, text: str) -> int:
    """The first number that the pattern finds, 0 if there is none."""
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


def _items(sizes: tuple[int, ...]) -> int:
    count = 1
    for n in sizes:
        count *= n
    return count
