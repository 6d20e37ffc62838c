"""Matrix products on a matrix unit (AMX), one thread: f32, bf16, bytes, f32 with bytes, beside torch, OpenVINO, ONNX Runtime.

    python benchmarks/matrix_unit.py [--sizes 512,1024,128x3072x768] [--kinds f32,bf16] [--seconds 1]

Peers are those that can be imported. Speeds are GFLOP/s of the product as it is written, medians of calls in turns; the limits
are what the core did right before, from registers: multiply-adds of f32, and products of tiles of random numbers in the type
that the unit multiplies. A product of f32 in parts takes six of these, one of f32 with bytes three.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import ml_dtypes
import numpy as np

import polytc
from polytc.cli.timing import interleaved
from polytc.native import jit, linking
from versus import machine as limits

TEXTS = {"f32": "C[i,j] += A[i,k]*B[k,j]", "bf16": "C[i,j] += f32(A[i,k])*f32(B[k,j])",
         "u8": "C[i,j] += i32(A[i,k])*i32(B[k,j])", "f32 i8": "C[i,j] += A[i,k]*f32(B[k,j])"}
"""Kind -> the operator."""
PRODUCTS = {"f32": 6, "bf16": 1, "u8": 1, "f32 i8": 3}
"""Products of the unit for one of the operator."""
STEPS = 500_000
TILES = """
declare void @llvm.x86.ldtilecfg(ptr)
declare void @llvm.x86.tilerelease()
declare void @llvm.x86.tilezero(i8)
declare void @llvm.x86.tileloadd64(i8, ptr, i64)
declare void @llvm.x86.INSTRUCTION(i8, i8, i8)
define void @run(ptr %shapes, ptr %data, i64 %steps) {
entry:
  call void @llvm.x86.ldtilecfg(ptr %shapes)
LOADS
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
PRODUCTS
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %steps
  br i1 %more, label %loop, label %done
done:
  call void @llvm.x86.tilerelease()
  ret void
}
"""


def unit_speed(instruction: str, rng: np.random.Generator) -> float:
    """GFLOP/s of products of tiles of random numbers in registers."""
    places = [f"  %p{t} = getelementptr i8, ptr %data, i64 {1024 * t}\n"
              f"  call void @llvm.x86.tileloadd64(i8 {4 + t}, ptr %p{t}, i64 64)\n"
              f"  call void @llvm.x86.tilezero(i8 {t})" for t in range(4)]
    products = [f"  call void @llvm.x86.{instruction}(i8 {2 * b + a}, i8 {4 + a}, i8 {6 + b})"
                for b in range(2) for a in range(2)]
    text = TILES.replace("LOADS", "\n".join(places)).replace("PRODUCTS", "\n".join(products))
    text = text.replace("INSTRUCTION", instruction)
    cpu, features = jit.host()
    code = linking.Code(jit.build(text, cpu, features, jit.Tuning(slp=False, vectorize=False)))
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(code.address("run"))
    shapes = np.frombuffer(bytes((1, *(0,) * 15, *(64, 0) * 8, *(0,) * 16, *(16,) * 8, *(0,) * 8)), np.uint8).copy()
    numbers = rng.standard_normal(2048).astype(ml_dtypes.bfloat16).view(np.uint16) if instruction == "tdpbf16ps" \
        else rng.integers(0, 1 << 16, 2048, np.uint16)
    run(shapes.ctypes.data, numbers.ctypes.data, STEPS)
    start = time.perf_counter()
    run(shapes.ctypes.data, numbers.ctypes.data, STEPS)
    words = 2 if instruction == "tdpbf16ps" else 4
    return 2.0 * 4 * 16 * 16 * 16 * words * STEPS / (time.perf_counter() - start) * 1e-9


def operands(kind: str, m: int, n: int, k: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    if kind == "u8":
        return rng.integers(0, 256, (m, k), np.uint8), rng.integers(-128, 128, (k, n)).astype(np.int8)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
    if kind == "bf16":
        return a.astype(ml_dtypes.bfloat16), b.astype(ml_dtypes.bfloat16)
    return a, rng.integers(-128, 128, (k, n)).astype(np.int8) if kind == "f32 i8" else b


def own(kind: str, a: np.ndarray, b: np.ndarray) -> dict[str, Callable[[], Any]]:
    """polytc with both operands variable, with the second one constant, and for f32 without parts."""
    out = np.empty((a.shape[0], b.shape[1]), np.int32 if kind == "u8" else np.float32)
    variable = polytc.compile(TEXTS[kind], threads=1)
    constant = polytc.compile(TEXTS[kind], threads=1, constants={"B": b})
    made: dict[str, Callable[[], Any]] = {"polytc": lambda: variable(a, b, out=out), "constant B": lambda: constant(a, out=out)}
    if kind == "f32":
        direct = polytc.compile(TEXTS[kind], threads=1, constants={"B": b}, algebra="direct")
        made["direct"] = lambda: direct(a, out=out)
    return made


def peers(kind: str, a: np.ndarray, b: np.ndarray) -> dict[str, Callable[[], Any]]:
    """Of the operators that a peer has."""
    made: dict[str, Callable[[], Any]] = {}
    if find_spec("torch") and kind in ("f32", "bf16"):
        made["torch"] = torch_product(a, b, kind)
    if find_spec("openvino") and kind in ("f32", "bf16"):
        made["OpenVINO"] = openvino_product(a.astype(np.float32), b.astype(np.float32), kind)
    if find_spec("onnxruntime") and kind == "f32":
        made["ONNX Runtime"] = onnxruntime_product(a, b)
    return made


def torch_product(a: np.ndarray, b: np.ndarray, kind: str) -> Callable[[], Any]:
    import torch
    torch.set_num_threads(1)
    x, y = (torch.from_numpy(v.astype(np.float32)).to(torch.bfloat16 if kind == "bf16" else torch.float32) for v in (a, b))
    return lambda: x @ y


def openvino_product(a: np.ndarray, b: np.ndarray, kind: str) -> Callable[[], Any]:
    """From f32, with constant weights; INFERENCE_PRECISION_HINT is the kind."""
    import openvino
    from openvino import opset13
    x = opset13.parameter(list(a.shape), np.float32)
    model = openvino.Model([opset13.matmul(x, opset13.constant(b), False, False)], [x])
    settings = {"INFERENCE_PRECISION_HINT": kind, "INFERENCE_NUM_THREADS": 1}
    request = openvino.Core().compile_model(model, "CPU", settings).create_infer_request()
    request.set_input_tensor(openvino.Tensor(a, shared_memory=True))
    return lambda: request.infer()


def onnxruntime_product(a: np.ndarray, b: np.ndarray) -> Callable[[], Any]:
    import onnx
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
              for name, shape in (("A", a.shape), ("C", (a.shape[0], b.shape[1])))]
    graph = helper.make_graph([helper.make_node("MatMul", ["A", "B"], ["C"])], "matmul", values[:1], values[1:],
                              [numpy_helper.from_array(b, "B")])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    text = onnx.ModelProto.SerializeToString(model)
    session = onnxruntime.InferenceSession(text, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"A": a})


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sizes", default="512,1024,2048,128x768x768,128x3072x768,128x768x3072")
    arguments.add_argument("--kinds", default=",".join(TEXTS))
    arguments.add_argument("--seconds", type=float, default=1.0)
    given = arguments.parse_args()
    rng = np.random.default_rng(0)
    print(limits.cpu_name())
    for kind in given.kinds.split(","):
        for size in given.sizes.split(","):
            m, n, k = (3 * [int(x) for x in size.split("x")])[:3]
            a, b = operands(kind, m, n, k, rng)
            contenders = own(kind, a, b) | peers(kind, a, b)
            unit = unit_speed("tdpbusd" if kind == "u8" else "tdpbf16ps", rng)
            core = limits.limits(1).fma
            times = interleaved(contenders, given.seconds * len(contenders))
            speeds = {name: 2.0 * m * n * k / t.median * 1e-9 for name, t in times.items()}
            told = "  ".join(f"{name} {speed:.0f}" for name, speed in speeds.items())
            best = max(speeds["polytc"], speeds["constant B"])
            print(f"{kind:7s} {m}x{n}x{k}: {told}; limits: unit {unit:.0f}, multiply-adds {core:.0f}; "
                  f"{best * PRODUCTS[kind] / unit:.2f} of the unit, {best / core:.2f} of multiply-adds", flush=True)


if __name__ == "__main__":
    main()
