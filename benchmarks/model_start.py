"""One model in one runtime, from the start of the process to its third run: what benchmarks/peak_memory.py starts.

    python benchmarks/model_start.py FOLDER/NAME polytc [--threads 1] [--keep RESULTS.npz]    a line of JSON

Nothing but numpy and that runtime is imported, so that no other library's memory and time are counted.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import numpy as np

Feeds = dict[str, np.ndarray]
RUNS = 3


def polytc_session(path: Path, threads: int) -> Callable[[Feeds], list[np.ndarray]]:
    """A model in polytc."""
    import polytc

    model = polytc.load_onnx(path).compile(threads=threads)
    return lambda feeds: model.run(None, feeds)


def onnxruntime_session(path: Path, threads: int) -> Callable[[Feeds], list[np.ndarray]]:
    """A model in ONNX Runtime, with its own defaults but for the threads."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda feeds: session.run(None, feeds)


SESSIONS = {"polytc": polytc_session, "onnxruntime": onnxruntime_session}


def status(field: str) -> int:
    """Bytes that Linux tells of this process."""
    (line,) = [x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith(field + ":")]
    return int(line.split()[1]) * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("runtime", choices=SESSIONS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="file for the results of the last run")
    options = parser.parse_args()
    with np.load(options.folder / "io.npz") as archive:
        feeds = {k.removeprefix("in_"): archive[k] for k in archive.files if k.startswith("in_")}
    run = SESSIONS[options.runtime](options.folder / "model.onnx", options.threads)
    results = run(feeds)
    first = time.process_time()
    for _ in range(RUNS - 1):
        del results  # as a user does who looks at one result after the other
        results = run(feeds)
    print(json.dumps({"peak": status("VmHWM"), "anonymous": status("RssAnon"), "processor": first,
                      "forks": getrusage(RUSAGE_CHILDREN).ru_maxrss * 1024}))
    if options.keep is not None:
        np.savez(options.keep, *results)


if __name__ == "__main__":
    main()
