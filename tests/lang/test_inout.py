"""`inout`: which array is written, what comes back, and what happens to arrays that share memory."""

import numpy as np
import pytest

import polytc
from polytc.errors import ArgumentError

ADD = "def add(inout f64[N] A, f64[N] B) -> (A) { A[i] += B[i] }"
QUIET = "def add(inout f64[N] A, f64[N] B) -> (S) { A[i] += B[i]; S += A[i] }"
RANDOM = np.random.default_rng(4)


@pytest.fixture(params=["cpu", "interp", "evaluate", "opencl"])
def target(request, targets):
    if request.param == "opencl" and "opencl" not in targets:
        pytest.skip("no OpenCL driver")
    return request.param


def test_the_array_of_the_caller_is_written_and_returned(target):
    op = polytc.compile(ADD, target)
    a, b = RANDOM.random(5), RANDOM.random(5)
    want = a + b
    for _ in range(3):  # the call is quicker once the shapes are known
        assert op(a, b) is a
        np.testing.assert_allclose(a, want)
        want = want + b
    assert op.inouts == ("A",)


def test_no_result_needs_to_be_listed(target):
    a = RANDOM.random(5)
    want = 2 * a
    assert polytc.run("def twice(inout f64[N] A) { A[i] = 2*A[i] }", a, target=target) is a
    np.testing.assert_allclose(a, want)


def test_other_results_stand_beside_it(target):
    a, b = RANDOM.random(5), RANDOM.random(5)
    want = a + b
    np.testing.assert_allclose(polytc.compile(QUIET, target)(a, b), want.sum())
    np.testing.assert_allclose(a, want)


@pytest.mark.parametrize("spoil", [lambda a: np.asfortranarray(a), lambda a: np.repeat(a, 2, axis=1)[:, ::2], "locked"])
def test_what_cannot_be_written_is_copied(target, spoil):
    text = "def twice(inout f64[N,M] A) { A[i,j] = 2*A[i,j] }"
    a = RANDOM.random((3, 4))
    if spoil == "locked":
        a.flags.writeable = False
    else:
        a = spoil(a)
    before = a.copy()
    found = polytc.run(text, a, target=target)
    np.testing.assert_array_equal(a, before)
    np.testing.assert_allclose(found, 2 * before)


def test_a_copy_that_nobody_gets_is_refused(target):
    a, b = RANDOM.random(10)[::2], RANDOM.random(5)
    with pytest.raises(ArgumentError) as error:
        polytc.compile(QUIET, target)(a, b)
    assert error.value.code == "E407"
    assert "not C-contiguous" in str(error.value)
    a = RANDOM.random(5)
    a.flags.writeable = False
    with pytest.raises(ArgumentError, match="read-only"):
        polytc.compile(QUIET, target)(a, b)


def test_out_is_another_array(target):
    op = polytc.compile(ADD, target)
    a, b, out = RANDOM.random(5), RANDOM.random(5), np.full(5, np.nan)
    before = a.copy()
    assert op(a, b, out=out) is out
    np.testing.assert_array_equal(a, before)
    np.testing.assert_allclose(out, a + b)
    assert op(a, b, out=a) is a
    np.testing.assert_allclose(a, before + b)
    with pytest.raises(ArgumentError) as error:
        op(a, b, out=b)
    assert error.value.code == "E408"


def test_inputs_that_share_memory_with_it_are_read_as_they_were(target):
    text = "def shift(inout f64[N] A, f64[M] B) { for i in 1:N { A[i] = B[i-1] } }"
    memory = np.arange(6.0)
    polytc.compile(text, target)(memory, memory)
    np.testing.assert_array_equal(memory, [0, 0, 1, 2, 3, 4])
    memory = np.arange(8.0)
    polytc.compile(text, target)(memory[2:], memory[:6])
    np.testing.assert_array_equal(memory, [0, 1, 2, 0, 1, 2, 3, 4])


def test_two_of_them_may_not_share_memory():
    memory = np.arange(6.0)
    with pytest.raises(ArgumentError) as error:
        polytc.run("def f(inout f64[N] A, inout f64[N] B) { A[i] = B[i]; B[i] = A[i] }", memory[:5], memory[1:])
    assert error.value.code == "E408"


def test_constants_are_refused():
    with pytest.raises(ArgumentError) as error:
        polytc.compile(ADD, constants={"B": np.ones(5)})
    assert error.value.code == "E410"


def test_all_stages_print():
    low = polytc.lower(ADD, shapes={"A": (5,), "B": (5,)}, dtypes={"A": "f64", "B": "f64"})
    assert "(inout f64[5] A, f64[5] B) -> (f64[5] A)" in str(low.program)
    assert low.program.inouts == ("A",)
    assert [b.name for b in low.loops.args] == ["A", "B"]


TEXTS = {
    "cholesky": ("""def cholesky(inout f64[N,N] A) { for k in 0:N {
            A[k,k] = sqrt(A[k,k])
            A[i,k] = A[i,k] / A[k,k] where i in k+1:N
            A[i,j] -= A[i,k] * A[j,k] where i in k+1:N, j in k+1:i+1 } }""", (9, 9)),
    "jacobi": ("""def jacobi(inout f64[N,M] A) { for t in 0:4 {
            B[i,j] = 0.2*(A[i,j] + A[i,j-1] + A[i,j+1] + A[i+1,j] + A[i-1,j])
            A[i,j] = B[i,j] } }""", (7, 8)),
    "seidel": ("""def seidel(inout f64[N,M] A) { for t in 0:3 { for i in 1:N-1 { for j in 1:M-1 {
            A[i,j] = (A[i-1,j] + A[i,j-1] + A[i,j] + A[i,j+1] + A[i+1,j]) / 5 } } } }""", (6, 7)),
    "scan": ("def scan(f64[N] A) -> (P) { for i in 0:N { P[i] = (P[i-1] else 0) + A[i] } }", (40,)),
    "down": ("def down(f64[N] A) -> (P) { for i in N-1:-1:-2 { P[i] = (P[i+2] else 0) * 0.5 + A[i] }; "
             "for i in N-2:-1:-2 { P[i] = (P[i+2] else 1) * 0.5 + A[i] } }", (11,)),
    "never": ("def never(inout f64[N] A) { for t in 1:N { A[t] = A[t-1] where 0 > 1; A[t] += A[t-1] where t < 3 || 1 > 2 } }",
              (7,)),
    "sums": ("for t in 0:5 { s += A[t,i]; Y[t] = s; Q[j] +=! A[t,k] where k <= j, j in 0:6; W[t,j] = Q[j] }", (5, 6)),
}


@pytest.mark.part(11)
@pytest.mark.parametrize("schedule", [None, "program", "isl"])
@pytest.mark.parametrize("name", TEXTS)
def test_loops_from_text_on_all_targets(name, schedule, targets):
    text, shape = TEXTS[name]
    a = RANDOM.random(shape)
    a = a @ a.T + np.eye(len(a)) if name == "cholesky" else a
    want = polytc.evaluate(text, A=a.copy())
    for to in targets:
        found = polytc.compile(text, to, schedule=schedule, threads=2)(A=a.copy())
        pairs = zip(found, want, strict=True) if isinstance(want, tuple) else [(found, want)]
        for x, y in pairs:
            np.testing.assert_allclose(x, y, rtol=1e-12)
