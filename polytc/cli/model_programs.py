"""The programs that an ONNX model becomes, for the commands that print one program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

import polytc
from polytc.cli.model import fixed_shapes
from polytc.options import REQUESTS, Licence
from polytc.program.program import Program

Kernel = Annotated[str | None, typer.Option(
    "--kernel", metavar="N|NAME", help="Of a model: the number of one of its kernels, or a part of the label of its nodes.")]


def is_model(program: str) -> bool:
    """Is the FILE|TEXT argument an ONNX file?"""
    return program.endswith(".onnx") and Path(program).is_file()


def refuse_for_models(dtype: object, attr: object, scalar: object, schedule: str | None, decisions: object = None,
                      machine: object = None, typical: object = None) -> None:
    """Usage errors for options that only a program in the language has. A schedule by hand is one program's."""
    given = [name for name, value in (("--dtype", dtype), ("--attr", attr), ("--scalar", scalar)) if value]
    if given:
        raise typer.BadParameter(f"{given[0]}: the model says this itself")
    if typical:
        raise typer.BadParameter("--typical is for one program")
    if machine is not None:
        raise typer.BadParameter("--machine is for one program; polytc compile and polytc bench take it for models")
    if decisions is not None:
        raise typer.BadParameter("--decisions FILE is for one program")
    if schedule is not None and schedule not in REQUESTS:
        words = ", ".join(filter(None, REQUESTS))
        raise typer.BadParameter(f"--schedule FILE is for one program; for a model there are {words}")


def chosen(path: str, shapes: Mapping[str, tuple[int, ...]], target: str, licence: Licence, kernel: str | None
           ) -> Sequence[tuple[str, Program]]:
    """What to print of each kernel that was asked for before it, and its program: fused and laid out as they run.

    Raises ModelError for a model that does not compile, BadParameter where no kernel is meant.
    """
    from polytc.graph.tools import listing  # the onnx library is optional and slow to import

    graph = polytc.load_onnx(path)
    found, complete = listing.kernels(graph, fixed_shapes(graph, shapes), target, licence)
    titles = [f"# kernel {k} of {len(found)}: {label}" for k, (label, _) in enumerate(found)]
    if not complete:
        typer.echo("what follows depends on the data, and is compiled in a run", err=True)
    wanted = [(title, program) for k, (title, (label, program)) in enumerate(zip(titles, found, strict=True))
              if kernel is None or kernel == str(k) or not kernel.isdigit() and kernel in label]
    if not wanted:
        raise typer.BadParameter(f"--kernel {kernel}: the model has {len(found)} kernels\n" + "\n".join(titles[:40]))
    return wanted
