"""How long a user waits for the first result: whole processes and first calls, each the median of several.

    python benchmarks/start_time.py [--repeat 5]

    cached op       a whole process that imports polytc and calls an operator whose code is on disk
    numpy alone     the same process without polytc: what Python and numpy take of it
    new shape       a call with shapes that are new to a process which has compiled the operator for others
    int4 node       a model of DequantizeLinear(int4) and MatMul, from its bytes to the first result, in a process that has
                    loaded polytc and onnx
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

GOALS = {"cached op": 0.150, "new shape": 0.040, "int4 node": 0.200}
"""Seconds."""

OP = """
import numpy as np, polytc
op = polytc.compile("C[i,j] += A[i,k]*B[k,j]; D[i,j] = max(C[i,j], 0)", threads=1)
op(np.ones((64, 64), np.float32), np.ones((64, 64), np.float32))
"""
NUMPY = "import numpy as np\nnp.maximum(np.ones((64, 64), np.float32) @ np.ones((64, 64), np.float32), 0)\n"

SHAPE = """
import gc, time
import numpy as np, polytc
op = polytc.compile("O[n,m,h,w] += I[n,c,h,w]*W[m,c]; Y[n,m,h,w] = max(O[n,m,h,w] + b[m], 0)", threads=1)
def call(size, features):
    op(np.ones((1, 64, size, size), np.float32), np.ones((features, 64), np.float32), np.ones(features, np.float32))
call(28, 256)
call(14, 192)
gc.collect()  # which Python does once, some time after it has imported so much
start = time.perf_counter()
call(20, 128)
print(time.perf_counter() - start)
"""

INT4 = """
import gc, time
import numpy as np, onnx, polytc
from onnx import TensorProto, helper
rng = np.random.default_rng(0)
packed = rng.integers(0, 256, 256 * 128 // 2, np.uint8).tobytes()
weights = helper.make_tensor("Wq", TensorProto.INT4, (256, 128), packed, raw=True)
scale = helper.make_tensor("s", TensorProto.FLOAT, (8, 128), rng.random((8, 128), np.float32).tobytes(), raw=True)
nodes = [helper.make_node("DequantizeLinear", ["Wq", "s"], ["W"], axis=0, block_size=32),
         helper.make_node("MatMul", ["X", "W"], ["Y"])]
value = lambda name, *shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
graph = helper.make_graph(nodes, "g", [value("X", 16, 256)], [value("Y", 16, 128)], [weights, scale])
data = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10).SerializeToString()
polytc.compile("Y[i] = X[i]", threads=1, shapes={"X": (1,)})
x = rng.random((16, 256), np.float32)
gc.collect()
start = time.perf_counter()
polytc.load_onnx(data).compile(threads=1).run(None, {"X": x})
print(time.perf_counter() - start)
"""


def whole(script: str, environment: dict[str, str]) -> float:
    """Seconds of a process."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", script], env=environment, check=True, capture_output=True)
    return time.perf_counter() - start


def told(script: str, environment: dict[str, str]) -> float:
    """Seconds that a process prints."""
    done = subprocess.run([sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True)
    return float(done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=5)
    repeat = parser.parse_args().repeat
    usual = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}  # modules are compiled once
    cold = {**usual, "POLYTC_CACHE": "0"}
    with tempfile.TemporaryDirectory() as folder:
        kept = {**usual, "XDG_CACHE_HOME": folder}
        whole(OP, kept)
        rows: dict[str, Callable[[], float]] = {
            "cached op": lambda: whole(OP, kept), "numpy alone": lambda: whole(NUMPY, kept),
            "new shape": lambda: told(SHAPE, cold), "int4 node": lambda: told(INT4, cold)}
        missed = False
        for name, run in rows.items():
            seconds, goal = statistics.median(run() for _ in range(repeat)), GOALS.get(name)
            missed |= goal is not None and seconds > goal
            print(f"{name:12} {seconds * 1e3:6.0f} ms   {f'goal {goal * 1e3:.0f}' if goal is not None else ''}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
