"""A bundle as an OpenCL folder.

    NAME.cl  NAME.json  NAME.c NAME.h main.c CMakeLists.txt  NAME.py  NAME.weights (of a model)

The kernels are the .cl; the .json says all that a host must know; the C and the Python host are two that do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polytc
from polytc.codegen import weight_file
from polytc.export import formula, opencl_host, opencl_main, python_host
from polytc.export.bundle import Bundle, Place
from polytc.export.description import arguments, rows, weights
from polytc.export.folder import Folder, Task, described, nested, prepare, shown
from polytc.export.templates import cmake
from polytc.machine import DEVICES, Machine
from polytc.program.extents import Extent
from polytc.targets.ctext.text import comment
from polytc.targets.ctext.work_groups import LARGEST_OPEN
from polytc.targets.opencl.library import library


def write(bundle: Bundle, machine: Machine, to: Path) -> list[Path]:
    """Write the folder, which is made if it is not there; the files, in the order of the list above."""
    folder = prepare(bundle, lambda parts: library(parts, machine))
    name = bundle.name
    texts = {f"{name}.cl": source(folder), f"{name}.json": description(folder, made_for(machine)),
             f"{name}.h": opencl_host.header(folder), f"{name}.c": opencl_host.code(folder),
             "main.c": opencl_host.main(folder), "CMakeLists.txt": cmake(name, opencl_main.FIND, opencl_main.LINK),
             f"{name}.py": python_host.TEXT}
    to.mkdir(parents=True, exist_ok=True)
    written = []
    for file, text in texts.items():
        (to / file).write_text(text, encoding="ascii")
        written.append(to / file)
    if bundle.weights:
        written.append(weight_file.write(bundle.weights, to / f"{name}.weights"))
    return written


def source(folder: Folder) -> str:
    """The .cl: a head comment with all that calling the kernels takes, and the kernels."""
    b, made = folder.bundle, folder.library
    lines = [f"{b.name}: OpenCL C 1.2 by polytc {polytc.__version__}; build options: {made.build}",
             "Arrays are row-major without padding; half holds f16, ushort bf16, uchar bool as 0 or 1."]
    lines += [f"Arrays begin at multiples of {made.alignment} bytes."] if made.alignment else []
    lines += ["", "Arguments:", *(f"  {described(a)}" for a in b.arguments)]
    lines += [f"  {', '.join(b.sizes)}: int, at least 1; arrays have at most {LARGEST_OPEN:,} elements"] if b.sizes else []
    lines += ["", "Launches, one after another in one in-order queue (global size / local size, local memory):"]
    for n, t in enumerate(folder.tasks, 1):
        local = made.local_bytes[t.launch.entry]
        around = "".join(f"{r}: " for r in t.launch.loops)
        lines.append(f"  {n}. {around}{t.launch.entry}({', '.join(shown(folder, t, p) for p in t.places)})  "
                     f"{_sizes(t.launch.global_size)} / {_sizes(t.launch.local_size)}, {local} bytes")
    sizes = [f"  buffer {n}: {size} bytes" for n, size in enumerate(folder.buffers)]
    lines += ["", "Memory between the kernels, which nothing is expected of before or after:", *sizes] if sizes else []
    return comment(lines) + "\n" + made.text


def _sizes(sizes: tuple[Extent, ...]) -> str:
    return " x ".join(map(str, sizes))


_AREAS = {"argument": "argument", "weight": "weight", "value": "buffer", "size": "size", "counter": "counter"}


def made_for(machine: Machine) -> str:
    """The name of a machine among DEVICES."""
    return next((name for name, known in DEVICES.items() if replace(known, masked=False) == machine), "another device")


def description(folder: Folder, machine: str) -> str:
    """The .json. machine: for which sizes of tiles were chosen. Global and local sizes in work-items, axis 0 first;
    what is not fixed is a formula of the sizes in Python, and of the variables of the loops around."""
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
            rows += [{"kernel": t.launch.entry, "arguments": [place(p) for p in t.places],
                      "global": formula.rows(t.launch.global_size), "local": t.launch.local_size,
                      "local_bytes": made.local_bytes[t.launch.entry]} for t in run]
        return rows

    found = {
        "name": b.name, "generator": f"polytc {polytc.__version__}", "made_for": machine, "source": f"{b.name}.cl",
        "build_options": made.build,
        "requires": {"fp64": made.doubles, "local_bytes": folder.largest_local, "work_group": folder.largest_group,
                     "alignment": made.alignment, **({"elements": LARGEST_OPEN} if b.sizes else {})},
        "sizes": b.units[0].lowered.program.sizes if b.sizes else (),
        "arguments": arguments(b),
        "weights": weights(b),
        "buffers": formula.rows(folder.buffers),
        **({"buffer_element_bytes": [x.dtype.bytes for x in b.units[0].lowered.source.module.scratch]} if b.sizes else {}),
        "launches": listed(folder.tasks, 0),
        "copies": [{"from": place(c.source), "to": {"argument": c.target}, "bytes": c.bytes} for c in b.copies],
    }
    return rows(found) + "\n"
