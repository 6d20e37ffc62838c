"""The command line: `polytc emit | explain | run | compile | export | verify | bench | devices | cache`."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

import polytc
from polytc.cli import bench, cache, devices, emit, explain, export, model, run, verify
from polytc.errors import PolytcError

app = typer.Typer(name="polytc", no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False,
                  help="A polyhedral compiler for tensor expressions and ONNX models.")
app.command("emit")(emit.emit)
app.command("explain")(explain.explain)
app.command("run")(run.run)
app.command("compile")(model.compile_model)
app.command("export")(export.export)
app.command("verify")(verify.verify)
app.command("bench")(bench.bench)
app.command("devices")(devices.devices)
app.add_typer(cache.app, name="cache")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"polytc {polytc.__version__}")
        raise typer.Exit()


@app.callback()
def _options(version: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_print_version,
                                                   is_eager=True)] = False) -> None:
    pass


def main() -> None:
    """Entry point. Exit codes: 0 done, 1 refused (the diagnostic is printed), 2 wrong usage, 130 interrupted."""
    try:
        app()
    except PolytcError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except MemoryError as error:
        sys.stderr.write(f"polytc: there is not enough memory: {error}\n")
        sys.exit(1)
    except BrokenPipeError:
        # The reader of our output went away, as `head` does; the rest of the output has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        sys.stderr.write(f"polytc: {error}\n")
        sys.exit(1)
