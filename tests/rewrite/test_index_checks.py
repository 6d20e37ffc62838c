"""`checked=True`: an index in memory that leaves its tensor raises, with tensor, value and place; numpy says which it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polytc
from polytc import errors, stages
from polytc.export import bundle
from polytc.rewrite.index_checks import BLOCK
from polytc.targets import registry

RANDOM = np.random.default_rng(16)
TARGETS = ("cpu", "interp")


def _first(index: np.ndarray, extent: int) -> tuple[int, ...] | None:
    """The place of the first index outside of 0:extent."""
    found = np.argwhere((index < 0) | (index >= extent))
    return tuple(map(int, found[0])) if len(found) else None


CASES = [
    ("O[i] = X[I[i]]", (3 * BLOCK + 5,), 40),
    ("O[i] = X[I[i]]", (9,), 40),
    ("O[i,d] = T[I[i],d]", (50,), 20),
    ("O[b,d] += T[I[b,k],d]", (13, 7), 20),
    ("H[I[i]] += 1 -> (i64[10] H)", (5000,), 10),
    ("for t in 0:6 { S[t] +=! X[I[t,k]] }", (6, 5), 40),
    ("O[i] = B[i] > 0 ? X[I[i]] : 0", (60,), 40),
]


@pytest.mark.part(7)
@pytest.mark.parametrize("dtype", ["i8", "i4", "i2"])
@pytest.mark.parametrize(("text", "shape", "extent"), CASES)
def test_the_first_index_outside_is_named(text: str, shape: tuple[int, ...], extent: int, dtype: str) -> None:
    size = int(np.prod(shape))
    good = RANDOM.integers(0, extent, shape).astype(dtype)
    given = {"X": RANDOM.integers(-3, 4, 40).astype("f4"), "T": RANDOM.integers(-3, 4, (20, 3)).astype("f4"),
             "B": np.where(np.arange(size) % 3, 1.0, -1.0).astype("f4")}
    used = {n: a for n, a in given.items() if f"{n}[" in text}
    for target in TARGETS if size < 1000 else ("cpu",):
        op = polytc.compile(text, target=target, checked=True, threads=1 if size % 2 else 2)
        plain = polytc.compile(text, target=target, checked=False)
        np.testing.assert_array_equal(op(**used, I=good), plain(**used, I=good))
        for at, value in ((0, extent), (size - 1, -1), (size // 2, 30000), (1, extent - 1)):
            bad = good.copy()
            bad.flat[at] = value
            asked = np.where(used["B"] > 0, bad, 0) if "B" in used else bad
            first = _first(asked, extent)
            if first is None:
                np.testing.assert_array_equal(op(**used, I=bad), plain(**used, I=bad))
                continue
            with pytest.raises(IndexError) as found:
                op(**used, I=bad)
            name = text[text.index("I[") - 2]
            place = ", ".join(map(str, first))
            assert f"I[{place}] = {bad[first]} is no index of dimension 0 of {name}, 0:{extent}" in str(found.value)
            assert isinstance(found.value, errors.PolytcError)
            assert found.value.code == "E418"


def test_rows_in_memory_count_where_they_run() -> None:
    text = "Y[i] += V[p]*X[C[p]] where p in r[i]:r[i+1]"
    op = polytc.compile(text, checked=True)
    arrays = {"V": np.ones(6), "X": np.arange(4.0), "C": np.array([0, 9, 1, 2, -5, 3])}
    np.testing.assert_array_equal(op(**arrays, r=np.array([2, 4, 4])), [3, 0])  # neither 9 nor -5 is used
    with pytest.raises(IndexError, match=r"C\[4\] = -5 is no index of dimension 0 of X, 0:4(?s:.)*i=1, p=4"):
        op(**arrays, r=np.array([2, 4, 6]))


def test_what_is_guarded_may_be_anywhere() -> None:
    index = np.array([0, 7, -1])
    found = polytc.run("O[i] = X[I[i]] else 5", X=np.arange(3.0), I=index, checked=True)
    np.testing.assert_array_equal(found, [0, 5, 5])


def test_an_index_that_is_computed() -> None:
    """Its value is not in an input: the place is told."""
    with pytest.raises(IndexError, match=r"J\[2\] is no index of dimension 0 of X, 0:3"):
        polytc.run("J[i] = i64(A[i])*2; O[i] = X[J[i]] -> (J, O)", A=np.array([0.0, 1, 2]), X=np.arange(3.0), checked=True)


def test_a_scatter_writes_what_is_inside() -> None:
    out = np.zeros(4, np.int64)
    with pytest.raises(IndexError, match=r"b\[1\] = 4 is no index of dimension 0 of H, 0:4"):
        polytc.run("H[b[i]] += 1 -> (i64[4] H)", b=np.array([1, 4, 1]), out=out, checked=True)
    np.testing.assert_array_equal(out, [0, 2, 0, 0])


def test_the_environment_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    text, arrays = "O[i] = X[I[i]]", {"X": np.arange(3.0), "I": np.array([3])}
    np.testing.assert_array_equal(polytc.run(text, **arrays), [2])
    monkeypatch.setenv("POLYTC_CHECK_INDICES", "1")
    with pytest.raises(errors.IndexOutOfBounds):
        polytc.run(text, **arrays)
    np.testing.assert_array_equal(polytc.run(text, **arrays, checked=False), [2])
    monkeypatch.setenv("POLYTC_CHECK_INDICES", "yes")
    with pytest.raises(errors.ArgumentError, match="E410"):
        polytc.run(text, **arrays)


def test_constants_and_the_reference_check_too() -> None:
    index = np.array([0, 5])
    with pytest.raises(IndexError, match=r"I\[1\] = 5"):
        polytc.compile("O[i] = X[I[i]]", constants={"I": index}, checked=True)(np.arange(3.0))
    with pytest.raises(IndexError, match=r"I\[1\] = 5"):
        polytc.compile("H[I[i]] += 1 -> (i64[3] H)", target="evaluate", checked=True)(index)


@pytest.mark.parametrize("target", TARGETS)
def test_open_sizes_get_code_for_each(target: str) -> None:
    op = polytc.compile("O[i] = X[I[i]]", shapes={"X": ("N",), "I": ("M",)}, dtypes={"I": "i64"}, target=target, checked=True)
    for n in (3, 8):
        x, index = np.arange(n, dtype="f4"), RANDOM.integers(0, n, n + 2)
        np.testing.assert_array_equal(op(x, index), x[index])
        index[n] = n
        with pytest.raises(errors.IndexOutOfBounds, match=rf"I\[{n}\] = {n} is no index of dimension 0 of X, 0:{n}"):
            op(x, index)


def test_open_sizes_without_an_index_in_memory_share_their_code() -> None:
    op = polytc.compile("O[i] = X[i] + 1", shapes={"X": ("N",)}, checked=True)
    op(np.ones(50, "f4"))
    op(np.ones(70, "f4"))
    assert op._open is not None
    assert op._open.kernels == 1


def test_lowered_open_sizes_and_given_schedules_are_refused() -> None:
    with pytest.raises(errors.CompileError, match="E412"):
        polytc.lower("O[i] = X[I[i]]", shapes={"X": ("N",), "I": ("M",)}, dtypes={"I": "i64"}, checked=True)
    recipe = stages.schedule("O[i] = X[I[i]]", {"X": (8,), "I": (8,)}, {"I": "i64"})
    with pytest.raises(errors.ArgumentError, match="E410"):
        polytc.compile("O[i] = X[I[i]]", shapes={"X": (8,), "I": (8,)}, dtypes={"I": "i64"}, schedule=recipe, checked=True)


@pytest.mark.parametrize("run", [polytc.evaluate, lambda *a, **k: polytc.run(*a, **k, target="evaluate", checked=True)])
def test_the_evaluator_names_the_element(run: Callable[..., np.ndarray]) -> None:
    for bad in (-1, 3):
        with pytest.raises(errors.IndexOutOfBounds, match=rf"I\[1\] = {bad} is no index"):
            run("O[i] = X[I[i]]", X=np.arange(3.0), I=np.array([0, bad, 7]))


@pytest.mark.parametrize("target", TARGETS)
def test_what_no_instance_uses_may_be_anywhere(target: str) -> None:
    """The tests look at all nonzeros; those of no row, and padding, are no errors."""
    text = "Y[i] += X[I[i,p]] where p in 0:n[i]"
    op, index = polytc.compile(text, target=target, checked=True), np.array([[0, 9, -1], [2, 1, 7]])
    x = np.arange(1.0, 4.0)
    np.testing.assert_array_equal(op(X=x, I=index, n=np.array([1, 2])), [1, 5])
    with pytest.raises(errors.IndexOutOfBounds, match=r"I\[1, 2\] = 7"):
        op(X=x, I=index, n=np.array([1, 3]))
    op = polytc.compile("O[i,j] += X[I[j]] where j <= i, i in 0:2, j in 0:3", target=target, checked=True)
    np.testing.assert_array_equal(op(X=x, I=np.array([2, 0, 9])), [[3, 0], [3, 1]])


@pytest.mark.part(8)
@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8"])
@pytest.mark.parametrize("target", TARGETS)
def test_every_type_of_index(target: str, dtype: str) -> None:
    """The extremes of each, against tensors shorter and longer than the type counts; dimensions that begin elsewhere."""
    about = np.iinfo(dtype)
    values = np.array(sorted({about.min, about.min + 1, 0, 1, 126, 127, about.max - 1, about.max}), object)
    for extent in (1, 127, 128, 300):
        for shift in (0, 5):
            text = f"T[q] = X[q-{shift}] where q in {shift}:{extent + shift}; O[i] = T[I[i]+0]" if shift else "O[i] = X[I[i]]"
            op = polytc.compile(text, target=target, checked=True)
            x = np.arange(extent, dtype="f4")
            for value in values:
                if shift <= value < extent + shift:
                    assert op(X=x, I=np.array([value], dtype))[0] == value - shift
                else:
                    with pytest.raises(errors.IndexOutOfBounds, match=rf"I\[0\].* = {value} "):
                        op(X=x, I=np.array([value], dtype))


@pytest.mark.parametrize("target", ["c", "opencl"])
def test_source_has_an_output_for_it(target: str) -> None:
    text, shapes, types = "O[i] = X[I[i]]", {"X": (8,), "I": (9,)}, {"I": "i64"}
    assert polytc.lower(text, target, shapes=shapes, dtypes=types, checked=True).loops.outputs == ("O", "outside_1")
    assert polytc.lower(text, target, shapes=shapes, dtypes=types).loops.outputs == ("O",)


@pytest.mark.part(2)
@pytest.mark.parametrize("target", [*TARGETS, "evaluate"])
@pytest.mark.parametrize("text", [
    "H[b[i]] += 1 where m[i] -> (i64[10] H)", "H[b[i]] += 1 where m[i] && 0 <= b[i] < 10 -> (i64[10] H)",
    "for i in 0:4 { H[b[i]] += 1 where m[i] } -> (i64[10] H)", "H[b[i],0] += 1 where m[i] -> (i64[10,1] H)"])
def test_updates_that_where_leaves_out_may_point_anywhere(text: str, target: str) -> None:
    op, mask = polytc.compile(text, target=target, checked=True), np.array([True, False, True, False])
    found = op(b=np.array([1, -2, 9, 10]), m=mask)
    np.testing.assert_array_equal(np.asarray(found).reshape(-1), np.bincount([1, 9], minlength=10))
    if "<=" not in text:
        with pytest.raises(errors.IndexOutOfBounds, match=r"b\[2\] = 10 is no index of dimension 0 of H, 0:10"):
            op(b=np.array([1, -2, 10, 10]), m=mask)


@pytest.mark.parametrize("target", [*TARGETS, "evaluate"])
@pytest.mark.parametrize("text", ["y[i] += v[p] where p in R[q[i]]:R[q[i]+1]",
                                  "for i in 0:2 { for p in R[q[i]]:R[q[i]+1] { y[i] += v[p] } }"])
def test_the_ends_of_a_range_in_memory_are_checked_outside_of_it(text: str, target: str) -> None:
    op, v, rows = polytc.compile(text, target=target, checked=True), np.arange(1.0, 6), np.array([0, 2, 5])
    np.testing.assert_array_equal(op(v=v, R=rows, q=np.array([1, 0])), [v[2:].sum(), v[:2].sum()])
    for q, value in (([0, 2], "= 3"), ([0, -2], "= -2"), ([0, 7], "= 7")):
        with pytest.raises(errors.IndexOutOfBounds, match=rf"q\[1\].* {value} is no index of dimension 0 of R, 0:3"):
            op(v=v, R=rows, q=np.array(q))


@pytest.mark.parametrize("run", [polytc.run, polytc.evaluate])
def test_the_reference_reads_the_ends_of_a_range_that_has_nothing(run: Callable[..., np.ndarray]) -> None:
    given = {"checked": True} if run is polytc.run else {}
    with pytest.raises(IndexError):
        run("y[i] += v[p] where p in R[q[i]]:R[q[i]+1]", v=np.arange(5.0), R=np.array([0, 2, 5]), q=np.array([0, 2]), **given)


@pytest.mark.parametrize("target", [*TARGETS, "evaluate"])
def test_a_winner_is_sought_where_instances_happen(target: str) -> None:
    op, x = polytc.compile("(m,j) argmax= (x[q[b]],b) where q[b]<3", target=target, checked=True), np.arange(3.0)
    m, j = op(x=x, q=np.array([0, 1, 7]))
    assert (m, j) == (1, 1)
    with pytest.raises(errors.IndexOutOfBounds, match=r"q\[1\] = -1 is no index of dimension 0 of x, 0:3"):
        op(x=x, q=np.array([0, -1, 7]))


@pytest.mark.parametrize("target", TARGETS)
def test_the_place_is_told_as_it_is_written(target: str) -> None:
    q = np.array([0, 1, 2, 20, 3])
    with pytest.raises(errors.IndexOutOfBounds, match=r"q\[3\] = 20 (?s:.)*at t=3, (?s:.)* S\[t\] = T\[q\[t\], 0\]") as found:
        polytc.run("for t in 4:-1:-1 { S[t] = T[q[t],0] + (S[t+1] else 0) }", T=np.ones((20, 2)), q=q, target=target,
                   checked=True)
    assert "minus" not in str(found.value)
    with pytest.raises(errors.IndexOutOfBounds, match=r"I\[3\] = 3 is no index"):
        polytc.run("O[i] += x[I[i+k]] where k in 0:2, i in 0:3", x=np.arange(3.0), I=np.arange(4), target=target, checked=True)


COUNTED: list[tuple[str, dict[str, np.ndarray], dict[str, np.ndarray], str]] = [
    # what `where` lets through is checked as any other
    ("y[i] += x[q[b]] where q[b] < 3, i in 0:2", {"q": np.array([0, 7, 2])}, {"q": np.array([0, 7, -1])}, r"q\[2\] = -1 "),
    ("y[b] = 0.0 where b in 0:3; y[b] = x[q[b]] where q[b] < 3", {"q": np.array([0, 7, 2])}, {"q": np.array([-1, 7, 2])},
     r"q\[0\] = -1 "),
    ("y[i] += x[q[b]] where q[b] < 3, x[q[b]] > 0, i in 0:2", {"q": np.array([0, 7, 2])}, {"q": np.array([0, -9, 2])},
     r"q\[1\] = -9 "),
    ("H[i] = 0.0 where i in 0:5; H[p[b]] = x[q[b]] where q[b] < 3", {"p": np.array([0, 9, 4]), "q": np.array([0, 7, 2])},
     {"p": np.array([0, 9, 4]), "q": np.array([0, 2, -1])}, r"q\[2\] = -1 "),
    ("H[p[q[b]]] += 1 where m[b] -> (i64[5] H)", {"p": np.array([1, 9]), "q": np.array([0, 7]), "m": np.array([True, False])},
     {"p": np.array([1, 9]), "q": np.array([0, 7]), "m": np.array([True, True])}, r"q\[1\] = 7 .* dimension 0 of p"),
    # both sides of ?: && and || count where they are asked for
    ("y[b] = q[b] >= 0 && q[b] < 3 && x[q[b]] > 0 ? 1 : 0", {"q": np.array([0, 7, -1])}, {}, ""),
    ("y[b] = q[b] < 0 || q[b] >= 3 || x[q[b]] > 0 ? 1 : 0", {"q": np.array([0, 7, -1])}, {}, ""),
    ("y[b] = x[q[b]] > 0 && q[b] >= 0 ? 1 : 0", {"q": np.array([0, 1])}, {"q": np.array([0, -1])}, r"q\[1\] = -1 "),
    ("y[b] = q[b] < 3 ? x[q[b]] : 0.0", {"q": np.array([0, 7])}, {"q": np.array([7, -1])}, r"q\[1\] = -1 "),
    # a guard of the text lets any index through, inside of `where` too
    ("y[i] += (x[q[b]] else 5) where q[b] < 3, i in 0:2", {"q": np.array([0, 7, -1])}, {}, ""),
    # a choice of the text is no `where`: all instances write somewhere
    ("H[p[b]] += m[b] ? 1 : 0 -> (i64[5] H)", {"p": np.array([0, 4]), "m": np.array([True, False])},
     {"p": np.array([0, 9]), "m": np.array([True, False])}, r"p\[1\] = 9 "),
    ("H[i] = 0.0 where i in 0:5; H[m[b] ? p[b] : -1] = 2.0 where b in 0:2",
     {"p": np.array([0, 4]), "m": np.array([True, True])},
     {"p": np.array([0, 4]), "m": np.array([True, False])}, "= -1 is no index of dimension 0 of H"),
    # indices of indices: the inner one is named
    ("y[b] = x[p[q[b]]]", {"p": np.array([2, 9]), "q": np.array([0, 0])}, {"p": np.array([2, 9]), "q": np.array([0, -1])},
     r"q\[1\] = -1 is no index of dimension 0 of p"),
    ("y[b] = x[p[q[b]]]", {"p": np.array([2, 9]), "q": np.array([0, 0])}, {"p": np.array([2, 9]), "q": np.array([1, 0])},
     r"p\[q\[0\]\] = 9 is no index of dimension 0 of x"),
    # the winner's index counts, not those of the others
    ("(w,j) argmax= (v[b], x[q[b]]) where v[b] > 0.0", {"v": np.array([1.0, 3]), "q": np.array([9, 2])},
     {"v": np.array([1.0, 3]), "q": np.array([0, -1])}, "is no index of dimension 0 of x|reads x at -1 in dimension 0"),
    ("(w,j) argmax= (v[b], x[q[b]]) where v[b] > 0.0", {"v": np.array([-1.0, -3]), "q": np.array([9, -2])}, {}, ""),
]


@pytest.mark.part(6)
@pytest.mark.parametrize("target", [*TARGETS, "evaluate"])
@pytest.mark.parametrize(("text", "good", "bad", "told"), COUNTED)
def test_which_indices_count(text: str, good: dict[str, np.ndarray], bad: dict[str, np.ndarray], told: str,
                             target: str) -> None:
    x = {"x": np.array([4.0, 5, 6])} if "x[" in text else {}
    op = polytc.compile(text, target=target, checked=True)
    plain = polytc.compile(text, target=target, checked=False)
    for got, wanted in zip(_results(op(**x, **good)), _results(plain(**x, **good)), strict=True):
        np.testing.assert_array_equal(got, wanted)
    if bad:
        with pytest.raises(errors.IndexOutOfBounds, match=told) as found:
            op(**x, **bad)
        assert "else 0" not in str(found.value)


def test_a_half_that_is_held_in_single_has_its_own_name() -> None:
    with pytest.raises(errors.IndexOutOfBounds, match=r"I\[1\] = -5 is no index of dimension 0 of H, 0:5") as found:
        polytc.run("H[I[i]] max= v[i] -> (f16[5] H)", I=np.array([0, -5]), v=np.ones(2, "f2"), checked=True)
    assert "single" not in str(found.value)


def test_masked_updates_of_halves_may_point_anywhere_where_they_are_left_out() -> None:
    found = polytc.run("H[I[i]] += v[i] where m[i] -> (f16[5] H)", I=np.array([0, -5]), v=np.ones(2, "f2"),
                       m=np.array([True, False]), checked=True)
    np.testing.assert_array_equal(found, [1, 0, 0, 0, 0])


def _results(found: Any) -> list[np.ndarray]:
    return list(found) if isinstance(found, tuple) else [found]


@pytest.mark.parametrize("text", [
    "for minus_t in 0:3 { S[minus_t] = x[q[minus_t]] + (S[minus_t-1] else 0) }",
    "for minus_t in 2:-1:-1 { S[minus_t] = x[q[minus_t]] + (S[minus_t+1] else 0) }"])
def test_an_index_that_counts_up_may_have_any_name(text: str) -> None:
    with pytest.raises(errors.IndexOutOfBounds, match=r"q\[2\] = 9 (?s:.)*at minus_t=2, (?s:.)*minus_t in 0:3"):
        polytc.run(text, x=np.ones(4), q=np.array([0, 1, 9]), checked=True)
    with pytest.raises(errors.CompileError, match=r"minus_t=\d reads q\[\d\]"):
        polytc.run(text.replace("q[minus_t]", "q[minus_t+1]"), x=np.ones(4), q=np.array([0, 1, 9]))


def test_what_build_and_lower_print_agrees() -> None:
    given: dict[str, Any] = {"shapes": {"X": (8,), "I": (9,)}, "dtypes": {"I": "i64"}, "checked": True}
    assert polytc.build("O[i] = X[I[i]]", **given) == polytc.lower("O[i] = X[I[i]]", **given).program
    assert "outside_1" not in polytc.build("O[i] = X[I[i]]", **{**given, "checked": False}).outputs


def test_exports_do_not_look_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    target = registry.target("c")
    program = polytc.build("O[i] = X[I[i]]", {"X": (8,), "I": (9,)}, {"I": "i64"})
    bundle.of_program(program, target)
    monkeypatch.setenv("POLYTC_CHECK_INDICES", "1")
    with pytest.raises(errors.ArgumentError, match="E410: exported code does not look at indices"):
        bundle.of_program(program, target)
    bundle.of_program(polytc.build("O[i] = X[i] + 1", {"X": (8,)}), target)


@pytest.mark.parametrize("target", ["interp", "evaluate"])
@pytest.mark.parametrize(("text", "what"), [
    ("O[i] = X[I[i]]", "the nearest element is read"), ("H[I[i]] += 1 -> (i64[10] H)", "such an instance writes nothing"),
    ("H[j] = 0 where j in 0:10; H[I[i]] = X[i] -> (f32[10] H)", "such an instance writes nothing"),
    ("H[I[i]] += 1 where X[i] > 0 -> (i64[10] H)", "such an instance writes nothing"),
    ("H[I[i]] += X[I[i]] where X[i] > 0 -> (f32[10] H)", "the nearest element is read")])
def test_an_error_says_what_happens_without_the_check(text: str, what: str, target: str) -> None:
    given = {"X": np.ones(10 if "X[I" in text else 4, np.float32)} if "X[" in text else {}
    with pytest.raises(IndexError, match=what):
        polytc.run(text, **given, I=np.array([1, 2, 30, 4]), checked=True, target=target)
