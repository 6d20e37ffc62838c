"""Arrays that a statement walks together have one extent: numpy's einsum, which refuses what does not match, is the judge."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import polytc
from polytc import lang
from polytc.errors import CompileError

SHAPES = {"a": (3,), "v": (4,), "m": (3, 4), "r": (2,), "w": (9,)}


def build(text, inputs):
    return lang.build(text, {n: SHAPES[n] for n in inputs}, {"r": "i32"} if "r" in inputs else {})


def refused(text, **shapes):
    """All diagnostics are of extents that do not agree; the first one of them."""
    with pytest.raises(CompileError) as caught:
        lang.build(text, shapes)
    assert {x.code for x in caught.value.diagnostics} == {"E207"}
    return caught.value.diagnostics[0]


def test_both_extents_a_caret_and_a_cure():
    text = "C[i] = a[i] + v[i]"
    found = refused(text, a=(1,), v=(5,))
    assert found.message == "`i` is 1 in `a` and 5 in `v`"
    assert text[found.span.start:found.span.end] == "v[i]"
    assert "`where i in 0:1`" in found.notes[0]
    (stated,) = lang.build(text + " where i in 0:1", {"a": (1,), "v": (5,)}).statements[-1].ranges
    assert (stated.lower, stated.upper) == (0, 1)


@pytest.mark.parametrize(("inputs", "text"), [
    ("av", "C[i] = a[i] + v[i] where i in 0:3"),  # stated
    ("av", "for i in 0:3 { S += a[i]*v[i] }"),
    ("av", "T[i] = v[i]; C[i] = a[i] + T[i]"),  # temporaries: their bounds intersect
    ("av", "def f(f32[N] a, inout f32[M] v) { v[i] = a[i] }"),  # left sides
    ("av", "H[i] = 0 where i in 0:9; H[i32(v[i])] += a[i]"),
    ("av", "S += a[i] where v[i] > 0"),  # `where`
    ("av", "C[i] = a[i] + (v[i] else 0)"),  # guarded
    ("av", "C[i] = a[i] + v[i+1]"),  # a window
    ("av", "C[i] = a[i] + v[i] * v[i+1]"),
    ("av", "C[i] = i > 1 ? a[i] : v[i]"),  # each for some values of the index
    ("m", "C[i] = m[i,i]"),  # two axes of one tensor
    ("ma", "C[i] = m[i,i] + a[i]"),
    ("avr", "S += a[p] * v[p] where p in r[i]:r[i+1], i in 0:1"),  # rows in memory
])
def test_what_says_itself_how_far_it_goes(inputs, text):
    build(text, inputs)


@pytest.mark.parametrize(("inputs", "text"), [
    ("av", "C[i] = a[i] + v[i]"), ("av", "C[i] = i % 2 > 0 ? a[i] : v[i]"), ("av", "C[i] = a[i] > 1 ? a[i] : v[i]"),
    ("av", "C[i] = max(a[i], 2*v[i]) where i < 2"),
    ("av", "S += a[k]*v[j] where k = j"), ("avw", "C[i] = w[i32(a[i])] + v[i]"), ("mv", "C[i] = m[i,i] + v[i]"),
    ("av", "(M, J) argmax= (a[i], v[i])"), ("av", "C[i] = (v[i] else 0) + v[i] + a[i]"),
    ("av", "for t in 0:2 { C[t,i] = a[i] + v[i] }"), ("av", "op F(a[i], v[j]) -> Z[i] { Z[i] = a[i] + v[i] }"),
    ("av", "def f(X, Y) -> (Z) { Z[i] = X[i] - Y[i] }\nD = f(a, v)"),
    ("av", "def f(inout f32[N] a, f32[M] v) { a[i] = a[i] + v[i] }"),
])
def test_the_rest_is_refused(inputs, text):
    assert "3 in" in refused(text, **{n: SHAPES[n] for n in inputs}).message


@settings(max_examples=80, deadline=None)
@given(st.lists(st.lists(st.tuples(st.sampled_from("ijk"), st.integers(2, 3)), min_size=1, max_size=3,
                         unique_by=lambda x: x[0]), min_size=2, max_size=3))
def test_products_are_refused_where_einsum_refuses_them(operands):
    arrays = [np.ones([n for _, n in o], np.float32) for o in operands]
    labels = ["".join(x for x, _ in o) for o in operands]
    kept = "".join(sorted(set("".join(labels)) & set("ij")))
    text = f"C[{','.join(kept)}] += " + " * ".join(f"X{k}[{','.join(x)}]" for k, x in enumerate(labels))
    shapes = {f"X{k}": a.shape for k, a in enumerate(arrays)}
    try:
        want = np.einsum(",".join(labels) + "->" + kept, *arrays)
    except ValueError:
        refused(text, **shapes)
    else:
        found = lang.evaluate(lang.build(text, shapes), {f"X{k}": a for k, a in enumerate(arrays)})["C"]
        np.testing.assert_array_equal(found, want)


def test_open_sizes_are_compared_at_the_call():
    op = polytc.compile("C[i,j] += A[i,k] * B[k,j]", shapes={"A": ("M", "K"), "B": ("L", "N")})
    for m, k, n in itertools.product((1, 3), (2, 7), (4,)):
        np.testing.assert_array_equal(op(np.ones((m, k), "f4"), np.ones((k, n), "f4")), np.full((m, n), k, "f4"))
    for k, other in ((6, 5), (2, 3), (1, 2)):
        with pytest.raises(CompileError) as caught:
            op(np.ones((4, k), "f4"), np.ones((other, 5), "f4"))
        assert caught.value.code == "E207"


@pytest.mark.parametrize(("text", "onward"), [
    ("C[0] = x[0]; C[i] = C[i-1] + x[i]", "1:12"), ("C[0] = 0; C[i+1] = C[i] + x[i]", "0:12"),
    ("C[0] = x[0]; C[i+1] = C[i] + x[i+1]", "0:11"), ("C[0] = x[0]; C[i] = C[i-1] + x[i] - x[i-1]", "1:12"),
    ("C[11] = x[11]; C[i-1] = C[i] + x[i-1]", "11:0:-1"), ("C[11] = x[11]; C[i] = C[i+1] + x[i]", "10:-1:-1"),
    ("H[0,j] = A[0,j]; H[t,j] = H[t-1,j] * A[t,j]", "1:8"),
])
def test_a_recurrence_needs_a_loop(text, onward):
    given = {n: a for n, a in {"x": (12,), "A": (8, 12)}.items() if f"{n}[" in text}
    notes = refused(text, **given).notes
    first, last = text.split("; ")
    cure = notes[0].split("`")[1]
    assert cure == f"for {'t' if 'A' in given else 'i'} in {onward} {{ {last} }}"
    shape = lang.build(f"{first}; {cure}", given).tensor(first[0]).shape
    assert shape[0] == given.get("x", given.get("A"))[0] + (first == "C[0] = 0")


@pytest.mark.parametrize("text", [
    "G[0,i] = x[i+1] - x[i-1]; G[1,i] = G[0,i]*x[i]; G[2,i] = G[0,i] + G[1,i] -> (G)",
    "C[2*i] = x[i+1] - x[i-1]; C[2*i+1] = C[2*i]*x[i] -> (C)",
    "U[0,i] = x[i] where i in 0:12; U[1,i] = 0*x[i]; U[1,i] = U[0,i] + x[i-1] - 2*x[i] + x[i+1] -> (U)",
    "C[i] = x[i] where i in 0:6; C[i+6] = C[i]*x[i+6]", "P[i+1] = x[i]; P[0] = P[12]*x[0]; P[13] = P[1]",
    "C[0] = x[0]; C[i] = C[0]*x[i] where i in 1:12",
])
def test_what_reads_other_rows_of_its_own_tensor_is_no_recurrence(text):
    lang.build(text, {"x": (12,)})
