"""Matrix multiplication, 512 x 512 x 512, f32, one thread: polytc against ONNX Runtime, in turns.

    python benchmarks/matmul.py [--size 512] [--seconds 5]
"""

from __future__ import annotations

import argparse

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import polytc
from polytc.cli.timing import interleaved


def peer(size: int) -> onnxruntime.InferenceSession:
    """ONNX Runtime with one MatMul node, on one thread."""
    def value(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, [size, size])
    graph = helper.make_graph([helper.make_node("MatMul", ["A", "B"], ["C"])], "matmul", [value("A"), value("B")], [value("C")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--size", type=int, default=512)
    arguments.add_argument("--seconds", type=float, default=5.0)
    given = arguments.parse_args()
    size = given.size

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((size, size)).astype(np.float32) for _ in range(2))
    out = np.empty((size, size), np.float32)
    matmul = polytc.compile("C[i,j] += A[i,k]*B[k,j]", threads=1)
    session = peer(size)
    expected = session.run(None, {"A": a, "B": b})[0]
    error = abs(matmul(a, b, out=out) - expected).max() / abs(expected).max()

    times = interleaved({"polytc": lambda: matmul(a, b, out=out),
                         "ONNX Runtime": lambda: session.run(None, {"A": a, "B": b})}, given.seconds)
    for name, t in times.items():
        print(f"{name:13s} median {t.median * 1e3:7.3f} ms   best {t.best * 1e3:7.3f} ms   "
              f"{2 * size**3 / t.median * 1e-9:6.1f} GFLOP/s   {t.calls} calls")
    print(f"speed relative to ONNX Runtime: {times['ONNX Runtime'].median / times['polytc'].median:.2f}   "
          f"largest relative difference: {error:.1e}")


if __name__ == "__main__":
    main()
