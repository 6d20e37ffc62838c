"""Generic operators: packs of every rank, attributes, broadcasting; one text for convolutions of every rank and group count."""

import itertools

import numpy as np
import pytest

from polytc import lang
from polytc.errors import CompileError
from polytc.program import program as pr

RANDOM = np.random.default_rng(3)

ADD = "op Add(A[*i?], B[*i?]) -> Y[*i] { Y[*i] = A[*i] + B[*i] }"
MATMUL = "op MatMul(A[*b?, i, k], B[*b?, k, j]) -> Y[*b, i, j] { Y[*b, i, j] += A[*b, i, k] * B[*b, k, j] }"
GEMM = """op Gemm<alpha=1.0, beta=1.0>(A[i, k], B[k, j], C[i?, j?]) -> Y[i, j] {
    T[i, j] += A[i, k] * B[k, j]
    Y[i, j] = alpha * T[i, j] + beta * C[i, j]
}"""
SOFTMAX = """op Softmax(X[*i, j]) -> Y[*i, j] {
    M[*i] max= X[*i, j]
    E[*i, j] = exp(X[*i, j] - M[*i])
    S[*i] += E[*i, j]
    Y[*i, j] = E[*i, j] / S[*i]
}"""
CONV = """op Conv<G, M, C, stride, dilation, pad, out>(X[n, gc, *x], W[gm, c, *r]) -> Y[n, gm, *h] {
    Y[n, g*M + m, *h] += (X[n, g*C + c, *(stride*h + dilation*r - pad)] else 0) * W[g*M + m, c, *r]
        where g in 0:G, m in 0:M, c in 0:C, *h in 0:*(out)
}"""


def run(text, arrays, **more):
    program = lang.build(text, {n: a.shape for n, a in arrays.items()}, dict.fromkeys(arrays, "f32"), **more)
    return next(iter(lang.evaluate(program, arrays).values()))


def f(*shape):
    return RANDOM.standard_normal(shape).astype("f4")


@pytest.mark.parametrize(("a", "b"), [((), ()), ((3,), ()), ((2, 3), (3,)), ((2, 1), (1, 3)), ((4, 1, 3), (2, 1)),
                                      ((1,), (1, 1)), ((1, 5), (5,)), ((2, 3, 4, 5), (3, 1, 5))])
def test_broadcasting_is_numpys(a, b):
    A, B = f(*a), f(*b)
    np.testing.assert_array_equal(run(ADD, {"A": A, "B": B}), A + B)


@pytest.mark.parametrize(("a", "b"), [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((3, 4), (6, 4, 5)), ((2, 1, 3, 4), (5, 4, 2)),
                                      ((1, 1, 4), (4, 1))])
def test_matmul_of_every_rank(a, b):
    A, B = f(*a), f(*b)
    np.testing.assert_allclose(run(MATMUL, {"A": A, "B": B}), A @ B, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("c", [(), (5,), (3, 1), (1, 5), (3, 5)])
def test_gemm_with_attributes(c):
    A, B, C = f(3, 4), f(4, 5), f(*c)
    got = run(GEMM, {"A": A, "B": B, "C": C}, attrs={"alpha": 0.5, "beta": np.float32(2)})
    np.testing.assert_allclose(got, 0.5 * (A @ B) + 2 * C, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(4,), (2, 3), (1, 2, 3, 4), (1, 1)])
def test_softmax_of_every_rank(shape):
    X = f(*shape)
    e = np.exp(X - X.max(-1, keepdims=True))
    np.testing.assert_allclose(run(SOFTMAX, {"X": X}), e / e.sum(-1, keepdims=True), rtol=1e-5)


def convolve(X, W, G, stride, dilation, pad, out):
    """The definition, element by element."""
    Y = np.zeros((X.shape[0], W.shape[0], *out), "f8")
    M, C = W.shape[0] // G, W.shape[1]
    for n, m, *h in np.ndindex(*Y.shape):
        for c, *r in np.ndindex(*W.shape[1:]):
            x = [s * a + d * b - p for s, a, d, b, p in zip(stride, h, dilation, r, pad)]
            if all(0 <= a < e for a, e in zip(x, X.shape[2:])):
                Y[(n, m, *h)] += X[(n, m // M * C + c, *x)] * W[(m, c, *r)]
    return Y


@pytest.mark.parametrize(("rank", "G"), list(itertools.product([1, 2, 3], [1, 2])))
def test_convolution_of_every_rank_and_group_count(rank, G):
    size, kernel = (7, 6, 5)[:rank], (3, 2, 1)[:rank]
    stride, dilation, pad = (2, 1, 1)[:rank], (1, 2, 1)[:rank], (1, 0, 2)[:rank]
    X, W = f(2, 2 * G, *size), f(3 * G, 2, *kernel)
    out = tuple((x + 2 * p - d * (k - 1) - 1) // s + 1 for x, p, d, k, s in zip(size, pad, dilation, kernel, stride))
    attrs = {"G": G, "M": 3, "C": 2, "stride": stride, "dilation": list(dilation), "pad": pad, "out": out}
    got = run(CONV, {"X": X, "W": W}, attrs=attrs)
    np.testing.assert_allclose(got, convolve(X, W, G, stride, dilation, pad, out), rtol=1e-4, atol=1e-5)


def test_indices_of_extent_one_disappear():
    attrs = {"G": 1, "M": 4, "C": 3, "stride": (1, 1), "dilation": (1, 1), "pad": (1, 1), "out": (5, 5)}
    program = lang.build(CONV, {"X": (1, 3, 5, 5), "W": (4, 3, 3, 3)}, attrs=attrs)
    assert program.statement("S1").indices == ("m", "h0", "h1", "c", "r0", "r1")
    read = pr.reads(program.statement("S1"))[0]
    assert pr.format_expr(read) == "(X[0, c, h0 + r0 - 1, h1 + r1 - 1] else 0.0)"
    assert program.tensor("Y").shape == (1, 4, 5, 5)
    assert program.statement("S1_init").indices == ("m", "h0", "h1")


def test_lists_pick_one_value_and_defaults_hold():
    text = "op F<k=[2, 3], s=0.5>(X[*i]) -> Y[*i] { Y[*i] = k[0]*X[*i] + k[1]*s }"
    X = f(2, 3)
    np.testing.assert_allclose(run(text, {"X": X}), 2 * X + 1.5, rtol=1e-6)
    np.testing.assert_allclose(run(text, {"X": X}, attrs={"k": (1, 0)}), X)


def test_packs_beside_packs():
    text = "op Transpose(X[*i, *j]) -> Y[*j, *i] { Y[*j, *i] = X[*i, *j] }"
    X = f(2, 3, 4)
    np.testing.assert_array_equal(run(text, {"X": X}, packs={"i": 1}), X.transpose(1, 2, 0))
    np.testing.assert_array_equal(run(text, {"X": X}, packs={"j": 0}), X)
    with pytest.raises(CompileError) as error:
        run(text, {"X": X})
    assert error.value.code == "E110"


def test_reduction_over_a_pack():
    text = "op Sum(X[n, *i]) -> Y[n] { Y[n] += X[n, *i] }"
    X = f(3, 2, 4)
    np.testing.assert_allclose(run(text, {"X": X}), X.sum((1, 2)), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(run(text, {"X": X[:, 0, 0].copy()}), X[:, 0, 0])


def test_conditions_on_attributes_choose_at_build():
    text = """op F<exclusive>(X[i]) -> Y[i] {
        Y[i] += (X[i-k] else identity) where k in (exclusive ? 1 : 0):X.shape[0], i in 0:X.shape[0] }"""
    X = f(5)
    np.testing.assert_allclose(run(text, {"X": X}, attrs={"exclusive": 0 == 1}), np.cumsum(X), rtol=1e-5)
    np.testing.assert_allclose(run(text, {"X": X}, attrs={"exclusive": True}), np.cumsum(X) - X, rtol=1e-5, atol=1e-6)


def test_equal_names_must_have_equal_extents():
    with pytest.raises(CompileError) as error:
        run(MATMUL, {"A": f(3, 4), "B": f(5, 2)})
    assert error.value.code == "E207"
    with pytest.raises(CompileError) as error:
        run(ADD, {"A": f(3), "B": f(4)})
    assert error.value.code == "E207"


def test_entry_chooses_among_operators():
    X = f(2, 3)
    text = ADD + "\n" + SOFTMAX
    np.testing.assert_array_equal(run(text, {"A": X, "B": X}, entry="Add"), 2 * X)
    assert lang.signature(text, "Softmax").outputs == ("Y",)


def test_signature():
    s = lang.signature(GEMM)
    assert (s.name, [p.name for p in s.inputs], s.outputs, s.attrs) == ("Gemm", ["A", "B", "C"], ("Y",), ("alpha", "beta"))
    s = lang.signature("def f(f32[N] X, i32 n, f32 alpha) -> (f64[N] Y, Z) { Y[i] = alpha*X[i]; Z[i] = X[i] }")
    assert [(p.name, p.is_scalar, p.dtype, p.rank) for p in s.inputs] == [
        ("X", False, "f32", 1), ("n", True, "i32", None), ("alpha", True, "f32", None)]
    assert s.outputs == ("Y", "Z")
    s = lang.signature("T[i] = alpha * X[i,j0]; Y[i] = max(T[i], b[i]) + i; Z[i] += T[i] * X[i,j]")
    assert [(p.name, p.is_scalar) for p in s.inputs] == [("alpha", True), ("X", False), ("b", False)]
    assert s.outputs == ("Y", "Z")
