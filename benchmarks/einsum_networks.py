"""Random tensor networks by `polytc.einsum`, beside opt_einsum with numpy: `python benchmarks/einsum_networks.py [--count 150]`

Each network has 4 to 8 operands with extents that make 1e5 to 1e8 operations along opt_einsum's path. Both are called in turns,
with all they can prepare prepared: opt_einsum's expression has its path, polytc's text is compiled. Ratios are of medians, the
difference is relative to the largest result.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy reads it when it is imported

import numpy as np
import opt_einsum
import typer
from opt_einsum.testing import rand_equation
from rich.console import Console

import polytc
from polytc.cli.timing import duration, interleaved
from polytc.graph.comparison import largest_error
from versus.machine import cpu_name

FEWEST, MOST = 1e5, 1e8
"""Operations of a network."""
LARGEST = 1 << 22
"""Elements of an operand or of the result."""
TOLERANCE = 1e-4
SLOW = 1.1
"""The ratio that no network should exceed."""


def networks(count: int) -> Iterator[tuple[str, list[tuple[int, ...]]]]:
    """Equations and shapes, the same in each run."""
    seed, found = 0, 0
    while found < count:
        seed += 1
        rng = np.random.default_rng(seed)
        equation, shapes = rand_equation(int(rng.integers(4, 9)), int(rng.integers(2, 5)), n_out=int(rng.integers(0, 4)),
                                         d_min=2, d_max=int(rng.integers(4, 40)), seed=seed)[:2]
        _, info = opt_einsum.contract_path(equation, *shapes, shapes=True)
        if FEWEST <= info.opt_cost <= MOST and info.largest_intermediate <= LARGEST and all(
                np.prod(s, dtype=np.int64) <= LARGEST for s in shapes):
            found += 1
            yield equation, [tuple(map(int, s)) for s in shapes]


def main(count: int = 150, threads: int = 1, seconds: float = 0.2, only: str = "") -> None:
    """Measure, and print the slowest and the geometric mean. only: the number of one network."""
    ratios, wrong = [], 0
    os.environ["POLYTC_NUM_THREADS"] = str(threads)
    for number, (equation, shapes) in enumerate(networks(count)):
        if only and number != int(only):
            continue
        rng = np.random.default_rng(number)
        arrays = [rng.standard_normal(s).astype(np.float32) for s in shapes]
        theirs = opt_einsum.contract_expression(equation, *shapes)
        error = largest_error(np.asarray(polytc.einsum(equation, *arrays), np.float64),
                              np.asarray(theirs(*(a.astype(np.float64) for a in arrays))))
        ours = functools.partial(polytc.einsum, equation, *arrays)
        times = interleaved({"": ours, "peer": functools.partial(theirs, *arrays)}, seconds)
        ratio = times[""].median / times["peer"].median
        ratios.append((ratio, number, equation))
        wrong += error > TOLERANCE
        print(f"{number:3d} {ratio:5.2f}  {duration(times[''].median):>8} {duration(times['peer'].median):>8}  {error:.0e}"
              f"{' WRONG' if error > TOLERANCE else ''}  {equation}  {' '.join('x'.join(map(str, s)) for s in shapes)}",
              file=sys.stderr, flush=True)
    values = np.array([r for r, *_ in ratios])
    console = Console()
    for ratio, number, equation in sorted(ratios, reverse=True)[:10]:
        console.print(f"{ratio:.2f}  network {number}  {equation}", highlight=False)
    mean = np.exp(np.log(values).mean())
    console.print(f"{len(values)} networks on {cpu_name()}, {threads} threads: geometric mean {mean:.2f}, "
                  f"{int((values > SLOW).sum())} above {SLOW}, {wrong} wrong", highlight=False)
    raise typer.Exit(int(wrong > 0))


if __name__ == "__main__":
    typer.run(main)
