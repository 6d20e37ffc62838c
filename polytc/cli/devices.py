"""`polytc devices`: where code can run."""

from __future__ import annotations

from rich.table import Table

import polytc
from polytc.cli import tables


def devices() -> None:
    """List the processor and the OpenCL devices, with what polytc found out about each."""
    for row in polytc.devices():
        table = Table(str(row["target"]), str(row["name"]))
        for key, value in row.items():
            if key not in ("target", "name"):
                table.add_row(key, str(value))
        tables.console().print(table)
