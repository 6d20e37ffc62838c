"""Softmax between two products as one kernel: the same results as NumPy's, for any extents, conditions, masks and types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

import polytc
from polytc import decisions
from polytc.machine import DEVICES
from polytc.targets.interp import InterpTarget
from polytc.targets.opencl.target import OpenCLTarget
from tests.cuda_here import COMPILER, CompiledCuda

GPU = DEVICES["nvidia-sm90"]
HEAD = f"{decisions.HEAD} {decisions.VERSION}\nonline_softmax "
Arrays = dict[str, np.ndarray]
SMALL = "items=4,8 elements=2,2,4 steps=8,4"
"""16 rows, 8 keys at a time."""
PLAIN = """P[b,i,j] += Q[b,i,d]*K[b,j,d]{w}
M[b,i] max= P[b,i,j] * 0.25{w}
E[b,i,j] = exp(P[b,i,j] * 0.25 - M[b,i]){w}
Z[b,i] += E[b,i,j]{w}
O[b,i,e] += E[b,i,j] * V[b,j,e]{w}
Y[b,i,e] = O[b,i,e] / Z[b,i]"""
MASKED = """def masked(f32[B,I,D] Q, f32[B,J,D] K, f32[B,J,E] V, f32[I,J] A) -> (Y) {
S[b,i,j] += Q[b,i,d]*K[b,j,d]
L[b,i,j] = 0.25*S[b,i,j] + A[i,j]
M[b,i] max= L[b,i,j]
W[b,i,j] = exp(L[b,i,j] - M[b,i])
N[b,i] += W[b,i,j]
P[b,i,j] = W[b,i,j] / N[b,i]
Y[b,i,e] += P[b,i,j] * V[b,j,e]
}"""
SAFE = """def safe(f32[B,I,D] Q, f32[B,J,D] K, f32[B,J,E] V, f32[I,J] A) -> (Y) {
S[b,i,j] += Q[b,i,d]*K[b,j,d]
L[b,i,j] = j <= i ? 0.25*S[b,i,j] + A[i,j] : -inf
M[b,i] max= L[b,i,j]
G[b,i] = M[b,i] == -inf ? 0 : M[b,i]
W[b,i,j] = exp(L[b,i,j] - G[b,i])
N[b,i] += W[b,i,j]
P[b,i,j] = N[b,i] == 0 ? 0 : W[b,i,j] / N[b,i]
Y[b,i,e] += P[b,i,j] * V[b,j,e]
}"""
DIVIDED = """S[b,i,j] += Q[b,i,d]*K[b,j,d]
M[b,i] max= S[b,i,j] where j <= i + 3*b - 2
Z[b,i] += exp(S[b,i,j] - M[b,i]) where j <= i + 3*b - 2
N[b,i] += exp(S[b,i,j] - M[b,i])/Z[b,i] where j <= i + 3*b - 2
Y[b,i,e] += exp(S[b,i,j] - M[b,i])/Z[b,i]*V[b,j,e] where j <= i + 3*b - 2"""
READ_AT_FIRST = """S[b,i,j] = 0 where b in 0:2, i in 0:18, j in 0:21
X[b,i,j] = S[b,i,j] + 1
S[b,i,j] += Q[b,i,d]*K[b,j,d]
M[b,i] max= S[b,i,j]
Z[b,i] += exp(S[b,i,j] - M[b,i])
O[b,i,e] += exp(S[b,i,j] - M[b,i])*V[b,j,e]
Y[b,i,e] = O[b,i,e]/Z[b,i]"""
GROUPED = """S[b,g,r,i,j] += Q[b,g,r,i,d]*K[b,g,j,d]
M[b,g,r,i] max= S[b,g,r,i,j]
N[b,g,r,i] += exp(S[b,g,r,i,j] - M[b,g,r,i])
T[b,i,g,r,e] += V[b,g,j,e] * exp(S[b,g,r,i,j] - M[b,g,r,i])
Y[b,i,g,r,e] = T[b,i,g,r,e] / N[b,g,r,i] + X[e]
L[b,g,r,i] = M[b,g,r,i] + log(N[b,g,r,i])"""


def softmax(scores: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Of the last axis, without what is not seen; of a row that sees nothing, NaN."""
    with np.errstate(all="ignore"):
        found = np.where(seen, np.exp(scores - np.max(scores, -1, keepdims=True, where=seen, initial=-np.inf)), 0)
        return found / found.sum(-1, keepdims=True)


def attention(seen: Callable[[np.ndarray, np.ndarray], np.ndarray] = lambda i, j: i == i) -> Callable[..., np.ndarray]:
    """Of f64, rows and keys that see each other. A value that a row does not see does not enter it, NaN or not."""
    def result(Q: np.ndarray, K: np.ndarray, V: np.ndarray, A: np.ndarray | None = None) -> np.ndarray:
        q, k, v = (x.astype(np.float64) for x in (Q, K, V))
        rows, keys = np.ogrid[:q.shape[1], :k.shape[1]]
        there = np.broadcast_to(seen(rows, keys), (q.shape[1], k.shape[1]))
        scores = 0.25 * np.einsum("bid,bjd->bij", q, k) + (0 if A is None else A)
        weights = softmax(scores, there)
        with np.errstate(all="ignore"):
            terms = np.where(there[None, :, :, None], weights[..., None] * v[:, None], 0)
            return np.where(there.any(-1)[:, None], terms.sum(2), np.nan)
    return result


def shifted(Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> np.ndarray:
    """The first rows of the first batch see nothing."""
    parts = (attention(lambda i, j, b=b: j <= i + 5 * b - 5)(*(x[b:b + 1] for x in (Q, K, V))) for b in range(2))
    return np.concatenate(list(parts))


def safely(Q: np.ndarray, K: np.ndarray, V: np.ndarray, A: np.ndarray) -> np.ndarray:
    """A row that sees nothing has zeros."""
    hidden = np.where(np.tri(*A.shape, dtype=bool), A, -np.inf)
    with np.errstate(all="ignore"):
        return np.nan_to_num(attention()(Q, K, V, hidden), nan=0.0)


def grouped(Q: np.ndarray, K: np.ndarray, V: np.ndarray, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    q, k, v = (x.astype(np.float64) for x in (Q, K, V))
    s = np.einsum("bgrid,bgjd->bgrij", q, k)
    return (np.einsum("bgrij,bgje->bigre", softmax(s, np.isfinite(s)), v) + X,
            np.log(np.exp(s - s.max(-1, keepdims=True)).sum(-1)) + s.max(-1))


def divided(Q: np.ndarray, K: np.ndarray, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows that see nothing have no term, and so zeros."""
    q, k, v = (x.astype(np.float64) for x in (Q, K, V))
    b, i, j = np.ogrid[:q.shape[0], :q.shape[1], :k.shape[1]]
    w = np.nan_to_num(softmax(np.einsum("bid,bjd->bij", q, k), j <= i + 3 * b - 2), nan=0.0)
    return w.sum(-1), np.einsum("bij,bje->bie", w, v)


def safely_not(Q: np.ndarray, K: np.ndarray, V: np.ndarray, A: np.ndarray) -> np.ndarray:
    """A row whose keys are all hidden by the mask: 0 times infinity, of the first value, is NaN."""
    hidden = np.where(np.tri(*A.shape, dtype=bool), A, -np.inf)
    with np.errstate(all="ignore"):
        weights = np.nan_to_num(softmax(0.25 * np.einsum("bid,bjd->bij", *(x.astype(np.float64) for x in (Q, K))) + hidden,
                                        np.isfinite(hidden)), nan=0.0)
        return (weights[..., None] * V.astype(np.float64)[:, None]).sum(2)


@dataclass(frozen=True)
class Case:
    """text, shapes, expected; record: of the decision; change: of the arrays that are drawn."""

    text: str
    shapes: dict[str, tuple[int, ...]]
    expected: Callable[..., np.ndarray | tuple[np.ndarray, ...]]
    record: str = SMALL
    dtype: type = np.float32
    change: dict[str, Callable[[np.ndarray], np.ndarray]] = field(default_factory=dict)

    @property
    def arrays(self) -> Arrays:
        rng = np.random.default_rng(3)
        drawn = {n: rng.standard_normal(s).astype(self.dtype) for n, s in self.shapes.items()}
        return {n: self.change[n](a) if n in self.change else a for n, a in drawn.items()}


def sizes(b: int, i: int, j: int, d: int, e: int, **more: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    return {"Q": (b, i, d), "K": (b, j, d), "V": (b, j, e)} | more


def where(text: str) -> str:
    return PLAIN.format(w=f" where {text}")


def hide(*keys: int) -> Callable[[np.ndarray], np.ndarray]:
    """A mask that hides keys from all rows, and all keys from row 5."""
    def changed(a: np.ndarray) -> np.ndarray:
        a[:, list(keys)], a[5] = -np.inf, -np.inf
        return a
    return changed


def not_a_number(a: np.ndarray) -> np.ndarray:
    """The last values are NaN."""
    a[:, -3:] = np.nan
    return a


def infinite(a: np.ndarray) -> np.ndarray:
    """The first values are infinite in one column, and NaN in another one."""
    a[:, 0, 3], a[:, 0, 5] = np.inf, np.nan
    return a


CASES = {
    "plain": Case(PLAIN.format(w=""), sizes(2, 32, 24, 16, 16), attention()),
    "ragged": Case(PLAIN.format(w=""), sizes(1, 21, 19, 11, 13), attention()),
    "fewer keys than a block": Case(PLAIN.format(w=""), sizes(2, 18, 5, 8, 16), attention()),
    "f64": Case(PLAIN.format(w=""), sizes(2, 19, 17, 8, 16), attention(), dtype=np.float64),
    "causal, one block": Case(where("j <= i"), sizes(2, 16, 8, 8, 16), attention(lambda i, j: j <= i)),
    "causal": Case(where("j <= i"), sizes(2, 37, 37, 16, 16), attention(lambda i, j: j <= i), change={"V": not_a_number}),
    "more rows than keys": Case(where("j <= i"), sizes(1, 40, 9, 8, 16), attention(lambda i, j: j <= i)),
    "causal with a cache": Case(where("j <= i + 11"), sizes(1, 20, 31, 8, 16), attention(lambda i, j: j <= i + 11)),
    "a window": Case(where("j <= i, j >= i - 9"), sizes(1, 45, 45, 8, 16), attention(lambda i, j: (j <= i) & (j >= i - 9)),
                     change={"V": not_a_number}),
    "rows without keys": Case(where("j <= i + 5*b - 5"), sizes(2, 33, 33, 8, 16), shifted),
    "rows without keys, divided before": Case(DIVIDED, sizes(2, 21, 21, 8, 16), divided),
    "rows without keys, divided before, fewer": Case(DIVIDED, sizes(2, 4, 4, 3, 16), divided),
    "0 times infinity": Case(SAFE, sizes(2, 20, 25, 8, 16, A=(20, 25)), safely_not,
                             change={"A": hide(*range(9)), "V": infinite}),
    "a mask": Case(MASKED, sizes(2, 20, 25, 8, 16, A=(20, 25)), attention(), change={"A": hide(*range(9))}),
    "no NaN": Case(SAFE, sizes(2, 20, 25, 8, 16, A=(20, 25)), safely, change={"A": hide(*range(9))}),
    "groups of queries": Case(GROUPED, {"Q": (2, 2, 3, 18, 8), "K": (2, 2, 21, 8), "V": (2, 2, 21, 12), "X": (12,)}, grouped),
    "wide": Case(PLAIN.format(w=""), sizes(1, 20, 33, 80, 80), attention(), "items=8,4 elements=4,4,10 steps=16,8"),
    "on a matrix unit": Case(PLAIN.format(w=""), sizes(2, 70, 50, 32, 16), attention(),
                             "items=4,16 elements=8,2,4 steps=32,16 by=matrix", np.float16),
    "halves without": Case(PLAIN.format(w=""), sizes(2, 20, 25, 16, 16), attention(), dtype=np.float16),
    "odd features, ragged keys on a matrix unit": Case(PLAIN.format(w=""), sizes(1, 21, 21, 15, 16), attention(),
                                                       "items=4,8 elements=8,4,4 steps=16,16 by=matrix", np.float16),
    "masked on a matrix unit": Case(SAFE.replace("f32", "f16"), sizes(1, 40, 40, 24, 12, A=(40, 40)), safely,
                                    "items=4,8 elements=4,4,4 steps=16,16 by=matrix", np.float16, {"A": hide(*range(9))}),
    "one row each": Case(PLAIN.format(w=""), sizes(1, 9, 40, 32, 32), attention(), "items=8,4 elements=4,1,4 steps=32,32"),
}


@pytest.mark.part(2)
@pytest.mark.parametrize("asked", ["", f"{HEAD[:-1]}: none\n"])
def test_the_beginning_of_scores_is_read(asked: str) -> None:
    arrays = Case(READ_AT_FIRST, sizes(2, 18, 21, 8, 16), attention()).arrays
    x, y = polytc.compile(READ_AT_FIRST, InterpTarget(GPU), decisions=asked or None)(**arrays)
    np.testing.assert_array_equal(x, np.ones((2, 18, 21)))
    close(y, attention()(arrays["Q"] * 4, *(arrays[n] for n in "KV")), np.float32)


def record(case: Case) -> str:
    return f"{HEAD}S1: {case.record}\n"


def close(found: object, wanted: object, dtype: type) -> None:
    rtol, atol = TOLERANCES[dtype]
    for a, b in zip(found if isinstance(found, tuple) else (found,), wanted if isinstance(wanted, tuple) else (wanted,),
                    strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


TOLERANCES: dict[type, tuple[float, float]] = {np.float64: (1e-12, 1e-12), np.float32: (2e-5, 1e-5), np.float16: (1e-3, 2e-4)}
"""Results of halves are rounded once."""


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", ["interp", "opencl", "cuda"])
@pytest.mark.part(22)
def test_results(name: str, target: str, targets: tuple[str, ...]) -> None:
    if target == "opencl" and "opencl" not in targets or target == "cuda" and COMPILER is None:
        pytest.skip(f"no {target} here")
    if target == "opencl" and "matrix" in CASES[name].record:
        pytest.skip("OpenCL C has no matrix unit")
    case, to = CASES[name], {"interp": InterpTarget, "opencl": OpenCLTarget, "cuda": CompiledCuda}[target](GPU)
    arrays = case.arrays
    close(polytc.compile(case.text, to, decisions=record(case))(**arrays), case.expected(**arrays), case.dtype)


@pytest.mark.part(8)
@pytest.mark.parametrize("name", CASES)
def test_one_kernel(name: str) -> None:
    """Scores and weights are in no memory but that of the kernel, whose schedule is proved."""
    case = CASES[name]
    dtypes = {} if "def" in case.text else dict.fromkeys(case.shapes, np.dtype(case.dtype).name.replace("loat", ""))
    made = polytc.lower(case.text, CompiledCuda(GPU), shapes=case.shapes, dtypes=dtypes, decisions=record(case))
    assert "refused" not in made.schedule.how
    assert [k.name for k in made.loops.kernels] == made.loops.kernels[0].name.split()
    assert not made.loops.scratch
