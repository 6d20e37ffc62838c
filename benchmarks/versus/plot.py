"""All ratios of a run as a picture: a column of points for each set, the goals as marks."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import typer

from versus.report import Run
from versus.sets import SETS


def draw(run: Run, path: Path) -> None:
    """Write a .png, .svg or .pdf. Exits with a message where matplotlib is not installed."""
    try:
        pyplot: Any = importlib.import_module("matplotlib.pyplot")
    except ImportError:
        raise typer.BadParameter("--plot needs matplotlib: pip install matplotlib") from None
    groups = list(dict.fromkeys((r.table, r.group) for r in run.results))
    figure, axes = pyplot.subplots(figsize=(2 + 1.8 * len(groups), 5), layout="constrained")
    for x, (name, group) in enumerate(groups):
        goal = SETS[name].goals[group]
        ratios = sorted(r for r in (result.ratio(goal.against) for result in run.results
                                    if (result.table, result.group) == (name, group)) if r is not None)
        spread = [x + 0.6 * ((k + 0.5) / len(ratios) - 0.5) for k in range(len(ratios))]
        axes.scatter(spread, ratios, s=12, label=None)
        axes.hlines(goal.geomean, x - 0.35, x + 0.35, color="green", label="goal: geometric mean" if x == 0 else None)
        if goal.worst is not None:
            axes.hlines(goal.worst, x - 0.35, x + 0.35, color="red", label="goal: none above" if x == 0 else None)
    axes.axhline(1.0, color="gray", linewidth=0.8)
    axes.set_yscale("log")
    axes.set_ylabel("time of polytc / time of the best peer")
    axes.set_xticks(range(len(groups)), [f"{name}\n{group}" for name, group in groups], fontsize=7)
    axes.set_title(f"{run.limits.cpu}, {run.limits.threads} thread(s)", fontsize=9)
    axes.legend(fontsize=8)
    figure.savefig(path)
