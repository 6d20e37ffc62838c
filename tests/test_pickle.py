"""Whatever polytc gives can be copied and sent to other processes."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import polytc
from polytc import compiler, errors, lang
from polytc.graph.operators.binding import NeedsValue
from polytc.targets import registry

TEXT = "def f(f32[M,K] A, f32[K,N] B) -> (f32[M,N] C) { C[i,j] += A[i,k] * B[k,j] }"
SHAPES: dict[str, tuple[int, ...]] = {"A": (4, 5), "B": (5, 6)}
A, B = np.arange(20, dtype=np.float32).reshape(4, 5), np.ones((5, 6), np.float32)


def onnx_model() -> onnx.ModelProto:
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 5]) for n in "xy"]
    made = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", values[:1], values[1:])
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def graph() -> polytc.Graph:
    return polytc.load_onnx(onnx_model())


def model() -> polytc.Model:
    found = graph().compile(threads=1)
    found.run(None, {"x": A})
    return found


def raised(kind: type[errors.CompileError]) -> errors.CompileError:
    return errors.fail("E203", "out of bounds", errors.Span(0, 1, 1, 1), ["i=1"], source="C[i] = A[i]", kind=kind)


def called(op: Any) -> list[Any]:
    return [op(A, B).tolist() if len(op.inputs) == 2 else op(A).tolist(), op.inputs, op.outputs, repr(op)]


def text(value: Any) -> str:
    return str(value)


def error(e: errors.CompileError) -> list[Any]:
    return [type(e), str(e), e.code, e.span, e.notes, e.source]


def stages(low: compiler.Lowered) -> list[str]:
    return [str(getattr(low, n)) for n in ("program", "rewritten", "schedule", "loops", "source")]


def tiled() -> polytc.Recipe:
    return polytc.schedule(TEXT, SHAPES).tile("S1", i=2, j=2).parallel("S1", "i.0")


PUBLIC: dict[str, list[tuple[Callable[[], Any], Callable[[Any], Any]]]] = {
    **{n: [(lambda n=n: raised(getattr(polytc, n)), error)]  # type: ignore[misc]
       for n in ("ArgumentError", "CompileError", "IllegalTransform", "ModelError", "TargetError")},
    "PolytcError": [(lambda: errors.PolytcError("no"), text)],
    "Op": [(lambda: polytc.compile(TEXT), called), (lambda: polytc.compile(TEXT, shapes=SHAPES), called),
           (lambda: polytc.compile(TEXT, symbolic=True), called), (lambda: polytc.compile(TEXT, target="evaluate"), called),
           (lambda: polytc.compile(TEXT, schedule=tiled(), threads=1), called)],
    "FixedOp": [(lambda: polytc.compile(TEXT, constants={"B": B}), called)],
    "Recipe": [(tiled, text), (lambda: polytc.schedule(TEXT, SHAPES).cache("S1", "A", "i"), lambda r: r.yaml()),
               (tiled, lambda r: str(r.complete("cpu")))],
    "Graph": [(graph, text)],
    "Model": [(model, lambda m: [m.run(None, {"x": A - 5})[0].tolist(), m.inputs, m.outputs])],
    "InferenceSession": [(lambda: polytc.InferenceSession(onnx_model().SerializeToString()),
                          lambda s: [s.run(None, {"x": A - 5})[0].tolist(), s.get_inputs(), s.get_outputs()])],
}
"""Public type -> ways to get one, and what a copy has in common with it."""

OTHERS: list[tuple[Callable[[], Any], Callable[[Any], Any]]] = [
    (lambda: polytc.build(TEXT, SHAPES), lambda p: [p, str(p)]),
    (lambda: polytc.build(TEXT, {"A": ("M", "K"), "B": ("K", 6)}), text),
    (lambda: polytc.lower(TEXT, shapes=SHAPES), stages), (lambda: polytc.lower(TEXT, "opencl", shapes=SHAPES), stages),
    *((lambda n=n: getattr(polytc.lower(TEXT, shapes=SHAPES), n), text)  # type: ignore[misc]
      for n in ("scop", "dependences", "schedule", "loops", "source", "target")),
    (lambda: polytc.lower("Y[i] = X[i]", shapes={"X": (1 << 20,)}, target="opencl", schedule="program").starving,
     lambda found: [*found, *map(str, found)]),
    (lambda: polytc.lower(TEXT, shapes=SHAPES).dependences, lambda d: str(d.order)),
    (lambda: registry.target("opencl").machine, text), (lambda: lang.signature(TEXT), text),
    (lambda: polytc.explain(TEXT, shapes=SHAPES, roofline=False), lambda e: str(e).partition("Cost")[0]),
    (lambda: NeedsValue(errors.fail("E606", "no value", kind=errors.ModelError), "x"), lambda e: [*error(e), e.name]),  # type: ignore[arg-type]
]


def test_every_public_type_has_a_case() -> None:
    types = {n for n in polytc.__all__ if isinstance(getattr(polytc, n), type)}
    assert types == set(PUBLIC)


@pytest.mark.part(5)
@pytest.mark.parametrize(("make", "view"), [*(c for cases in PUBLIC.values() for c in cases), *OTHERS])
def test_copies_and_pickles(make: Callable[[], Any], view: Callable[[Any], Any]) -> None:
    value = make()
    wanted = view(value)
    assert view(copy.deepcopy(value)) == wanted
    assert view(copy.copy(value)) == wanted
    assert view(pickle.loads(pickle.dumps(value))) == wanted


def fails(n: int) -> Any:
    return polytc.compile("C[i] = A[i-1] where i in 0:4", shapes={"A": (n,)})


def run(op: Any) -> Any:
    return op(A)


@pytest.mark.long
def test_an_error_in_a_worker_reaches_its_parent() -> None:
    """multiprocessing's pool waits for ever for an error that cannot be unpickled."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        with pytest.raises(polytc.CompileError, match="E203") as refusal:
            pool.map_async(fails, [4]).get(timeout=60)
        assert refusal.value.code == "E203"
        np.testing.assert_allclose(pool.apply_async(run, [polytc.compile(TEXT, constants={"B": B})]).get(timeout=60), A @ B)


@pytest.mark.long
def test_models_run_in_workers() -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        np.testing.assert_array_equal(pool.submit(run, model()).result(timeout=60), A)
