"""Parts of benchmarks/zoo.py: sizes of open extents, outcomes kept in a file, verdicts, and runtimes that take turns."""

from __future__ import annotations

import io
import json
import sys
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import onnx
import pytest
from rich.console import Console

import zoo
from polytc.graph.ir import Value
from polytc.program.scalars import F32
from versus.remote import Lost, Remote, respond
from zoo_batch import batched, repeated
from zoo_case import Feeds, Row, grown, relative_error, session, sizes
from zoo_turns import Runtimes


def row(**changes: object) -> Row:
    fields = {"model": "m", "size": "", "threads": 1, "error": 1e-6, "allowed": 1e-4, "kernels": 3, "fallbacks": [],
              "compile": 1.0, "arena": 100, "times": {"polytc": 1e-3, "onnxruntime": 2e-3, "openvino": 4e-3}}
    return Row(**{**fields, **changes})  # type: ignore[arg-type]


INPUTS = (Value("x", F32, ("N", 3, None, None)), Value("s", F32, (2, "N")), Value("k", F32, (4,)))
FEEDS = {"x": np.arange(3 * 64 * 64, dtype=np.float32).reshape(1, 3, 64, 64), "s": np.ones((2, 1), np.float32),
         "k": np.zeros(4, np.float32)}


@pytest.mark.parametrize(("accepted", "shapes"), [
    (lambda f: True, [(1, 3, 64, 64), (2, 3, 96, 96), (3, 3, 128, 128)]),
    (lambda f: f["x"].shape[2] == 64, [(1, 3, 64, 64), (2, 3, 64, 64), (3, 3, 64, 64)]),
    (lambda f: f["x"].shape[0] == 1, [(1, 3, 64, 64), (1, 3, 96, 96), (1, 3, 128, 128)]),
    (lambda f: False, [(1, 3, 64, 64)])])
def test_sizes_of_open_extents(accepted, shapes) -> None:
    found: list[Feeds] = list(sizes(INPUTS, FEEDS, accepted))
    assert [f["x"].shape for f in found] == shapes
    assert [f["s"].shape for f in found] == [(2, s[0]) for s in shapes]
    assert all(f["k"].shape == (4,) for f in found)
    np.testing.assert_array_equal(found[-1]["x"][0, :, :64, :64], FEEDS["x"][0])


def test_models_of_fixed_extents_have_one_size() -> None:
    assert len(list(sizes(INPUTS[2:], FEEDS, lambda f: True))) == 1


def test_extents_grow_by_what_divides_them() -> None:
    assert [grown(e, 1) for e in (1, 2, 9, 12, 48, 320, 576)] == [2, 3, 10, 16, 64, 352, 608]


def test_models_with_another_batch(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1,2,3] x, float[4] k) => (float[1,6] y) <int64[2] shape = {1, -1}> { r = Reshape(x, shape)
      s = Constant <value = int64[2] {1, 6}> ()
      y = Reshape(r, s) }"""
    (tmp_path / "m").mkdir()
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m" / "model.onnx")
    feeds = repeated({"x": np.arange(6, dtype=np.float32).reshape(1, 2, 3), "k": np.zeros(4, np.float32)}, 3)
    y, = session(batched(tmp_path / "m" / "model.onnx", 3, tmp_path), optimised=False)(feeds)
    np.testing.assert_array_equal(y, [[0, 1, 2, 3, 4, 5], [2, 0, 1, 5, 3, 4], [1, 2, 0, 4, 5, 3]])


def test_errors_that_are_infinite() -> None:
    a = np.ones(3, np.float32)
    assert relative_error(a, a * 2) == 0.5
    assert relative_error(a, a.astype(np.float64)) == float("inf")
    assert relative_error(a, a[:2]) == float("inf")
    assert relative_error(a, np.array([1, np.nan, 1], np.float32)) == float("inf")
    assert relative_error(a[:0], a[:0]) == 0


def test_outcomes_are_kept_and_what_failed_is_run_again(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    outcomes = [zoo.Outcome("a", [row(model="a")]), zoo.Outcome("b", [], "exit code -11: "),
                zoo.Outcome("c", [], "exit code 1: E605 no", True)]
    file.write_text("".join(o.line() + "\n" for o in outcomes))
    assert zoo.known(file) == {"a": outcomes[0], "c": outcomes[2]}
    assert zoo.known(tmp_path / "missing.json") == {}


def test_verdicts_and_the_mean() -> None:
    assert zoo.Outcome("a", [row()]).right
    assert not zoo.Outcome("a", [row(), row(error=1e-3)]).right
    assert not zoo.Outcome("a", [row()], "not done after 1 s").right
    assert zoo.Outcome("a", [], "E605", True).right
    short = {"polytc": 1e-6, "onnxruntime": 5e-5}
    assert list(zoo.counted([row(), row(times=short), row(times={"polytc": 1.0})])) == [0.5]


def test_the_table() -> None:
    alone = row(model="alone", error=0.5, times={"polytc": 3e-3})
    twice = [row(), row(threads=2, model="other")]
    outcomes = [zoo.Outcome("m", twice), zoo.Outcome("a", [alone])]
    console = Console(width=170, record=True, file=io.StringIO())
    console.print(zoo.table(outcomes, 1))
    lines = console.export_text().splitlines()
    (of_m,) = [x for x in lines if "│ m " in x]
    assert [x.strip() for x in of_m.split("│")][1:-1] == [
        "m", "1.0e-06", "3", "0", "1.0", "0.00", "1.00", "2.00", "4.00", "0.50"]
    assert any("alone" in x and "WRONG" in x for x in lines)
    assert any("geometric mean" in x and "0.50" in x for x in lines)
    assert not any("other" in x for x in lines)


@pytest.mark.long
def test_a_model_that_does_not_end_well_is_a_row(tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "model.onnx").write_bytes(b"no model")
    lines, failure = zoo.child([str(tmp_path / "bad")], 120)
    assert not lines
    assert failure.startswith("exit code 1: E601")
    assert zoo.child([str(tmp_path / "bad")], 0.01)[1] == "not done after 0 s"
    assert json.loads(zoo.Outcome("bad", [], failure).line())["failure"] == failure


def spinning(pipe: Connection) -> None:
    """A process with a thread that computes for a while after the answer."""
    def later(seconds: float) -> str:
        end = time.perf_counter() + seconds
        threading.Thread(target=lambda: [None for _ in iter(lambda: time.perf_counter() < end, False)]).start()
        return "done"
    respond(pipe, {"later": later, "fail": lambda: 1 // 0})


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="the system does not say which threads run")
def test_nobody_begins_before_the_threads_of_the_one_before_sleep() -> None:
    remote = Remote(spinning)
    try:
        assert remote.ask("later", 0.0) == "done"
        remote.settle()
        start = time.perf_counter()
        remote.ask("later", 0.15)
        remote.settle()
        assert time.perf_counter() - start >= 0.15
        with pytest.raises(Lost, match="ended with code 1"):
            remote.ask("fail")
    finally:
        remote.stop()


@pytest.mark.long
def test_runtimes_take_turns_on_a_model(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    node = onnx.helper.make_node("Add", ["a", "a"], ["b"])
    values = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["N", 3]) for n in ("a", "b")]
    graph = onnx.helper.make_graph([node], "double", values[:1], values[1:])
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(made, tmp_path / "m.onnx")
    runtimes = Runtimes(tmp_path / "m.onnx", "cpu", 2)
    try:
        for extent in (2, 5):
            a = np.arange(3.0 * extent, dtype=np.float32).reshape(extent, 3)
            ready = runtimes.prepare({"a": a})
            np.testing.assert_array_equal(ready["polytc"].results[0], 2 * a)
            assert {"polytc", "onnxruntime"} <= ready.keys()
            assert ready["polytc"].kernels == 1
        assert all(t > 0 for t in runtimes.times(list(ready), 0.01).values())
        runtimes.prepare({"b": a})
        assert runtimes.refusals["polytc"].startswith("E610")
    finally:
        runtimes.stop()
