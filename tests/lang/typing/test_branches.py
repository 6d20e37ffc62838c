"""Reads in branches of a choice by an index happen where the branch is taken: there they are in bounds, and there they bound
the index. The oracle walks through the places one by one."""

from __future__ import annotations

import operator
import random

import numpy as np
import pytest

import polytc
from polytc import lang
from polytc.errors import CompileError
from polytc.lang.typing import branches
from polytc.program import program as pr

COMPARISONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne}


def value_of(text: str, tensor: str = "C", **shapes: tuple[int, ...]) -> pr.Expr:
    return next(s.value for s in lang.build(text, shapes).statements if s.target == tensor)


def test_paths():
    value = value_of("C[i] = i > 2 && x[i] > 0 ? x[i-1] : !(i < 4) || x[i+1] > 1 ? 2 : 3 where i in 1:9", x=(10,))
    found = {pr.format_expr(r): [pr.format_expr(c) for c in path] for r, path in branches.reads(value)}
    assert found == {"x[i]": ["i > 2"], "x[i - 1]": ["i > 2"], "x[i + 1]": ["i < 4"]}


def test_mapped_changes_each_place_by_its_own_path():
    value = value_of("C[i] = x[i] + (i > 2 ? x[i] : 0) where i in 0:9", x=(10,))
    changed = branches.mapped(value, lambda r, path: pr.Read("y", r.subscripts, r.dtype) if path else r)
    assert pr.format_expr(changed) == "x[i] + (i > 2 ? y[i] : 0.0)"


@pytest.mark.part(2)
@pytest.mark.parametrize(("text", "lower", "values"), [
    ("C[i] = i > 0 ? x[i] - x[i-1] : x[i]", 0, [1, 1, 2, 4]),
    ("C[i] = i > 0 ? x[i] - x[i-1] : x[i+1] - x[i]", 0, [1, 1, 2, 4]),
    ("C[i] = i > 0 ? x[i] - x[i-1] : 0", 0, [0, 1, 2, 4]),
    ("C[i] = i < 3 ? x[i+1] : x[i]", 0, [2, 4, 8, 8]),
    ("C[i] = i < 4 ? x[i] : y[i-4]", 0, [1, 2, 4, 8, 5, 6]),  # one behind the other
    ("C[i] = i < 2 ? y[i] : x[i-2]", 0, [5, 6, 1, 2, 4, 8]),
    ("C[i] = i > 1 ? x[i-2] : 0", 0, [0, 0, 1, 2, 4, 8]),
    ("C[i] = i == 0 || x[i-1] < 3 ? 1.0 : 2.0", 0, [1, 1, 1, 2, 2]),
    ("C[i] = i > 0 && i < 3 ? x[i-1] + x[i+1] : x[i]", 0, [1, 5, 10, 8]),
    ("T[i] = x[i+1]; C[i] = i > 0 ? T[i] : T[i+1]", -1, [2, 4, 4, 8]),  # from -1, where T begins
    ("C[i] = i > 0 ? x[i] : 0 where i >= -2", -2, [0, 0, 0, 2, 4, 8]),
    ("C[i] = x[i] > 3 ? x[i] - x[i-1] : 0", 1, [0, 2, 4]),  # by values: the read may happen anywhere
    ("for i in 0:4 { C[i] = i > 0 ? C[i-1] + x[i] : x[i] }", 0, [1, 3, 7, 15]),
])
def test_ranges(text, lower, values):
    arrays = {"x": np.array([1, 2, 4, 8.0]), "y": np.array([5, 6.0])}
    arrays = {n: a for n, a in arrays.items() if f"{n}[" in text}
    assert lang.build(text, {n: a.shape for n, a in arrays.items()}).tensor("C").lower == (lower,)
    for target in ("cpu", "interp", "evaluate"):
        result = polytc.compile(text, target=target)(**arrays) if target != "evaluate" else polytc.evaluate(text, **arrays)
        assert np.array_equal(result, values), target


@pytest.mark.parametrize(("text", "code", "note"), [
    ("C[i] = i > 2 ? x[i] : y[i]", "E203", "i=2 reads y[2], extent 2"),  # between them is a place without a value
    ("C[i] = i > 0 ? x[i-3] : x[i]", "E203", "i=1 reads x[-2], extent 4"),
    ("C[i] = i < 3 ? x[i+1] : 0", "E201", "state it"),
    ("C[i] = i > 0 ? x[i] : 0 where i in 0:9", "E203", "i=8 reads x[8], extent 4"),
    ("C[i,j] = i > j ? x[i-j-1] : y[j-i] where i in 0:5, j in 0:4", "E203", "i=0, j=2 reads y[2], extent 2"),
    ("C[i] = x[i] > 3 ? x[i-1] : 0 where i in 0:4", "E203", "i=0 reads x[-1], extent 4"),
])
def test_what_is_refused(text, code, note):
    shapes = {n: s for n, s in {"x": (4,), "y": (2,)}.items() if f"{n}[" in text}
    with pytest.raises(CompileError, match=code) as caught:
        lang.build(text, shapes)
    assert note in str(caught.value)


def test_two_indices():
    x, y = np.arange(8.0), np.arange(100.0, 105.0)
    found = polytc.compile("C[i,j] = i > j ? x[i-j-1] : y[j-i] where i in 0:9, j in 0:5")(x=x, y=y)
    assert np.array_equal(found, [[x[i - j - 1] if i > j else y[j - i] for j in range(5)] for i in range(9)])


def test_no_point_of_a_large_domain_is_looked_at():
    """The condition itself says that the read is in bounds."""
    program = lang.build("C[i,j] = i > j ? x[i-j-1] : 0 where i in 0:4000, j in 0:4000", {"x": (4000,)})
    assert [r.default is not None for r in pr.reads(program.statements[0])] == [True]


def test_open_sizes():
    op = polytc.compile("C[i] = i < x.shape[0] ? x[i] : y[i - x.shape[0]]", shapes={"x": ("N",), "y": ("M",)}, symbolic=True)
    for n, m in ((2, 3), (3, 9), (1, 4), (0, 3), (3, 0)):
        x, y = np.arange(n) + 1.0, np.arange(m) - 9.0
        assert np.array_equal(op(x=x, y=y), np.concatenate([x, y]))


# ---- random choices, place by place

def allowed(arms, n: int, i: int) -> bool:
    """Is what happens at i in bounds? arms: (condition, offsets) of the branches; the last one has None."""
    offsets = next(o for c, o in arms if c is None or COMPARISONS[c[0]](i, c[1]))
    return all(0 <= i + o < n for o in offsets)


def text_of(arms) -> str:
    *choices, (_, last) = arms
    plain = [" + ".join(f"{k + 1}*x[i+{o}]" if o >= 0 else f"{k + 1}*x[i-{-o}]" for k, o in enumerate(offsets)) or "7"
             for offsets in ([o for _, o in choices] + [last])]
    return "C[i] = " + "".join(f"i {c[0]} {c[1]} ? {p} : " for (c, _), p in zip(choices, plain)) + plain[-1]


def computed(arms, x: np.ndarray, i: int) -> float:
    offsets = next(o for c, o in arms if c is None or COMPARISONS[c[0]](i, c[1]))
    return sum((k + 1) * x[i + o] for k, o in enumerate(offsets)) if offsets else 7.0


@pytest.mark.part(3)
@pytest.mark.parametrize("seed", range(60))
def test_random_choices(seed):
    """Where the range is stated, it is taken or refused as the places say; where it is not, each place of what is found is in
    bounds, and what lies on either side of it, from 0 on, is not; where nothing bounds it above, it is as long as an array that
    is read with the index alone."""
    rng = random.Random(seed)
    n = rng.randint(1, 9)
    arms = [((rng.choice(list(COMPARISONS)), rng.randint(-1, n)), [rng.randint(-2, 2) for _ in range(rng.randint(0, 2))])
            for _ in range(rng.randint(1, 3))] + [(None, [rng.randint(-2, 2) for _ in range(rng.randint(0, 2))])]
    text, x = text_of(arms), np.arange(1.0, n + 1) ** 2
    if "x[" not in text:
        return
    low = rng.randint(-2, 3)
    high = low + rng.randint(1, n + 2)
    stated = f"{text} where i in {low}:{high}"
    if all(allowed(arms, n, i) for i in range(low, high)):
        assert np.array_equal(polytc.compile(stated)(x=x), [computed(arms, x, i) for i in range(low, high)]), text
    else:
        with pytest.raises(CompileError, match="E203"):
            polytc.compile(stated)(x=x)
    try:
        tensor = lang.build(text, {"x": (n,)}).tensor("C")
    except CompileError:
        with pytest.raises(CompileError, match=r"E20[123]"):
            lang.build(text, {"x": (n,)})
        return
    (begin,), (extent,) = tensor.lower, tensor.shape
    assert all(allowed(arms, n, i) for i in range(begin, begin + extent)), text
    if extent:
        assert begin <= 0 or not allowed(arms, n, begin - 1), text
        assert not allowed(arms, n, begin + extent) or all(allowed(arms, n, i) for i in range(begin + extent, 60)), text
    assert np.array_equal(polytc.compile(text)(x=x), [computed(arms, x, i) for i in range(begin, begin + extent)]), text
