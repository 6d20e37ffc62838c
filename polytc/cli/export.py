"""`polytc export`: a program or an ONNX model as source text with host code."""

from __future__ import annotations

import sys
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

import polytc
from polytc.arguments import check_machine
from polytc.cli import options
from polytc.cli.model import fixed_shapes, progress
from polytc.cli.model_programs import refuse_for_models
from polytc.codegen.target import Target
from polytc.export import bundle, c_host, cuda, opencl
from polytc.export.bundle import Bundle
from polytc.export.variants import of_program
from polytc.graph import ahead
from polytc.machine import DEVICES
from polytc.options import Licence, check_licence
from polytc.targets import registry


class Language(str, Enum):
    """What can be exported."""

    opencl = "opencl"
    cuda = "cuda"
    hip = "hip"
    c = "c"


def export(language: Language, what: Annotated[str, typer.Argument(
               metavar="TEXT|FILE|MODEL.onnx", help="A program, a file with one, - for standard input, or a model.")],
           output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write, made if it is not there.")],
           name: Annotated[str, typer.Option(help="Of the files and functions; else the program's or the model's.")] = "",
           shape: options.ImpliedShape = None, typical: options.TypicalPoints = None,
           variants: options.Variants = None, dtype: options.DType = None,
           attr: options.Attr = None, scalar: options.Scalar = None,
           algebra: options.Algebra = None, fast: options.Fast = False,
           schedule: Annotated[Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False,
                                                         help="What Recipe.save wrote.")] = None,
           machine: Annotated[str | None, typer.Option(
               metavar="FILE|NAME", help="A record of a machine, or " + ", ".join(DEVICES) + ".")] = None) -> None:
    """Write kernels as readable source with host code. No device is needed."""
    target = _target(language, machine)
    if what.endswith(".onnx"):
        refuse_for_models(None, None, None, str(schedule) if schedule is not None else None, typical=typical)
        if variants is not None:
            raise typer.BadParameter("--variants is for one program")
        made = _model(Path(what), target, name, options.shapes(shape), check_licence(algebra, fast))
    else:
        text = options.read_text(what)
        recipe = schedule.read_text(encoding="utf-8") if schedule is not None else None
        made = _program(text, target, name, check_licence(algebra, fast), recipe, variants, options.points(typical),
                        shapes=options.shapes_of(text, shape),
                        dtypes=options.pairs(dtype, "--dtype"),
                        attrs=options.values(attr, "--attr"), scalars=options.values(scalar, "--scalar"))
    written = _written(language, made, target, output)
    for path in written:
        print(f"{path}  {path.stat().st_size:,} bytes")
    if made.others:
        print(f"{len(made.variants)} variants, chosen in {made.spent:.1f} s")
        print("\n".join(made.about))
    for warning in (*made.starving, *made.too_large):
        print(f"warning: {warning}", file=sys.stderr)


def _written(language: Language, made: Bundle, target: Target, output: Path) -> list[Path]:
    """The files of a folder."""
    match language:
        case Language.opencl:
            return opencl.write(made, target.machine, output)
        case Language.cuda:
            return cuda.write(made, target.machine, output)
        case Language.hip:
            return cuda.write(made, target.machine, output, cuda.HIP)
    return c_host.write(made, output)


def _target(language: Language, machine: str | None) -> Target:
    """The target, for a machine if one is named."""
    if machine is not None and machine not in DEVICES and not Path(machine).is_file():
        raise typer.BadParameter(f"--machine {machine}: no file, and the described devices are {', '.join(DEVICES)}")
    if language is Language.hip:  # the same kernels, made for a device of AMD
        found = registry.target(check_machine("cuda", machine or "amd-gfx90a"))
        return registry.target(check_machine("cuda", replace(found.machine, matrix_unit=None)))
    return registry.target(check_machine(language.value, machine))


def _program(text: str, target: Target, name: str, licence: Licence, schedule: str | None, variants: int | None,
             typical: list[dict[str, Any]], **arguments: Any) -> Bundle:
    program = polytc.build(text, typical=typical[0] if typical else None, **arguments).licensed(licence)
    return of_program(program, target, name, schedule, variants, typical)


def _model(path: Path, target: Target, name: str, shapes: dict[str, tuple[int, ...]], licence: Licence) -> Bundle:
    graph = polytc.load_onnx(path)
    with progress(f"compiling {path.name}") as advance:
        plan = ahead.plan_of(graph, fixed_shapes(graph, shapes), guards=False)
        return bundle.of_plan(plan, target, name or path.stem, licence=licence, progress=advance)
