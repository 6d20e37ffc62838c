"""`make demo`: operators in text and a trained ONNX model on the CPU and on OpenCL, checked, and timed beside ONNX Runtime.

    python examples/demo.py FOLDER_WITH_MODELS
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from rich.console import Console
from rich.table import Table

import polytc
from polytc.cli.timing import duration, interleaved
from polytc.graph.comparison import largest_error

TOLERANCE = 1e-4

CONVOLUTION = "O[n,m,h,w] += (I[n,c,h+r-1,w+s-1] else 0) * W[m,c,r,s] where h in 0:I.shape[2], w in 0:I.shape[3]"
SOFTMAX = """
op Softmax(X[*i, j]) -> Y[*i, j] {
    M[*i] max= X[*i, j]
    E[*i, j] = exp(X[*i, j] - M[*i])
    S[*i] += E[*i, j]
    Y[*i, j] = E[*i, j] / S[*i]
}"""


GLYPHS = {
    "P": (30, 17, 17, 30, 16, 16, 16), "O": (14, 17, 17, 17, 17, 17, 14), "L": (16, 16, 16, 16, 16, 16, 31),
    "Y": (17, 17, 10, 4, 4, 4, 4), "T": (31, 4, 4, 4, 4, 4, 4), "C": (14, 17, 16, 16, 16, 17, 14),
}
"""Letters of 5 x 7 dots, a number for each row."""


@dataclass(frozen=True)
class Case:
    """An operator as text, the same as an ONNX node, and the arrays to run both on."""

    name: str
    text: str
    op_type: str
    attributes: dict[str, Any]
    arrays: dict[str, np.ndarray]

    def reference(self) -> np.ndarray:
        """The result by the reference evaluator, which shares nothing with the code generators."""
        return np.asarray(polytc.evaluate(self.text, **self.arrays))

    def peer(self) -> Callable[[], object]:
        """The call of ONNX Runtime, on as many threads as it likes."""
        inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in self.arrays.items()]
        node = helper.make_node(self.op_type, list(self.arrays), ["Y"], **self.attributes)
        output = helper.make_tensor_value_info("Y", TensorProto.FLOAT, None)
        model = helper.make_model(helper.make_graph([node], "case", inputs, [output]),
                                  opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        return lambda: session.run(None, self.arrays)


def cases() -> list[Case]:
    rng = np.random.default_rng(0)

    def array(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape, np.float32)
    return [
        Case("matrix product, 256 x 256 x 256", "C[i,j] += A[i,k] * B[k,j]", "MatMul", {},
             {"A": array(256, 256), "B": array(256, 256)}),
        Case("padded 3x3 convolution, 32 channels, 56 x 56", CONVOLUTION, "Conv", {"pads": [1, 1, 1, 1]},
             {"I": array(1, 32, 56, 56), "W": array(32, 32, 3, 3)}),
        Case("softmax, 256 x 1000", SOFTMAX, "Softmax", {"axis": -1}, {"X": array(256, 1000)}),
    ]


def usable_targets(console: Console) -> list[str]:
    """cpu, and opencl where a device is found that computes; says so where not."""
    try:
        polytc.run("C[i] = A[i] + 1", np.zeros(4, np.float32), target="opencl")
    except polytc.TargetError as error:
        console.print(f"OpenCL is left out: {error}", style="yellow")
        return ["cpu"]
    return ["cpu", "opencl"]


def report(table: Table, name: str, compiled: Mapping[str, float], calls: Mapping[str, Callable[[], object]],
           errors: Mapping[str, float]) -> None:
    """One row a target. The calls take turns; 'ONNX Runtime' is one of them."""
    times = interleaved(calls, seconds=1.0, rounds=5)
    peer = times["ONNX Runtime"].median
    for target, seconds in compiled.items():
        own = times[target].median
        table.add_row(name, target, f"{errors[target]:.1e}", duration(seconds), duration(own), duration(peer),
                      f"{peer / own:.2f}")
        name = ""


def run_operators(table: Table, targets: list[str]) -> float:
    """Adds a row for each operator and target; the largest error."""
    worst = 0.0
    for case in cases():
        expected = case.reference()
        compiled: dict[str, float] = {}
        errors: dict[str, float] = {}
        calls: dict[str, Callable[[], object]] = {"ONNX Runtime": case.peer()}
        ordered = tuple(case.arrays.values())
        for target in targets:
            op = polytc.compile(case.text, target)
            start = time.perf_counter()
            found = op(**case.arrays)
            compiled[target] = time.perf_counter() - start
            errors[target] = largest_error(found, expected)
            calls[target] = functools.partial(op, *ordered)
        report(table, case.name, compiled, calls, errors)
        worst = max(worst, *errors.values())
    return worst


def page(height: int, width: int) -> np.ndarray:
    """A page with lines of dark text on white, scaled to -1..1, grainy as a scan is; on mere noise a text detector answers
    zero everywhere, and there is nothing to compare."""
    glyphs = np.array([[int(bit) for row in GLYPHS.values() for bit in f"{row[y]:05b}0"] for y in range(7)])
    word = np.kron(np.pad(glyphs, 2), np.ones((3, 3), int))
    rows, columns = height // (2 * word.shape[0]), width // word.shape[1]
    lines = np.tile(np.pad(word, ((0, word.shape[0]), (0, 0))), (rows, columns))
    ink = np.zeros((height, width), int)
    ink[:lines.shape[0], :lines.shape[1]] = lines
    return np.where(ink, -1.0, 1.0) + 0.05 * np.random.default_rng(0).standard_normal(ink.shape)


def run_model(table: Table, path: Path, shape: tuple[int, ...], targets: list[str]) -> float:
    """Adds a row for each target; the largest error against ONNX Runtime."""
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    graph = polytc.load_onnx(path)
    feeds = {graph.inputs[0].name: np.broadcast_to(page(*shape[2:]), shape).astype(np.float32)}
    expected = session.run(None, feeds)
    compiled: dict[str, float] = {}
    errors: dict[str, float] = {}
    calls: dict[str, Callable[[], object]] = {"ONNX Runtime": lambda: session.run(None, feeds)}
    for target in targets:
        start = time.perf_counter()
        model = graph.compile(target=target)
        found = model.run(None, feeds)
        compiled[target] = time.perf_counter() - start
        errors[target] = max(largest_error(f, e) for f, e in zip(found, expected))
        calls[target] = functools.partial(model.run, None, feeds)
    report(table, f"{path.stem} {'x'.join(map(str, shape))}", compiled, calls, errors)
    return max(errors.values())


def main(folder: Path) -> int:
    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=140)
    targets = usable_targets(console)
    table = Table("what", "target", "largest error", "compile and first run", "run", "ONNX Runtime", "speed against it",
                  title=f"polytc {polytc.__version__}, all threads, medians of alternating calls; errors relative to the "
                        "largest magnitude: operators against the reference evaluator, the model against ONNX Runtime")
    with console.status("operators ..."):
        worst = run_operators(table, targets)
    with console.status("model ..."):
        worst = max(worst, run_model(table, folder / "ppocrv4_det.onnx", (1, 3, 320, 320), targets))
    console.print(table)
    if worst > TOLERANCE:
        console.print(f"WRONG: the largest error {worst:.1e} is above {TOLERANCE:.0e}", style="red")
        return 1
    console.print(f"all results are right: no error above {TOLERANCE:.0e}", style="green")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
