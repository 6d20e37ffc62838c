"""A module as devices of work-groups launch it: its kernels prepared, and what a reader is told of a launch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import TypeVar

from polytc import errors
from polytc.codegen import loops, ndrange, traverse, vector_lanes
from polytc.codegen.passes import host_loops, unrolling, work_group_coarsening, work_items
from polytc.machine import Machine
from polytc.program.extents import Extent
from polytc.targets.ctext import predicated_updates, unroll_hints
from polytc.targets.ctext.library import Library, Part, commented
from polytc.targets.ctext.work_groups import LARGEST_OPEN, GroupWriter

W = TypeVar("W", bound=GroupWriter)


def prepared(module: loops.Module, machine: Machine, lanes: Sequence[int]) -> tuple[loops.Kernel, ...]:
    """The kernels as they are launched. lanes: the widths of vectors that there are."""
    straight = (unrolling.written_out(k.body) if machine.kind == "cpu" else k.body for k in module.kernels)
    narrow = tuple(replace(k, body=vector_lanes.split_wide_vectors(body, max(lanes)))
                   for k, body in zip(module.kernels, straight, strict=True))
    apart = host_loops.split(replace(module, kernels=narrow), host_loops.ANY).kernels
    kernels = tuple(ndrange.prepare(work_items.drop_item_dimensions(work_group_coarsening.coarsen(k, machine))) for k in apart)
    if machine.kind != "gpu":
        return kernels
    return tuple(unroll_hints.mark_short_loops(predicated_updates.predicate(k), machine) for k in kernels)


def check_group(writer: GroupWriter, machine: Machine) -> None:
    """Raises TargetError E505 for a work-group of more items than the machine has."""
    items = prod(writer.ndrange.items)
    if 0 < machine.max_work_group < items:
        raise errors.fail("E505", f"'{writer.entry}' has work-groups of {items} work-items; the machine allows "
                          f"{machine.max_work_group}", kind=errors.TargetError, notes=[
                              "bind loops of fewer iterations to `block`, or name a machine with larger groups (machine=)"])


def written(kernels: Sequence[loops.Kernel], machine: Machine, entry: Callable[[int, loops.Kernel], str],
            writer: Callable[[loops.Kernel, str], W], texts: bool = True) -> list[W]:
    """The texts of kernels as they are launched. entry: the name of a kernel, from its number (from 1) and itself; writer: of a
    kernel and its name; texts: are they written? Raises TargetError E505 for groups larger than the machine's."""
    made = []
    for n, k in enumerate(kernels, 1):
        each = writer(k, entry(n, k))
        check_group(each, machine)
        if texts:
            each.write()
        made.append(each)
    return made


def alignment(writers: Sequence[GroupWriter]) -> int:
    """Bytes that arrays begin at for these kernels; 0: those of their elements."""
    return max((w.places.alignment for w in writers if w.places.needs_alignment), default=0)


def options(module: loops.Module, writers: Sequence[GroupWriter], build: str) -> dict[str, str]:
    """What a source says of its kernels. build: compiler flags."""
    found = {"build": build, "alignment": str(alignment(writers)),
             "local_bytes": str(max((w.local_bytes for w in writers), default=0))}
    if module.sizes:
        found["elements"] = str(LARGEST_OPEN)
    return found | ({"fp64": "yes"} if uses_double(module) else {})


def library(parts: Sequence[Part], written: Callable[[Part], Sequence[GroupWriter]], build: Callable[[loops.Module], str],
            head: Callable[[Sequence[str], bool], Sequence[str]]) -> Library:
    """One text of several modules. written: the kernels of one; build: compiler flags of a module; head: what stands before
    these texts, which may compute with f64."""
    texts, launches, writers = list[str](), [], list[GroupWriter]()
    for part in parts:
        made = written(part)
        launches.append(tuple(w.launch for w in made))
        texts += [commented(part, w.lines, first=n == 0) for n, w in enumerate(made)]
        writers += made
    doubles = any(uses_double(p.module) for p in parts)
    flags = build(loops.Module("all", (), (), (), tuple(k for p in parts for k in p.module.kernels)))
    return Library("\n".join([*head(texts, doubles), *texts]), tuple(launches), {w.entry: w.local_bytes for w in writers},
                   flags, doubles, alignment(writers), {w.entry: w.parameters for w in writers},
                   {w.entry: alignment([w]) for w in writers})


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


def arguments(module: loops.Module, w: GroupWriter) -> list[str]:
    """A line for each argument of a kernel."""
    buffers = {b.name: b for b in (*module.args, *module.scratch)}
    lines = []
    for position, b in enumerate(w.kernel.args):
        shape = "".join(f"[{n}]" for n in buffers[b.name].shape) or " (one element)"
        lines.append(f"  argument {position}: {b.name} {b.dtype}{shape}, {_role(module, w.kernel, buffers[b.name])}")
    numbers = [*(f"the size {n}" for n in w.sizes), *(f"{n} of the loop" for n in w.counters)]
    return lines + [f"  argument {len(w.kernel.args) + k}: {n}, int" for k, n in enumerate(numbers)]


def _role(module: loops.Module, kernel: loops.Kernel, b: loops.Buffer) -> str:
    scratch = any(s.name == b.name for s in module.scratch)
    return ("scratch, " if scratch else "output, " if b.name in module.outputs else "input, ") + (
        "written" if b.name in kernel.writes else "read")


def sizes_text(sizes: tuple[Extent, ...]) -> str:
    """`64 x 8`."""
    return " x ".join(map(str, sizes))
