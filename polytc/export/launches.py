"""What folders for devices say of their launches: in the head comment of the kernels, and in the .json."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import polytc
from polytc.export import formula
from polytc.export.bundle import Place
from polytc.export.description import SCHEMA, arguments, rows, weights
from polytc.export.folder import Folder, Task, described, nested, shown
from polytc.machine import DEVICES, Machine
from polytc.targets.ctext.library import Parameter
from polytc.targets.ctext.work_groups import LARGEST_OPEN

_AREAS = {"argument": "argument", "weight": "weight", "value": "buffer", "size": "size", "counter": "counter"}


def _parameter(p: Parameter) -> dict[str, str]:
    return {"name": p.name, "type": p.type, **({"access": p.access} if p.access else {})}


def made_for(machine: Machine) -> str:
    """The name of a machine among DEVICES, for a language that may not reach all that it has."""
    reached = ((name, replace(known, masked=False, matrix_unit=machine.matrix_unit)) for name, known in DEVICES.items())
    return next((name for name, known in reached if known == machine), "another device")


def comment_lines(folder: Folder, how: str, launch: Callable[[Task], str]) -> list[str]:
    """The head comment, from the arguments on. how: launches follow one another; launch: what is said of one behind its
    arguments."""
    b, made = folder.bundle, folder.library
    lines = [f"Arrays begin at multiples of {made.alignment} bytes."] if made.alignment else []
    lines += ["", "Arguments:", *(f"  {described(a)}" for a in b.arguments)]
    lines += [f"  {', '.join(b.sizes)}: int, at least 1; arrays have at most {LARGEST_OPEN:,} elements"] if b.sizes else []
    lines += ["", how]
    for n, t in enumerate(folder.tasks, 1):
        around = "".join(f"{r}: " for r in t.launch.loops)
        lines.append(f"  {n}. {around}{t.launch.entry}({', '.join(shown(folder, t, p) for p in t.places)})  {launch(t)}")
    sizes = [f"  buffer {n}: {size} bytes" for n, size in enumerate(folder.buffers)]
    return lines + (["", "Memory between the kernels, which nothing is expected of before or after:", *sizes] if sizes else [])


def description(folder: Folder, machine: str, file: str, launch: Callable[[Task], dict[str, object]]) -> str:
    """The .json. machine: for which sizes of tiles were chosen; file: of the kernels; launch: what is said of one behind its
    arguments. What is not fixed is a formula of the sizes in Python, and of the variables of the loops around."""
    b, made = folder.bundle, folder.library

    def place(p: Place) -> dict[str, int]:
        return {_AREAS[p.area]: folder.number(p)}

    def listed(tasks: Sequence[Task], depth: int) -> list[dict[str, object]]:
        """Launches, and loops of launches."""
        rows: list[dict[str, object]] = []
        for repeat, run in nested(tasks, depth):
            if repeat is not None:
                rows.append({"for": repeat.var, "lower": formula.row(repeat.lower), "upper": formula.row(repeat.upper),
                             "step": repeat.step, "launches": listed(run, depth + 1)})
                continue
            rows += [{"kernel": t.launch.entry, "arguments": [place(p) for p in t.places], **launch(t)} for t in run]
        return rows

    found = {
        "schema": SCHEMA, "name": b.name, "generator": f"polytc {polytc.__version__}", "made_for": machine, "source": file,
        "build_options": made.build,
        "requires": {"fp64": made.doubles, "local_bytes": folder.largest_local, "work_group": folder.largest_group,
                     "alignment": made.alignment, **({"elements": LARGEST_OPEN} if b.sizes else {})},
        "sizes": b.units[0].lowered.program.sizes if b.sizes else (),
        **({"products": formula.rows_of_products(b)} if b.products else {}),
        **({"limits": [formula.limit(form) for form in b.limits]} if b.limits else {}),
        "arguments": arguments(b),
        "weights": weights(b),
        "kernels": [{"name": entry, "parameters": [_parameter(p) for p in made.parameters[entry]]}
                    for entry in dict.fromkeys(t.launch.entry for t in folder.tasks)],
        "buffers": formula.rows(folder.buffers),
        **({"buffer_element_bytes": [x.dtype.bytes for x in b.units[0].lowered.source.module.scratch]} if b.sizes else {}),
        "launches": listed(folder.tasks, 0),
        "copies": [{"from": place(c.source), "to": {"argument": c.target}, "bytes": c.bytes} for c in b.copies],
    }
    return rows(found) + "\n"
