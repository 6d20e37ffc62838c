"""`polytc verify`: compare a model, node by node and as a whole, with onnx's reference evaluator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.table import Table

from polytc.cli import inputs, options, peers, tables
from polytc.cli.model import ModelFile, feeds_for, progress
from polytc.cli.run import Input, Seed

if TYPE_CHECKING:
    from polytc.graph.tools.verify import Finding


def verify(model: ModelFile, target: options.Target = "cpu", shape: options.Shape = None, input: Input = None, random: Seed = 0,
           every: Annotated[bool, typer.Option("--all", help="Print each node, not only those that differ.")] = False,
           save: Annotated[Path | None, typer.Option("--save", help="A .npz for the first wrong node's inputs.")] = None
           ) -> None:
    """Compare each node, then the whole model, with onnx's reference evaluator. Exit code 1 where something differs."""
    from polytc.graph.tools import verify as comparing  # the onnx library is optional and slow to import

    graph = comparing.imported(model)
    feeds = feeds_for(graph, options.shapes(shape), inputs.load(input), random)
    found = []
    with progress(f"verifying {model.name}") as advance:
        for k, finding in enumerate(comparing.nodes(graph, feeds, target)):
            advance(k, len(graph.nodes), finding.node.op)
            found.append(finding)
    _print(found, every)
    wrong = [f for f in found if f.wrong]
    if wrong:
        _reproduce(wrong[0], save)
        raise typer.Exit(1)
    if any(f.remark == comparing.DRAWN for f in found):
        print("whole model: not compared, as it draws random numbers")
    elif len(found) == len(graph.nodes) and not any(f.stuck for f in found):
        total = comparing.whole(graph, feeds, comparing.outputs(graph, feeds), target, lambda: _by_runtime(model, feeds))
        print(f"whole model: largest error {total.error:.2g}{'  WRONG' if total.wrong else ''}")
        if total.unstable:
            print(f"rounding decides: other roundings move the reference's own outputs by {total.moved:.2g}")
        if total.wrong:
            print(f"right without {total.culprit!r}" if total.culprit else "no single pass is the cause")
            raise typer.Exit(1)


def _by_runtime(model: Path, feeds: Mapping[str, np.ndarray]) -> Sequence[np.ndarray] | None:
    """The outputs of ONNX Runtime, None where it is not installed or refuses the model."""
    try:
        return peers.onnxruntime(model, feeds, None)()
    except (peers.Refused, typer.BadParameter):
        return None


def _print(found: list[Finding], every: bool) -> None:
    shown = [(k, f) for k, f in enumerate(found) if every or f.wrong or f.remark]
    if shown:
        table = Table("node", "operator", "name", "largest error", "")
        for k, f in shown:
            error = "-" if f.error is None else f"{f.error:.2g}"
            table.add_row(str(k), f.node.op, f.node.name or f.node.outputs[0], error, "WRONG" if f.wrong else f.remark)
        tables.console().print(table)
    right = sum(f.error is not None and not f.wrong for f in found)
    print(f"{right} of {len(found)} nodes agree, {sum(f.wrong for f in found)} differ, "
          f"{sum(f.error is None for f in found)} not compared")


def _reproduce(first: Finding, save: Path | None) -> None:
    """The first wrong node as something that can be run again."""
    print(f"\nthe first that differs: {first.node.label}, attributes {dict(first.node.attributes)}\n\n{first.text}\n")
    arrays: Mapping[str, np.ndarray] = first.inputs or {}
    tables.print_arrays(arrays)
    if save is not None:
        inputs.save(save, dict(arrays))
        print(f"its inputs are in {save}")
