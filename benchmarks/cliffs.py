"""Programs as users first write them, beside what does the same fast: `python benchmarks/cliffs.py [--only TEXT]`

Each line: the medians of calls in turns, ours over the fastest peer's, the goal, and the largest difference of the results
relative to their magnitude. Peers are numpy, opt_einsum, or another form of the program in polytc, which a user should not have
to find. The rows lie in benchmarks/cliff_rows.
"""

from __future__ import annotations

import argparse
import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy reads it when it is imported

import numpy as np
from rich.console import Console
from rich.table import Table

from cliff_rows import Row, arrays, complex_rows, grids, products
from polytc import errors
from polytc.cli.timing import duration, interleaved
from polytc.graph.comparison import largest_error

TOLERANCE = 1e-4


def measured(row: Row, seconds: float) -> tuple[list[str], bool]:
    """A line of the table, and whether the goal is met and the result right."""
    try:
        found = row.ours()
    except errors.PolytcError as error:
        return [row.name, "refused: " + str(error).splitlines()[0], "", "", "", ""], False
    difference = 0.0
    if row.compared:
        expected = np.asarray(next(iter(row.peers.values()))())
        difference = largest_error(np.asarray(found, np.float64), expected.astype(np.float64))
    times = interleaved({"": row.ours, **row.peers}, seconds)
    best = min(row.peers, key=lambda n: times[n].median)
    ratio = times[""].median / times[best].median
    right = difference <= (0.0 if row.exact else TOLERANCE)
    told = "-" if not row.compared else f"{difference:.1e}" if right else f"{difference:.1e} WRONG"
    return [row.name, duration(times[""].median), f"{duration(times[best].median)} {best}", f"{ratio:.2f}",
            f"{row.goal}{'' if ratio <= row.goal else ' missed'}", told], right and ratio <= row.goal


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="part of the names of rows")
    parser.add_argument("--threads", type=int, default=1, help="of polytc")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each row")
    options = parser.parse_args()
    table = Table("program", "polytc", "fastest peer", "ratio", "goal", "difference")
    met = []
    for rows in (products, arrays, grids, complex_rows):
        for row in rows.rows(options.threads):
            if options.only in row.name:
                line, good = measured(row, options.seconds)
                print("  ".join(line), file=sys.stderr, flush=True)
                table.add_row(*line)
                met.append(good)
    Console().print(table)
    print(f"{sum(met)} of {len(met)} rows meet their goals")
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main())
