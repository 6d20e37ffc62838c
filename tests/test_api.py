"""compile, run, lower, evaluate: the calling convention, caching, and what bad arguments get."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import polytc
from polytc import Op, stages
from polytc.arguments import LowerOptions, Options
from polytc.errors import ArgumentError, CompileError, TargetError

MATMUL = "C[i,j] += A[i,k]*B[k,j]"
TWO = "C[i] = A[i] + B[i]; D[i] = A[i] - B[i]\n-> (C, D)"


def op(text: str = MATMUL, **options: object) -> Op:
    return polytc.compile(text, "evaluate", **options)  # type: ignore[arg-type]


def pair() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((4, 3)).astype("f4"), rng.standard_normal((3, 5)).astype("f4")


# ---- calling

def test_former_places() -> None:
    from polytc.program import extents
    from polytc.program import extents as former
    assert former.at is extents.at


def test_run_on_every_target(targets: tuple[str, ...]) -> None:
    a, b = pair()
    for target in (*targets, "evaluate"):
        found = polytc.run(MATMUL, A=a, B=b, target=target)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, a @ b, rtol=1e-5, atol=1e-6)


def test_the_first_example_of_the_readme() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((300, 200)).astype("f4"), rng.random((200, 100)).astype("f4")
    assert abs(polytc.run(MATMUL, A=a, B=b) - a @ b).max() < 1e-3


def test_positions_and_names() -> None:
    a, b = pair()
    mm = op()
    assert (mm.inputs, mm.outputs) == (("A", "B"), ("C",))
    for found in (mm(a, b), mm(B=b, A=a), mm(a, B=b), polytc.run(MATMUL, a, b), polytc.evaluate(MATMUL, A=a, B=b)):
        np.testing.assert_allclose(found, a @ b, rtol=1e-5, atol=1e-6)


def test_several_outputs_are_a_named_tuple() -> None:
    a, b = np.arange(3.0), np.ones(3)
    found = op(TWO)(a, b)
    assert np.array_equal(found.C, a + b)
    assert np.array_equal(found[1], a - b)


def test_out() -> None:
    a, b = pair()
    c = np.empty((4, 5), "f4")
    assert op()(a, b, out=c) is c
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-6)
    outs = {"D": np.empty(3), "C": np.empty(3)}
    assert op(TWO)(np.arange(3.0), np.ones(3), out=outs) is outs
    assert outs["D"].tolist() == [-1, 0, 1]


def test_specialises_once_for_each_shape_and_type() -> None:
    a, b = pair()
    mm = op()
    mm(a, b)
    mm(a.copy(), b.copy())
    assert len(mm._ready) == 1
    mm(a.astype("f8"), b.astype("f8"))
    mm(a[:2], b)
    assert len(mm._ready) == 3
    assert mm(a.astype("f8"), b.astype("f8")).dtype == np.float64


def test_shapes_compile_ahead() -> None:
    mm = op(shapes={"A": (4, 3), "B": [3, 5]}, dtypes={"A": "f32", "B": np.float32})
    assert len(mm._ready) == 1
    a, b = pair()
    mm(a, b)
    assert len(mm._ready) == 1


def test_threads_of_python() -> None:
    a, b = pair()
    mm, found = polytc.compile(MATMUL), []
    workers = [threading.Thread(target=lambda: found.append(mm(a, b))) for _ in range(8)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert len(found) == 8
    assert all(np.array_equal(f, found[0]) for f in found)


# ---- what counts as an array

class Speaks:
    """An object that is an array by one protocol."""

    def __init__(self, array: np.ndarray, protocol: str) -> None:
        for name in {"dlpack": ["__dlpack__", "__dlpack_device__"], "interface": ["__array_interface__"]}[protocol]:
            setattr(type(self), name, property(lambda self, n=name: getattr(array, n)))


def speaking(array: np.ndarray, protocol: str) -> object:
    return type("Speaks", (Speaks,), {})(array, protocol)


def test_arrays_by_protocol() -> None:
    a = np.arange(4.0)
    double = op("C[i] = 2 * A[i]")
    for value in (speaking(a, "dlpack"), speaking(a, "interface"), memoryview(a), np.asfortranarray(a), a.view(np.recarray)):
        assert double(value).tolist() == [0, 2, 4, 6]


def test_inputs_of_any_layout() -> None:
    a, b = pair()
    expected = a @ b
    wide = np.zeros((4, 6), "f4")
    wide[:, ::2] = a
    unaligned = np.frombuffer(b"x" + b.tobytes(), "f4", offset=1).reshape(b.shape)
    for left in (np.asfortranarray(a), wide[:, ::2], a[::-1][::-1]):
        for right in (b, unaligned, np.asfortranarray(b)):
            np.testing.assert_allclose(polytc.run(MATMUL, left, right), expected, rtol=1e-5, atol=1e-6)
    a.flags.writeable = False
    np.testing.assert_allclose(polytc.run(MATMUL, a, b), expected, rtol=1e-5, atol=1e-6)


def test_scalars_and_arrays_without_elements(targets: tuple[str, ...]) -> None:
    for target in (*targets, "evaluate"):
        assert polytc.run("C[i] = A[i] * s", A=np.arange(3.0), s=2.0, target=target).tolist() == [0, 2, 4]
        assert polytc.run("C[i] = A[i] + 1", np.empty(0, "f4"), target=target).shape == (0,)
        assert polytc.run("s += A[i]", np.arange(4), target=target) == 6


def test_a_typed_scalar_is_data_and_a_python_number_is_weak() -> None:
    scale = op("C[i] = A[i] * s")
    a = np.ones(2, "f4")
    assert scale(a, 2.0).dtype == np.float32
    assert scale(a, np.float64(2)).dtype == (a * np.float64(2)).dtype == np.float64
    scale(a, np.float64(3))
    assert len(scale._ready) == 2
    declared = op("def f(f32[N] A, f32 s, i32 d) -> (C) { C[i] = s * A[d*i] }")
    assert [declared(a, s, 1).tolist() for s in (1.0, 2.5, -0.0)] == [[1, 1], [2.5, 2.5], [0, 0]]
    assert len(declared._ready) == 1
    assert declared(a, 1.0, 2).tolist() == [1]
    assert op("C[i] = A[i] * s", scalars={"s": 3})(a).tolist() == [3, 3]


def test_numbers_of_subscripts_and_ranges_by_keyword(targets: tuple[str, ...]) -> None:
    a = np.arange(6.0)
    for target in (*targets, "evaluate"):
        assert polytc.run("C[i] = A[s*i]", A=a, s=2, target=target).tolist() == [0, 2, 4]
        assert polytc.run("C[i] = A[s*i]", a, s=3, target=target).tolist() == [0, 3]
        assert polytc.run("C[i] = A[i] where i in 0:s", a, s=np.int64(2), target=target).tolist() == [0, 1]
    assert polytc.evaluate("C[i] = A[s*i] * t", A=a, s=4, t=10).tolist() == [0, 40]
    stride = op("C[i] = A[s*i]", shapes={}, attrs={})
    assert stride(a, s=5).tolist() == [0, 5]
    assert stride(a, s=4, out=np.empty(2)).tolist() == [0, 4]
    refused("E401", "no input s", stride, a, s="2")
    refused("E401", "no input k", op("C[i] = A[i+k] where k = 2"), a, k=1)
    refused("E401", "no input N", op("def f(f64[N] A) -> (C) { C[i] = A[i] * N }"), a, N=3)


def test_scalars_and_attributes_that_the_program_does_not_have() -> None:
    refused("E401", "scalars names zz, which the program does not use", op, "C[i] = A[i]", scalars={"zz": 1})
    refused("E401", "did you mean `alpha`?", polytc.lower, "C[i] = alpha*A[i]", shapes={"A": (3,)}, scalars={"alhpa": 1})
    refused("E107", "only an `op` has attributes", op, attrs={"zz": 1})
    refused("E107", "its attributes are: alpha", op, "op F<alpha>(X[*i]) -> Y[*i] { Y[*i] = alpha * X[*i] }", attrs={"beta": 1})
    refused("E410", "attrs is a dict", op, attrs=["zz"])


def test_targets_are_known_names() -> None:
    for call in (polytc.compile, polytc.run, polytc.lower, polytc.einsum):
        for target in (5, None, ["cpu"], "abacus"):
            with pytest.raises(TargetError, match="E502") as caught:
                call("ij,jk" if call is polytc.einsum else MATMUL, *pair() if call is polytc.einsum else (), target=target)
            assert repr(target) in str(caught.value)


def test_tensors_that_no_memory_holds(targets: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    text = "C[i] = (A[i] else 0) where i in 0:{}"
    a = np.ones(4, "f4")
    for extent, code in ((10**12, "E209"), (10**16, "E209"), (2**63 - 1, "E306"), (10**30, "E306")):
        for target in (*targets, "evaluate"):
            if extent > 10**12 or target == "cpu":
                with pytest.raises(CompileError, match=code):
                    polytc.run(text.format(extent), A=a, target=target)
    monkeypatch.setattr("polytc.runtime.arrays.MEMORY", 100)
    refused("E209", "this machine has 100 bytes", polytc.run, text.format(26), a)
    assert polytc.run(text.format(26), a, out=np.empty(26, "f4")).sum() == 4
    monkeypatch.setattr("polytc.runtime.arrays.MEMORY", None)
    refused("E209", "compute it in parts", polytc.run, text.format(10**13), a)


def test_no_memory_while_running(monkeypatch: pytest.MonkeyPatch) -> None:
    double = op("C[i] = 2 * A[i]")
    found = double.specialise({"A": (3,)})

    def run(self: object, arrays: object) -> None:
        raise MemoryError

    monkeypatch.setattr(type(found.executable), "run", run)
    refused("E209", "temporaries", double, np.ones(3, "f4"))


def test_a_mark_before_the_text_is_skipped() -> None:
    assert polytc.run("\ufeffC[i] = A[i]", np.arange(2)).tolist() == [0, 1]


# ---- refusals

def refused(code: str, names: str, call: object, *args: object, **named: object) -> None:
    with pytest.raises(ArgumentError) as caught:
        call(*args, **named)  # type: ignore[operator]
    assert caught.value.code == code
    assert names in str(caught.value)


def test_wrong_arguments() -> None:
    a, b = pair()
    mm = op()
    refused("E401", "B is missing", mm, a)
    refused("E401", "takes 2 arrays, 3 were given", mm, a, b, a)
    refused("E401", "no input D", mm, a, b, D=a)
    refused("E401", "A is given twice", mm, a, A=a)
    refused("E402", "B is a list", mm, a, [[1.0]])
    refused("E402", "B is a NoneType", mm, a, None)
    refused("E402", "B is a str", mm, a, "text")
    refused("E402", "masked", mm, a, np.ma.array(b))
    refused("E403", "complex256", mm, a, b.astype(np.clongdouble))
    refused("E403", "object", mm, a, b.astype(object))
    refused("E404", "newbyteorder", mm, a, b.astype(">f4"))
    refused("E409", "s is a scalar", op("C[i] = A[i] * s"), a[0], "2")


def test_inputs_may_have_the_names_of_parameters(targets: tuple[str, ...]) -> None:
    x = np.arange(3, dtype=np.float32)
    for name in ("self", "text", "args", "named", "arrays", "shapes", "constants"):
        text = f"C[i] = 2 * {name}[i] + B[i]"
        for target in targets:
            np.testing.assert_array_equal(polytc.run(text, target=target, **{name: x, "B": x}), 3 * x)
        np.testing.assert_array_equal(polytc.evaluate(text, **{name: x, "B": x}), 3 * x)
        np.testing.assert_array_equal(polytc.compile(text, constants={"B": x})(**{name: x}), 3 * x)
    for name in ("out", "target", "threads", "schedule", "entry"):
        np.testing.assert_array_equal(polytc.run(f"C[i] = 2 * {name}[i]", x), 2 * x)
    with pytest.raises(ArgumentError, match="by position"):
        op("C[i] = 2 * out[i]")(out=x)


def test_wrong_options() -> None:
    a, b = pair()
    shapes = {"A": (4, 3), "B": (3, 5)}
    refused("E405", "A has shape (3, 3)", op(shapes=shapes), a[:3], b)
    refused("E406", "A has elements of type float64", op(shapes=shapes, dtypes={"A": "f32"}), a.astype("f8"), b)
    refused("E401", "X, which is no input", op, shapes={"X": (1,)})
    refused("E410", "'f31' is not an element type", op, dtypes={"A": "f31"})
    refused("E410", "non-negative integers", op, shapes={"A": (-1, 2)})
    refused("E410", "a program is text, not PosixPath", polytc.compile, Path("/tmp/matmul.ein"))
    refused("E410", "a program is text, not int", polytc.lower, 5)
    refused("E410", "a schedule is text or what polytc.schedule() gives, not int", polytc.compile, "C[i] = A[i]", schedule=5)
    with pytest.raises(polytc.CompileError, match="E006"):
        polytc.compile("C[i] = " + "(" * 3000 + "A[i]" + ")" * 3000)
    for threads in (0, -1, 1.5, True, "2"):
        refused("E410", "threads", op, threads=threads)
    with pytest.raises(TargetError) as caught:
        polytc.run(MATMUL, a, b, target="abacus")
    assert "abacus" in str(caught.value)
    with pytest.raises(CompileError, match="E105"):
        polytc.run(MATMUL, a, a[0])


OPTIONS = {polytc.compile: {"constants", *Options.__annotations__}, Op: set(Options.__annotations__),
           polytc.lower: set(LowerOptions.__annotations__), polytc.alternatives: set(LowerOptions.__annotations__),
           polytc.explain: {"threads", "roofline", *LowerOptions.__annotations__}}
"""What each takes by name alone."""


@pytest.mark.parametrize("function", OPTIONS, ids=lambda f: f.__name__)
def test_help_lists_all_options_and_others_are_refused(function: Callable[..., object]) -> None:
    listed = inspect.signature(function).parameters.values()
    assert {p.name for p in listed if p.kind is p.KEYWORD_ONLY} == OPTIONS[function]
    assert all(p.default is (False if p.annotation == "bool" else None) for p in listed if p.name in Options.__annotations__)
    for name, cure in (("shpes", ": did you mean `shapes`?"), ("frobnicate", "")):
        with pytest.raises(TypeError) as caught:
            function("C[i] = A[i]", **{name: {}})
        assert str(caught.value) == f"{function.__name__}() got an unexpected keyword argument {name!r}{cure}"


def test_what_may_be_given_by_position_is_an_option_of_lower() -> None:
    for function in (polytc.build, stages.schedule):
        own = set(inspect.signature(function).parameters) - {"text", "program", "exact"}
        assert own <= set(LowerOptions.__annotations__)


def test_an_op_takes_what_compile_takes() -> None:
    text, shapes = "T[i] = A[i] + 1; C[i] = T[i]*T[i]", {"A": (8,)}
    assert "fusion min, as asked" in str(Op(text, shapes=shapes, fusion="min").explain(roofline=False))
    assert not Op(text, shapes=shapes, decisions="polytc decisions 1\ninline: none").decisions.of("inline")


def test_explain_with_checked_indices() -> None:
    told = polytc.explain("Y[i] = X[J[i]]", shapes={"X": (9,), "J": (5,)}, dtypes={"J": "i32"}, checked=True, roofline=False)
    assert len(told.report.lowered.program.outputs) == 2


def test_wrong_outputs() -> None:
    a, b = pair()
    mm, square = op(), op("C[i,j] = 2 * A[i,j]")
    refused("E407", "shape (5, 4)", mm, a, b, out=np.empty((5, 4), "f4"))
    refused("E407", "float64", mm, a, b, out=np.empty((4, 5)))
    turned = np.empty((5, 4), "f4").T
    assert mm(a, b, out=turned) is turned
    np.testing.assert_allclose(turned, mm(a, b))
    refused("E407", "a list", mm, a, b, out=[[0.0]])
    frozen = np.empty((4, 5), "f4")
    frozen.flags.writeable = False
    refused("E407", "read-only", mm, a, b, out=frozen)
    refused("E408", "overlaps A", square, a, out=a)
    base = np.zeros(20, "f4")
    refused("E408", "overlaps A", square, base[:12].reshape(4, 3), out=base[8:].reshape(4, 3))
    shared = np.zeros(3)
    refused("E408", "out for D overlaps out for C", op(TWO), np.ones(3), np.ones(3), out=(shared, shared))
    lines = np.zeros((3, 7))
    both = op(TWO)(np.ones(3), np.ones(3), out=(lines[:, 0], lines[::-1, 1]))
    np.testing.assert_array_equal(lines[:, :2], np.stack([both[0], both[1][::-1]], 1))
    refused("E408", "out for D overlaps out for C", op(TWO), np.ones(3), np.ones(3), out=(lines[:, 0], lines[::-1, 0]))
    refused("E408", "out for D overlaps out for C", op(TWO), np.ones(3), np.ones(3), out=(lines[0, :3], lines[:, 1]))
    once = np.lib.stride_tricks.as_strided(np.zeros(1), (3,), (0,))
    refused("E407", "elements that share memory", op(TWO), np.ones(3), np.ones(3), out=(np.zeros(3), once))
    refused("E401", "an array for each of C, D", op(TWO), np.ones(3), np.ones(3), out=shared)


def test_nothing_is_written_when_a_call_is_refused() -> None:
    a, _ = pair()
    out = np.full((4, 5), 7, "f4")
    with pytest.raises(CompileError):
        op()(a, a[0], out=out)
    assert (out == 7).all()


# ---- stages

@pytest.mark.part(2)
@pytest.mark.parametrize("target", ["cpu", "opencl", "interp"])
def test_every_stage_prints(target: str) -> None:
    text = "O[n,m,h,w] += (I[n,c,h+r-1,w+s-1] else 0) * W[m,c,r,s] where h in 0:8, w in 0:8"
    low = polytc.lower(text, target, shapes={"I": (1, 4, 8, 8), "W": (6, 4, 3, 3)})
    printed = [str(x) for x in (low.program, low.scop, low.dependences, low.schedule, low.loops, low.source)]
    assert "else 0" in printed[0]
    assert all(len(p.splitlines()) > 1 for p in printed)
    assert "for " in printed[4]


def test_source_can_be_made_without_a_device() -> None:
    low = polytc.lower(MATMUL, "opencl", shapes={"A": (64, 64), "B": (64, 64)})
    assert "__kernel" in str(low.source)


def test_entry_says_which_definition() -> None:
    text = "def double(f32[N] x) -> (y) { y[i] = 2*x[i] }\n"
    text += "def triple(f32[N] x, i32 n) -> (y) { y[i] = 3*x[i+n] where i in 0:N-n }"
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(polytc.run(text, x, target="interp", entry="double"), 2 * x)
    np.testing.assert_array_equal(op(text, entry="triple")(x, 1), 3 * x[1:])
    np.testing.assert_array_equal(op(text, entry="triple", scalars={"n": 1})(x), 3 * x[1:])
    assert polytc.lower(text, "interp", shapes={"x": (3,)}, entry="double").program.name == "double"
    assert "def double" in str(polytc.explain(text, shapes={"x": (3,)}, entry="double", roofline=False))
    assert polytc.schedule(text, {"x": (3,)}, entry="double").program.name == "double"
    with pytest.raises(CompileError, match="E108"):
        polytc.compile(text, entry="single")
    with pytest.raises(ArgumentError, match="E410"):
        polytc.compile(text, entry=2)  # type: ignore[call-overload]
