"""`polytc devices`: where code can run."""

from __future__ import annotations

import os

from rich.table import Table

import polytc
from polytc.cli import tables


def devices() -> None:
    """List the processor and the OpenCL devices, with what polytc found out about each."""
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
