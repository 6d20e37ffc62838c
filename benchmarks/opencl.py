"""OpenCL kernels on a CPU's driver against our own native code, numpy, CLBlast and loopy.

    python benchmarks/opencl.py [--only conv] [--threads 2] [--seconds 2]

The device is that of polytc's OpenCL target (POLYTC_OPENCL_DEVICE, OCL_ICD_VENDORS). CLBlast takes part where its library is
found, loopy where LOOPY_PYTHON is the path of an interpreter that has it. README.md says how contenders take turns.
"""

from __future__ import annotations

import argparse
import os

from polytc.targets.opencl.driver import devices
from versus import contest, peers
from versus.sets import SETS
from versus.worker import Worker, limit_threads

CONTENDERS = {"polytc": "native", "opencl": "OpenCL", "numpy": "numpy", "clblast": "CLBlast", "loopy": "loopy"}
"""Modules of versus.peers, and what the table calls them."""
TURN = 50e-3
"""Seconds of a turn: the first calls wake the driver's threads, which on a busy machine takes milliseconds."""


def main() -> None:
    """Print the tables."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--only", default="", help="cases whose name holds this text")
    arguments.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    arguments.add_argument("--seconds", type=float, default=2.0, help="of timing for each case")
    given = arguments.parse_args()
    os.environ.setdefault("POCL_AFFINITY", "1")  # PoCL's threads stay where they are, as everybody else's do
    device = devices.choose()
    print(f"{device}, driver {device.handle.driver_version.strip()}")
    if device.kind == "gpu":
        print("It is a GPU: `python benchmarks/gpu.py --target opencl` measures those.")
    else:
        print("There is no GPU: benchmarks/gpu.py measures those, benchmarks/gpu_static.py says what compilers know of them.")
        on_cpu(given.only, given.threads, given.seconds)


def on_cpu(only: str, threads: int, seconds: float) -> None:
    """The table of a CPU's driver: median times, and ours through OpenCL over those of the others."""
    limit_threads(threads)
    for name in (p for p in CONTENDERS if p not in ("polytc", "opencl") and not peers.installed(p)):
        print(f"{CONTENDERS[name]} is not here.")
    workers = {p: Worker(p, threads) for p in CONTENDERS if p in ("polytc", "opencl") or peers.installed(p)}
    survey = Worker("machine", threads)
    try:
        limits = survey.ask("limits")
        survey.stop()
        print(f"{limits.cpu}, {threads} threads: {limits.fma:.0f} GFLOP/s from registers, {limits.copy:.0f} GB/s copying\n")
        print(f"{'':26}{'speed':>14}{'of limit':>10}" + "".join(f"{CONTENDERS[p]:>14}" for p in workers))
        for case in SETS["opencl"].cases:
            if only in case.name:
                result = contest.compete("opencl", case, workers, seconds, limits, TURN)
                print(line(result, list(workers)), flush=True)
    finally:
        for worker in (*workers.values(), survey):
            worker.stop()


def line(result: contest.Result, contenders: list[str]) -> str:
    """A row: speed of OpenCL, its share of the machine's limit, then each contender's median and its ratio to OpenCL's."""
    def cell(peer: str) -> str:
        if peer not in result.times:
            return "failed" if peer in result.failed else "-"
        own = result.times["opencl"].median if "opencl" in result.times else float("nan")
        return f"{result.times[peer].median * 1e3:.3g} ms {result.times[peer].median / own:4.2f}"
    speed = result.rate("opencl") if "opencl" in result.times else float("nan")
    unit, limit = ("GFLOP/s", result.limits.fma) if result.flops else ("GB/s", result.limits.copy)
    text = f"{result.case:26}{f'{speed:.0f} {unit}':>14}{speed / limit:>10.2f}" + "".join(f"{cell(p):>14}" for p in contenders)
    return "\n".join([text, *(f"    {CONTENDERS[p]}: {why.splitlines()[0]}" for p, why in result.failed.items())])


if __name__ == "__main__":
    main()
