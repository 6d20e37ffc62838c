"""What a program prints as parses to that program: every reproducer runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from onnx import helper, numpy_helper

import polytc
from language.programs import PROGRAMS
from language.tc import PROGRAMS as TC
from polytc import lang
from polytc.errors import CompileError
from polytc.graph.plan import Array
from polytc.graph.planning.operator_fusion import fuse
from polytc.graph.specialisation.specialise import specialise
from polytc.poly.proofs import Proofs
from polytc.program.canonical import canonical
from polytc.program.program import Program
from polytc.program.scalars import from_numpy
from tests.docs import test_language as documented
from tests.generator import choices, programs
from tests.graph.operators import learning_cases, moving_cases
from tests.rewrite.equal import same_results


def again(p: Program) -> Program:
    """What the text of a program is, with the shapes and types that it states."""
    return lang.build(str(p), {n: p.tensor(n).shape for n in p.inputs}, prover=Proofs())


def check(p: Program) -> None:
    found = again(p)
    assert canonical(found) == canonical(replace(p, constants=())), f"{p}\n{found}"
    assert [s.name for s in found.statements] == [s.name for s in p.statements]


def build(text: str, dtypes: dict[str, str] | None = None, **shapes: tuple[int, ...]) -> Program:
    return polytc.build(text, shapes, dtypes)


@pytest.mark.part(2)
@pytest.mark.parametrize(("given", "text"), [(g, t) for g, e, t in documented.EXAMPLES if not e[1:].isdigit()])
def test_the_examples_of_the_documentation(given: str, text: str) -> None:
    check(documented.build(given, text))


@pytest.mark.part(2)
@pytest.mark.parametrize("program", [*PROGRAMS, *TC], ids=lambda p: p.name)
def test_the_table_of_programs(program) -> None:  # type: ignore[no-untyped-def]
    arrays = program.arrays()
    types = {n: from_numpy(a.dtype) for n, a in arrays.items()}
    check(polytc.build(program.text, {n: a.shape for n, a in arrays.items()}, types, scalars=program.numbers))


def drawn(seeds: range) -> Iterator[Program]:
    for seed in seeds:
        case = programs.case(choices.seeded(seed))
        try:
            yield polytc.build(case.text, {i.name: i.shape for i in case.inputs}, {i.name: i.dtype for i in case.inputs},
                               scalars=dict(case.scalars))
        except CompileError:
            continue


def test_programs_made_up() -> None:
    for p in drawn(range(15)):
        check(p)


@pytest.mark.long
def test_many_programs_made_up() -> None:
    """A choice by numbers alone, as of an index that has one value, may be decided when it is read again."""
    for p in drawn(range(1000, 11000)):
        found = again(p)
        if canonical(found) == canonical(replace(p, constants=())):
            check(p)
        else:
            assert str(p).count("?") > str(found).count("?"), f"{p}\n{found}"
            assert canonical(again(found)) == canonical(found), str(found)
            same_results(p, found)


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.long)])
def test_programs_of_operators(every: int) -> None:
    """Programs as models get them from the texts of the operators."""
    found: list[Program] = []
    for case in [*learning_cases.CASES, *moving_cases.CASES][::every]:
        names = ["" if a is None else f"x{i}" for i, a in enumerate(case.inputs)]
        arrays = {n: np.asarray(a) for n, a in zip(names, case.inputs, strict=True) if n}
        domain, _, op = case.op.rpartition("::")
        node = helper.make_node(op, names, [f"y{i}" for i in range(case.outputs)], domain=domain, **case.attributes)
        inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
                  for n, a in arrays.items()]
        outputs = [helper.make_empty_tensor_value_info(f"y{i}") for i in range(case.outputs)]
        stored = [numpy_helper.from_array(arrays[f"x{i}"], f"x{i}") for i in case.constant]
        opsets = [helper.make_opsetid("", case.opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
        graph = polytc.load_onnx(helper.make_model(
            helper.make_graph([node], "g", [v for v in inputs if v.name not in {t.name for t in stored}], outputs, stored),
            opset_imports=opsets, ir_version=10))
        types = {v.name: Array(v.dtype, arrays[v.name].shape) for v in graph.inputs}
        found += [c.program for c in fuse(specialise(graph, types).plan).calls]
    assert len(found) > 100 / every
    for p in dict.fromkeys(found):
        check(p)


ORDERS = "S[i] += X[k,l] * Y[i] where m[l] > 0"
"""What `where` asks of memory stands before the value in the program: `l` would come before `k`."""


STATED = [
    (ORDERS, {}, {"X": (3, 4), "Y": (5,), "m": (4,)}),
    ("O[i] = X[i-1]; P[i] = O[i+2]", {}, {"X": (9,)}),
    ("d0[i] = X[i]; y += d0[k]", {"X": "f16"}, {"X": (4,)}),
    ("S[i] += X[i,k]; T[i] = S[i] * 0.1 + 3", {"X": "f16"}, {"X": (3, 4)}),
    ("O[i] = i > 2 ? f32(0.1) : 0.2 where i in 0:5; Q[i] = u8(200) + X[i]", {"X": "u8"}, {"X": (5,)}),
    ("R[i] = i32(3) where i in 0:2; W[i] = f32(1) / 3 where i in 0:2; V[i] = X[i] - -3", {"X": "i8"}, {"X": (5,)}),
    ("O[i] = min(X[i], -0.0) + nan; P[i] = -inf where i in 0:3", {}, {"X": (5,)}),
    ("precise def f(f32[N] x) -> (s) { s += x[i] }", {}, {"x": (7,)}),
    ("direct def f(f32[N] x) -> (s) { s += x[i] }", {}, {"x": (7,)}),
    ("def exp(f32[N] x) -> (y) { y[i] = log(x[i]) }", {}, {"x": (7,)}),
    ("y[i] += X[p] where p in i:r[i+1], i in 0:3, (i + p) % 2 == 0", {"r": "i32"}, {"X": (9,), "r": (4,)}),
    ("def f(inout f32[3] y, f32[9] X, i32[4] r) { for i in 0:3 { for p in r[i]:r[i+1] { y[i] = X[p] where p > 1 } } }", {},
     {"y": (3,), "X": (9,), "r": (4,)})]


@pytest.mark.parametrize(("text", "dtypes", "shapes"), STATED)
def test_what_has_to_be_said(text: str, dtypes: dict[str, str], shapes: dict[str, tuple[int, ...]]) -> None:
    check(build(text, dtypes, **shapes))


def test_indices_in_their_order() -> None:
    p = build(ORDERS, X=(3, 4), Y=(5,), m=(4,))
    assert p.statements[-1].indices == ("i", "k", "l")
    assert "S1[i, k, l]: S[i] += m[l] > 0.0 ?" in str(p)


def test_open_sizes() -> None:
    shapes = {"A": ("M", "K"), "B": ("K", 128)}
    p = polytc.build("C[i,j] += A[i,k] * B[k,j]; D[i] = C[i, 2] where i in 0:A.shape[0]-1", shapes)
    assert canonical(polytc.build(str(p), shapes)) == canonical(p)


def test_a_tensor_that_begins_at_an_open_size() -> None:
    p = polytc.build("def f(f32[n] A) -> (Y) { T[i] = A[i] where i in n-3:n\n Y[i] = T[n-1-i] where i in 0:3 }", {"A": ("n",)})
    assert "f32[n - 3:n] T" in str(p)


@pytest.mark.parametrize("op", ["+=", "max=", "*="])
def test_a_read_that_is_never_in_bounds_is_gone_before_it_is_printed(op: str) -> None:
    p = build(f"S[i] {op} X[i]; for t in 0:3 {{ S[i] {op} X[i] * (W[1] else identity) where i in 0:2 }}", X=(3,), W=(1,))
    check(p)
    assert "1 <= " not in str(p)
    assert "W[" not in str(p)


def test_the_default_for_a_tensor_without_elements_is_added_before_it_is_printed() -> None:
    p = build("Y[i] = (X[i] else 0) + 0.5 where i in 0:3", X=(0,))
    check(p)
    assert "= 0.5" in str(p)


def test_the_text_computes_the_same() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    p = build("(M[i], J[i]) argmax= (X[i,j], j)", X=(3, 4))
    np.testing.assert_array_equal(polytc.run(str(p), X=x)[1], x.argmax(1))


@pytest.mark.parametrize(("text", "code"), [
    ("S: y[i] = x[i]", "E116"), ("S1[i+1]: y[i] = x[i]", "E116"), ("S1[j]: y[i] = x[i]", "E116"),
    ("S1: y[i] = x[i]; S1: z[i] = x[i]", "E104"), ("temp f32[4] t; y[i] = x[i]", "E109"),
    ("temp f32[4] t; t[i] = x[i]; y[i] = t[i]", "E205"), ("temp x[4] t[2] = x", "E001"),
("def f(f32[1:6] x) -> (y) { y[i] = x[i] }", "E205"),
    ("op f(x[*i]) -> y[*i] { temp f32[5] t; t[*i] = x[*i]; y[*i] = t[*i] }", "E116")])
def test_refused(text: str, code: str) -> None:
    with pytest.raises(CompileError) as refusal:
        build(text, x=(5,))
    assert refusal.value.code == code


def test_words_are_names_elsewhere() -> None:
    check(build("temp[i] = 2 * direct[i]; y[temp_] = temp[temp_] where temp_ in 0:3", direct=(4,)))
