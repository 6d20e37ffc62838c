"""Files whose large tensors stay where they are mean what protobuf says they mean."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import onnx
import pytest
from google.protobuf.message import DecodeError
from onnx import helper, numpy_helper

import polytc
from polytc.disk.mapped import file_of
from polytc.errors import ModelError
from polytc.graph.onnx.outline import LARGE, Unusual, outline

N = helper.make_node
WEIGHTS = {"w": np.random.default_rng(0).standard_normal((40, 60)).astype(np.float32), "small": np.ones(60, np.float32),
           "d": np.arange(2400.0).reshape(60, 40), "flags": np.arange(9000) % 3 == 0}


@pytest.fixture
def model(build) -> onnx.ModelProto:
    """Large tensors as initializers, in a Constant, in a branch of an If, and in a function."""
    def branch(name: str, number: int) -> onnx.GraphProto:
        value = numpy_helper.from_array(np.full((4, 2000), number, np.float32))
        result = helper.make_tensor_value_info("c", onnx.TensorProto.FLOAT, [4, 2000])
        return helper.make_graph([N("Constant", [], ["c"], value=value)], name, [], [result])
    branches = {"then_branch": branch("yes", 2), "else_branch": branch("no", 3)}
    nodes = [N("MatMul", ["x", "w"], ["a"]), N("Add", ["a", "small"], ["b"]), N("F", ["b"], ["f"], domain="own"),
             N("If", ["flag"], ["i"], **branches), N("ReduceSum", ["i"], ["s"]), N("Add", ["f", "s"], ["y"]),
             N("CastLike", ["flags", "x"], ["g"]), N("MatMul", ["e", "d"], ["h"])]
    inputs = {"x": (np.float32, [4, 40]), "flag": (np.bool_, []), "e": (np.float64, [2, 60])}
    made = build(nodes, inputs, ["y", "g", "h"], WEIGHTS)
    bias = numpy_helper.from_array(np.random.default_rng(1).standard_normal((64, 60)).astype(np.float32))
    inner = [N("Constant", [], ["k"], value=bias), N("ReduceMax", ["k"], ["m"], keepdims=0), N("Add", ["x", "m"], ["y"])]
    made.functions.append(helper.make_function("own", "F", ["x"], ["y"], inner, [helper.make_opsetid("", 21)]))
    return made


def feeds() -> dict[str, np.ndarray]:
    r = np.random.default_rng(2)
    return {"x": r.standard_normal((4, 40)).astype(np.float32), "flag": np.array(True), "e": r.standard_normal((2, 60))}


def test_the_same_results_from_a_path_bytes_and_a_message(model, reference, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    expected = reference(model, feeds())
    for source in (path, path.read_bytes(), model):
        for mine, theirs in zip(polytc.load_onnx(source).compile(target="evaluate").run(None, feeds()), expected, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)


def test_large_tensors_stay_in_the_file(model, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    text = outline(memoryview(path.read_bytes()), "here")
    assert len(text) < LARGE
    constants = polytc.load_onnx(path, without=["constants", "leftovers"]).constants
    assert {n for n, a in constants.items() if file_of(a) is not None} == {"w", "d", "flags"}
    for name, array in WEIGHTS.items():
        np.testing.assert_array_equal(constants[name], array)


def test_other_tensors_cannot_name_the_file_itself(model, tmp_path: Path) -> None:
    """What the references say is drawn anew for each file that is read."""
    path = tmp_path / "m.onnx"
    path.write_bytes(outline(memoryview(model.SerializeToString()), "0" * 32))
    with pytest.raises(ModelError, match="cannot be read") as caught:
        polytc.load_onnx(path)
    assert caught.value.code == "E603"


def parsed(data: bytes) -> dict[str, bytes] | None:
    """The initializers of a file, as protobuf reads it; None if it does not."""
    made = onnx.ModelProto()
    try:
        made.ParseFromString(data)
    except DecodeError:
        return None
    return {repr(t.name): t.raw_data for t in made.graph.initializer}


def outlined(data: bytes) -> dict[str, bytes] | None:
    """The same by the way of an outline."""
    made = onnx.ModelProto()
    try:
        made.ParseFromString(outline(memoryview(data), "here"))
    except Unusual:
        return parsed(data)
    except DecodeError:
        return None
    found = {}
    for t in made.graph.initializer:
        place = {e.key: e.value for e in t.external_data}
        own = place.get("location") == "here"
        start = int(place["offset"]) if own else 0
        found[repr(t.name)] = data[start:start + int(place["length"])] if own else t.raw_data
    return found


def test_files_that_were_damaged_are_read_as_protobuf_reads_them(model) -> None:
    r = random.Random(3)
    whole = model.SerializeToString()
    data = np.frombuffer(whole, np.uint8)
    heads = [i for i in range(len(whole) - 4) if whole[i:i + 2] in (b"J\x80", b"*\x88", b":\x8c")] + list(range(40))
    changed = 0
    for _ in range(1500):
        bad = bytearray(whole)
        for _ in range(r.randint(1, 3)):
            bad[min(max(0, r.choice(heads) + r.randint(-8, 8)), len(bad) - 1)] = r.randrange(256)
        if r.random() < 0.2:
            del bad[r.randrange(len(bad)):]
        found = parsed(bytes(bad))
        assert outlined(bytes(bad)) == found
        changed += found != parsed(data.tobytes())
    assert changed > 300


def test_a_file_that_says_that_its_data_are_in_it(build) -> None:
    """As ONNX Runtime writes them: the last word of a message counts."""
    made = build([N("MatMul", ["x", "w"], ["y"])], {"x": (np.float32, [4, 40])}, ["y"], {"w": WEIGHTS["w"]})
    made.graph.initializer[0].data_location = onnx.TensorProto.DEFAULT
    np.testing.assert_array_equal(polytc.load_onnx(made.SerializeToString()).constants["w"], WEIGHTS["w"])


def test_fields_that_are_there_twice(build) -> None:
    """protobuf puts the two together; what is outlined would not be."""
    whole = build([N("Relu", ["x"], ["y"])], {"x": (np.float32, [4])}, ["y"], {"w": WEIGHTS["w"]}).SerializeToString()
    with pytest.raises(Unusual, match="twice"):
        outline(memoryview(whole + whole), "here")


@pytest.mark.parametrize("in_place", [False, True])
def test_a_file_that_changes_after_loading(build, tmp_path: Path, in_place: bool) -> None:
    """Weights are polytc's own, or those of the file where it is mapped in place: then a file that was cut is refused."""
    path = tmp_path / "m.onnx"
    made = build([N("MatMul", ["x", "w"], ["y"])], {"x": (np.float32, ["n", 40])}, ["y"], {"w": WEIGHTS["w"]})
    path.write_bytes(made.SerializeToString())
    compiled = polytc.load_onnx(path, in_place=in_place).compile(target="evaluate")
    x = np.ones((3, 40), np.float32)
    expected = x @ WEIGHTS["w"]
    np.testing.assert_allclose(compiled(x), expected, rtol=1e-4, atol=1e-4)
    path.write_bytes(b"cut")
    if in_place:
        with pytest.raises(ModelError, match="load the model again") as caught:
            compiled(x[:2])
        assert caught.value.code == "E614"
    else:
        np.testing.assert_allclose(compiled(x[:2]), expected[:2], rtol=1e-4, atol=1e-4)
    other = tmp_path / "other.onnx"
    other.write_bytes(made.SerializeToString())
    other.replace(path)
    compiled = polytc.load_onnx(path).compile(target="evaluate")
    other.write_bytes(b"another model")
    other.replace(path)
    np.testing.assert_allclose(compiled(x), expected, rtol=1e-4, atol=1e-4)
