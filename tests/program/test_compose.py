"""Programs put together keep what they compute."""

from __future__ import annotations

import numpy as np

from polytc.lang import build, evaluate
from polytc.program.compose import Part, concatenate, embed, reshaped_input, with_zero_origins

R = np.random.default_rng(3)
A, B = R.standard_normal((4, 5)).astype(np.float32), R.standard_normal((5, 6)).astype(np.float32)


def test_concatenate_makes_inner_values_temporaries() -> None:
    product = build("C[i,j] += A[i,k]*B[k,j]", {"A": (4, 5), "B": (5, 6)})
    relu = build("Y[i,j] = max(X[i,j], 0)", {"X": (4, 6)})
    whole = concatenate([Part(product, {"A": "v0", "B": "v1", "C": "v2"}), Part(relu, {"X": "v2", "Y": "v3"})], ["v0", "v1"],
                        ["v3"], "both")
    assert whole.temporaries == ("v2",)
    assert len({s.name for s in whole.statements}) == 3
    np.testing.assert_allclose(evaluate(whole, {"v0": A, "v1": B})["v3"], np.maximum(A @ B, 0), rtol=1e-5)


def test_temporaries_of_parts_do_not_meet() -> None:
    mean = build("S[i] += X[i,j]; Y[i] = S[i] / 5 -> (Y)", {"X": (4, 5)})
    whole = concatenate([Part(mean, {"X": "a", "Y": "b"}), Part(mean, {"X": "a", "Y": "c"})], ["a"], ["b", "c"], "two")
    assert set(whole.temporaries) == {"p0_S", "p1_S"}
    results = evaluate(whole, {"a": A})
    np.testing.assert_allclose(results["b"], A.mean(1), rtol=1e-6)
    np.testing.assert_allclose(results["c"], A.mean(1), rtol=1e-6)


def test_zero_origins() -> None:
    shifted = build("T[i] = X[i-1] where i in 1:5; Y[i] = T[i] + T[i-1] -> (Y)", {"X": (4,)})
    assert shifted.tensor("T").lower == (1,)
    plain = with_zero_origins(shifted)
    assert not any(any(t.lower) for t in plain.tensors)
    np.testing.assert_array_equal(evaluate(plain, {"X": A[:, 0]})["Y"], A[1:, 0] + A[:-1, 0])


def test_embed_puts_numbers_into_the_text() -> None:
    clip = build("Y[i] = min(max(X[i], L[0]), H[0])", {"X": (5,), "L": (1,), "H": (1,)})
    slim = embed(clip, {"L": -0.5, "H": 0.5})
    assert slim.inputs == ("X",)
    np.testing.assert_array_equal(evaluate(slim, {"X": A[0]})["Y"], np.clip(A[0], -0.5, 0.5))


def test_embed_leaves_guarded_reads() -> None:
    padded = build("Y[i] = X[i-1] else 0 where i in 0:3", {"X": (1,)})
    assert embed(padded, {"X": 2.0}).inputs == ("X",)


def test_reshaped_input_joins_axes() -> None:
    turned = build("Y[h,s,d] = X[s,h,d]", {"X": (4, 2, 3)})
    joined = reshaped_input(turned, "X", (1, 4, 6))
    assert joined is not None
    x = R.standard_normal((4, 2, 3)).astype(np.float32)
    np.testing.assert_array_equal(evaluate(joined, {"X": x.reshape(1, 4, 6)})["Y"], x.transpose(1, 0, 2))


def test_reshaped_input_refuses_what_is_not_simple() -> None:
    copy = build("Y[i,j] = X[i,j]", {"X": (4, 6)})
    assert reshaped_input(copy, "X", (4, 2, 3)) is None
    assert reshaped_input(copy, "X", (6, 4)) is None
    padded = build("Y[i,j] = X[i-1,j] else 0 where i in 0:3", {"X": (1, 6)})
    assert reshaped_input(padded, "X", (6,)) is None
    assert reshaped_input(build("Y[i] = X[i,0]", {"X": (6, 1)}), "X", (6,)) is not None
