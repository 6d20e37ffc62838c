"""Sums whose terms meet in elements of a tensor: which are gathered, and that results are the same."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import polytc
from polytc import stages
from polytc.lang import evaluate
from polytc.machine import AVX512, DEVICES
from polytc.program import program as pr
from polytc.rewrite import digit_sums, gathered_sums, table
from polytc.targets.interp.target import InterpTarget
from tests.opencl_here import NEEDS_OPENCL

Shapes = Mapping[str, tuple[int, ...]]
STEP = table.named("gathered_sums")
R = np.random.default_rng(9)

GATHERED: dict[str, Shapes] = {
    "D[h+r] += W[r]*G[h]": {"W": (3,), "G": (30,)},
    "D[h+r] += W[r]*G[h] where r in 0:31": {"W": (31,), "G": (40,)},
    "D[h+r+5] += W[r]*G[h]*V[h]": {"W": (3,), "G": (30,), "V": (30,)},
    "D[h-r+2] += W[r]*G[h]": {"W": (3,), "G": (30,)},
    "D[h+r] += W[r]*G[h] where r in 1:3": {"W": (3,), "G": (30,)},
    "Y[4*t+k] += F[t,k]": {"F": (9, 16)},
    "Y[4*t-k+15] += F[t,k]*w[k]": {"F": (9, 16), "w": (16,)},
    "Y[4*t+k] += F[t,k]*w[k] where k in 0:16": {"F": (9, 16), "w": (20,)},
    "D[n,c,h+r,w+s] += W[m,c,r,s]*G[n,m,h,w]": {"W": (5, 4, 3, 2), "G": (2, 5, 8, 9)},
    "D[n,c,2*h+r,2*w+s] += W[m,c,r,s]*G[n,m,h,w]": {"W": (5, 4, 2, 4), "G": (2, 5, 8, 9)},
    "D[h+r,w] += -G[h,w]*W[r]": {"G": (9, 7), "W": (3,)},
    "P[i+j] += A[i]*B[j]": {"A": (20,), "B": (20,)}}

LEFT: dict[str, Shapes] = {
    "D[h+r] += W[r] + G[h]": {"W": (3,), "G": (30,)},            # a sum is not 0 where one term is
    "D[h+r] += exp(G[h])*W[r]": {"W": (3,), "G": (30,)},         # nor exp(0)
    "D[h+r] += W[r]*G[h] where h in 2:20": {"W": (3,), "G": (30,)},  # G goes on beside the range
    "D[h+r] += W[r]*G[h]*h": {"W": (3,), "G": (30,)},
    "D[h+r+q] += W[r]*G[h]*V[q]": {"W": (3,), "G": (30,), "V": (4,)},
    "D[2*h+r] += W[r]*G[h]": {"W": (3,), "G": (30,)},            # phases of two lengths
    "D[h+r] max= W[r]*G[h]": {"W": (3,), "G": (30,)},
    "D[h+r] += W[r]*G[h] where r <= h": {"W": (3,), "G": (30,)},
    "D[h] += W[r]*G[h]": {"W": (3,), "G": (30,)},
    "D[h+r,h] += W[r]*G[h]": {"W": (3,), "G": (30,)},
    "D[h+r] += W[r]*(G[h] else 1)": {"W": (3,), "G": (30,)},
    "precise def f(W[R], G[H]) -> (D) { D[h+r] += W[r]*G[h] }": {"W": (3,), "G": (30,)}}


ON_GPUS: dict[str, Shapes] = {
    "D[2*h+r] += W[r]*G[h]": {"W": (3,), "G": (30,)},
    "D[3*h-r+9] += W[r]*G[h]": {"W": (10,), "G": (30,)},
    "D[n,c,2*h+r,2*w+s] += W[m,c,r,s]*G[n,m,h,w]": {"W": (5, 4, 3, 5), "G": (2, 5, 8, 9)},
    "D[2*h+r] += (W[r]+1)*G[h]": {"W": (3,), "G": (30,)},           # no factor is 0 beside the values of r
    "D[2*h+r] += W[r]*G[h] where r in 0:3": {"W": (5,), "G": (30,)},
    "D[2*h+r,w+s] += W[r,s]*G[h,w]": {"W": (3, 4), "G": (9, 10)},
    "D[h+r] += W[r] + G[h]": {"W": (3,), "G": (30,)},
    "D[h+r] += abs(G[h])*W[r]": {"W": (3,), "G": (30,)},
    "D[h+r] += W[r]*G[h] where h in 2:20": {"W": (3,), "G": (30,)},
    "D[h+r] += W[r]*G[h]*h": {"W": (3,), "G": (30,)},
    "D[h+r] += W[r]*(G[h] else 1)": {"W": (3,), "G": (30,)},
    "D[h+r] max= W[r]*G[h]": {"W": (3,), "G": (30,)},
    "D[2*h-r+3] min= W[r]*G[h]": {"W": (3,), "G": (30,)},
    "D[c,h+r,w+s] += X[3*c+r,2*s+h,w] where h in 0:12, r in 0:3, s in 0:4": {"X": (12, 20, 15)},
    "D[h+r] += G[5*h+r] where h in 0:30, r in 0:4": {"G": (153,)}}
"""Where the step does not divide the values of the shorter index, and where no factor is 0 beside those of the longer one."""

DIGITS: dict[str, Shapes] = {
    "D[h//2] += G[h]": {"G": (30,)},
    "D[c,h//2,w//3] += G[c,h,w]": {"G": (4, 10, 12)},
    "D[h//4,h%4] += G[h,k]": {"G": (12, 5)},
    "D[h//2] max= G[h]*W[h//2]": {"G": (30,), "W": (15,)},
    "D[h//2] += G[h]*h where h in 4:20, h % 3 == 1": {"G": (30,)}}
"""Places that are digits of an index."""


@pytest.mark.part(8)
@pytest.mark.parametrize("text", ON_GPUS)
def test_a_step_that_divides_nothing(text: str) -> None:
    before = stages.build(text, ON_GPUS[text], {})
    assert STEP.run(before, AVX512) == before
    after = STEP.run(before, DEVICES["nvidia-sm90"])
    assert all(len(set(pr.index_names(sub))) == 1 for s in after.statements for sub in s.subscripts)
    given = arrays(ON_GPUS[text])
    for name, expected in evaluate(before, given).items():
        np.testing.assert_array_equal(evaluate(after, given)[name], expected)
    found = polytc.compile(text, InterpTarget(DEVICES["nvidia-sm90"]))(**given)
    np.testing.assert_array_equal(found, polytc.evaluate(text, **given))


@pytest.mark.parametrize("text", DIGITS)
def test_digits(text: str) -> None:
    before = stages.build(text, DIGITS[text], {})
    after = STEP.run(before, AVX512)
    assert "//" not in "".join(map(pr.format_expr, after.statement("S1").subscripts))
    given = arrays(DIGITS[text])
    for name, expected in evaluate(before, given).items():
        np.testing.assert_array_equal(evaluate(after, given)[name], expected)
        for target in ("cpu", InterpTarget(DEVICES["nvidia-sm90"])):
            np.testing.assert_array_equal(polytc.compile(text, target)(**given), expected)


@pytest.mark.parametrize("text", ["D[h//2] += G[h] where h in 1:29", "D[h//2,h] += G[h]", "D[h//2] += G[h] where h in 0:29"])
def test_digits_that_stay(text: str) -> None:
    assert digit_sums.divided(stages.build(text, {"G": (30,)}, {}).statement("S1")) is None


def arrays(shapes: Shapes, dtype: type = np.float32) -> dict[str, np.ndarray]:
    return {n: R.integers(-9, 9, s).astype(dtype) for n, s in shapes.items()}


@pytest.mark.parametrize("text", GATHERED)
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_the_program_means_the_same(text: str, dtype: type) -> None:
    before = stages.build(text, GATHERED[text], dict.fromkeys(GATHERED[text], np.dtype(dtype)))
    after = STEP.run(before, AVX512)
    assert after != before
    assert gathered_sums.decide(after, AVX512).choices == ()
    assert not any("+" in str(sub) and "_at" not in str(sub) for s in after.statements for sub in s.subscripts)
    given = arrays(GATHERED[text], dtype)
    for name, expected in evaluate(before, given).items():
        np.testing.assert_array_equal(evaluate(after, given)[name], expected)


@pytest.mark.part(12)
@pytest.mark.parametrize("target", ["cpu", "interp", pytest.param("opencl", marks=NEEDS_OPENCL)])
@pytest.mark.parametrize("text", GATHERED)
def test_results(target: str, text: str) -> None:
    """Small whole numbers, so that sums are exact in any order."""
    given = arrays(GATHERED[text])
    expected = polytc.evaluate(text, **given)
    np.testing.assert_array_equal(polytc.run(text, **given, target=target), expected)


@pytest.mark.part(2)
@pytest.mark.parametrize("text", LEFT)
def test_what_stays(text: str) -> None:
    program = stages.build(text, LEFT[text], {})
    assert STEP.lacks(program) or STEP.run(program, AVX512) == program
    given = arrays(LEFT[text])
    np.testing.assert_allclose(polytc.run(text, **given), polytc.evaluate(text, **given), rtol=1e-5)


def test_beside_numpy() -> None:
    a, b = R.standard_normal(200), R.standard_normal(31)
    np.testing.assert_allclose(polytc.run("P[i+j] += A[i]*B[j]", a, b), np.convolve(a, b), rtol=1e-10, atol=1e-12)


def test_what_is_there_already_is_added_to() -> None:
    text = "def f(inout f32[M] Y, f32[3] W, f32[N] G) { Y[h+r] += W[r]*G[h] }"
    y, w, g = (R.integers(-9, 9, n).astype(np.float32) for n in (40, 3, 30))
    expected = y + np.pad(np.convolve(g, w), (0, 8))
    polytc.compile(text)(y, w, g)
    np.testing.assert_array_equal(y, expected)


def test_records() -> None:
    text, shapes = "D[h+r] += W[r]*G[h]", {"W": (3,), "G": (30,)}
    lowered = polytc.lower(text, shapes=shapes)
    assert "gathered_sums S1:" in str(lowered.decisions)
    plain = polytc.lower(text, shapes=shapes, decisions="polytc decisions 1\ngathered_sums: none")
    assert "h + r" in str(plain.rewritten)
    with pytest.raises(polytc.CompileError, match="no sum of products in whose subscripts"):
        polytc.lower("D[h] += G[h]", shapes={"G": (9,)}, decisions="polytc decisions 1\ngathered_sums S1:")


def test_items_of_a_gpu_have_elements_of_their_own() -> None:
    shapes = {"W": (64, 64, 3, 3), "G": (1, 64, 56, 56)}
    lowered = polytc.lower("D[n,c,h+r,w+s] += W[m,c,r,s]*G[n,m,h,w]", "opencl", shapes=shapes, machine=DEVICES["nvidia-sm90"])
    items = max(np.prod([int(n) for n in launch.global_size]) for launch in lowered.source.launches)
    assert items >= 64 * 58 * 58 / 64


def _overlapped(frames: np.ndarray, hop: int) -> np.ndarray:
    result = np.zeros(hop * (len(frames) - 1) + frames.shape[1], frames.dtype)
    for t, frame in enumerate(frames):
        result[hop * t:hop * t + len(frame)] += frame
    return result


def _data_gradient(weights: np.ndarray, gradient: np.ndarray, step: int) -> np.ndarray:
    (n, _, high, wide), (_, c, taps, _) = gradient.shape, weights.shape
    result = np.zeros((n, c, step * (high - 1) + taps, step * (wide - 1) + taps), np.float32)
    for h in range(high):
        for w in range(wide):
            where = slice(step * h, step * h + taps), slice(step * w, step * w + taps)
            result[:, :, *where] += np.einsum("mcrs,nm->ncrs", weights, gradient[:, :, h, w])
    return result


@pytest.mark.part(3)
@pytest.mark.parametrize("target", ["cpu", "interp", pytest.param("opencl", marks=NEEDS_OPENCL)])
def test_sizes_that_stay_open(target: str) -> None:
    add = polytc.compile("Y[4*t+k] += F[t,k]", target, shapes={"F": ("n", 16)})
    most = polytc.compile("D[h+r] max= W[r]*G[h]", target, shapes={"W": (3,), "G": ("n",)})
    gradients = {step: polytc.compile(f"D[n,c,{step}*h+r,{step}*w+s] += W[m,c,r,s]*G[n,m,h,w]", target,
                                      shapes={"W": (3, 2, 4, 4), "G": ("b", 3, "h", "w")}) for step in (1, 2, 3)}
    weights = R.integers(-4, 5, (3, 2, 4, 4)).astype(np.float32)
    for n in (1, 2, 5, 19):
        frames, gradient = (R.integers(-4, 5, s).astype(np.float32) for s in ((n, 16), (2, 3, n, n + 1)))
        np.testing.assert_array_equal(add(F=frames), _overlapped(frames, 4))
        outer = np.multiply.outer(frames[:, 0], frames[0, :3])
        padded = [np.pad(outer[:, r], (r, 2 - r), constant_values=-np.inf) for r in range(3)]
        np.testing.assert_array_equal(most(W=frames[0, :3], G=frames[:, 0]), np.max(padded, 0))
        for step, op in gradients.items():
            np.testing.assert_array_equal(op(W=weights, G=gradient), _data_gradient(weights, gradient, step))


def test_what_is_gathered_of_open_sizes() -> None:
    def chosen(text: str, shapes: dict[str, tuple[int | str, ...]]) -> int:
        return len(STEP.decide(polytc.build(text, shapes), AVX512).choices)
    assert chosen("D[h+r] += W[r]*G[h]", {"W": (3,), "G": ("n",)}) == 1
    assert chosen("D[h+r] += W[r]*G[h]", {"W": ("k",), "G": ("n",)}) == 0, "how many meet in an element depends on the sizes"
    assert chosen("D[h//2] += G[h] where h in 0:8", {"G": ("n",)}) == 1
    assert chosen("D[h//2] += G[h]", {"G": ("n",)}) == 0, "the last pair is one, of odd sizes"
