"""Loop AST module -> one self-contained OpenCL C 1.2 text with all its kernels, without any device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod

from polytc import errors
from polytc.codegen import loops, ndrange, traverse, vector_lanes
from polytc.codegen.emitter import identifier
from polytc.codegen.passes import host_loops, unroll_hints, unrolling, work_group_coarsening, work_items
from polytc.codegen.target import Source
from polytc.machine import ALIGNMENT, GENERIC_GPU, Machine
from polytc.program.extents import Extent
from polytc.targets.ctext.preamble import Preamble
from polytc.targets.ctext.text import comment
from polytc.targets.opencl import types, workarounds
from polytc.targets.opencl.kernel import LARGEST_OPEN, KernelWriter
from polytc.targets.opencl.language import OPENCL

GENERATOR = "polytc OpenCL emitter 3"
"""Changes whenever the same Loop AST gives another text: part of the header, and of the cache key through it."""
DOUBLES = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"


def emit(module: loops.Module, machine: Machine = GENERIC_GPU) -> Source:
    """The source of a module. options: 'build' (compiler flags), 'fp64' if the kernels need doubles, 'local_bytes' (the most
    that a work-group uses), 'alignment' (bytes that the address of each array is a multiple of; 0: that of its elements),
    'elements' of the largest array that kernels of open sizes may be used for.

    Sizes that are not fixed are arguments of the kernels, of type int, behind the arrays; NDRanges are formulas of them.

    Raises TargetError E505 for work-groups larger than the machine's, E510 or E511 where loops do not fit an NDRange, E512 or
    E513 for what OpenCL C does not have.
    """
    preamble = Preamble(OPENCL)
    prepared, writers = written(module, machine, preamble, lambda n, k: identifier(f"polytc_{module.name}_{k.name}"))
    alignment = ALIGNMENT if any(w.places.needs_alignment for w in writers) else 0
    options = {"build": build_options(module, machine.faults), "alignment": str(alignment),
               "local_bytes": str(max((w.local_bytes for w in writers), default=0))}
    if module.sizes:
        options["elements"] = str(LARGEST_OPEN)
    parts = [_header(module, writers, options["build"], alignment)]
    if uses_double(module):
        options["fp64"] = "yes"
        parts.append(DOUBLES)
    parts += [str(preamble)] if str(preamble) else []
    parts += ["\n".join(w.lines) + "\n" for w in writers]
    return Source("opencl", "\n".join(parts), tuple(w.launch for w in writers), prepared, options)


def written(module: loops.Module, machine: Machine, preamble: Preamble, entry: Callable[[int, loops.Kernel], str],
            notes: Mapping[str, str] | None = None) -> tuple[loops.Module, list[KernelWriter]]:
    """The module as it is launched, and its kernels' texts. entry: the name of a kernel, from its number (from 1) and itself.
    notes: see KernelWriter. What they need is added to the preamble."""
    straight = (unrolling.written_out(k.body) if machine.kind == "cpu" else k.body for k in module.kernels)
    narrow = tuple(replace(k, body=vector_lanes.split_wide_vectors(body, max(types.LANES)))
                   for k, body in zip(module.kernels, straight, strict=True))
    apart = host_loops.split(replace(module, kernels=narrow), host_loops.ANY).kernels
    kernels = tuple(ndrange.prepare(work_items.drop_item_dimensions(work_group_coarsening.coarsen(k, machine))) for k in apart)
    kernels = tuple(map(unroll_hints.mark_short_loops, kernels)) if machine.kind == "gpu" else kernels
    kernels = tuple(workarounds.work_around(k, machine.faults) for k in kernels) if machine.faults else kernels
    writers = []
    for n, k in enumerate(kernels, 1):
        writer = KernelWriter(k, entry(n, k), preamble, machine, module.sizes, notes)
        _check_group(writer, machine)
        writer.write()
        writers.append(writer)
    return replace(module, kernels=kernels), writers


def _check_group(writer: KernelWriter, machine: Machine) -> None:
    """Raises E505 for a work-group of more items than the machine has."""
    items = prod(writer.ndrange.items)
    if 0 < machine.max_work_group < items:
        raise errors.fail("E505", f"'{writer.entry}' has work-groups of {items} work-items; the machine allows "
                          f"{machine.max_work_group}", kind=errors.TargetError, notes=[
                              "bind loops of fewer iterations to `block`, or name a machine with larger groups (machine=)"])


def build_options(module: loops.Module, faults: frozenset[str] = frozenset()) -> str:
    """Compiler flags. Never -cl-fast-relaxed-math, whose functions are wrong by thousands of units in the last place, and
    -cl-mad-enable, whose products may lose digits, only for fast kernels: a product and a sum may be one without it. What
    builds the kernels adds a flag where the device can round quotients and roots (driver/rounding.py).

    Precise kernels are built without optimisation: Intel's runtime for CPUs reassociates sums in loops else, whatever the
    flags and pragmas say.
    """
    if any(k.precise for k in module.kernels):
        return f"-cl-std=CL1.2 {workarounds.WITHOUT_OPTIMISATION}"
    loose = "-cl-mad-enable" if module.kernels and all(k.fast for k in module.kernels) else ""
    return " ".join(f for f in ("-cl-std=CL1.2", loose, workarounds.options(module, faults)) if f)


def uses_double(module: loops.Module) -> bool:
    """Do its kernels compute with f64, or have arrays of it?"""
    buffers = [*module.args, *module.scratch]
    for k in module.kernels:
        for s in traverse.walk_stmt(k.body):
            if isinstance(s, loops.Alloc):
                buffers.append(s.buffer)
            if any(e.dtype.name == "f64" for top in traverse.expressions(s) for e in traverse.walk_expr(top)):
                return True
    return any(b.dtype.name == "f64" for b in buffers)


def _header(module: loops.Module, writers: list[KernelWriter], build: str, alignment: int) -> str:
    """The comment that tells a reader how to call the kernels."""
    lines = [f"{module.name}: generated by {GENERATOR}; build options: {build}",
             "Arrays are row-major; half holds f16, uchar holds bool as 0 or 1."]
    lines += [f"Arrays begin at multiples of {alignment} bytes."] if alignment else []
    buffers = {b.name: b for b in (*module.args, *module.scratch)}
    for number, w in enumerate(writers, 1):
        lines += ["", f"launch {number}: {''.join(f'{r}, ' for r in w.repeats)}{w.entry}, "
                      f"global size {_sizes(w.ndrange.global_size)}, "
                      f"local size {_sizes(w.ndrange.local_size)}, local memory {w.local_bytes} bytes"]
        for position, b in enumerate(w.kernel.args):
            shape = "".join(f"[{n}]" for n in buffers[b.name].shape) or " (one element)"
            lines.append(f"  argument {position}: {b.name} {b.dtype}{shape}, {_role(module, w.kernel, buffers[b.name])}")
        numbers = [*(f"the size {n}" for n in w.sizes), *(f"{n} of the loop" for n in w.counters)]
        lines += [f"  argument {len(w.kernel.args) + k}: {n}, int" for k, n in enumerate(numbers)]
    return comment(lines)


def _role(module: loops.Module, kernel: loops.Kernel, b: loops.Buffer) -> str:
    scratch = any(s.name == b.name for s in module.scratch)
    return ("scratch, " if scratch else "output, " if b.name in module.outputs else "input, ") + (
        "written" if b.name in kernel.writes else "read")


def _sizes(sizes: tuple[Extent, ...]) -> str:
    return " x ".join(map(str, sizes))
