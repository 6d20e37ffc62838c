"""`polytc explain`: why the code is as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import polytc
from polytc import compiler
from polytc.cli import options
from polytc.cli.model_programs import Kernel, chosen, is_model, refuse_for_models
from polytc.explanation import Explanation
from polytc.explanation import explain as explained
from polytc.machine import DEVICES
from polytc.native.threads import default_threads
from polytc.options import REQUESTS, check_licence
from polytc.targets.opencl import kernel_table


def explain(program: options.Source, target: options.Target = "cpu",
            shape: options.ImpliedShape = None, dtype: options.DType = None, attr: options.Attr = None,
            scalar: options.Scalar = None, typical: options.Typical = None,
            algebra: options.Algebra = None, fast: options.Fast = False, threads: options.Threads = None,
            schedule: Annotated[str | None, typer.Option(metavar="FILE|WORD", help="Or min, smart, max, isl, program.")] = None,
            decisions: options.Decisions = None, machine: options.Machine = None,
            kernel: Kernel = None,
            html: Annotated[Path | None, typer.Option(help="Write one HTML file instead.")] = None,
            roofline: Annotated[bool, typer.Option(help="Measure this machine's two roofs.")] = True) -> None:
    """Say what was decided, what forbade the rest, and what the program costs. No device is needed.

    For a described device, --target nvidia-sm90: what kernels use and take there, as clang and ptxas say it, and by a model.
    """
    if is_model(program):
        if html is not None or target in DEVICES:
            raise typer.BadParameter("of a model explain prints text, for targets that run here")
        refuse_for_models(dtype, attr, scalar, schedule, decisions, machine, typical)
        for title, of_kernel in chosen(program, options.shapes(shape), target, check_licence(algebra, fast), kernel):
            lowered = compiler.lower_program(of_kernel, target, schedule)
            cores = threads or default_threads(lowered.target.machine.cores)
            print(f"{title}\n{explained(lowered, cores, roofline)}\n")
        return
    text = options.read_text(program)
    device = target if target in DEVICES else None
    target, machine = options.target_and_machine(target, machine)
    if device is not None and target in DEVICES:
        raise typer.BadParameter(f"--target {device} is a machine already")
    recipe = schedule if schedule in REQUESTS else Path(schedule).read_text(encoding="utf-8")
    found = polytc.explain(text, target, shapes=options.shapes_of(text, shape), typical=options.values(typical, "--typical"),
                           dtypes=options.pairs(dtype, "--dtype"), attrs=options.values(attr, "--attr"),
                           scalars=options.values(scalar, "--scalar"), schedule=recipe, algebra=algebra, fast=fast,
                           decisions=decisions.read_text(encoding="utf-8") if decisions is not None else None,
                           threads=threads, machine=machine, roofline=roofline)
    if html is None and device is not None:
        print("\n".join([kernel_table.HEAD, *_used(found, device), *(f"warning: {x}" for x in found.warnings)]))
    elif html is None:
        print(found)
    else:
        found.save(html)
        print(f"wrote {html}")


def _used(found: Explanation, device: str) -> list[str]:
    """The lines of kernel_table.table."""
    lowered = found.report.lowered
    return kernel_table.table(lowered.source, device, tensors=lowered.rewritten.tensors)
