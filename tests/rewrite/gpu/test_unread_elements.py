"""Sums have the conditions of their readers, and tiles leave out what these hide; masks are tested at their edges only."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc.rewrite.gpu import unread_elements
from polytc.stages import build
from tests.cuda_here import COMPILER, CompiledCuda
from tests.rewrite.equal import same_results

SCORES = "S[i,j] += A[i,k]*B[j,k]"
SHAPES = {"A": (8, 5), "B": (8, 5)}
ATTENTION = """P[i,j] += Q[i,d]*K[j,d]
M[i] max= P[i,j] where {mask}
E[i,j] = exp(P[i,j] - M[i]) where {mask}
S[i] += E[i,j] where {mask}
O[i,d] += E[i,j] * V[j,d] where {mask}
Y[i,d] = O[i,d] / S[i]"""


@pytest.mark.parametrize(("uses", "conditions"), [
    ("Y[i] max= S[i,j] where j <= i", 1),
    ("Y[b] max= S[b,a] where a <= b", 1),                                              # other names
    ("Y[i] max= S[i,j] where j <= i; Z[i] += S[i,j] where j <= i, j < 6", 1),
    ("Y[i] max= S[i,j] where j <= i, j > i-3", 1),                                     # tiles take one of a band
    ("Y[i] max= S[i,j] where j <= i; Z[j] += S[i,j]", 0),                              # all elements are read
    ("Y[i] max= S[i,i]", 0),
    ("Z[i] += S[i,k] + S[k,i] where k <= i", 0),
])
def test_what_all_readers_say(uses: str, conditions: int) -> None:
    before = build(f"{SCORES}\n{uses}", SHAPES)
    after = unread_elements.narrow(before)
    assert [len(after.statement(n).where) for n in ("S1_init", "S1")] == [conditions] * 2
    same_results(before, after)


def test_outputs_are_whole() -> None:
    before = build(f"{SCORES}; Y[i] max= S[i,j] where j <= i -> (S, Y)", SHAPES)
    assert unread_elements.narrow(before) == before


@pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")
@pytest.mark.part(10)
@pytest.mark.parametrize("sizes", [(), ("n", "m", "d")], ids=["fixed", "open"])
@pytest.mark.parametrize(("mask", "hides"), [
    ("j <= i", lambda i, j: j > i), ("j < i + 9", lambda i, j: j >= i + 9), ("2*j <= i + 7", lambda i, j: 2 * j > i + 7),
    ("j >= i - 30", lambda i, j: j < i - 30), ("j <= i, j > i - 40", lambda i, j: (j > i) | (j <= i - 40))])
def test_what_a_mask_hides_is_left_out(mask: str, hides: object, sizes: tuple[str, ...]) -> None:
    """Hidden values may be anything: a product with them is no term that is zero."""
    rng = np.random.default_rng(0)
    n, m, d = 100, 131, 64
    hidden = np.asarray(hides(*np.mgrid[:n, :m]))  # type: ignore[operator]
    q, k, v = (rng.standard_normal(s, np.float32) for s in ((n, d), (m, d), (m, d)))
    k[hidden.all(0)] = v[hidden.all(0)] = np.nan
    v[hidden[:n // 2].all(0).argmax()] = np.inf                                        # which some rows see, and others do not
    scores = np.where(hidden, -np.inf, q.astype(np.float64) @ np.nan_to_num(k).T)
    shares = np.exp(scores - scores.max(1, keepdims=True))
    seen = np.zeros((n, d))
    for i in range(n):
        seen[i] = shares[i][~hidden[i]] @ v[~hidden[i]].astype(np.float64) / shares[i].sum()
    shapes = {"Q": ("n", "d"), "K": ("m", "d"), "V": ("m", "d")} if sizes else None
    op = polytc.compile(ATTENTION.format(mask=mask), target=CompiledCuda(name="cuda_on_the_processor"), shapes=shapes,
                        symbolic=bool(sizes))
    np.testing.assert_allclose(op(Q=q, K=k, V=v), seen, rtol=1e-4, atol=1e-5)


def test_masks_are_tested_in_the_steps_that_they_cross() -> None:
    low = polytc.lower("Y[i,d] += E[i,j] * V[j,d] where j <= i", "cuda", shapes={"E": (4096, 4096), "V": (4096, 512)})
    text = low.source.text
    steps = [line.strip() for line in text.splitlines() if "_step" in line and line.lstrip().startswith("for")]
    assert len(steps) == 2
    whole, crossed = text.split(steps[1])
    asked = [line.strip() for line in whole.split(steps[0])[1].splitlines() if "if (" in line]
    assert all("_step + 1 <" in line for line in asked), "but for whether there is another step to load for"
    assert any("if (" in line and "_step + 1 <" not in line for line in crossed.splitlines())
    assert " ? " not in crossed
