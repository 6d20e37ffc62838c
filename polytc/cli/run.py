"""`polytc run`: run a program on arrays from files or on random ones."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

import polytc
from polytc import arguments as checks
from polytc.cli import inputs, options, tables
from polytc.graph.comparison import allowed_error, largest_error

if TYPE_CHECKING:
    from polytc import Op

Input = Annotated[list[str] | None, typer.Option("--input", "-i", metavar="FILE.npz|NAME=FILE.npy", help="Arrays.")]
Seed = Annotated[int, typer.Option("--random", metavar="SEED", help="Inputs without an array are random, from this seed.")]


def run(program: options.Program, input: Input = None, random: Seed = 0,
        target: options.Target = "cpu", threads: options.Threads = None,
        shape: options.OpenShape = None, size: options.Size = None, dtype: options.DType = None,
        attr: options.Attr = None, scalar: options.Scalar = None, algebra: options.Algebra = None, fast: options.Fast = False,
        machine: options.Machine = None,
        output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the results to this .npz or .npy.")] = None,
        check: Annotated[bool, typer.Option("--check", help="Compare with the reference evaluator.")] = False) -> None:
    """Run a program on arrays from files, or on random ones of the shapes given."""
    op, arrays = prepare(options.read_text(program), input, random, target, threads, shape, size, dtype, attr, scalar, algebra,
                         fast, machine)
    start = time.perf_counter()
    results = named(op, op(**arrays))
    first = time.perf_counter() - start
    if output is not None:
        inputs.save(output, results)
    tables.print_arrays(results)
    print(f"compiled and ran on {target} in {first * 1e3:.1f} ms")
    if check and not _check(op, arrays, results, options.values(attr, "--attr"), options.values(scalar, "--scalar")):
        raise typer.Exit(1)


def prepare(text: str, files: list[str] | None, seed: int, target: str, threads: int | None, shape: list[str] | None,
            size: list[str] | None, dtype: list[str] | None, attr: list[str] | None, scalar: list[str] | None,
            algebra: str | None = None, fast: bool = False, machine: str | None = None
            ) -> tuple[Op, dict[str, Any]]:
    """The operator, with the sizes open that the shapes name, and an array for each of its inputs."""
    given = options.open_shapes(shape)
    named = {n: s for n, s in given.items() if any(isinstance(d, str) for d in s)}
    types = options.pairs(dtype, "--dtype")
    op = polytc.compile(text, target, threads=threads, attrs=options.values(attr, "--attr"),
                        scalars=options.values(scalar, "--scalar"), algebra=algebra, fast=fast, machine=machine,
                        shapes=named or None, dtypes={n: t for n, t in types.items() if n in named} or None)
    checks.check_dtypes(types, op.inputs)
    checks.check_shapes({n: s for n, s in given.items() if n not in named}, op.inputs)
    arrays = inputs.load(files)
    shapes = options.at({n: s for n, s in given.items() if n not in arrays}, size)
    missing = [n for n in op.inputs if n not in arrays]
    unknown = [n for n in missing if n not in shapes]
    if unknown:
        raise typer.BadParameter(f"no array and no shape for {', '.join(unknown)}: give --input NAME=FILE.npy "
                                 "or --shape NAME=...")
    arrays.update(inputs.random(missing, shapes, types, seed))
    return op, {n: arrays[n] for n in op.inputs}


def named(op: Op, result: Any) -> dict[str, np.ndarray]:
    """The results of a call by name."""
    return dict(zip(op.outputs, result if len(op.outputs) > 1 else (result,)))


def _check(op: Op, arrays: dict[str, Any], results: dict[str, np.ndarray], attrs: dict[str, Any],
           scalars: dict[str, Any]) -> bool:
    reference = polytc.compile(op.text, "evaluate", attrs=attrs, scalars=scalars)
    good = True
    for name, expected in named(reference, reference(**arrays)).items():
        error = largest_error(results[name], expected)
        allowed = allowed_error(expected.dtype)
        good &= error <= allowed
        print(f"{name}: largest error {error:.2g} relative to the reference's largest magnitude (allowed {allowed:.0e})"
              + ("" if error <= allowed else "  WRONG"))
    return good
