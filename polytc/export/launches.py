"""What folders for devices say of their launches: in the head comment of the kernels, and in the .json."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import polytc
from polytc.export import formula, variant_text
from polytc.export.bundle import Place
from polytc.export.description import SCHEMA, arguments, rows, weights
from polytc.export.folder import Folder, Task, described, nested, shown
from polytc.machine import DEVICES, Machine
from polytc.targets.ctext.library import Parameter
from polytc.targets.ctext.work_groups import LARGEST_OPEN
from polytc.targets.opencl.counts import Count
from polytc.targets.opencl.estimate import rates_of

_AREAS = {"argument": "argument", "weight": "weight", "value": "buffer", "size": "size", "counter": "counter"}


def _parameter(p: Parameter) -> dict[str, str]:
    return {"name": p.name, "type": p.type, **({"access": p.access} if p.access else {})}


def made_for(machine: Machine) -> str:
    """The name of a machine among DEVICES, for a language that may not reach all that it has."""
    reached = ((name, replace(known, masked=False, matrix_unit=machine.matrix_unit, waiting_groups=machine.waiting_groups))
               for name, known in DEVICES.items())
    return next((name for name, known in reached if known == machine), "another device")


def comment_lines(folder: Folder, how: str, launch: Callable[[Task], str], machine: Machine) -> list[str]:
    """The head comment, from the arguments on. how: launches follow one another; launch: what is said of one behind its
    arguments; machine: that sizes of tiles were chosen for, and by whose model the host chooses among variants."""
    made_for_ = made_for(machine)
    b, made = folder.bundle, folder.library
    many = " for some variants" if b.others else ""
    lines = [f"Arrays begin at multiples of {made.alignment} bytes{many}."] if made.alignment else []
    lines += ["", "Arguments:", *(f"  {described(a)}" for a in b.arguments)]
    lines += [f"  {', '.join(b.sizes)}: int, at least 1; arrays have at most {LARGEST_OPEN:,} elements"] if b.sizes else []
    if not b.others:
        return [*lines, *_launched(folder, how, launch)]
    lines += ["", f"{b.name}_variant tells which of {len(b.variants)} variants runs at given sizes. All compute the same, and "
              "a model of", f"{made_for_} estimates which is the fastest. Kernels *_v0_* are those of variant 0, and so on.",
              *b.about, *_rule(machine)]
    for n, f in enumerate(folder.variants):
        assert f.bundle.model is not None, "each variant has a model"
        lines += ["", f"Variant {n}, {f.bundle.model.reasons[0]}:", *(f"  {x}" for x in f.bundle.model.reasons[1:]),
                  *_launched(f, how, launch)[1:], *_estimated(f)]
    return lines


def _launched(folder: Folder, how: str, launch: Callable[[Task], str]) -> list[str]:
    """The launches, and the memory between them."""
    lines = ["", how]
    for n, t in enumerate(folder.tasks, 1):
        around = "".join(f"{r}: " for r in t.launch.loops)
        lines.append(f"  {n}. {around}{t.launch.entry}({', '.join(shown(folder, t, p) for p in t.places)})  {launch(t)}")
    sizes = [f"  buffer {n}: {size} bytes" for n, size in enumerate(folder.buffers)]
    return lines + (["", "Memory between the kernels, which nothing is expected of before or after:", *sizes] if sizes else [])


def _rule(machine: Machine) -> list[str]:
    """The model in words, with the numbers of a machine."""
    rates = rates_of(machine)
    launch, groups = machine.costs.launches.launch * 1e6, "that its groups move"
    return [f"The estimate is the sum over launches, each of which takes {launch:g} us and the longest of:",
            f"  the bytes of its arrays at {rates.memory / 1e9:g} GB/s; the bytes {groups} at {rates.cache / 1e9:g} GB/s;",
            f"  the multiply-adds of the groups of the busiest of {machine.cores} compute units, {rates.lanes} in a cycle of "
            f"{rates.clock / 1e9:g} GHz;",
            "  their passes over local memory, one in a cycle;",
            f"  {rates.wait * 1e6:g} us for each load that waits, of all groups that a unit holds at once together."]


def _estimated(folder: Folder) -> list[str]:
    """What a group of each launch does."""
    assert folder.bundle.model is not None, "each variant has a model"
    lines = ["A group of each launch, for the estimate:"]
    for n, x in enumerate(folder.bundle.model.launches, 1):
        small = " and ".join(f"{name} <= {most}" for name, most in x.small)
        for where, t in ((f" where {small}", x.near), ("", x.traffic)):
            if t is not None:
                told = ((t.operations, "multiply-adds"), (t.passes, "passes"), (t.moved, "bytes"), (t.waits, "waits"))
                work = ", ".join(f"{_number(c)} {what}" for c, what in told)
                lines.append(f"  {n}.{where} {work}; {x.resident} at once on a unit")
    return lines


def _number(n: float) -> str:
    return str(n) if isinstance(n, Count) else f"{n:g}"


def description(folder: Folder, machine: Machine, file: str, launch: Callable[[Task], dict[str, object]]) -> str:
    """The .json. machine: for which sizes of tiles were chosen; file: of the kernels; launch: what is said of one behind its
    arguments. What is not fixed is a formula of the sizes in Python, and of the variables of the loops around."""
    b, made = folder.bundle, folder.library
    found = {
        "schema": SCHEMA, "name": b.name, "generator": f"polytc {polytc.__version__}", "made_for": made_for(machine),
        "source": file, "build_options": made.build,
        "requires": {"fp64": made.doubles, "local_bytes": folder.largest_local, "work_group": folder.largest_group,
                     "alignment": made.alignment, **({"elements": LARGEST_OPEN} if b.sizes else {})},
        "sizes": b.titles,
        **({"limits": [formula.limit(form) for form in b.limits]} if b.limits else {}),
        "arguments": arguments(b),
        "weights": weights(b),
        "kernels": [{"name": entry, "parameters": [_parameter(p) for p in made.parameters[entry]]}
                    for entry in dict.fromkeys(t.launch.entry for t in folder.all_tasks)],
        **(_variants(folder, machine, launch) if b.others else _plan(folder, launch)),
        "copies": [{"from": _place(folder, c.source), "to": {"argument": c.target}, "bytes": c.bytes} for c in b.copies],
    }
    return rows(found) + "\n"


def _variants(folder: Folder, machine: Machine, launch: Callable[[Task], dict[str, object]]) -> dict[str, object]:
    """The variants, each with its launches and its estimate, and the numbers of the model that chooses among them."""
    return {"chosen": list(folder.bundle.about), "model": variant_text.described(machine),
            "variants": [{**_plan(f, launch), **variant_text.row(f)} for f in folder.variants]}


def _plan(folder: Folder, launch: Callable[[Task], dict[str, object]]) -> dict[str, object]:
    """The launches, and the buffers between them."""
    b = folder.bundle

    def listed(tasks: Sequence[Task], depth: int) -> list[dict[str, object]]:
        """Launches, and loops of launches."""
        rows: list[dict[str, object]] = []
        for repeat, run in nested(tasks, depth):
            if repeat is not None:
                rows.append({"for": repeat.var, "lower": formula.row(repeat.lower), "upper": formula.row(repeat.upper),
                             "step": repeat.step, "launches": listed(run, depth + 1)})
                continue
            rows += [{"kernel": t.launch.entry, "arguments": [_place(folder, p) for p in t.places], **launch(t)} for t in run]
        return rows
    scratch = b.units[0].lowered.source.module.scratch if b.sizes else ()
    return {**({"parts": [[p.name, p.size, p.divisor] for p in b.parts]} if b.parts else {}),
            **({"products": formula.rows_of_products(b)} if b.products else {}),
            "buffers": formula.rows(folder.buffers),
            **({"buffer_element_bytes": [x.dtype.bytes for x in scratch]} if b.sizes else {}),
            "launches": listed(folder.tasks, 0)}


def _place(folder: Folder, p: Place) -> dict[str, int]:
    return {_AREAS[p.area]: folder.number(p)}
