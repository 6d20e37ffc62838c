"""`checked=True`: scatters that reach every element need no zeros before them; numpy says what they give."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc.rewrite.unwritten_elements import check_scatters

RANDOM = np.random.default_rng(5)
TARGETS = ("cpu", "interp", "evaluate")
SCATTER = "def f(i64[N] p, {0}[N] v) -> ({0}[N] O) {{ O[p[i]] = 2*v[i] }}"
NUMPY = {"f32": "f4", "f64": "f8", "f16": "f2", "i8": "i1", "c64": "c8", "u32": "u4"}


def _scattered(p: np.ndarray, v: np.ndarray) -> np.ndarray:
    out = np.empty_like(v)
    out[p] = v
    return out


@pytest.mark.part(2)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", NUMPY)
def test_a_permutation_needs_no_zeros(dtype: str, target: str) -> None:
    p, v = RANDOM.permutation(13), RANDOM.integers(0, 50, 13).astype(NUMPY[dtype])
    op = polytc.compile(SCATTER.format(dtype), target=target, checked=True)
    np.testing.assert_array_equal(op(p, v), _scattered(p, 2 * v))
    p[p == 7] = 2
    with pytest.raises(IndexError, match=r"E419: no index reached O\[7\]") as found:
        op(p, v)
    assert isinstance(found.value, polytc.PolytcError)


@pytest.mark.parametrize("size", [5000, 4096, 100_000])
def test_large_tensors_are_looked_at_in_rows(size: int) -> None:
    p, v = RANDOM.permutation(size), RANDOM.normal(size=size).astype("f4")
    op = polytc.compile(SCATTER.format("f32"), checked=True)
    np.testing.assert_array_equal(op(p, v), _scattered(p, 2 * v))
    for hole in (size - 1, 0, size // 2):
        bad = np.where(p == hole, (hole + 1) % size, p)
        with pytest.raises(IndexError, match=rf"E419: no index reached O\[{hole}\]"):
            op(bad, v)


p5, q5 = RANDOM.permutation(5), RANDOM.permutation(6)
A, V = RANDOM.normal(size=(5, 6)), RANDOM.normal(size=5)
EVEN = np.arange(5) * 2
CASES = [
    ("f(i64[M] p, f64[M,N] A) -> (f64[M,N] O) { O[p[i],j] = A[i,j] }", {"p": p5, "A": A}, _scattered(p5, A)),
    ("f(i64[M] p, i64[N] q, f64[M,N] A) -> (f64[M,N] O) { O[p[i],q[j]] = A[i,j] }", {"p": p5, "q": q5, "A": A},
     _scattered(q5, _scattered(p5, A).T).T),
    ("f(i64[M] p, i64[M] q, f64[M] a) -> (f64[2*M] O) { O[p[i]] = a[i]; O[q[i]] = -a[i] }",
     {"p": EVEN, "q": EVEN + 1, "a": V}, np.stack([V, -V], 1).reshape(-1)),
    ("f(i64[M] p, f64[M] a) -> (f64[M] Y) { temp f64[M] T; T[p[i]] = a[i]; Y[i] = T[M-1-i] }", {"p": p5, "a": V},
     _scattered(p5, V)[::-1]),
    ("f(i64[M] p, f64[M] a) -> (f64[M] O) { O[p[i]] = a[i] where a[i] > 0; O[p[i]] = -a[i] where a[i] <= 0 }",
     {"p": p5, "a": V}, _scattered(p5, abs(V))),
    ("f(i64[M] p, f64[M] a) -> (f64[M] O) { O[p[i]] = a[i]; O[i] += a[i] }", {"p": p5, "a": V}, _scattered(p5, V) + V),
    ("f(f64[M] a) -> (f64[M] O) { r[i] += a[j] < a[i] ? 1 : 0; O[r[i]] = a[i] }", {"a": V}, np.sort(V)),
    ("g(i64[N] p, f64[N] v) -> (f64[N] O) { O[p[i]] = v[i] }\ndef f(i64[N] p, f64[N] v) -> (y) { a = g(p, v); y = g(p, a) }",
     {"p": p5, "v": V}, _scattered(p5, _scattered(p5, V))),
]


@pytest.mark.part(4)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", CASES, ids=[c[0][:60] for c in CASES])
def test_what_scatters_fill_together(case: tuple[str, dict[str, np.ndarray], np.ndarray], target: str) -> None:
    text, arrays, wanted = case
    found = polytc.run(f"def {text}", **arrays, target=target, checked=True)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_a_scatter_that_is_not_over_is_no_ground() -> None:
    text = "def f(i64[M] p, i64[M] q, f64[M] a) -> (f64[M] O, Y) { O[p[i]] = a[i]; Y[i] = O[i]; O[q[i]] = -a[i] }"
    with pytest.raises(polytc.CompileError, match="E213"):
        polytc.run(text, p=p5, q=p5, a=V, checked=True)


def test_without_checks_the_refusal_leads_to_them() -> None:
    with pytest.raises(polytc.CompileError, match=r"E214(?s:.)*checked=True"):
        polytc.run(SCATTER.format("f64"), p=p5, v=V)


def test_an_index_outside_is_told_first() -> None:
    with pytest.raises(IndexError, match=r"E418: p\[\d\] = 5 is no index"):
        polytc.run(SCATTER.format("f64"), p=p5 + 1, v=V, checked=True)


@pytest.mark.part(2)
@pytest.mark.parametrize("target", TARGETS)
def test_scatters_in_loops(target: str) -> None:
    p, v = np.stack([RANDOM.permutation(6) for _ in range(4)]), RANDOM.normal(size=(4, 6))
    rows = "def f(i64[T,N] p, f64[T,N] v) -> (f64[T,N] O) { for t in 0:T { O[t,p[t,i]] = v[t,i] } }"
    op = polytc.compile(rows, target=target, checked=True)
    np.testing.assert_array_equal(op(p, v), np.stack([_scattered(*row) for row in zip(p, v, strict=True)]))
    bad = p.copy()
    bad[2, bad[2] == 4] = 1
    with pytest.raises(IndexError, match=r"E419: no index reached O\[2, 4\]"):
        op(bad, v)
    last = "def f(i64[T,N] p, f64[T,N] v) -> (f64[N] O) { for t in T-1:-1:-1 { O[p[t,i]] = v[t,i] } }"
    np.testing.assert_array_equal(polytc.run(last, p=p, v=v, target=target, checked=True), _scattered(p[0], v[0]))
    with pytest.raises(polytc.CompileError, match=r"E214(?s:.)*checked=True"):
        polytc.run(rows, p=p, v=v)


def test_what_is_read_in_a_loop_is_not_presumed() -> None:
    text = "def f(i64[N] p, f64[N] v) -> (f64[N] O) { for t in 0:2 { O[p[i]] = v[i]; O[i] += 1.0 } }"
    with pytest.raises(polytc.CompileError, match="E213"):
        polytc.run(text, p=p5, v=V, checked=True)


def test_what_is_filled_before_is_not_looked_at() -> None:
    text = "def f(i64[8] p, f32[8] v) -> (f32[8] O) { O[x] = 0; O[p[i]] = v[i] }"
    program = polytc.build(text)
    assert check_scatters(program) == (program, ())
