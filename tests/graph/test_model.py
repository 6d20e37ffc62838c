"""Running a model: calling conventions, specialisation on shapes, refusals, and the same results on every target."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from onnx import helper

import polytc
from polytc import compiler
from polytc.errors import ArgumentError, CompileError
from polytc.machine import record_files
from polytc.runtime.packages import Rearranged
from polytc.runtime.pending import Pending
from polytc.targets import registry

R = np.random.default_rng(5)


def image(*shape: int) -> np.ndarray:
    return R.standard_normal(shape).astype(np.float32)


@pytest.fixture
def two_outputs(build):
    """y = x + 1, z = x * v."""
    nodes = [helper.make_node("Add", ["x", "one"], ["y"]), helper.make_node("Mul", ["x", "v"], ["z"])]
    return polytc.load_onnx(build(nodes, {"x": (np.float32, ["N", 3]), "v": (np.float32, [3])}, ["y", "z"],
                                  {"one": np.float32(1)}))


def test_small_cnn_on_every_target(small_cnn, runtime, targets) -> None:
    x = image(2, 3, 17, 15)
    expected = runtime(small_cnn, {"x": x})[0]
    graph = polytc.load_onnx(small_cnn)
    for target in ("evaluate", *targets):
        for fusion in (True, False) if target == "evaluate" else (True,):
            got = graph.compile(target=target, threads=2, fusion=fusion)(x)
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6, err_msg=target)


def test_calling_conventions(two_outputs) -> None:
    model = two_outputs.compile(target="evaluate")
    x, v = image(2, 3), image(3)
    for y, z in (model(x, v), model(x, v=v), model(v=v, x=x), model.run(None, {"x": x, "v": v}),
                 reversed(model.run(["z", "y"], {"x": x, "v": v}))):
        np.testing.assert_array_equal(y, x + 1)
        np.testing.assert_array_equal(z, x * v)
    assert [v.name for v in model.inputs] == ["x", "v"]
    assert [v.name for v in model.outputs] == ["y", "z"]


def test_results_are_fresh(two_outputs) -> None:
    model = two_outputs.compile(target="cpu", threads=1)
    x, v = image(2, 3), image(3)
    first = model(x, v)[0]
    copy = first.copy()
    model(x + 1, v)
    np.testing.assert_array_equal(first, copy)


def test_outputs_that_a_run_does_not_ask_for_stay_out_of_earlier_results(two_outputs) -> None:
    model = two_outputs.compile(target="cpu", threads=1)
    x, v = image(2, 3), image(3)
    z = model.run(["z"], {"x": x, "v": v})[0]
    kept = z.copy()
    model.run(["y"], {"x": x + 1, "v": v})
    model.profile({"x": x + 2, "v": v}, runs=1)
    np.testing.assert_array_equal(z, kept)


def test_weights_are_shared_by_all_that_runs_one_graph(build) -> None:
    """Sessions, sets of shapes and models of one graph use the same packed weights, and one copy of the others."""
    w, b = image(64, 200), image(200)
    graph = polytc.load_onnx(build([helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["y"])],
                                   {"x": (np.float32, ["N", 64])}, ["y"], {"w": w, "b": b}))
    model = graph.compile(target="cpu", threads=1)
    models = [model, model.session(), graph.compile(target="cpu", threads=1)]
    x = image(32, 64)
    for m in models:
        np.testing.assert_allclose(m(x), x @ w + b, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(m(x[:16]), x[:16] @ w + b, rtol=1e-4, atol=1e-4)
    instances = [ready.instance for m in models for _, ready in m._instances.items()]
    assert len(instances) == 6
    assert len({i.buffers["b"].ctypes.data for i in instances}) == 1
    made = {id(s.made) for i in instances for s in i.steps if isinstance(s, Rearranged)}
    assert 1 <= len(made) <= 2  # one for each program: that of 32 rows and that of 16
    assert all("w" not in i.buffers for i in instances)


def test_one_instance_for_each_set_of_shapes(two_outputs) -> None:
    model = two_outputs.compile(target="evaluate")
    for n in (1, 4, 1, 4):
        x = image(n, 3)
        np.testing.assert_array_equal(model(x, image(3))[0], x + 1)
    assert len(model._instances) == 2
    assert model.kernels > 0
    assert "f32[4, 3]" in model.report()


def test_shapes_given_at_compile_time(two_outputs) -> None:
    model = two_outputs.compile(target="evaluate", shapes={"x": (7, 3)})
    assert len(model._instances) == 1
    model(image(7, 3), image(3))
    assert len(model._instances) == 1


def test_inputs_that_decide_shapes(build) -> None:
    graph = polytc.load_onnx(build([helper.make_node("Reshape", ["x", "s"], ["r"]), helper.make_node("Relu", ["r"], ["y"])],
                                   {"x": (np.float32, [6]), "s": (np.int64, [2])}, ["y"]))
    model = graph.compile(target="evaluate")
    x = image(6)
    for shape in ((2, 3), (3, 2), (2, 3)):
        np.testing.assert_array_equal(model(x, np.array(shape)), np.maximum(x.reshape(shape), 0))
    assert len(model._instances) == 2


def test_outputs_that_are_inputs_constants_or_views(build) -> None:
    nodes = [helper.make_node("Identity", ["x"], ["same"]), helper.make_node("Flatten", ["x"], ["flat"], axis=0),
    helper.make_node("Identity", ["k"], ["stored"]),
             helper.make_node("Shape", ["x"], ["shape"])]
    graph = polytc.load_onnx(build(nodes, {"x": (np.float32, [2, 3])}, ["same", "flat", "stored", "shape"],
                                   {"k": np.arange(3)}))
    x = image(2, 3)
    same, flat, stored, shape = graph.compile(target="evaluate")(x)
    np.testing.assert_array_equal(same, x)
    np.testing.assert_array_equal(flat, x.reshape(1, 6))
    np.testing.assert_array_equal(stored, [0, 1, 2])
    np.testing.assert_array_equal(shape, [2, 3])
    assert same is not x


def test_strided_inputs(two_outputs) -> None:
    x, v = image(3, 4).T[:, ::-1], image(6)[::2]
    np.testing.assert_array_equal(two_outputs.compile(target="evaluate")(x, v)[1], x * v)


@pytest.mark.parametrize(("feeds", "code", "part"), [
    ({"x": image(2, 3)}, "E610", "missing: v"), ({"x": image(2, 3), "v": image(3), "w": image(1)}, "E610", "unknown: w"),
    ({"x": image(2, 3).astype(np.float64), "v": image(3)}, "E610", "astype"),
    ({"x": image(2, 4), "v": image(3)}, "E611", "[2, 4]"),
    ({"x": image(2, 3).astype(">f4"), "v": image(3)}, "E610", "'x'"), ({"x": image(3), "v": image(3)}, "E611", "[3]"),
    ({"x": [[1, 2, "a"]], "v": image(3)}, "E610", "'x'"), ({"x": [[1, 2], [3]], "v": image(3)}, "E610", "'x' is no array"),
    ({"x": None, "v": image(3)}, "E610", "the input 'x' is None")])
def test_inputs_that_do_not_fit(two_outputs, feeds, code, part) -> None:
    with pytest.raises(ArgumentError) as caught:
        two_outputs.compile(target="evaluate").run(None, feeds)
    assert caught.value.code == code
    assert part in str(caught.value)


def test_unknown_names(two_outputs) -> None:
    model = two_outputs.compile(target="evaluate")
    with pytest.raises(ArgumentError, match="no output 'q'"):
        model.run(["q"], {"x": image(2, 3), "v": image(3)})
    with pytest.raises(ArgumentError, match="no input 'q'"):
        two_outputs.compile(target="evaluate", shapes={"q": (1,)})
    with pytest.raises(ArgumentError, match="3 inputs given"):
        model(1, 2, 3)
    with pytest.raises(ArgumentError, match="x is given twice"):
        model(image(2, 3), image(3), x=image(2, 3))


def test_inputs_may_have_the_names_of_parameters(build) -> None:
    source = build([helper.make_node("Add", ["self", "arrays"], ["y"])],
                   {"self": (np.float32, [2]), "arrays": (np.float32, [2])}, ["y"], {})
    x = image(2)
    np.testing.assert_array_equal(polytc.load_onnx(source).compile(target="evaluate")(self=x, arrays=x), x + x)


def test_equal_names_are_equal_extents(build) -> None:
    graph = polytc.load_onnx(build([helper.make_node("Add", ["a", "b"], ["y"])],
                                   {"a": (np.float32, ["N"]), "b": (np.float32, ["N"])}, ["y"]))
    with pytest.raises(ArgumentError, match="'N' is 3 in 'a' and 1 in 'b'"):
        graph.compile(target="evaluate")(image(3), image(1))


def test_several_threads_at_once(small_cnn) -> None:
    model = polytc.load_onnx(small_cnn).compile(target="cpu", threads=1)
    arrays = [image(1, 3, 9, 9) for _ in range(4)]
    expected = [model(x) for x in arrays]
    wrong: list[int] = []

    def work(k: int) -> None:
        for _ in range(20):
            if not np.array_equal(model(arrays[k]), expected[k]):
                wrong.append(k)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong


def test_progress_counts_every_program(small_cnn) -> None:
    seen: list[tuple[int, int, str]] = []
    polytc.load_onnx(small_cnn).compile(target="evaluate", shapes={"x": (1, 3, 9, 9)}, progress=lambda *step: seen.append(step))
    assert [k for k, _, _ in seen] == list(range(len(seen)))
    assert seen[-1][:2] == (len(seen) - 1, len(seen) - 1)


def test_who_interrupts_compiling_does_not_wait_for_what_was_begun(small_cnn, monkeypatch) -> None:
    """Ctrl-C while a slow driver builds the first kernel: others are not built, and the model can be compiled afterwards."""
    monkeypatch.setattr(compiler, "_EXECUTABLES", Pending(64))
    build, built, begun, end = compiler._build, [], threading.Event(), threading.Event()

    def slow(*a: object) -> object:
        built.append(a)
        begun.set()
        assert end.wait(60)
        return build(*a)

    def interrupt(k: int, n: int, label: str) -> None:
        if k == 3:
            assert begun.wait(60)
            raise KeyboardInterrupt
    monkeypatch.setattr(compiler, "_build", slow)
    graph, shapes = polytc.load_onnx(small_cnn), {"x": (1, 3, 9, 9)}
    with pytest.raises(KeyboardInterrupt):
        graph.compile(target="cpu", shapes=shapes, progress=interrupt)
    end.set()
    compiler._EXECUTABLES.get(("next", 1), lambda: lambda: None).result()  # the background is through with what it had
    assert len(built) == 1
    x = image(1, 3, 9, 9)
    (found,), (expected,) = (graph.compile(target=t, shapes=shapes).run(None, {"x": x}) for t in ("cpu", "evaluate"))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_model_for_a_machine(small_cnn, tmp_path) -> None:
    """Its kernels are made for the machine of a record; what no machine says is refused as anywhere."""
    graph, x = polytc.load_onnx(small_cnn), image(1, 3, 16, 16)
    path = tmp_path / "here.toml"
    path.write_text(record_files.write(registry.target("cpu").machine.costing({"copies.pack": 1e6})))
    feeds = {graph.inputs[0].name: x}
    expected = graph.compile().run(None, feeds)
    for found, wanted in zip(graph.compile(machine=path).run(None, feeds), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)
    with pytest.raises(CompileError, match="E541"):
        graph.compile(machine="mali")
