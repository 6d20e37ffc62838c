"""Random small programs against a point-by-point interpreter of their own: the checks refuse exactly what is wrong there, and
the evaluator computes exactly what the loops say."""

import itertools

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from polytc import lang
from polytc.errors import CompileError

COEFFICIENTS = st.integers(-2, 2)


@st.composite
def forms(draw):
    """(text, function) of a random quasi-affine form of i and j."""
    a, b, c = draw(COEFFICIENTS), draw(COEFFICIENTS), draw(st.integers(-2, 3))
    text, value = f"{a}*i + {b}*j + {c}", lambda i, j: a * i + b * j + c
    kind, d = draw(st.sampled_from(["plain", "plain", "//", "%"])), draw(st.integers(2, 3))
    if kind == "plain":
        return text, value
    return f"({text}) {kind} {d}", (lambda i, j: value(i, j) // d) if kind == "//" else (lambda i, j: value(i, j) % d)


CONDITIONS = st.sampled_from([
    ("i >= i", lambda i, j: True), ("j <= i", lambda i, j: j <= i), ("i + j < 4", lambda i, j: i + j < 4),
    ("(i + j) % 2 == 0", lambda i, j: (i + j) % 2 == 0), ("i != j", lambda i, j: i != j),
    ("i == 1 || j > 1", lambda i, j: i == 1 or j > 1)])
EXTENTS = st.integers(1, 4)


def points(n, m, condition):
    return [(i, j) for i, j in itertools.product(range(n), range(m)) if condition(i, j)]


def refusal(text, **shapes):
    """The codes of the diagnostics; the program if there are none."""
    try:
        return set(), lang.build(text, shapes)
    except CompileError as error:
        return {d.code for d in error.diagnostics}, None


@settings(max_examples=120, deadline=None)
@given(forms(), forms(), EXTENTS, EXTENTS, CONDITIONS)
def test_reads_are_refused_exactly_where_one_is_out_of_bounds(f, g, n, m, condition):
    domain = points(n, m, condition[1])
    assume(domain)
    text = f"s += A[{f[0]}, {g[0]}] where i in 0:{n}, j in 0:{m}, {condition[0]}"
    codes, program = refusal(text, A=(5, 4))
    outside = [p for p in domain if not (0 <= f[1](*p) < 5 and 0 <= g[1](*p) < 4)]
    assert codes == ({"E203"} if outside else set())
    if program is not None:
        A = np.arange(20.0, dtype="f4").reshape(5, 4)
        assert lang.evaluate(program, {"A": A})["s"] == sum(A[f[1](*p), g[1](*p)] for p in domain)


@settings(max_examples=120, deadline=None)
@given(forms(), forms(), EXTENTS, EXTENTS, CONDITIONS)
def test_writes_are_refused_exactly_where_two_collide_or_one_is_missing(f, g, n, m, condition):
    domain = points(n, m, condition[1])
    assume(domain)
    text = f"O[{f[0]}, {g[0]}] = A[i, j] where i in 0:{n}, j in 0:{m}, {condition[0]}"
    codes, program = refusal(text, A=(4, 4))
    places = [(f[1](*p), g[1](*p)) for p in domain]
    low, high = np.min(places, 0), np.max(places, 0)
    expected = set() if len(set(places)) == len(places) else {"E210"}
    if len(set(places)) < np.prod(high - low + 1):
        expected |= {"E214"}
    assert codes == expected
    if program is not None:
        A = np.arange(16.0, dtype="f4").reshape(4, 4)
        O = lang.evaluate(program, {"A": A})["O"]
        assert O.shape == tuple(high - low + 1)
        assert all(O[tuple(np.subtract(q, low))] == A[p] for p, q in zip(domain, places))


@settings(max_examples=120, deadline=None)
@given(forms(), forms(), EXTENTS, EXTENTS, CONDITIONS, CONDITIONS)
def test_reads_of_temporaries_are_refused_exactly_where_nothing_wrote(f, g, n, m, first, second):
    written, reading = points(4, 4, first[1]), points(n, m, second[1])
    assume(written and reading)
    text = (f"T[i, j] = A[i, j] where i in 0:4, j in 0:4, {first[0]}\n"
            f"s += (T[{f[0]}, {g[0]}] else 100) where i in 0:{n}, j in 0:{m}, {second[0]}")
    codes, program = refusal(text, A=(4, 4))
    low, high = np.min(written, 0), np.max(written, 0)
    read = [(f[1](*p), g[1](*p)) for p in reading]
    inside = [q for q in read if np.all(low <= q) and np.all(q <= high)]
    assert codes == ({"E213"} if set(inside) - set(written) else set())
    if program is not None:
        A = np.arange(16.0, dtype="f4").reshape(4, 4)
        assert lang.evaluate(program, {"A": A})["s"] == sum(A[q] for q in inside) + 100 * (len(read) - len(inside))


@settings(max_examples=120, deadline=None)
@given(forms(), EXTENTS, EXTENTS, CONDITIONS)
def test_instances_that_depend_on_each_other_are_refused(f, n, m, condition):
    domain = points(n, m, condition[1])
    assume(domain)
    text = (f"T[k] = A[k]\nT[i + {n}*j] = (T[{f[0]}] else 0) + 1 where i in 0:{n}, j in 0:{m}, {condition[0]} -> (T)")
    codes, _ = refusal(text, A=(n * m,))
    writer = {i + n * j: (i, j) for i, j in domain}
    clash = any(writer.get(f[1](*p), p) != p for p in domain)
    assert ("E211" in codes) == clash


@settings(max_examples=120, deadline=None)
@given(forms(), st.integers(3, 9), st.integers(1, 4))
def test_inferred_ranges_are_the_largest_intervals(f, size, m):
    """i ranges over the largest interval for which the read is in bounds for every j of its stated range."""
    codes, program = refusal(f"O[i] += A[{f[0]}] where j in 0:{m}", A=(size,))
    good = [i for i in range(-60, 61) if all(0 <= f[1](i, j) < size for j in range(m))]
    if program is not None:
        r = next(r for r in program.statement("S1").ranges if r.index == "i")
        assert [*range(r.lower, r.upper)] == good
        lang.evaluate(program, {"A": np.ones(size, "f4")})
    elif good and -60 not in good and 60 not in good:
        assert "%" in f[0] or "//" in f[0], codes
