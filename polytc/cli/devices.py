"""`polytc devices`: where code can run, and what things take there."""

from __future__ import annotations

import os
from operator import attrgetter
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

import polytc
from polytc.cli import tables
from polytc.machine import record_files
from polytc.machine.quantities import quantities
from polytc.targets import registry


def devices(measure: Annotated[bool, typer.Option("--measure", help="Measure what things take, and print it.")] = False,
            target: Annotated[str, typer.Option(help="Measure on cpu, opencl, or opencl:DEVICE.")] = "cpu",
            output: Annotated[Path | None, typer.Option("--output", "-o", dir_okay=False, help=(
                "Write what was measured as a record, which --machine FILE and machine= take."))] = None) -> None:
    """List the processor and the OpenCL devices, with what polytc found out about each."""
    if measure:
        _measure(target, output)
        return
    if output is not None or target != "cpu":
        raise typer.BadParameter("--target and --output are for --measure")
    told = os.environ.get("OCL_ICD_VENDORS")
    rows = polytc.devices()
    for row in rows:
        table = Table(str(row["target"]), str(row["name"]))
        for key, value in row.items():
            if key not in ("target", "name"):
                table.add_row(key, str(value))
        tables.console().print(table)
    found = os.environ.get("OCL_ICD_VENDORS")
    if found != told:
        print(f"Other programs see these OpenCL devices with OCL_ICD_VENDORS={found}")


def _measure(target: str, output: Path | None) -> None:
    """Measure, print a table, and write a record. Raises TargetError where there is no such device."""
    from polytc.measurement import findings, here  # LLVM and the compiler are large

    kind, _, device = target.partition(":")
    if kind not in ("cpu", "opencl") or kind == "cpu" and device:
        raise typer.BadParameter(f"--target {target}: cpu, opencl, or opencl:DEVICE can be measured")
    machine = registry.here(target).machine
    found = here.of_processor(machine) if kind == "cpu" else here.of_device(device)
    made = findings.measured(machine, found, machine.cpu or target)
    units = {q.name: q.unit for q in quantities(machine.costs)} | {"clock": "cycles/second", "fma_latency": "cycles"}
    table = Table("field", "before", "measured", "unit", "by")
    for f in found:
        before = "" if not f.field else _short(attrgetter(f"costs.{f.field}" if "." in f.field else f.field)(machine))
        table.add_row(f.field or "-", before, _short(f.value), f.unit or units.get(f.field, ""), f.how)
    tables.console().print(table)
    if output is not None:
        output.write_text(record_files.write(made), encoding="utf-8")
        print(f"{output}  {len(dict(made.origins))} fields measured; --machine {output} and machine={str(output)!r} take it")


def _short(value: float) -> str:
    return f"{value:.3g}"
