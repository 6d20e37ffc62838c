"""`polytc explain`: why the code is as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import polytc
from polytc import compiler
from polytc.cli import options
from polytc.codegen.opencl import static
from polytc.codegen.opencl.target import OpenCLTarget
from polytc.machine import DEVICES
from polytc.schedule import automatic


def explain(program: options.Program, target: options.Target = "cpu",
            shape: options.OpenShape = None, dtype: options.DType = None, attr: options.Attr = None,
            scalar: options.Scalar = None, algebra: options.Algebra = None, fast: options.Fast = False,
            threads: options.Threads = None,
            schedule: Annotated[str | None, typer.Option(metavar="FILE|WORD", help="Or min, smart, max, isl, program.")] = None,
            html: Annotated[Path | None, typer.Option(help="Write one HTML file instead.")] = None,
            roofline: Annotated[bool, typer.Option(help="Measure this machine's two roofs.")] = True) -> None:
    """Say what was decided, what forbade the rest, and what the program costs. No device is needed.

    For nvidia-sm90 and amd-gfx90a: what kernels use there, as clang and ptxas say it.
    """
    if target in static.CHECKS:
        arguments: dict[str, Any] = {"shapes": options.open_shapes(shape), "dtypes": options.pairs(dtype, "--dtype"),
                     "attrs": options.values(attr, "--attr"), "scalars": options.values(scalar, "--scalar")}
        made = polytc.build(options.read_text(program), **arguments)
        lowered = compiler.lower_program(made, OpenCLTarget(DEVICES[target]))
        print("\n".join([static.HEAD, *static.table(lowered.source, target)]))
        return
    recipe = schedule if schedule in automatic.REQUESTS else Path(schedule).read_text(encoding="utf-8")
    found = polytc.explain(options.read_text(program), target, shapes=options.open_shapes(shape),
                           dtypes=options.pairs(dtype, "--dtype"), attrs=options.values(attr, "--attr"),
                           scalars=options.values(scalar, "--scalar"), schedule=recipe, algebra=algebra, fast=fast,
                           threads=threads, roofline=roofline)
    if html is None:
        print(found)
    else:
        found.save(html)
        print(f"wrote {html}")
