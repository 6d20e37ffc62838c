"""Starts of models of open sizes, for several sets of shapes, and from files of what passes made of weights."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from polytc.disk import folder
from tests.graph.storing.model_processes import HEAVY, RUN, Server, execute, expected, run, save

pytestmark = pytest.mark.skipif(not folder.SUPPORTED or not Path("/proc/cpuinfo").exists(), reason="models are kept on Linux")


def save_open(path: Path, seed: int) -> dict[str, np.ndarray]:
    """As `save`, with an open number of rows."""
    weights = save(path, seed)
    model = onnx.load(path)
    for v in (model.graph.input[0], model.graph.output[0]):
        v.type.tensor_type.shape.dim[0].dim_param = "n"
    onnx.save_model(model, str(path))
    return weights


OPEN = """
import json, sys
import numpy as np
from polytc.disk import stamps
stamps.SETTLED = -1000.0
import polytc.graph
model = polytc.graph.load_onnx(sys.argv[1]).compile(threads=int(sys.argv[2]))
x = np.load(sys.argv[3])
found = [(model.run(None, {"x": x[:n]})[0].tolist(), len(model._starts)) for n in json.loads(sys.argv[4])]
print(json.dumps([found, sorted(sys.modules)]))
"""


@pytest.mark.long
def test_a_model_of_open_sizes_starts_for_the_shapes_of_a_run(files: tuple[Path, np.ndarray], server: Server) -> None:
    wanted = expected(files[1], save_open(files[0] / "model.onnx", 11))

    def starts(by: Server | None, rows: list[int]) -> tuple[list[int], list[str]]:
        found, modules = json.loads(execute(files, by, OPEN, "1", str(files[0] / "x.npy"), json.dumps(rows)))
        for (y, _), n in zip(found, rows, strict=True):
            np.testing.assert_allclose(y, wanted[:n], rtol=1e-4, atol=1e-4)
        return [n for _, n in found], modules
    assert starts(server, [3, 2])[0] == [0, 0]
    counts, modules = starts(None, [2, 3, 3, 2, 2, 3])
    assert counts == [1, 2, 2, 2, 2, 2]
    assert not [m for m in modules for heavy in HEAVY if m == heavy or m.startswith(heavy + ".")]
    assert starts(server, [3, 1, 2, 3])[0] == [1, 0, 0, 0]  # one that is not there: from then on all are compiled
    assert starts(server, [1, 2, 3])[0] == [1, 2, 3]


def test_all_shapes_are_prepared_where_the_first_is_found(files: tuple[Path, np.ndarray], server: Server) -> None:
    save_open(files[0] / "model.onnx", 9)
    run(files, server, RUN.replace("threads=int", 'shapes={"x": (3, 40)}, threads=int'))
    run(files, server, RUN.replace("threads=int", 'shapes=[{"x": (3, 40)}, {"x": (5, 40)}], threads=int').replace("(y,)", """
assert len(model._instances) == 2
(y,)"""))


MADE = """
import json, sys
import numpy as np
from polytc.disk import mapped, stamps, weights
stamps.SETTLED = -1000.0
weights.LARGE = weights.LEAST = 1
import polytc.graph
model = polytc.graph.load_onnx(sys.argv[1]).compile(threads=1)
y = model.run(None, {"x": np.load(sys.argv[2])})[0]
started = len(model._starts) > 0
((_, ready),) = [(0, each.instance) for _, each in model._starts._found.items()] if started else model._instances.items()
assert np.array_equal(model.session().run(None, {"x": np.load(sys.argv[2])})[0], y)
print(json.dumps([y.tolist(), started, [mapped.origin(a) is not None for a in ready.plan.constants.values() if a.size > 100]]))
"""


def test_what_passes_made_of_weights_is_in_a_file(files: tuple[Path, np.ndarray], server: Server) -> None:
    """So that nobody keeps it beside what kernels packed of it."""
    weights = save(files[0] / "model.onnx", 12)
    model = onnx.load(files[0] / "model.onnx")
    (w,) = [t for t in model.graph.initializer if t.name == "w"]
    w.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(weights["w"].T), "turned"))
    model.graph.node.insert(0, helper.make_node("Transpose", ["turned"], ["w"]))
    onnx.save_model(model, str(files[0] / "model.onnx"))

    def process() -> tuple[bool, list[bool]]:
        y, started, in_files = json.loads(execute(files, server, MADE, str(files[0] / "x.npy")))
        np.testing.assert_allclose(y, expected(files[1], weights), rtol=1e-4, atol=1e-4)
        return started, in_files
    assert process() == (False, [True, True])
    assert process() == (True, [True, True])
    for path in (files[0] / "cache" / "weights").glob("*"):
        path.unlink()
    assert not process()[0]
    assert process()[0]
