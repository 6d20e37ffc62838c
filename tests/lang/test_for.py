"""`for` blocks from text: what they mean, against loops written in numpy here, and what is refused, with its witness."""

import numpy as np
import pytest

import polytc
from polytc import stages
from polytc.errors import CompileError

RANDOM = np.random.default_rng(11)


def test_cholesky():
    n = 8
    a = RANDOM.standard_normal((n, n))
    a = a @ a.T + n * np.eye(n)
    text = """
        def cholesky(inout f64[N,N] A) {
            for k in 0:N {
                A[k,k] = sqrt(A[k,k])
                A[i,k] = A[i,k] / A[k,k]            where i in k+1:N
                A[i,j] -= A[i,k] * A[j,k]           where i in k+1:N, j in k+1:i+1
            }
        }"""
    np.testing.assert_allclose(np.tril(polytc.evaluate(text, A=a.copy())), np.linalg.cholesky(a), rtol=1e-12)


def test_a_recurrence_types_and_bounds_itself():
    x = RANDOM.random(9).astype(np.float32)
    p = polytc.evaluate("for i in 0:9 { P[i] = (P[i-1] else 0) + X[i] }", X=x)
    assert p.dtype == np.float32
    np.testing.assert_allclose(p, np.cumsum(x), rtol=1e-6)
    np.testing.assert_array_equal(polytc.evaluate("for i in 0:9 { F[i] = i < 2 ? 1 : (F[i-1] else 0) + (F[i-2] else 0) }"),
                                  [1, 1, 2, 3, 5, 8, 13, 21, 34])


def test_a_loop_that_counts_down():
    x = RANDOM.random(7)
    found = polytc.evaluate("for i in 6:-1:-1 { P[i] = (P[i+1] else 0) + i*X[i] }", X=x)
    np.testing.assert_allclose(found, np.cumsum((np.arange(7) * x)[::-1])[::-1])


def test_steps_up_and_down():
    assert polytc.evaluate("N[] = 0*X[0]; for i in 1:10:3 { N[] = 10*N[] + i }", X=np.ones(1)) == 147
    assert polytc.evaluate("N[] = 0*X[0]; for i in 9:0:-4 { N[] = 10*N[] + i }", X=np.ones(1)) == 951
    assert polytc.evaluate("N[] = 0*X[0]; for i in 0:2 { for j in i+2:i-1:-2 { N[] = 10*N[] + j } }", X=np.ones(1)) == 2031


def test_an_update_starts_once_and_a_reset_in_each_iteration():
    x = RANDOM.random((4, 5))
    text = "for t in 0:4 { A += X[t,i]; S[t] = A; B +=! X[t,i]; R[t] = B; T[t] += X[t,i] } -> (S, R, T)"
    s, r, t = polytc.evaluate(text, X=x)
    np.testing.assert_allclose(s, np.cumsum(x.sum(axis=1)))
    np.testing.assert_allclose(r, x.sum(axis=1))
    np.testing.assert_allclose(t, x.sum(axis=1))


def test_a_time_loop_through_a_temporary():
    x = RANDOM.random((6, 7))
    found = polytc.evaluate("""
        def heat(f64[M,N] X, i32 T) -> (A) {
            A[i,j] = X[i,j]
            for t in 0:T {
                B[i,j] = 0.25*(A[i-1,j] + A[i+1,j] + A[i,j-1] + A[i,j+1])
                A[i,j] = B[i,j]
            }
        }""", x, 3)
    a = x.copy()
    for _ in range(3):
        a[1:-1, 1:-1] = 0.25 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
    np.testing.assert_allclose(found, a)


def test_loops_in_loops():
    d = RANDOM.random((6, 6))
    text = "def f(inout f64[N,N] D) { for k in 0:N { for i in 0:N { for j in 0:N { D[i,j] min= D[i,k] + D[k,j] } } } }"
    found, want = polytc.evaluate(text, d.copy()), d.copy()
    for k in range(6):
        want = np.minimum(want, want[:, k, None] + want[None, k])
    np.testing.assert_allclose(found, want)


def test_triangular_solve():
    m, b = np.tril(RANDOM.random((6, 6))) + np.eye(6), RANDOM.random(6)
    found = polytc.evaluate("""
        for i in 0:6 {
            x[i] = b[i]
            x[i] -= L[i,j] * x[j] where j in 0:i
            x[i] = x[i] / L[i,i]
        }""", L=m, b=b)
    np.testing.assert_allclose(found, np.linalg.solve(m, b))


def test_packs_in_loops():
    x = RANDOM.random((3, 4, 5))
    text = """op Powers<T>(X[*i]) -> Y[t, *i] {
        for t in 0:T { Y[t, *i] = t == 0 ? X[*i] : (Y[t-1, *i] else 0) * X[*i] }
    }"""
    found = polytc.compile(text, "evaluate", attrs={"T": 3})(x)
    np.testing.assert_allclose(found, np.stack([x, x**2, x**3]))


def test_halves_are_widened_over_the_whole_loop():
    x = np.full(5, 0.001, np.float16)
    text = "def f(inout f16[N] A, f16[N] X) { for t in 0:3000 { A[i] += X[i] } }"
    found = polytc.evaluate(text, A=np.ones(5, np.float16), X=x)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found.astype(float), 1 + 3000 * float(x[0]), rtol=1e-3)


REFUSED = [
    ("E203", "for i in 0:6 { P[i] = P[i-1] + X[i] }", "i=0 reads P[-1]"),
    ("E203", "for i in 5:-1:-1 { P[i] = P[i+1] + X[i] }", "i=5 reads P[6]"),
    ("E203", "for i in 0:7 { P[i] = X[i] }", "i=6 reads X[6]"),
    ("E203", "def f(inout f64[N] X) { for t in 0:2 { X[i+t] = 1 where i in 0:N } }", "writes X[6]"),
    ("E203", "def f(inout f64[N] X) { X[i+1] = 1 where i in 0:N }", "i=5 writes X[6]"),
    ("E210", "for t in 0:2 { Y[i//2] = X[i] + t }", "t=0, i=0 and t=0, i=1 both write Y[0]"),
    ("E211", "def f(inout f64[N] X) { for t in 0:2 { X[i] = X[i-1] where i in 1:N } }", "which"),
    ("E211", "def f(inout f64[N] X) { for k in 0:N { X[i] += X[k] } }", "which"),
    ("E213", "for t in 0:3 { Y[i] = X[i] + (Z[i] else 0) where i in 0:6; Z[i] = Y[i] }", "t=0, i=0 reads Z[0]"),
    ("E213", "for i in 0:6 { P[i] = X[i] + (P[i+1] else 0) }", "reads P["),
    ("E213", "Y[i] = X[i] where i in 0:3; for t in 3:6 { Z[t] = Y[t-1]; Y[t+1] = Z[t] } -> (Z)", "reads Y[3]"),
    ("E214", "for t in 0:2 { Y[2*t] = X[t] }", "Y[1]"),
    ("E101", "for t in 0:M { Y[i] = X[i] + t }", "`M`"),
    ("E101", "for t in 0:u { for u in 0:3 { Y[t,u] = X[t] } }", "`u`"),
    ("E114", "for i in 0:3 { for i in 0:3 { Y[i] = X[i] } }", "already has a meaning"),
    ("E114", "for X in 0:3 { Y[i] = X[i] }", "already has a meaning"),
    ("E114", "for i in 0:3:0 { Y[i] = X[i] }", "other than 0"),
    ("E114", "for i in 3:0:-1 { Y[i] = X[i] where i in 0:2 }", "counts down"),
    ("E212", "for i in 0:3 { Y[i] = Z[i] + Y[i-1] }; Z[i] = X[i]", "`Z`"),
    ("E202", "for i in 0:3 { Y[i] = X[i] where i > 5 }", "exclude every value"),
    ("E106", "def f(f64[N] X) -> (Y) { for i in 0:6 { X[i] = 2; Y[i] = X[i] } }", "inout"),
    ("E109", "def f(f64[N] X) { Y[i] = X[i] }", "inout"),
    ("E106", "op f(inout X[i]) -> Y[i] { Y[i] = X[i] }", "inout"),
]


@pytest.mark.parametrize(("code", "text", "note"), REFUSED, ids=[f"{c} {t[:60]}" for c, t, _ in REFUSED])
def test_refusals_have_a_witness(code, text, note):
    with pytest.raises(CompileError) as error:
        stages.build(text, {"X": (6,)}, {"X": "f64"})
    assert code in {d.code for d in error.value.diagnostics}
    assert note in str(error.value)
    assert all(d.span is not None for d in error.value.diagnostics)


ACCEPTED = [
    "for i in 0:6 { P[i] = (P[i-1] else 0) + X[i] }",
    "Y[i] = X[i]; for i in 1:6 { Y[i] = Y[i-1] + X[i] }",
    "for t in 0:3 { Y[2*t] = X[t]; Y[2*t+1] = X[t] }",
    "def f(inout f64[N] X) { for k in 0:N { X[i] += X[k] where i in k+1:N } }",
    "def f(inout f64[N] X) { for t in 0:2 { for i in 1:N { X[i] = X[i-1] } } }",
    "for t in 0:3 { Z[t,i] = t == 0 ? X[i] : (Z[t-1,i] else 0) where i in 0:6 }",
]


@pytest.mark.parametrize("text", ACCEPTED)
def test_sound_programs_are_accepted(text):
    stages.build(text, {"X": (6,)}, {"X": "f64"})


LARGE = {
    "lu": """def lu(inout f64[N,N] A) { for k in 0:N {
        A[i,k] = A[i,k] / A[k,k] where i in k+1:N
        A[i,j] -= A[i,k] * A[k,j] where i in k+1:N, j in k+1:N } }""",
    "jacobi-2d": """def jacobi(inout f64[N,N] A, inout f64[N,N] B) { for t in 0:500 {
        B[i,j] = 0.2*(A[i,j] + A[i,j-1] + A[i,j+1] + A[i+1,j] + A[i-1,j])
        A[i,j] = 0.2*(B[i,j] + B[i,j-1] + B[i,j+1] + B[i+1,j] + B[i-1,j]) where i in 1:N-1, j in 1:N-1 } }""",
    "seidel-2d": """def seidel(inout f64[N,N] A) { for t in 0:500 { for i in 1:N-1 { for j in 1:N-1 {
        A[i,j] = (A[i-1,j-1] + A[i-1,j] + A[i-1,j+1] + A[i,j-1] + A[i,j] + A[i,j+1] + A[i+1,j-1] + A[i+1,j] + A[i+1,j+1])/9
        } } } }""",
    "floyd": "def f(inout f64[N,N] A) { for k in 0:N { for i in 0:N { for j in 0:N { A[i,j] min= A[i,k] + A[k,j] } } } }",
    "nussinov": """def n(f64[N,N] A) -> (T) {
        T[i,j] = 0*A[i,j]
        for i in N-1:-1:-1 { for j in i+1:N {
            T[i,j] = max(T[i,j], T[i,j-1])
            T[i,j] = max(T[i,j], T[i+1,j]) where i < N-1
            T[i,j] max= T[i,k] + T[k+1,j] where k in i+1:j } } }""",
    "heat": """def heat(f64[N,N] A) -> (X) { X[i,j] = A[i,j]; for t in 0:500 {
        Y[i,j] = X[i-1,j] + X[i+1,j] + X[i,j-1] + X[i,j+1]
        X[i,j] = Y[i,j] } }""",
}


@pytest.mark.parametrize("name", LARGE)
def test_proofs_do_not_look_at_points(name):
    """Boxes of 1e9 to 1e13 instances: listing them would take all of memory."""
    shapes = {"A": (20000, 20000)} | ({"B": (20000, 20000)} if name == "jacobi-2d" else {})
    program = stages.build(LARGE[name], shapes)
    assert program.sequential


def test_the_prover_decides_what_is_too_large_to_look_at():
    text = "Y[i, 2*j + (i + j) % 2] = X[i,j];  Y[i, 2*j + (i + j + 1) % 2] = X[i,j]"
    assert stages.build(text, {"X": (3000, 3000)}).tensor("Y").shape == (3000, 6000)
    with pytest.raises(CompileError) as error:
        stages.build("Y[i] += X[i, (i + 3*k) // 2] where i in 0:3000, k in 0:2000, k <= i", {"X": (3000, 4000)})
    assert error.value.code == "E203"


def test_bounds_that_each_round_narrows_are_refused():
    with pytest.raises(CompileError) as error:
        stages.build("for t in 0:9 { B[i] = A[i+1] + X[i]; A[i] = B[i] }", {"X": (60,)})
    assert error.value.code == "E201"
    assert "depend on themselves" in str(error.value)


def test_definitions_with_loops_are_called_twice():
    x = RANDOM.random(6)
    text = """
        def scan(f64[N] X) -> (P) { for i in 0:N { P[i] = (P[i-1] else 0) + X[i] } }
        i = scan(X)
        Y = scan(i)
        -> (Y)"""
    np.testing.assert_allclose(polytc.evaluate(text, X=x), np.cumsum(np.cumsum(x)))


def test_a_reset_without_a_term_is_a_reset_all_the_same():
    a, x = RANDOM.random((4, 4)), RANDOM.random(4)
    found = polytc.evaluate("for k in 0:4 { s +=! A[k,i]*x[i] where i in 0:k; y[k] = s }", A=a, x=x)
    np.testing.assert_allclose(found, np.tril(a, -1) @ x)
    text = "for k in 0:4 { for j in 0:4 { s +=! A[k,i]*x[j] where i in 0:k, i < j; Y[k,j] = s } }"
    want = np.array([[a[k, :min(k, j)].sum() * x[j] for j in range(4)] for k in range(4)])
    for target in ("evaluate", "interp", "cpu"):
        np.testing.assert_allclose(polytc.run(text, A=a, x=x, target=target), want)


@pytest.mark.parametrize("target", ["evaluate", "interp", "cpu"])
def test_a_reset_of_a_part_that_is_no_box(target):
    a, v = RANDOM.random((4, 4)), RANDOM.random(2)
    t = polytc.run("T[i,j] = A[i,j]; T[2*i,i] +=! v[k]*v[i] where k <= i", A=a, v=v, target=target)
    want = a.copy()
    want[0, 0], want[2, 1] = v[0] * v[0], v.sum() * v[1]
    np.testing.assert_allclose(t, want)
    t = polytc.run("T[i,j] = A[i,j]; T[i,j] +=! A[i,k] where j <= i, k < j", A=a, target=target)
    want = a.copy()
    for i in range(4):
        for j in range(1, i + 1):
            want[i, j] = a[i, :j].sum()
    np.testing.assert_allclose(t, want)


@pytest.mark.parametrize("target", ["evaluate", "interp", "cpu"])
def test_a_reset_by_a_sum_of_indices(target):
    v = RANDOM.random(4)
    s = polytc.run("for t in 0:3 { T[i+j] +=! v[i]*v[j]*t; S[t,i] = T[i] where i in 0:7 } -> (S)", v=v, target=target)
    np.testing.assert_allclose(s, [t * np.convolve(v, v) for t in range(3)])


def test_a_reset_that_moves_with_the_loop_starts_no_element_twice():
    text = "for t in 0:3 { T[i+j+t] +=! v[i]*w[j]; S[t,i] = T[i+t] where i in 0:6 } -> (S)"
    with pytest.raises(polytc.CompileError, match="E210") as refused:
        polytc.build(text, {"v": (4,), "w": (3,)})
    assert "t=0, i=0, j=2 and t=0, i=1, j=1 both write T[2]" in str(refused.value)
    assert "leave the `!` away" in str(refused.value)


def test_an_index_without_values_ties_none_that_has_them() -> None:
    """A condition between the two says nothing about the bounds of what is written."""
    text = "for u in 1:4 { T[u,i,j] +=! X[k] where k in 0:3, i in 0:u, j in u:1 }"
    assert polytc.compile(text)(np.ones(5, np.float32)).shape == (3, 3, 0)
