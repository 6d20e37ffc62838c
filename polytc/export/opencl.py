"""A bundle as an OpenCL folder.

    NAME.cl  NAME.json  NAME.c NAME.h NAME_cl.h main.c CMakeLists.txt  NAME.py  NAME.weights (of a model)

The kernels are the .cl; the .json says all that a host must know; the C and the Python host are two that do.
"""

from __future__ import annotations

from pathlib import Path

import polytc
from polytc.codegen import weight_file
from polytc.export import formula, launches, opencl_builds, opencl_host, opencl_main, python_host
from polytc.export.bundle import Bundle
from polytc.export.folder import Folder, Task, prepare
from polytc.export.templates import cmake
from polytc.machine import Machine
from polytc.targets.ctext.launched import sizes_text
from polytc.targets.ctext.text import comment
from polytc.targets.opencl.library import library


def write(bundle: Bundle, machine: Machine, to: Path) -> list[Path]:
    """Write the folder, which is made if it is not there; the files, in the order of the list above."""
    folder = prepare(bundle, lambda parts: library(parts, machine))
    name = bundle.name
    made_for = launches.made_for(machine)
    kernels = source(folder, machine)
    texts = {f"{name}.cl": kernels, f"{name}.json": description(folder, machine),
             f"{name}.h": opencl_host.header(folder, made_for), f"{name}.c": opencl_host.code(folder, machine, made_for),
             f"{name}_cl.h": opencl_builds.embedded(name, kernels),
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


def source(folder: Folder, machine: Machine) -> str:
    """The .cl: a head comment with all that calling the kernels takes, and the kernels."""
    b, made = folder.bundle, folder.library

    def launch(t: Task) -> str:
        return (f"{sizes_text(t.launch.global_size)} / {sizes_text(t.launch.local_size)}, "
                f"{made.local_bytes[t.launch.entry]} bytes")
    how = "Launches, one after another in one in-order queue (global size / local size, local memory):"
    lines = [f"{b.name}: OpenCL C 1.2 by polytc {polytc.__version__}; build options: {made.build}",
             "Arrays are row-major without padding; half holds f16, ushort bf16, uchar bool as 0 or 1.",
             *launches.comment_lines(folder, how, launch, machine)]
    return comment(lines) + "\n" + made.text


def description(folder: Folder, machine: Machine) -> str:
    """The .json. Global and local sizes in work-items, axis 0 first."""
    def launch(t: Task) -> dict[str, object]:
        return {"global": formula.rows(t.launch.global_size), "local": t.launch.local_size,
                "local_bytes": folder.library.local_bytes[t.launch.entry]}
    return launches.description(folder, machine, f"{folder.bundle.name}.cl", launch)
