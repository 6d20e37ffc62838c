"""A Target is taken wherever a target's name is; anything else is refused with a cure."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import polytc
from polytc import keys
from polytc.machine import AVX2, AVX512, DEVICES, GENERIC_CPU, NEON, Machine
from polytc.targets import registry
from polytc.targets.c.target import CTarget
from polytc.targets.interp import InterpTarget
from polytc.targets.llvm.target import LLVMTarget
from polytc.targets.opencl.target import OpenCLTarget
from tests.opencl_here import NEEDS_OPENCL

TEXT = "C[i,j] += A[i,k] * B[k,j]"
SHAPES: dict[str, tuple[int, ...]] = {"A": (5, 7), "B": (7, 3)}
OPEN: dict[str, tuple[str, ...]] = {"A": ("M", "K"), "B": ("K", "N")}
A, B = np.arange(35, dtype=np.float32).reshape(5, 7), np.arange(21, dtype=np.float32).reshape(7, 3)


def model(target: Any, **options: Any) -> Any:
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [5, 7]) for n in "xy"]
    made = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", values[:1], values[1:])
    graph = polytc.load_onnx(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    return graph.compile(target=target, **options)


def explained(target: Any) -> Any:
    op = polytc.compile(TEXT, target=target)
    op(A, B)
    return op.explain(roofline=False)


RUNNING: dict[str, Callable[[Any], Any]] = {
    "compile": lambda t: polytc.compile(TEXT, target=t)(A, B),
    "compile with shapes": lambda t: polytc.compile(TEXT, target=t, shapes=SHAPES)(A, B),
    "compile with open sizes": lambda t: polytc.compile(TEXT, target=t, shapes=OPEN)(A, B),
    "compile with constants": lambda t: polytc.compile(TEXT, target=t, constants={"B": B})(A),
    "compile checked": lambda t: polytc.compile(TEXT, target=t, checked=True)(A, B),
    "compile with a recipe": lambda t: polytc.compile(
        TEXT, target=t, schedule=polytc.schedule(TEXT, SHAPES).tile("S1", i=2))(A, B),
    "run": lambda t: polytc.run(TEXT, A, B, target=t),
    "einsum": lambda t: polytc.einsum("ik,kj->ij", A, B, target=t),
    "Graph.compile": lambda t: -(model(t).run(None, {"x": A})[0]) @ B,
    "Graph.compile symbolic": lambda t: -(model(t, symbolic=True, layouts=False).run(None, {"x": A})[0]) @ B,
}
PRINTING: dict[str, Callable[[Any], Any]] = {
    "lower": lambda t: str(polytc.lower(TEXT, target=t, shapes=SHAPES).source),
    "lower with a recipe": lambda t: str(polytc.lower(TEXT, t, shapes=SHAPES, schedule=polytc.schedule(
        TEXT, SHAPES).tile("S1", i=2)).source),
    "explain": lambda t: str(polytc.explain(TEXT, target=t, shapes=SHAPES, roofline=False)),
    "Op.explain": explained,
    "Recipe.complete": lambda t: str(polytc.schedule(TEXT, SHAPES).tile("S1", i=2).complete(t)),
}
TARGETS = [LLVMTarget(), LLVMTarget(GENERIC_CPU), InterpTarget(), InterpTarget(AVX2), registry.target("cpu")]


@pytest.mark.part(8)
@pytest.mark.parametrize("target", TARGETS, ids=lambda t: f"{t.name}{t.machine.vector_bytes}")
@pytest.mark.parametrize("entry", [*RUNNING, *PRINTING])
def test_every_entry_takes_a_target(entry: str, target: Any) -> None:
    if entry in RUNNING:
        np.testing.assert_array_equal(RUNNING[entry](target), A @ B)
    else:
        assert PRINTING[entry](target)


@pytest.mark.part(2)
@pytest.mark.parametrize("entry", [pytest.param(e, marks=NEEDS_OPENCL) for e in RUNNING])
def test_on_an_opencl_device(entry: str) -> None:
    for target in (registry.target("opencl"), OpenCLTarget(next(iter(DEVICES.values())))):
        np.testing.assert_array_equal(RUNNING[entry](target), A @ B)


@pytest.mark.parametrize("target", [CTarget(), OpenCLTarget(), LLVMTarget(NEON), LLVMTarget(AVX512)], ids=lambda t: t.name)
def test_stages_are_for_the_machine_of_the_target(target: Any) -> None:
    low = polytc.lower(TEXT, target=target, shapes=SHAPES)
    assert low.target is target
    if target == CTarget():
        with pytest.raises(polytc.TargetError, match="E514"):
            polytc.compile(TEXT, target=target, shapes=SHAPES)


class Unhashable(LLVMTarget):
    """A target that is no key of a dictionary."""

    __hash__ = None  # type: ignore[assignment]


WRONG: list[tuple[Any, str]] = [
    (AVX2, "LLVMTarget(machine)"), (3, "a name, or a Target"), (None, "a name, or a Target"), (LLVMTarget, "LLVMTarget() is"),
    (["cpu"], "a name, or a Target"), ("cup", "the targets are"), ("cpu:1", "the targets are"),
    (b"cpu", "a name, or a Target"), (Unhashable(), "must have a hash")]


@pytest.mark.parametrize(("wrong", "cure"), WRONG)
@pytest.mark.parametrize("entry", [*RUNNING, *PRINTING])
def test_anything_else_is_refused(entry: str, wrong: Any, cure: str) -> None:
    if entry == "Recipe.complete" and isinstance(wrong, Machine):
        return  # which decisions a recipe leaves open depends on the machine alone
    with pytest.raises(polytc.TargetError, match="E502") as refusal:
        (RUNNING | PRINTING)[entry](wrong)
    assert cure in str(refusal.value)


def test_code_for_another_processor_is_not_run() -> None:
    """It would end the process."""
    for machine in (NEON, DEVICES["nvidia-sm90"]):
        with pytest.raises(polytc.TargetError, match="E531"):
            polytc.compile(TEXT, target=LLVMTarget(machine), shapes=SHAPES)
        with pytest.raises(polytc.TargetError, match="E531"):
            model(LLVMTarget(machine))


@pytest.mark.parametrize("target", [LLVMTarget(GENERIC_CPU), InterpTarget()], ids=lambda t: t.name)
def test_ops_print_and_copy(target: Any) -> None:
    op = polytc.compile(TEXT, target=target, shapes=SHAPES)
    assert repr(op).endswith(f"target {target.name}>")
    for again in (copy.copy(op), copy.deepcopy(op), pickle.loads(pickle.dumps(op))):
        assert (repr(again), again.target) == (repr(op), target)
        np.testing.assert_array_equal(again(A, B), A @ B)
    assert str(model(target)).startswith(f"model g for {target.name}")


def test_targets_that_make_other_code_have_other_keys() -> None:
    program = polytc.build(TEXT, SHAPES)
    made = [LLVMTarget(), LLVMTarget(GENERIC_CPU), LLVMTarget(takes_sizes=True), OpenCLTarget(), OpenCLTarget(device="1")]
    assert len({keys.key(program, t, None) for t in made}) == len(made)
