"""Kernels on a GPU beside cuBLAS, cuDNN and the kernels of torch, and beside copying in the device's memory.

    python benchmarks/gpu.py [--target cuda|opencl] [--only matmul] [--rounds 7] [--launches] [--models resnet50.onnx,bert.onnx]

Times are those of the device's clock: a run of several calls between two events, rounds of both in turns, medians. torch takes
part where it is installed and sees the device, and is what results are compared with. Without a GPU the command says so.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gpu_devices
import gpu_models
from gpu_cases import CASES, Case
from polytc.errors import CompileError

TURN = 4e-3
"""Seconds of the device in a turn."""


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--target", choices=("cuda", "opencl"), default="cuda")
    arguments.add_argument("--only", default="", help="cases whose name holds one of these texts, separated by commas")
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--launches", action="store_true", help="each kernel's time below its case")
    arguments.add_argument("--models", default="", help="ONNX files to run whole, separated by commas")
    given = arguments.parse_args()
    try:
        device = gpu_devices.DEVICES[given.target]()
    except (CompileError, LookupError) as e:
        sys.exit(f"There is no GPU for the target {given.target}: {e}")
    torch = _torch()
    beside = f"torch {torch.__version__}" if torch else "no torch that sees it: nothing is compared, results are not checked"
    print(f"{device.name}, driver {device.driver}; {beside}")
    copy = gpu_devices.copy_rate(device)
    print(f"copying: {copy:.0f} GB/s read and written\n")
    print(f"{'':30}{'ours':>12}{'speed':>18}{'torch':>12}{'of torch':>10}{'kernels':>9}")
    for case in CASES:
        if any(part in case.name for part in given.only.split(",")):
            try:
                print(_line(case, device, torch, copy, given.rounds, given.launches), flush=True)
            except Exception as e:  # drivers fail in their own ways, and the other figures are still wanted
                print(f"{case.name:30}{_failed(e)}", flush=True)
    for path in filter(None, given.models.split(",")):
        try:
            print(gpu_models.line(Path(path).stem, path, given.target), flush=True)
        except Exception as e:  # as above
            print(f"{path}: {_failed(e)}", flush=True)


def _failed(e: Exception) -> str:
    return f"FAILED: {type(e).__name__}: {' '.join(str(e).split())[:400]}"


def _torch() -> Any:
    if importlib.util.find_spec("torch") is None:
        return None
    torch: Any = importlib.import_module("torch")
    if not torch.cuda.is_available():
        return None
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    return torch


def _line(case: Case, device: Any, torch: Any, copy: float, rounds: int, launches: bool) -> str:
    arrays = case.inputs(np.random.default_rng(0))
    ours = gpu_devices.OnDevice(device, case.text, arrays, case.record)
    contenders: dict[str, Callable[[int], float]] = {"ours": ours.seconds}
    results = ours.results()
    note = ""
    if torch:
        theirs = _Torch(torch, case, arrays)
        contenders["torch"] = theirs.seconds
        note = _difference(results, theirs.results(), case.tolerance)
    times = {who: _count(run) for who, run in contenders.items()}
    found: dict[str, list[float]] = {who: [] for who in contenders}
    for _ in range(rounds):
        for who, run in contenders.items():
            found[who].append(run(times[who]) / times[who])
    median = {who: statistics.median(s) for who, s in found.items()}
    traffic = sum(a.nbytes for a in (*arrays.values(), *results))
    own = median["ours"]
    speed = (f"{case.operations / own * 1e-12:.2f} TFLOP/s" if case.operations
             else f"{traffic / own * 1e-9:.0f} GB/s {traffic / own * 1e-9 / copy:4.2f}")
    peer = f"{median['torch'] * 1e6:>9.1f} us{own / median['torch']:>10.2f}" if torch else f"{'-':>12}{'-':>10}"
    text = f"{case.name:30}{own * 1e6:>9.1f} us{speed:>18}{peer}{ours.kernels:>9}{note}"
    lines = [text, *(f"    {n:60}{s * 1e6:9.1f} us" for n, s in ours.launches())] if launches else [text]
    ours.free()
    return "\n".join(lines)


def _count(run: Callable[[int], float]) -> int:
    """Calls that a turn has."""
    run(1)
    return max(1, min(500, int(TURN / max(run(3) / 3, 1e-7))))


def _difference(ours: list[np.ndarray], theirs: list[np.ndarray], tolerance: float) -> str:
    for a, b in zip(ours, theirs, strict=True):
        if a.shape != b.shape:
            return f"  WRONG: {a.shape} for {b.shape}"
        scale = max(float(np.abs(b).max()), 1e-30)
        error = float(np.abs(a.astype(np.float64) - b).max()) / scale
        if not error <= tolerance:
            return f"  WRONG by {error:.1e} of the largest value"
    return ""


class _Torch:
    """A case on torch."""

    def __init__(self, torch: Any, case: Case, arrays: dict[str, np.ndarray]) -> None:
        self._torch, self._given = torch, [_tensor(torch, a).cuda() for a in arrays.values()]
        self._call: Callable[[], Any] = lambda: case.torch(torch, *self._given)

    def seconds(self, times: int) -> float:
        """Of the device, for so many calls."""
        start, end = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(times):
            self._call()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e-3

    def results(self) -> list[np.ndarray]:
        """The outputs of a call."""
        found = self._call()
        return [(x.float() if x.dtype == self._torch.bfloat16 else x).cpu().numpy()
                for x in (found if isinstance(found, tuple) else (found,))]


def _tensor(torch: Any, a: np.ndarray) -> Any:
    """An array as torch has it, which takes no bf16 of numpy's."""
    return torch.from_numpy(a.view(np.int16)).view(torch.bfloat16) if a.dtype.name == "bfloat16" else torch.from_numpy(a)


if __name__ == "__main__":
    main()
