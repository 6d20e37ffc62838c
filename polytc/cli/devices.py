"""`polytc devices`: where code can run."""

from __future__ import annotations

from rich.table import Table

from polytc import compiler
from polytc.cli import tables
from polytc.errors import TargetError
from polytc.runtime import devices as opencl


def devices() -> None:
    """List the processor and the OpenCL devices, with what polytc found out about each."""
    machine = compiler.target("cpu").machine
    cpu = Table("CPU", machine.cpu or "unknown", show_header=True)
    cpu.add_row("threads", str(machine.cores))
    cpu.add_row("vector registers", f"{machine.vector_registers} of {machine.vector_bytes * 8} bits")
    cpu.add_row("data caches", ", ".join(f"L{k} {c.bytes >> 10} KiB" for k, c in enumerate(machine.caches, 1)))
    tables.console().print(cpu)
    try:
        found = opencl.describe()
    except TargetError as error:
        print(f"OpenCL: {error}")
        return
    for row in found:
        table = Table("OpenCL", str(row.get("name", "device")))
        for key, value in row.items():
            if key != "name":
                table.add_row(str(key), str(value))
        tables.console().print(table)
