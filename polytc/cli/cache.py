"""`polytc cache`: the disk cache of compiled code and of copies of weights."""

from __future__ import annotations

import typer
from rich.table import Table

from polytc.cli import tables
from polytc.disk import cache as store
from polytc.disk import weights

app = typer.Typer(help="The disk cache of compiled code.", no_args_is_help=True)


@app.command()
def info() -> None:
    """Say where the cache is, and what lies in it."""
    found = store.info()
    if found.folder is None:
        print("the cache is off")
        return
    table = Table("folder", str(found.folder))
    table.add_row("entries", str(found.entries))
    table.add_row("size", f"{found.bytes / 1e6:.1f} MB of at most {found.limit / 1e6:.0f} MB")
    copies, size = weights.info()
    table.add_row("weights", f"{copies} copies, {size / 1e6:.1f} MB of at most {weights.limit() / 1e6:.0f} MB")
    if found.problem:
        table.add_row("not used", found.problem)
    tables.console().print(table)


@app.command()
def clear() -> None:
    """Remove all that lies in the cache."""
    print(f"entries removed: {store.clear() + weights.clear()}")
