"""Compile kernels, run them on PolyBench's initial values, and compare the results with its C programs'.

    python -m examples.polybench [--size SMALL] [KERNEL ...]
"""

from __future__ import annotations

import argparse
import sys
import time

import polytc
from examples.polybench import checksums
from examples.polybench.kernels import KERNELS, SIZES


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.polybench")
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help="; ".join(KERNELS))
    parser.add_argument("--size", choices=SIZES[:-1], default="SMALL")
    chosen = parser.parse_args()
    unknown = [k for k in chosen.kernels if k not in KERNELS]
    if unknown:
        parser.error(f"there is no kernel {', '.join(unknown)}")
    return max(check(name, chosen.size) for name in chosen.kernels or KERNELS)


def check(name: str, size: str) -> int:
    """Prints a line; 1 if the results are wrong."""
    kernel = KERNELS[name]
    op = polytc.compile(kernel.text)
    op(**kernel.arguments(size))  # compiles for these sizes
    arguments = kernel.arguments(size)
    start = time.perf_counter()
    results = op(**arguments)
    seconds = time.perf_counter() - start
    arrays = dict(zip(op.outputs, results if len(op.outputs) > 1 else (results,)))
    deviation = checksums.largest_deviation(kernel, size, arrays)
    right = deviation <= checksums.tolerance(name)
    print(f"{name:15}{seconds * 1e3:10.3f} ms   deviation {deviation:.1e}   {'right' if right else 'WRONG'}")
    return not right


if __name__ == "__main__":
    sys.exit(main())
