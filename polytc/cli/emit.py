"""`polytc emit`: print a stage of the compilation."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import polytc
from polytc.cli import options
from polytc.schedule import automatic

if TYPE_CHECKING:
    from polytc.compiler import Lowered


class Stage(str, Enum):
    """What can be printed, in the order of the pipeline."""

    program = "program"
    rewritten = "rewritten"
    scop = "scop"
    deps = "deps"
    schedule = "schedule"
    loops = "loops"
    source = "source"
    asm = "asm"
    all = "all"


def emit(program: options.Program,
         stage: Annotated[Stage, typer.Option(help="Which stage to print; all: all up to source.")] = Stage.source,
         target: options.Target = "cpu",
         shape: options.OpenShape = None, dtype: options.DType = None, attr: options.Attr = None, scalar: options.Scalar = None,
         algebra: options.Algebra = None, fast: options.Fast = False,
         schedule: Annotated[str | None, typer.Option(metavar="FILE|WORD", help="Or min, smart, max, isl, program.")] = None,
         output: Annotated[Path | None, typer.Option("--output", "-o", help="Write to a file instead.")] = None) -> None:
    """Print a stage of the compilation. No device is needed."""
    text = options.read_text(program)
    arguments: dict[str, Any] = {"shapes": options.open_shapes(shape), "dtypes": options.pairs(dtype, "--dtype"),
                 "attrs": options.values(attr, "--attr"), "scalars": options.values(scalar, "--scalar")}
    if stage is Stage.program:
        printed = str(polytc.build(text, **arguments))
    else:
        recipe = schedule if schedule in automatic.REQUESTS else Path(schedule).read_text(encoding="utf-8")
        printed = _stage(polytc.lower(text, target, **arguments, schedule=recipe, algebra=algebra, fast=fast), stage)
    if output is None:
        print(printed)
    else:
        output.write_text(printed + "\n", encoding="utf-8")


def _stage(lowered: Lowered, stage: Stage) -> str:
    if stage is Stage.asm:
        assembly = getattr(lowered.target, "assembly", None)
        if assembly is None:
            raise typer.BadParameter(f"the target {lowered.target.name!r} has no assembly; --stage source is its last stage")
        return str(assembly(lowered.source))
    how = f"# {lowered.schedule.how}\n" if lowered.schedule.how else ""
    values = {Stage.program: lowered.program, Stage.rewritten: lowered.rewritten, Stage.scop: lowered.scop,
              Stage.deps: lowered.dependences, Stage.schedule: f"{how}{lowered.schedule}", Stage.loops: lowered.loops,
              Stage.source: lowered.source}
    if stage is Stage.all:
        return "\n\n".join(f"# {name.value}\n{value}" for name, value in values.items())
    return str(values[stage])
