"""Scatters, whose left side reads tensors, against numpy on every target."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import polytc
from polytc import compiler, errors
from polytc.codegen import loops, traverse
from polytc.lang import build
from tests.lang.test_tuples import everywhere
from tests.test_programs import check

RNG = np.random.default_rng(7)
OUT = np.array([-1, 10, 1 << 40, -(1 << 40), 10 + (1 << 32)])
"""Places that are not in 0:10, in whatever width they are looked at."""


def places(count: int) -> np.ndarray:
    """Indices into 0:10, with repetitions and with some that are outside."""
    return np.concatenate([RNG.integers(0, 10, count - len(OUT)), OUT])[RNG.permutation(count)]


@pytest.mark.part(2)
@pytest.mark.parametrize("op", ["+", "*", "min", "max", "|", "^"])
def test_updates(op: str, targets: tuple[str, ...]) -> None:
    """Instances meet in an element; those that would leave the tensor do not happen."""
    ufunc = {"+": np.add, "*": np.multiply, "min": np.minimum, "max": np.maximum, "|": np.bitwise_or, "^": np.bitwise_xor}[op]
    b, x = places(60), RNG.integers(0, 9, 60)
    inside = (b >= 0) & (b < 10)
    expected = np.full(10, 3)
    ufunc.at(expected, b[inside], x[inside])
    for (h,) in everywhere(f"H[k] = 3 where k in 0:10; H[b[i]] {op}= x[i]", targets, b=b, x=x):
        np.testing.assert_array_equal(h, expected)


def test_an_update_that_meets_in_its_own_index_too(targets: tuple[str, ...]) -> None:
    """Several terms an instance's place: no vector of partial results, since a place may be outside."""
    b, x = places(30), RNG.standard_normal((30, 37)).astype(np.float32)
    expected = np.zeros(10, np.float32)
    for place, row in zip(b, x):
        if 0 <= place < 10:
            expected[place] = max(expected[place], row.max())
    for (h,) in everywhere("H[k] = 0*x[0,0] where k in 0:10; H[b[i]] max= x[i,j]", targets, b=b, x=x):
        np.testing.assert_array_equal(h, expected)


def test_a_declared_shape(targets: tuple[str, ...]) -> None:
    b = places(500)
    expected = np.bincount(b[(b >= 0) & (b < 10)], minlength=10)
    for text in ("H[b[i]] += 1 -> (i64[10] H)", "def hist(i64[N] b, i64 K) -> (i64[K] H) { H[b[i]] += 1 }"):
        more = {"K": 10} if "K" in text else {}
        np.testing.assert_array_equal(polytc.evaluate(text, b=b, **more), expected)
        for target in targets:
            np.testing.assert_array_equal(polytc.run(text, target=target, b=b, **more), expected)


@pytest.mark.part(2)
@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u4", "u8"])
def test_types_of_indices(dtype: str, targets: tuple[str, ...]) -> None:
    b = np.arange(30).astype(dtype)
    b[3] = np.iinfo(dtype).max
    expected = np.bincount(b[b < 20].astype(int), minlength=20)
    for (h,) in everywhere("H[b[i]] += 1 -> (i64[20] H)", targets, b=b):
        np.testing.assert_array_equal(h, expected)


def test_rows(targets: tuple[str, ...]) -> None:
    b, x = places(80), RNG.standard_normal((80, 37)).astype("f4")
    inside = (b >= 0) & (b < 10)
    total, last = np.zeros((10, 37)), np.full((10, 37), 7, "f4")
    np.add.at(total, b[inside], x[inside])
    last[b[inside]] = x[inside]
    for (y,) in everywhere("Y[b[n], d] += x[n, d] -> (f32[10, 37] Y)", targets, b=b, x=x):
        np.testing.assert_allclose(y, total, rtol=1e-4, atol=1e-5)
    for (y,) in everywhere("Y[i,d] = f32(7) where i in 0:10, d in 0:37; Y[b[n], d] = x[n, d]", targets, b=b, x=x):
        np.testing.assert_array_equal(y, last)


def test_sums_that_scatter(targets: tuple[str, ...]) -> None:
    """A reduced index beside the scattered place may run in vectors."""
    b, x = places(30), RNG.standard_normal((30, 70))
    inside = (b >= 0) & (b < 10)
    expected = np.zeros(10)
    np.add.at(expected, b[inside], x[inside].sum(1))
    for (h,) in everywhere("H[b[i]] += x[i,j] -> (f64[10] H)", targets, b=b, x=x):
        np.testing.assert_allclose(h, expected, rtol=1e-12)


def test_the_last_assignment_wins(targets: tuple[str, ...]) -> None:
    """In the order of the indices as the statement mentions them, the left side's first: numpy's order."""
    b, x = RNG.integers(0, 4, (6, 7)), RNG.standard_normal((6, 7)).astype("f4")
    for order in ("H[b[i,j]] = x[i,j]", "H[b[(i*7+j)//7, (i*7+j)%7]] = x[i,j]"):
        expected = np.zeros(4, "f4")
        expected[b] = x
        for (h,) in everywhere(f"H[k] = f32(0) where k in 0:4; {order}", targets, b=b, x=x):
            np.testing.assert_array_equal(h, expected)
    text = "def f(i64[M,N] b, f32[M,N] x) -> (f32[4] H) { H[k] = f32(0) where k in 0:4; H[b[i,j]] = x[i,j] }"
    for schedule in ("program", "isl"):
        expected = np.zeros(4, "f4")
        expected[b] = x
        np.testing.assert_array_equal(polytc.compile(text, schedule=schedule)(b, x), expected)


def test_shifts_products_and_nested_reads(targets: tuple[str, ...]) -> None:
    """Any integer expression may stand there; bounds need not start at 0; an affine dimension may be beside."""
    b, p = RNG.integers(-2, 12, 40), RNG.permutation(40)
    h = np.zeros((40, 13), int)
    for i in range(40):
        at = 2 * b[p[i]] - 3 * (i % 3) + 1
        if 0 <= at < 13:
            h[i, at] += i
    text = "H[i,k] = 0 where i in 0:40, k in 3:16; H[i, 2*b[p[i]] - 3*(i%3) + 4] += i"
    for (found,) in everywhere(text, targets, b=b, p=p):
        np.testing.assert_array_equal(found, h)


def test_in_chains(targets: tuple[str, ...]) -> None:
    """The steps of a sort by counting: histogram, prefix sum, scatter of each value to its place."""
    v = RNG.integers(0, 10, 70)
    text = "H[k] = 0 where k in 0:10; H[v[i]] += 1; P[k] += H[j] where j < k, k in 0:11 -> (P)"
    for (p,) in everywhere(text, targets, v=v):
        np.testing.assert_array_equal(p, np.bincount(v, minlength=10).cumsum())
    x = RNG.standard_normal(70).astype("f4")
    at = np.argsort(v, kind="stable")
    rank = np.empty(70, int)
    rank[at] = np.arange(70)
    for (y,) in everywhere("Y[i] = f32(0) where i in 0:70; Y[r[i]] = x[i]; Z[i] = Y[i] * 2", targets, r=rank, x=x):
        np.testing.assert_array_equal(y, 2 * x[at])


def test_the_winner_of_a_scattered_tuple(targets: tuple[str, ...]) -> None:
    b, x = places(90), RNG.integers(0, 6, 90)
    text = "(M[b[i]], J[b[i]]) argmax= (x[i], i) -> (i64[10] M, i64[10] J)"
    for m, j in everywhere(text, targets, b=b, x=x):
        for k in range(10):
            mine = np.nonzero(b == k)[0]
            assert (m[k], j[k]) == ((x[mine].max(), mine[x[mine].argmax()]) if len(mine) else (np.iinfo("i8").min, 0))


def test_halves_round_once(targets: tuple[str, ...]) -> None:
    b, x = np.zeros(3000, "i8"), np.ones(3000, "f2")
    for (h,) in everywhere("H[b[i]] += x[i] -> (f16[4] H)", targets, b=b, x=x):
        assert h.tolist() == [3000, 0, 0, 0]


def test_assignments_keep_their_order() -> None:
    """The dependences say so: a schedule that turns it around is refused."""
    program = build("H[k] = 0 where k in 0:10; H[b[i]] = i where i in 0:40", {"b": (40,)}, {"b": "i64"})
    assert "S2[i] -> S2[i']" in str(compiler.lower_program(program, "cpu").dependences.order)
    order = str(compiler.lower_program(program, "cpu", "program").schedule)
    with pytest.raises(errors.IllegalTransform) as refusal:
        compiler.lower_program(program, "cpu", order.replace("S2[i] -> [(i)]", "S2[i] -> [(-i)]"))
    assert refusal.value.code == "E701"


def test_what_runs_in_parallel() -> None:
    """Places that memory decides are one after another; other dimensions are vectors and threads."""
    def kinds(text: str, shapes: dict[str, tuple[int, ...]]) -> set[str]:
        module = polytc.lower(text, shapes=shapes, dtypes={"b": "i64"}).loops
        kernel = next(k for k in module.kernels if any(x.name == "b" for x in k.args))
        return {s.kind for s in traverse.walk_stmt(kernel.body) if isinstance(s, loops.For)}
    assert kinds("H[b[i]] += 1 -> (i64[10] H)", {"b": (1000000,)}) == {"sequential"}
    assert "parallel" in kinds("H[i, b[i,j]] += 1 -> (i64[1000,10] H)", {"b": (1000, 1000)})
    wide = polytc.lower("Y[b[n],d] += x[n,d] -> (f32[10,512] Y)", shapes={"b": (1000,), "x": (1000, 512)}, dtypes={"b": "i64"})
    assert "parallel for" in str(wide.loops)
    stores = [s for k in wide.loops.kernels for s in traverse.walk_stmt(k.body) if isinstance(s, loops.Store)]
    assert any(s.indices[1].lanes > 1 for s in stores if "b[" in loops.format_expr(s.indices[0]))


def test_a_vector_of_scattered_places() -> None:
    """A schedule may ask for it where another dimension separates the lanes."""
    text = "H[i,k] = 0 where i in 0:40, k in 0:10; H[i, b[i]] += x[i]"
    program = build(text, {"b": (40,), "x": (40,)}, {"b": "i64", "x": "i64"})
    order = str(compiler.lower_program(program, "cpu", "program").schedule)
    check(program, "cpu", order.replace('mark: "S2 sequential"', 'mark: "S2 vector"'))


SETTINGS = settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture],
                    phases=[Phase.explicit, Phase.generate])  # each example compiles several times: shrinking takes minutes


@pytest.mark.long
@SETTINGS
@given(data=st.data())
def test_random_scatters(data: st.DataObject, targets: tuple[str, ...]) -> None:
    scatter(data, targets)


@pytest.mark.long
@settings(SETTINGS, max_examples=150)
@given(data=st.data())
def test_many_random_scatters(data: st.DataObject, targets: tuple[str, ...]) -> None:
    scatter(data, targets)


def scatter(data: st.DataObject, targets: tuple[str, ...]) -> None:
    """Programs of a first writer, a scatter, and readers around it."""
    left = data.draw(st.sampled_from(["b[i,j], j", "i, b[i,j]", "b[i,j], c[j]", "j, c[i]", "b[0,j], i+j",
                                      "b[i,j]//2, (i+j)%7"]))
    op = data.draw(st.sampled_from(["=", "+=", "max=", "*="]))
    value = data.draw(st.sampled_from(["x[i,j]", "x[i,j] + k*x[k,0]" if op != "=" else "x[i,j]*2", "x[i,b[i,j]]", "i*j"]))
    where = data.draw(st.sampled_from(["", " where i <= j", " where (i + j) % 3 == 0"]))
    tail = data.draw(st.sampled_from(["", "; Y[r,s] = H[r,s] + 1", "; Y[r] += H[r,s]", "; H[r,s] += 1; Y[r,s] = H[c[r],s]"]))
    text = f"H[r,s] = r + s where r in 0:14, s in 0:14; H[{left}] {op} {value}{where}{tail}"
    program = build(text, {"b": (7, 7), "c": (14,), "x": (7, 10)}, {"b": "i64", "c": "i64", "x": "i64"})
    for target in targets:
        check(program, target)
    check(program, "cpu", data.draw(st.sampled_from(["program", "isl"])))
