"""Subscripts and ranges in pieces: `min`, `max`, `clamp`, `abs`, `sign` and `?:` of indices, on every target and with open
sizes; the ranges that follow from them."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

import polytc
from polytc import lang
from polytc.errors import CompileError
from polytc.poly import isl
from polytc.program import program as pr
from polytc.program.affine import affine, at, indices, interval, values
from polytc.program.domain import separated
from polytc.program.scalars import BOOL, I64
from polytc.program.solutions import solve

R = np.random.default_rng(5)
A = R.integers(-9, 9, (13, 17)).astype(np.int32)
V = R.integers(-9, 9, 20).astype(np.int32)
W = R.integers(-9, 9, 5).astype(np.int32)
I20, ROW, COLUMN = np.arange(20), np.arange(13)[:, None], np.arange(17)[None]


def taps(at: Callable[[int], np.ndarray]) -> np.ndarray:
    """The sum over the taps of a window, with W."""
    return np.asarray(sum(W[k] * V[at(k)] for k in range(5)))


def mirrored(i: np.ndarray) -> np.ndarray:
    return np.where(i < 0, -i, np.where(i > 19, 38 - i, i))


def prefixes() -> np.ndarray:
    found = V.copy()
    for t in range(3, 20):
        found[t] += found[max(t - 5, 0)]
    return found


CASES = {
    "Y[y,x] = A[clamp(y-1,0,12), clamp(x+2,0,16)] where y in 0:13, x in 0:17":
        A[np.clip(ROW - 1, 0, 12), np.clip(COLUMN + 2, 0, 16)],
    "Y[i] += W[k]*V[clamp(i+k-2,0,19)] where i in 0:20": taps(lambda k: np.clip(I20 + k - 2, 0, 19)),
    "Y[i] += W[k]*V[i+k-2 < 0 ? 2-i-k : i+k-2 > 19 ? 40-i-k : i+k-2] where i in 0:20": taps(lambda k: mirrored(I20 + k - 2)),
    "Y[i] += W[k]*V[19 - abs(19 - abs(i+k-2))] where i in 0:20": taps(lambda k: mirrored(I20 + k - 2)),
    "Y[i] = V[abs(i-5)]": V[abs(np.arange(-14, 25) - 5)],
    "Y[i] = V[i < 10 && i != 3 ? i : 19-i] where i in 0:20": V[np.where((I20 < 10) & (I20 != 3), I20, 19 - I20)],
    "Y[i] = V[(max(i,3)*2) % 7 + sign(i-4) + 1] where i in 0:20": V[(np.maximum(I20, 3) * 2) % 7 + np.sign(I20 - 4) + 1],
    "Y[i] = V[min(max(i//2 - 1, 0), 5)] where i in 0:20": V[np.clip(I20 // 2 - 1, 0, 5)],
    "S[i] += A[i,k] where k in max(0,i-1):min(5,i+2)": np.array([A[i, max(0, i - 1):min(5, i + 2)].sum() for i in range(6)]),
    "S[i] += A[i,k] where abs(i-k) <= 2": np.array([A[i, max(0, i - 2):i + 3].sum() for i in range(13)]),
    "S[i] += A[i,k] where k <= (i > 6 ? 12-i : i)": np.array([A[i, :min(i, 12 - i) + 1].sum() for i in range(13)]),
    "Y[max(i,j)] += A[i,j]": np.array([A[:m + 1, m].sum() + A[m:m + 1, :m].sum() for m in range(17)]),
    "Y[i] max= A[clamp(i+k,0,12), abs(k-4)] where i in 0:9, k in 0:12": np.array(
        [max(A[min(i + k, 12), abs(k - 4)] for k in range(12)) for i in range(9)]),
    "def f(i32[N] V) -> (Y) { Y[i] = V[i] where i in 0:3\n for t in 3:N { Y[t] = V[t] + Y[max(t-5,0)] } }": prefixes()}


def given(text: str) -> dict[str, np.ndarray]:
    return {n: x for n, x in (("A", A), ("V", V), ("W", W)) if f"{n}[" in text or f" {n})" in text}


@pytest.mark.part(4)
@pytest.mark.parametrize("text", CASES)
def test_on_every_target(targets: tuple[str, ...], text: str) -> None:
    for target in targets:
        np.testing.assert_array_equal(polytc.run(text, **given(text), target=target), CASES[text])
    np.testing.assert_array_equal(polytc.evaluate(text, **given(text)), CASES[text])


def test_both_ends_follow_from_two_reads() -> None:
    """Each of the reads bounds one end alone."""
    i = np.arange(-1, 21)
    found = polytc.run("Y[i] = V[max(i-1,0)] + V[min(i+1,19)]", V=V)
    np.testing.assert_array_equal(found, V[np.maximum(i - 1, 0)] + V[np.minimum(i + 1, 19)])


@pytest.mark.part(2)
@pytest.mark.parametrize("n", [1, 2, 3, 16, 31])
def test_open_sizes(n: int) -> None:
    text = "Y[y,x] = A[clamp(y-1,0,H-1), min(x+2,W-1)] - A[y,abs(x-W//2)] where x in 0:W"
    op = polytc.compile(f"def f(f32[H,W] A) -> (Y) {{ {text} }}", symbolic=True)
    a = R.random((n, n + 1)).astype(np.float32)
    y, x = np.arange(n)[:, None], np.arange(n + 1)[None]
    np.testing.assert_array_equal(op(a), a[np.clip(y - 1, 0, n - 1), np.minimum(x + 2, n)] - a[y, abs(x - (n + 1) // 2)])


def test_a_printed_program_is_the_same() -> None:
    program = lang.build("Y[i] = V[i < 3 ? clamp(i-1,0,4) : abs(i-7)] where i in 0:9, i <= max(4, 2)", {"V": (20,)})
    again = lang.build(str(program), {"V": (20,)})
    assert str(again) == str(program)
    assert again.statements[0].value == program.statements[0].value


@pytest.mark.parametrize(("code", "text", "part"), [
    ("E203", "Y[i] = V[min(i+1,20)] where i in 0:20", "i=19 reads V[20]"),
    ("E203", "Y[i] = V[abs(i-5)] where i in 0:26", "i=25 reads V[20]"),
    ("E203", "Y[i] = V[i < 10 ? i : i+1] where i in 0:20", "i=19 reads V[20]"),
    ("E201", "Y[i] = V[max(i-1,0)]", "state it: `where i in"),
    ("E210", "Y[min(i,3)] = V[i]", "i=3 and i=4"),
    ("E213", "def f(i32[N] V) -> (Y) { for t in 0:N { Y[t] = V[t] + Y[max(t-1,0)] } }", "t=0 reads Y[0]"),
    ("E211", "def f(inout i32[N] V) { V[i] = V[max(i-1,0)] where i in 0:N }", ""),
    ("E202", "Y[i] = V[min(i,-1)]", "empty"),
    ("E111", f"Y[i] = V[{' + '.join(f'(i < {k} ? 0 : 1)' for k in range(9))}] where i in 0:20", "choices"),
    ("E111", f"Y[i] += X[{', '.join(f'(i < {k} ? 0 : 1)' for k in range(9))}] where i in 0:20", "choices")])
def test_refusals(code: str, text: str, part: str) -> None:
    with pytest.raises(CompileError, match=code) as e:
        polytc.run(text, **({"X": np.ones((2,) * 9)} if "X[" in text else {"V": V}))
    assert part in str(e.value)


# ---- arithmetic of forms

FORMS = ["min(i, 4)", "max(i - 3, 2)", "clamp(i, -2, 5)", "abs(i - 2)", "i < 3 ? i : 9 - i", "2*max(i, 1) - 1", "max(i, j)",
         "min(i + j, 4) - j", "i != 2 ? 3 - i : 8", "(i > 0 && i < 5 || i == 7) ? i : 0", "abs(max(i, -3)) // 2", "sign(i - 1)",
         "!(i < 2) ? 2*i : -i", "-abs(i)"]


def expression(text: str) -> pr.Expr:
    """An expression over i and j in -6:9."""
    program = lang.build(f"Y[i,j] = X[({text}) + 40] where i in -6:9, j in -6:9", {"X": (90,)})
    value = program.statements[0].value
    assert isinstance(value, pr.Read)
    return value.subscripts[0]


@pytest.mark.parametrize("text", FORMS)
def test_forms_and_isl_agree_with_values(text: str) -> None:
    import islpy

    e = expression(text)
    form = affine(e)
    assert form is not None
    points = list(itertools.product(range(-6, 9), repeat=2))
    grid = {n: np.array([p[k] for p in points]) for k, n in enumerate("ij")}
    found = np.broadcast_to(values(form, grid.__getitem__), (len(points),))
    box = dict.fromkeys(indices(form), (-6, 8))
    low, high = interval(form, box)
    assert low <= found.min()
    assert found.max() <= high
    parts = "; ".join(f"[i, j] -> [{isl.expr(x)}] : {test}" for test, x in isl.pieces(e))
    relation = islpy.Map.read_from_str(islpy.Context(), f"{{ {parts} }}")
    for p, v in zip(points, found, strict=True):
        assert at(form, dict(zip("ij", p, strict=True))) == v
        image = relation.intersect_domain(islpy.Set.read_from_str(relation.get_ctx(), f"{{ [{p[0]}, {p[1]}] }}")).range()
        assert image.is_equal(islpy.Set.read_from_str(relation.get_ctx(), f"{{ [{v}] }}"))


ENDS = ((0, 4), (-3, None), (None, 3), (1, 1), (20, 30))


@pytest.mark.parametrize(("text", "ends"), [(t, e) for t in FORMS for e in ENDS])
def test_solutions_are_those_found_by_trying(text: str, ends: tuple[int | None, int | None]) -> None:
    form = affine(expression(text))
    assert form is not None
    far, box = range(-60, 61), {"j": (-6, 8)}
    i, j = np.meshgrid(np.array(far), np.arange(-6, 9), indexing="ij")
    found = np.broadcast_to(values(form, {"i": i, "j": j}.__getitem__), i.shape)
    good = (found >= (ends[0] if ends[0] is not None else -999)) & (found <= (ends[1] if ends[1] is not None else 999))
    for every, kept in ((True, good.all(1)), (False, good.any(1))):
        answer = solve(form, *ends, "i", box, every=every)
        if answer is None:
            continue
        low, high = (-60 if answer[0] is None else answer[0]), (60 if answer[1] is None else answer[1])
        inside = np.array([low <= k <= high for k in far])
        assert (inside <= kept).all() if every else (kept <= inside).all()
        assert not every or "j" in text or (inside == kept).all()


def test_conditions_come_apart() -> None:
    program = lang.build("S[i] += X[i,k] where k < min(5, i+2), abs(i-k) <= 3", {"X": (9, 9)})
    assert not any(isinstance(n, pr.Call) for c in program.statements[-1].where for n in pr.walk(c))
    less = pr.Binary("<", pr.Call("max", (pr.Index("i"), pr.Index("j")), I64), pr.Index("k"), BOOL)
    assert [pr.format_expr(c) for c in separated(less)] == ["i < k", "j < k"]
    assert separated(pr.Binary(">", less.a, less.b, BOOL)) == [pr.Binary(">", less.a, less.b, BOOL)]
