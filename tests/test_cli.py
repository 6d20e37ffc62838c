"""The command line: what it prints, and its exit codes."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from polytc import cli, keys
from polytc.graph import Graph, passes
from polytc.graph.operators.elements import elementwise
from polytc.graph.operators.table import TABLE

MATMUL = "C[i,j] += A[i,k]*B[k,j]"
SHAPES = ["--shape", "A=5,7", "--shape", "B=7,3"]


def polytc(*arguments: str, cwd: Path | None = None, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    """`polytc ARGUMENTS`, in this process: the exit code and what it printed."""
    out, errors = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(errors):
        patch.setattr(sys, "argv", ["polytc", *arguments])
        patch.setattr(sys, "stdin", io.StringIO(stdin or ""))
        patch.chdir(cwd or Path.cwd())
        try:
            cli.main()
        except SystemExit as done:
            return subprocess.CompletedProcess(arguments, int(done.code or 0), out.getvalue(), errors.getvalue())
    raise AssertionError("main() returned instead of exiting")


def good(*arguments: str, **options: object) -> str:
    done = polytc(*arguments, **options)  # type: ignore[arg-type]
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def refused(code: int, names: str, *arguments: str, **options: object) -> None:
    done = polytc(*arguments, **options)  # type: ignore[arg-type]
    assert done.returncode == code, done.stderr + done.stdout
    assert names in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr


@pytest.mark.part(2)
@pytest.mark.parametrize(("stage", "target", "sign"), [
    ("program", "cpu", "def program"), ("scop", "cpu", "S1"), ("deps", "cpu", "S1"), ("schedule", "cpu", "domain"),
    ("loops", "interp", "for "), ("source", "cpu", "define"), ("source", "opencl", "__kernel"),
    ("source", "cuda", "__global__"), ("source", "interp", "for "),
    ("asm", "cpu", "ret"),
])
def test_emit(stage: str, target: str, sign: str) -> None:
    assert sign in good("emit", MATMUL, "--stage", stage, "--target", target, *SHAPES)


def test_a_text_may_be_longer_than_the_name_of_a_file() -> None:
    assert "def program" in good("emit", f"# {'matrices ' * 40}\n{MATMUL}", "--stage", "program", *SHAPES)


def test_emit_to_a_file_from_standard_input(tmp_path: Path) -> None:
    assert good("emit", "-", "--stage", "program", *SHAPES, "-o", "out.txt", cwd=tmp_path, stdin=MATMUL) == ""
    assert "def program" in (tmp_path / "out.txt").read_text()


def test_a_printed_schedule_is_accepted(tmp_path: Path) -> None:
    good("emit", MATMUL, "--stage", "schedule", *SHAPES, "-o", "recipe.yaml", cwd=tmp_path)
    assert "define" in good("emit", MATMUL, *SHAPES, "--schedule", "recipe.yaml", cwd=tmp_path)


def test_run_from_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((5, 7)), rng.standard_normal((7, 3))
    np.savez(tmp_path / "in.npz", A=a)
    np.save(tmp_path / "b.npy", b)
    (tmp_path / "mm.ein").write_text(MATMUL)
    out = good("run", "mm.ein", "-i", "in.npz", "-i", "B=b.npy", "-o", "out.npz", "--check", cwd=tmp_path)
    assert "largest error" in out
    assert "WRONG" not in out
    np.testing.assert_allclose(np.load(tmp_path / "out.npz")["C"], a @ b, rtol=1e-12)


def test_run_on_random_arrays() -> None:
    first = good("run", MATMUL, *SHAPES, "--random", "3", "--target", "interp", "--check").splitlines()[:-2]
    assert first == good("run", MATMUL, *SHAPES, "--random", "3", "--target", "interp").splitlines()[:-1]
    assert "5x3" in "".join(first)
    integers = ["--dtype", "A=i64", "--shape", "n=()", "--dtype", "n=i64"]
    assert "int64" in good("run", "C[i] = A[i] + n", "--shape", "A=4", *integers)


@pytest.mark.long
def test_sizes_that_stay_open() -> None:
    shapes = ["--shape", "A=M,K", "--shape", "B=K,4"]
    assert "f32[M, K] A, f32[K, 4] B" in polytc("emit", MATMUL, *shapes, "--stage", "program").stdout
    done = polytc("run", MATMUL, *shapes, "--size", "M=3", "--size", "K=5", "--target", "interp", "--check")
    assert done.returncode == 0
    assert "3x4" in done.stdout
    assert "median" in polytc("bench", MATMUL, *shapes, "--size", "M=3", "--size", "K=5", "--target", "interp",
                              "--seconds", "0.01").stdout
    for sizes, word in (([], "--size M=N"), (["--size", "M=3", "--size", "K=0"], "from 1 on"),
                        (["--size", "Q=3"], "the open sizes are M, K")):
        refused = polytc("run", MATMUL, *shapes, *sizes)
        assert refused.returncode == 2
        assert word in " ".join(refused.stderr.replace("│", " ").split())
        assert "counted at   M=" in polytc("explain", MATMUL, *shapes, "--no-roofline").stdout
    source = [polytc("emit", MATMUL, *shapes, "--stage", "loops", "--typical", f"M={n}").stdout for n in (1, 4096)]
    assert all(source)
    assert source[0] != source[1], "tiles of one row, and of several"
    assert "no size" in polytc("emit", MATMUL, *shapes, "--typical", "Q=4").stderr


def test_attributes_and_scalars() -> None:
    leaky = "op Leaky<alpha>(X[*i]) -> Y[*i] { Y[*i] = X[*i] > 0 ? X[*i] : alpha * X[*i] }"
    assert "0.25" in good("emit", leaky, "--stage", "program", "--shape", "X=4", "--attr", "alpha=0.25")
    scaled = "def f(f32[N] A, i32 s) -> (C) { C[i] = A[s*i] }"
    assert "3" in good("emit", scaled, "--stage", "program", "--shape", "A=9", "--scalar", "s=3")


def test_bench_and_devices() -> None:
    assert "median" in good("bench", MATMUL, *SHAPES, "--seconds", "0.05")
    assert "vector registers" in good("devices")


def test_bench_of_a_model_beside_other_runtimes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 4]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "small", [x], [y])
    path = tmp_path / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    assert "polytc" in good("bench", str(path), "--seconds", "0.05")
    out = good("bench", str(path), "--vs", "onnxruntime", "--shape", "x=3,4", "--seconds", "0.05", "--threads", "1")
    assert "onnxruntime" in out
    assert "x as fast" in out
    refused(2, "known are onnxruntime, openvino", "bench", str(path), "--vs", "torch")
    refused(2, "--vs compares ONNX models", "bench", MATMUL, *SHAPES, "--vs", "onnxruntime")
    monkeypatch.setitem(sys.modules, "openvino", None)
    refused(2, "pip install openvino", "bench", str(path), "--vs", "openvino")


def test_the_cache_is_shown_and_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert good("cache", "info") == "the cache is off\n"
    monkeypatch.setenv("POLYTC_CACHE", "1")
    monkeypatch.setenv("POLYTC_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(keys, "lasting", lambda target: True)
    assert good("cache", "clear") == "entries removed: 0\n"
    good("run", "C[i] = A[i] * 7.5", "--shape", "A=11", "--random", "0")
    shown = good("cache", "info")
    assert str(tmp_path / "code") in shown
    assert "of at most 1074 MB" in shown
    (entry,) = (tmp_path / "code").iterdir()
    (tmp_path / "code").chmod(0o755)
    assert "not used" in good("cache", "info")
    assert "chmod 700" in polytc("cache", "clear").stderr
    (tmp_path / "code").chmod(0o700)
    assert good("cache", "clear") == "entries removed: 1\n"
    assert not entry.exists()


def test_as_a_process() -> None:
    done = subprocess.run([sys.executable, "-m", "polytc", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("polytc ")
    done = subprocess.run([sys.executable, "-m", "polytc", "emit", "C[i] = A[i", "--shape", "A=3"], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 1
    assert "E002" in done.stderr
    assert "Traceback" not in done.stderr


def test_version_and_help() -> None:
    assert good("--version").startswith("polytc ")
    for command in ("emit", "run", "compile", "bench", "devices", "cache"):
        assert command in good("--help")
        assert "Usage" in good(command, "--help")


def test_compile_a_model(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype("f4")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", c, 8, 8]) for n, c in (("x", 3), ("y", 4)))
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["c"], ["y"])]
    graph = helper.make_graph(nodes, "small", [x], [y], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "small.onnx")
    out = good("compile", "small.onnx", "--shape", "x=2,3,8,8", "--report", "--check", "-o", "out.npz", cwd=tmp_path)
    assert "Conv" in out
    assert "ONNX Runtime" in out
    assert "WRONG" not in out
    assert np.load(tmp_path / "out.npz")["y"].shape == (2, 4, 8, 8)
    assert "constant w" in good("compile", "small.onnx", "--text", cwd=tmp_path)
    refused(2, "no input z; it has x", "compile", "small.onnx", "--shape", "z=1", cwd=tmp_path)


def test_verify_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 6]) for n in "xy")
    nodes = [helper.make_node("Exp", ["x"], ["a"]), helper.make_node("Sigmoid", ["a"], ["b"], name="gate"),
             helper.make_node("Mul", ["a", "b"], ["y"])]
    onnx.save(helper.make_model(helper.make_graph(nodes, "small", [x], [y]), opset_imports=[helper.make_opsetid("", 17)],
                                ir_version=8), tmp_path / "small.onnx")
    out = good("verify", "small.onnx", "--all", cwd=tmp_path)
    assert "3 of 3 nodes agree" in out
    assert "whole model" in out
    row = elementwise.plain("Tanh")  # a wrong binding
    monkeypatch.setitem(TABLE, "Sigmoid", row)
    done = polytc("verify", "small.onnx", "--save", "wrong.npz", cwd=tmp_path)
    assert done.returncode == 1
    assert "Sigmoid node 'gate'" in done.stdout
    assert "tanh(" in done.stdout
    assert np.load(tmp_path / "wrong.npz")["a"].shape == (4, 6)


def test_emit_and_explain_the_kernels_of_a_model(tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 6])
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Softmax", ["h"], ["y"], name="last")]
    weights = [numpy_helper.from_array(np.ones((6, 5), np.float32), "w")]
    graph = helper.make_graph(nodes, "g", [x], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 5])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    assert "# kernel 0 of " in good("emit", "m.onnx", "--stage", "program", cwd=tmp_path)
    assert "define" in good("emit", "m.onnx", "--kernel", "0", cwd=tmp_path)
    assert "OpenCL emitter" in good("emit", "m.onnx", "--kernel", "0", "--target", "opencl", cwd=tmp_path)
    assert "exp(" in good("emit", "m.onnx", "--kernel", "Softmax", "--stage", "program", cwd=tmp_path)
    assert "# hoist" in good("emit", "m.onnx", "--kernel", "0", "--stage", "hoist", cwd=tmp_path)
    assert "Cost" in good("explain", "m.onnx", "--kernel", "0", "--no-roofline", cwd=tmp_path)
    done = polytc("explain", "m.onnx", "--kernel", "nowhere", cwd=tmp_path)
    assert done.returncode == 2
    assert "kernel 0 of" in done.stderr
    assert polytc("emit", "m.onnx", "--dtype", "x=f64", cwd=tmp_path).returncode == 2


def test_verify_names_the_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [4]) for n in "xy")
    nodes = [helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Exp", ["a"], ["y"])]
    onnx.save(helper.make_model(helper.make_graph(nodes, "small", [x], [y]), opset_imports=[helper.make_opsetid("", 17)],
                                ir_version=8), tmp_path / "small.onnx")

    def broken(graph: Graph) -> Graph:
        return replace(graph, nodes=tuple(replace(n, op="Abs") if n.op == "Neg" else n for n in graph.nodes))

    monkeypatch.setitem(passes.PIPELINE, "algebra", broken)
    done = polytc("verify", "small.onnx", cwd=tmp_path)
    assert done.returncode == 1
    assert "right without 'algebra'" in done.stdout


def test_refusals_are_diagnostics(tmp_path: Path) -> None:
    refused(1, "E", "emit", "C[i] = A[i", "--shape", "A=3")
    refused(1, "^", "emit", "C[i] = A[i] + ?", "--shape", "A=3")
    refused(1, "abacus", "emit", MATMUL, *SHAPES, "--target", "abacus")
    (tmp_path / "bad.onnx").write_bytes(b"\x08\x07not a model")
    refused(1, "bad.onnx", "compile", "bad.onnx", cwd=tmp_path)
    refused(1, "E410: 'f99' is not an element type", "run", MATMUL, *SHAPES, "--dtype", "A=f99")
    refused(1, "E401: dtypes names Z", "run", MATMUL, *SHAPES, "--dtype", "Z=f32")
    refused(1, "E401: shapes names Q", "run", MATMUL, *SHAPES, "--shape", "Q=3")


def test_arrays_beyond_memory_are_one_diagnostic() -> None:
    refused(1, "E209: a random array has shape (10000000, 10000000)", "run", "C[i] += A[i,j]", "--shape", "A=10000000,10000000")
    refused(1, "E209", "run", "C[i] = (A[i] else 0) where i in 0:1000000000000", "--shape", "A=4")
    refused(1, "E209", "emit", "C[i] = A[i]", "--shape", "A=100000000000000000")


def test_a_mark_at_the_start_of_a_file_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "mm.ein").write_text(MATMUL, encoding="utf-8-sig")
    assert "def program" in good("emit", "mm.ein", "--stage", "program", *SHAPES, cwd=tmp_path)
    assert "def program" in good("emit", "-", "--stage", "program", *SHAPES, stdin="\ufeff" + MATMUL)
    assert "def program" in good("emit", MATMUL, "--stage", "program", "--shape", "A=(5x7,)", "--shape", "B=[7, 3]")


def test_wrong_usage_exits_with_2(tmp_path: Path) -> None:
    refused(2, "no_such_file", "emit", "no_such_file.ein")
    refused(2, "--shape NAME=VALUE", "emit", MATMUL, "--shape", "5,7")
    refused(2, "extents are numbers", "emit", MATMUL, "--shape", "A=five!")
    for shape, part in (("4,x", "x"), ("4,,5", ""), ("4xx5", "4xx5"), ("\u00b2", "\u00b2"), ("9" * 5000, "9" * 10)):
        done = polytc("emit", MATMUL, "--shape", f"A={shape}")
        assert done.returncode == 2
        assert "is no extent" in " ".join(done.stderr.replace("│", " ").split())
        assert part in done.stderr
    refused(2, "'x' is no extent", "emit", MATMUL, "--shape", "A=4,x")
    refused(2, "not a number", "emit", MATMUL, *SHAPES, "--attr", "a=b")
    refused(2, "B: give --input", "run", MATMUL, "--shape", "A=2,2")
    refused(2, "stage", "emit", MATMUL, "--stage", "poem")
    (tmp_path / "evil.npy").write_bytes(b"not an array")
    refused(2, "evil.npy", "run", MATMUL, "-i", "A=evil.npy", cwd=tmp_path)
    refused(2, "nothing.onnx", "compile", "nothing.onnx", cwd=tmp_path)


@pytest.mark.long
def test_output_into_a_closed_pipe() -> None:
    done = subprocess.run(f"{sys.executable} -m polytc emit '{MATMUL}' --stage source {' '.join(SHAPES)} | head -n 1",
                          shell=True, capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_interrupt_exits_with_130(tmp_path: Path) -> None:
    text = "S += A[i,k]*B[k,j]*A[j,k]"
    process = subprocess.Popen([sys.executable, "-m", "polytc", "run", text, "--shape", "A=700,700", "--shape", "B=700,700",
                                "--target", "interp"], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env={**os.environ, "POLYTC_CHECK": "0", "POLYTC_DUMP": "source",
                                    "POLYTC_DUMP_DIR": str(tmp_path)})
    end = time.monotonic() + 120
    while not any(tmp_path.iterdir()) and time.monotonic() < end:  # until it is compiled
        time.sleep(0.1)
    assert process.poll() is None, "the run is over before it could be interrupted"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in errors


def test_emit_all_prints_every_stage_of_a_padded_convolution() -> None:
    text = "O[m,h,w] += (I[c,h+r-1,w+s-1] else 0)*W[m,c,r,s] where h in 0:8, w in 0:16"
    for target in ("cpu", "opencl", "cuda"):
        printed = good("emit", text, "--shape", "I=3,8,16", "--shape", "W=4,3,3,3", "--stage", "all", "--target", target)
        for stage in ("program", "rewritten", "scop", "deps", "schedule", "loops", "source"):
            assert f"# {stage}\n" in printed


def test_a_model_for_c_with_open_sizes(tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", None, 4]) for n in ("x", "y")]
    model = helper.make_model(helper.make_graph(nodes, "net", values[:1], values[1:]), ir_version=8,
                              opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(model, tmp_path / "net.onnx")
    command = ("compile", "net.onnx", "-o", "out")
    printed = good(*command, "--shape", "x=batch,rows,4", "--size", "batch=1:8", "--size", "rows=5", cwd=tmp_path)
    assert "net.o" in printed
    header = (tmp_path / "out/net.h").read_text()
    assert " *   x: f32[batch, rows, 4]" in header
    assert " *   batch: from 1 to 8\n *   rows: from 1 to 5" in header
    refused(1, "no fixed type and shape", *command, "--size", "batch=8", cwd=tmp_path)
    refused(1, "no input has a size 'seq'", *command, "--size", "seq=8", cwd=tmp_path)
    refused(2, "batch=1:64", *command, "--size", "batch=1-8", cwd=tmp_path)
    refused(2, "--size NAME=1:64", *command, "--symbolic", cwd=tmp_path)
    refused(2, "--size is for code", "compile", "net.onnx", "--size", "batch=8", cwd=tmp_path)


def test_export_opencl_of_a_program_and_of_a_model(tmp_path: Path) -> None:
    printed = good("export", "opencl", MATMUL, *SHAPES, "--name", "mm", "-o", str(tmp_path / "mm"))
    assert {p.name for p in (tmp_path / "mm").iterdir()} == {
        "mm.cl", "mm_cl.h", "mm.json", "mm.h", "mm.c", "mm.py", "main.c", "CMakeLists.txt"}
    assert "mm.cl" in printed
    assert "argument 0" not in (tmp_path / "mm" / "mm.cl").read_text()
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])],
                              [numpy_helper.from_array(np.ones((4, 3), np.float32), "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "net.onnx")
    good("export", "opencl", str(tmp_path / "net.onnx"), "--shape", "x=5,4", "-o", str(tmp_path / "net"))
    assert (tmp_path / "net" / "net.weights").stat().st_size >= 48
    good("export", "opencl", MATMUL, "--shape", "A=M,K", "--shape", "B=K,N", "-o", str(tmp_path / "open"))
    assert "open: M, K, N" in (tmp_path / "open" / "program.cl").read_text(encoding="utf-8")
    refused(2, "--variants is for one program", "export", "opencl", str(tmp_path / "net.onnx"), "--variants", "2", "-o", "x")
    for command in (("export", "opencl"), ("export", "c"), ("compile",)):
        usage = 1 if command == ("compile",) else 2
        refused(usage, "open", *command, str(tmp_path / "net.onnx"), "-o", str(tmp_path / "forgotten"))
        refused(2, "no input", *command, str(tmp_path / "net.onnx"), "--shape", "y=5,4", "-o", str(tmp_path / "forgotten"))
    refused(2, "--symbolic", "compile", str(tmp_path / "net.onnx"), "--symbolic", "-o", str(tmp_path / "forgotten"))
    assert not (tmp_path / "forgotten").exists()
    refused(2, "neither", "export", "opencl", "nothing", "-o", str(tmp_path))


@pytest.mark.long
def test_export_opencl_with_variants(tmp_path: Path) -> None:
    told = good("export", "opencl", MATMUL, "--shape", "A=M,K", "--shape", "B=K,N", "-o", str(tmp_path / "two"),
                "--typical", "M=2048,K=2048,N=2048", "--typical", "M=16,K=8192", "--typical", "N=16")
    assert "2 variants, chosen in" in told
    assert "M=16, K=8192, N=16" in told
    good("export", "opencl", MATMUL, "--shape", "A=M,K", "--shape", "B=K,N", "-o", str(tmp_path / "one"), "--variants", "1")
    assert "_variant" not in (tmp_path / "one" / "program.h").read_text(encoding="utf-8")


@pytest.mark.parametrize(("language", "ending"), [("cuda", "cu"), ("hip", "hip")])
def test_export_cuda_and_hip(language: str, ending: str, tmp_path: Path) -> None:
    good("export", language, MATMUL, *SHAPES, "--name", "mm", "-o", str(tmp_path / "mm"))
    assert {p.name for p in (tmp_path / "mm").iterdir()} == {f"mm.{ending}", "mm.json", "mm.h", "main.c", "CMakeLists.txt"}
    text = (tmp_path / "mm" / f"mm.{ending}").read_text()
    assert f"{language}LaunchKernel" in text
    assert ("cuda" in text) == (language == "cuda")
    refused(2, "no file", "export", language, MATMUL, *SHAPES, "--machine", "no-such-machine", "-o", str(tmp_path))


@pytest.mark.parametrize("command", ["emit", "explain", "run"])
def test_a_file_that_is_no_text_is_refused(command: str, tmp_path: Path) -> None:
    (tmp_path / "program").write_bytes(b"\xff\xfe\0\x01")
    refused(2, "no text", command, str(tmp_path / "program"))
