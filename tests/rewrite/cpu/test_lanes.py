"""Partial results for the lanes of vectors: which reductions get them, what is left over, and that sums stay."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc.lang import evaluate
from polytc.machine import AVX2, AVX512
from polytc.rewrite.cpu import lanes
from polytc.stages import build
from tests.rewrite.equal import same_results


@pytest.mark.parametrize("length", [512, 515, 640])
@pytest.mark.parametrize("op", ["+=", "max="])
def test_a_reduction_along_memory(length: int, op: str) -> None:
    before = build(f"S[i] {op} X[i,k]", {"X": (8, length)})
    decision = lanes.decide(before, AVX512)
    (chosen,) = decision.choices
    assert (chosen.statement, chosen.along, chosen.lanes % 16) == ("S1", "k", 0)
    after = lanes.split_reductions(before, decision)
    assert ("S1_rest" in {s.name for s in after.statements}) == (length % chosen.lanes != 0)
    same_results(before, after)


@pytest.mark.parametrize("text", ["S[i] += X[k,i]", "S[i] += X[i,7*k]", "S[i,k] = X[i,k]"])
def test_others_have_no_lanes(text: str) -> None:
    program = build(text, {"X": (64, 512)})
    assert lanes.along(program, program.statements[-1], 8) is None
    decision = lanes.decide(program, AVX2)
    assert not decision.choices
    assert all(not r.acted for r in decision.reasons)


@pytest.mark.parametrize("text", ["S[i] += X[i,2*k]", "S[i] += X[i,4*k]*Y[k]", "S[i] += X[i,511-k]*Y[2*k]"])
def test_small_steps_have_lanes(targets: tuple[str, ...], text: str) -> None:
    shapes = {"X": (64, 512), **({"Y": (130,)} if "Y" in text else {})}
    program = build(text, shapes)
    found = lanes.along(program, program.statements[-1], 8)
    assert found is not None
    assert found.index == "k"
    given = {n: np.random.default_rng(1).integers(-9, 9, s).astype(np.float32) for n, s in shapes.items()}
    for target in targets:
        np.testing.assert_array_equal(polytc.run(text, **given, target=target), evaluate(program, given)["S"])


@pytest.mark.part(2)
@pytest.mark.parametrize(("text", "shapes"), [
    ("S[i] += X[i,k]*s[i,k//32]", {"X": (9, 256), "s": (9, 8)}), ("S[i] += X[i,k]*s[k%32]", {"X": (9, 256), "s": (32,)}),
    ("S[i] += X[i,k]*s[k//24]", {"X": (9, 240), "s": (10,)}), ("S[i] += X[i,k]*s[(k+8)//16]", {"X": (9, 150), "s": (10,)}),
    ("S[i] += X[i,32*g+k]*s[i,g] where k in 0:16", {"X": (9, 256), "s": (9, 8)}),
    ("S[i] += X[i,k]*s[k//64,k%64]", {"X": (9, 256), "s": (4, 64)})])
def test_scales_of_groups_have_lanes(targets: tuple[str, ...], text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    program = build(text, shapes)
    (chosen,) = lanes.decide(program, AVX512).choices
    assert chosen.along == "k"
    given = {n: np.random.default_rng(1).integers(-9, 9, s).astype(np.float32) for n, s in shapes.items()}
    x = given["X"][:, :256 // 32 * 32].reshape(9, 8, 32)[:, :, :16].reshape(9, -1) if "32*g" in text else given["X"]
    at = np.arange(x.shape[1])
    s = {"k//32]": lambda s: s[:, at // 32], "k%32]": lambda s: s[at % 32], "k//24]": lambda s: s[at // 24],
         "(k+8)//16]": lambda s: s[(at + 8) // 16], "i,g] where k in 0:16": lambda s: s[:, at // 16],
         "k//64,k%64]": lambda s: s[at // 64, at % 64]}
    scale = next(f for end, f in s.items() if text.endswith(end))(given["s"])
    for target in targets:
        np.testing.assert_array_equal(polytc.run(text, **given, target=target), (x * scale).sum(1))


TRIANGLES = {"S[i] += X[i,k] where k <= i": lambda x, n: np.tril(x).sum(1),
             "S[i] max= X[i,k] where k <= i": lambda x, n: np.where(np.tri(n) > 0, x, -np.inf).max(1),
             "S[i] += X[i,k]*Y[k] where k >= i": lambda x, n: np.triu(x) @ np.arange(n),
             "S[i] += X[i,k] where k <= i + 15, k >= i - 15": lambda x, n: np.where(abs(np.subtract.outer(
                 np.arange(n), np.arange(n))) <= 15, x, 0).sum(1),
             "S[i] += X[i,k] where k <= i, 2*k >= i, 3*k >= i": lambda x, n: np.where(
                 2 * np.arange(n) >= np.arange(n)[:, None], np.tril(x), 0).sum(1),
             "S[i] += X[i,k] where k <= i, k % 2 == 0": lambda x, n: np.tril(x)[:, ::2].sum(1)}


@pytest.mark.part(18)
@pytest.mark.parametrize("n", [64, 77, 200])
@pytest.mark.parametrize("text", TRIANGLES)
def test_conditions_hide_what_lanes_add(text: str, n: int, targets: tuple[str, ...]) -> None:
    given = {"X": np.random.default_rng(0).integers(-9, 9, (n, n)).astype(np.float32)}
    given |= {"Y": np.arange(n).astype(np.float32)} if "Y" in text else {}
    expected = TRIANGLES[text](given["X"].astype(np.float64), n)
    hidden = given["X"].copy()
    if "Y" not in text and "+ 15" not in text:
        hidden[np.triu_indices(n, 1)] = np.nan
    program = build(text, {name: a.shape for name, a in given.items()})
    assert lanes.decide(program, AVX2).choices
    for target in targets:
        np.testing.assert_array_equal(polytc.run(text, **(given | {"X": hidden}), target=target), expected)


def test_narrow_bands_have_no_lanes() -> None:
    program = build("S[i] += X[i,k] where k <= i + 5, k >= i - 5", {"X": (64, 64)})
    assert not lanes.decide(program, AVX2).choices


@pytest.mark.parametrize("text", ["S[i] += X[i,k]*Y[i-k] where k <= i", "S[i] += X[i,k]//Z[i,k] where k <= i"])
def test_terms_that_conditions_keep_from_being_made_have_no_lanes(text: str) -> None:
    shapes = {"X": (64, 64)} | ({"Y": (64,)} if "Y" in text else {"Z": (64, 64)})
    program = build(text, shapes, dtypes=dict.fromkeys(shapes, "i32"))
    decision = lanes.decide(program, AVX2)
    assert not decision.choices


def test_rows_that_no_term_meets_have_no_lanes() -> None:
    """A condition that is no bound leaves out row 1, with which the range begins; the result begins behind it."""
    x = np.random.default_rng(0).integers(-9, 9, (77, 77)).astype(np.float32)
    text = "S[i] += X[i,k] where k <= i - 1, (i + k) % 3 != 1"
    program = build(text, {"X": x.shape})
    assert (program.statements[-1].box["i"][0], program.tensor("S").lower) == (1, (2,))
    assert not lanes.decide(program, AVX2).choices
    i, k = np.indices(x.shape)
    wanted = np.where((k <= i - 1) & ((i + k) % 3 != 1), x, 0).sum(1)
    np.testing.assert_array_equal(polytc.run(text, X=x), wanted[2:])


@pytest.mark.parametrize("text", ["S[i,k//32] += X[i,k]", "S[i,k//31] max= X[i,k]", "S[i,(k+3)//16] += X[i,k]*s[k]"])
def test_sums_into_groups_keep_their_elements(targets: tuple[str, ...], text: str) -> None:
    """The index of a group moves seldom, but no lane stands for all of them."""
    given = {n: np.random.default_rng(1).integers(-9, 9, s).astype(np.float32)
             for n, s in {"X": (4, 256), "s": (256,)}.items() if f"{n}[" in text.split("=", 1)[1]}
    program = build(text, {n: a.shape for n, a in given.items()})
    assert not lanes.decide(program, AVX512).choices
    at = {"k//32": np.arange(256) // 32, "k//31": np.arange(256) // 31, "(k+3)//16": (np.arange(256) + 3) // 16}
    group = next(g for t, g in at.items() if t in text)
    terms, take = given["X"] * given.get("s", 1), np.maximum.reduce if "max=" in text else np.add.reduce
    expected = np.stack([take(terms[:, group == g], axis=1) for g in range(group.max() + 1)], axis=1)
    for target in targets:
        np.testing.assert_array_equal(polytc.run(text, **given, target=target), expected)
