"""Ctrl-C while polytc compiles: it ends soon, with KeyboardInterrupt or 130, and leaves nothing behind that is wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
SOON = 20.0
"""Seconds, on a busy machine: of what cannot be interrupted, isl's longest stage takes three, LLVM's one."""

PROGRAMS = '''
import numpy as np
import polytc

def nest(rows, k):
    """for a { v0[a] = ...; for b { v1[b] = ...; ... } }: isl's scheduler does not come to an end."""
    names = "abcdef"[:rows]
    lines = [f"v{n}[{x}] = v{n}[{x}-1]*0.5 + v{(n + 1) % rows}[{x}]*{k}" for n, x in enumerate(names)]
    head = ", ".join(f"inout f64[7] v{n}" for n in range(rows))
    outs = ", ".join(f"v{n}" for n in range(rows))
    inside = " ".join(f"for {x} in 1:6 {{ {line};" for x, line in zip(names, lines))
    return f"def f({head}) -> ({outs}) {{ {inside} {'}' * rows} }}"

def run(k):
    """Programs with a number of their own, and what they must give."""
    rng = np.random.default_rng(k)
    a, b = rng.random((40, 40)), rng.random((40, 40))
    np.testing.assert_allclose(polytc.compile(f"C[i,j] += A[i,k]*B[k,j]*{k}")(a, b), a @ b * k, rtol=1e-9)
    e = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(polytc.compile(
        f"M[i] max= A[i,j]; E[i,j] = exp(A[i,j] - M[i]); S[i] += E[i,j]; P[i,j] = E[i,j]/S[i]*{k}")(a),
        e/e.sum(1, keepdims=True)*k, rtol=1e-6)
    wanted = a.copy()
    for t in range(6):
        wanted[1:-1, 1:-1] = (wanted[:-2, 1:-1] + wanted[2:, 1:-1])*0.1*k
    heat = "def f(inout f64[n,n] A) -> (A) { for t in 0:6 { B[i,j] = (A[i-1,j] + A[i+1,j])*" + f"{0.1 * k!r}" + \\
           " where i in 1:n-1, j in 1:n-1\\n A[i,j] = B[i,j] where i in 1:n-1, j in 1:n-1 } }"
    found = a.copy()
    polytc.compile(heat)(found)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)
    text, rows = nest(5, k), rng.random((5, 7))
    ours, theirs = [r.copy() for r in rows], [r.copy() for r in rows]
    polytc.compile(text)(*ours)
    polytc.compile(text, target="interp", schedule="program")(*theirs)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)
'''
MODEL = '''
import sys
import numpy as np
import polytc

def run(k):
    model = polytc.load_onnx(sys.argv[1]).compile(threads=2)
    x = np.load(sys.argv[1] + ".npz")
    np.testing.assert_allclose(model.run(None, {"x": x["x"]})[0], x["y"], rtol=1e-4, atol=1e-4)
    assert k == 1, "the model was compiled before it could be interrupted"
'''
ENDLESS = '''
print("begins", flush=True)
try:
    for k in range(1, 10**6):
        run(k)
except KeyboardInterrupt:
    print("left", flush=True)
'''


def interrupted(command: list[str], folder: Path, delay: float) -> tuple[int, str, str]:
    """(exit code, standard output behind its first line, standard error) of a process that gets SIGINT so many seconds after
    that line. Python ends itself by SIGINT, which shells call 130, even if KeyboardInterrupt was caught, where it went through
    an `exec` on its way, as in modules that define dataclasses."""
    environment = {**os.environ, "POLYTC_CACHE": "1", "POLYTC_CACHE_DIR": str(folder)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
                               cwd=Path(__file__).parents[1], start_new_session=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        time.sleep(delay)
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        out, errors = process.communicate(timeout=SOON)
    finally:
        process.kill()
    return process.returncode, out, errors


def again(code: str, folder: Path, *arguments: str) -> None:
    """The same work in another process, with the cache as it was left."""
    environment = {**os.environ, "POLYTC_CACHE": "1", "POLYTC_CACHE_DIR": str(folder)}
    done = subprocess.run([sys.executable, "-c", f"{code}\nrun(1)", *arguments], capture_output=True, text=True,
                          env=environment, cwd=Path(__file__).parents[1], check=False)
    assert done.returncode == 0, done.stderr


def save_model(path: Path) -> None:
    """Twelve products of matrices of different sizes, each with a softmax, so that kernels differ."""
    rng = np.random.default_rng(0)
    nodes, weights, last, width = [], [], "x", 24
    x = rng.standard_normal((8, width)).astype(np.float32)
    y = x
    for n in range(12):
        w = (rng.standard_normal((width, 24 + 4 * n)) * 0.1).astype(np.float32)
        weights.append(numpy_helper.from_array(w, f"w{n}"))
        nodes += [helper.make_node("MatMul", [last, f"w{n}"], [f"m{n}"]), helper.make_node("Softmax", [f"m{n}"], [f"s{n}"]),
                  helper.make_node("Add", [f"m{n}", f"s{n}"], [f"y{n}"])]
        m = y @ w
        e = np.exp(m - m.max(1, keepdims=True))
        y, last, width = m + e / e.sum(1, keepdims=True), f"y{n}", w.shape[1]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
                              [helper.make_tensor_value_info(last, TensorProto.FLOAT, y.shape)], weights)
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    np.savez(f"{path}.npz", x=x, y=y)


def moments(quick: float, *others: float) -> list[Any]:
    """Delays; `make test` takes the first."""
    return [quick, *(pytest.param(d, marks=pytest.mark.long) for d in others)]


@pytest.mark.parametrize("delay", moments(1.0, 0.05, 0.4, 2.0))
def test_programs(tmp_path: Path, delay: float) -> None:
    code, out, errors = interrupted([sys.executable, "-c", PROGRAMS + ENDLESS], tmp_path, delay)
    assert out == "left\n", errors
    assert code in (0, -signal.SIGINT), errors
    again(PROGRAMS, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("delay", moments(0.3, 0.05, 0.7))
def test_models(tmp_path: Path, delay: float) -> None:
    save_model(tmp_path / "m.onnx")
    command = [sys.executable, "-c", MODEL + ENDLESS, str(tmp_path / "m.onnx")]
    code, out, errors = interrupted(command, tmp_path / "cache", delay)
    assert out == "left\n", errors
    assert code in (0, -signal.SIGINT), errors
    again(MODEL, tmp_path / "cache", str(tmp_path / "m.onnx"))


COMMAND = '''
import sys
import polytc.cli
print("begins", flush=True)
sys.argv = ["polytc", *sys.argv[1:]]
polytc.cli.main()
'''


QUICK = {("program", 0.1), ("isl", 1.2), ("model", 0.5)}


@pytest.mark.part(6)
@pytest.mark.parametrize(("what", "delay"), [
    pytest.param(w, d, marks=() if (w, d) in QUICK else pytest.mark.long)
    for w in ("program", "isl", "model") for d in (0.1, 0.5, 1.2)])
def test_command_line(tmp_path: Path, what: str, delay: float) -> None:
    """What compiles for minutes where nothing bounds it, and a model."""
    if what == "model":
        save_model(tmp_path / "m.onnx")
        arguments = ["compile", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.so")]
    else:
        rows = "abcdef"
        text = "; ".join(f"T{n}[{x},{y}] += A[{x},k]*A[k,{y}]*{n}" for n, (x, y) in enumerate(
            (x, y) for x in rows for y in rows if x != y))
        arguments = ["emit", text, "--shape", "A=60,60", "--stage", "asm", *(["--schedule", "isl"] if what == "isl" else [])]
    code, _, errors = interrupted([sys.executable, "-c", COMMAND, *arguments], tmp_path / "cache", delay)
    assert code in (130, -signal.SIGINT), errors
    assert "Traceback" not in errors
