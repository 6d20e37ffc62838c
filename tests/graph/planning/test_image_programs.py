"""Programs of a batch for a few of its images: what is separable gives for each what the whole gives, all else is not taken."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polytc import errors
from polytc.graph.planning.image_programs import separable
from polytc.lang import build, evaluate
from polytc.program.program import Program

N = 6


def program(text: str, **shapes: tuple[int, ...]) -> Program:
    """X is of images; I holds whole numbers below 3."""
    return build(text, shapes, {n: "i32" if n == "I" else "f32" for n in shapes})


def arrays_of(p: Program, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {n: (rng.integers(0, 3, t.shape) if n == "I" else rng.integers(-4, 5, t.shape)).astype(t.dtype.numpy)
            for n in p.inputs for t in (p.tensor(n),)}


def in_parts(p: Program, inputs: frozenset[str], some: int) -> dict[str, np.ndarray] | None:
    """The outputs, for so many images after another; None for what is not separable."""
    found = separable(p, inputs, N)
    if found is None:
        return None
    part, arrays = found.of(some), arrays_of(p)
    parts = []
    for first in range(0, N, some):
        own = {n: a[first * len(a) // N:(first + some) * len(a) // N] if n in inputs else a for n, a in arrays.items()}
        parts.append(evaluate(part, own))
    return {n: np.concatenate([x[n] for x in parts]) if n in found.tensors else parts[0][n] for n in p.outputs}


SEPARABLE = {
    "element-wise": ("Y[n,i] = X[n,i]*2 + B[i]", {"X": (N, 3), "B": (3,)}),
    "layer": ("Y[n,o] += X[n,k]*W[o,k]", {"X": (N, 5), "W": (4, 5)}),
    "padded convolution": ("Y[n,o,y] += (X[n,c,y+r-1] else 0)*W[o,c,r] where y in 0:7", {"X": (N, 2, 7), "W": (3, 2, 3)}),
    "softmax": ("M[n] max= X[n,j]\nE[n,j] = X[n,j] - M[n]\nS[n] += E[n,j]\nY[n,j] = E[n,j]*S[n]\n-> (Y)", {"X": (N, 4)}),
    "rows of images": ("Y[r,o] += X[r,k]*W[o,k]", {"X": (N * 4, 5), "W": (3, 5)}),
    "heads": ("Y[n,h,s] += X[2*n+h,s,d]*X[2*n+h,s,d] where n in 0:6, h in 0:2", {"X": (N * 2, 3, 4)}),
    "rows to images": ("Y[r] = X[r//3, r%3] where r in 0:18", {"X": (N, 3)}),
    "images to rows": ("Y[n,j] = X[3*n+j] where n in 0:6, j in 0:3", {"X": (N * 3,)}),
    "flipped rows of an image": ("Y[n,j] = X[n,4-j] where j in 0:5", {"X": (N, 5)}),
    "table": ("Y[n,d] = T[I[n],d]", {"I": (N,), "T": (3, 4)}),
    "picked": ("Y[n] = X[n,I[n]]", {"X": (N, 3), "I": (N,)}),
    "argmax": ("(M[n], J[n]) argmax= (X[n,j], j)", {"X": (N, 5)}),
    "what is left out": ("Y[n,j] = 0 where n in 0:6, j in 0:5\nY[n,j] += X[n,j] where j >= 2", {"X": (N, 5)}),
    "steps": ("def f(f32[6,5] X) -> (H) { H[n,0] = X[n,0]\nfor t in 1:5 { H[n,t] = H[n,t-1]*2 + X[n,t] } }", {"X": (N, 5)}),
}
TOGETHER = {
    "mean over the batch": ("M[j] += X[n,j]\nY[n,j] = X[n,j] - M[j]\n-> (Y)", {"X": (N, 3)}),
    "sum over the batch": ("Y[j] += X[n,j]", {"X": (N, 3)}),
    "from the back": ("Y[n,j] = X[5-n,j] where n in 0:6", {"X": (N, 3)}),
    "the next image": ("Y[n,j] = (X[n+1,j] else 0) where n in 0:6", {"X": (N, 3)}),
    "the image's number": ("Y[n,j] = X[n,j] + f32(n)", {"X": (N, 3)}),
    "some images": ("Y[n,j] = 0 where n in 0:6, j in 0:3\nY[n,j] += X[n,j] where n >= 2", {"X": (N, 3)}),
    "a weight of each image": ("Y[n,j] = X[n,j]*W[n]", {"X": (N, 3), "W": (N,)}),
    "images turned into columns": ("Y[j,n] = X[n,j]", {"X": (N, 6)}),
    "all pairs": ("Y[n,m] += X[n,k]*X[m,k]", {"X": (N, 3)}),
    "every other row": ("Y[r] = X[r//4, r%4] + W[r%8] where r in 0:24", {"X": (N, 4), "W": (8,)}),
    "steps from image to image": ("def f(f32[6,5] X) -> (H) { H[0,j] = X[0,j]\nfor t in 1:6 { H[t,j] = H[t-1,j]*2 + X[t,j] } }",
                                  {"X": (N, 5)}),
    "a count of steps": ("def f(f32[6,3] X, f32[1] W) -> (Y) { A[i] = 0 where i in 0:1\n"
                         "for n in 0:6 { A[i] = A[i] + W[i]\n Y[n,j] = X[n,j]*A[0] } }", {"X": (N, 3), "W": (1,)}),
    "steps, and images in each": ("def f(f32[6,3] X) -> (Y) { T[m,j] = 0 where m in 0:6, j in 0:3\n"
                                  "for n in 0:6 { T[m,j] = T[m,j] + X[m,j]\n Y[n,j] = T[n,j] } }", {"X": (N, 3)}),
    "picked images": ("Y[n,j] = X[I[n],j]", {"X": (N, 3), "I": (N,)}),
    "scattered to images": ("Y[n] = 0 where n in 0:6\nY[I[n]] += X[n]", {"X": (N,), "I": (N,)}),
    "rows across images": ("Y[r] = X[r+1] - X[r] where r in 0:17", {"X": (N * 3,)}),
    "fewer images": ("Y[n] = X[n] where n in 0:5", {"X": (N,)}),
}


def of_images(p: Program) -> frozenset[str]:
    return frozenset(p.inputs) & {"X", "I"}


@pytest.mark.parametrize("some", [1, 2, 3])
@pytest.mark.parametrize("name", SEPARABLE)
def test_images_by_themselves(name: str, some: int) -> None:
    text, shapes = SEPARABLE[name]
    p = program(text, **shapes)
    found, whole = in_parts(p, of_images(p), some), evaluate(p, arrays_of(p))
    assert found is not None
    for n in p.outputs:
        np.testing.assert_array_equal(found[n], whole[n])


@pytest.mark.parametrize("name", TOGETHER)
def test_images_that_belong_together(name: str) -> None:
    text, shapes = TOGETHER[name]
    p = program(text, **shapes)
    assert separable(p, of_images(p), N) is None


PLACES = st.sampled_from([*["n"]*24, "n+1", "5-n", "j", "n//2", "n%3", "2*n", "n//3*3 + n%3", "3*(n//3) + j", "0", "n-1"])
COLUMNS = st.sampled_from([*["j"]*12, "2-j", "n%3", "0", "n//2", "(n+j)%3"])


@settings(max_examples=100, deadline=None, derandomize=True)
@given(places=st.lists(PLACES, min_size=3, max_size=3), columns=st.lists(COLUMNS, min_size=3, max_size=3), data=st.data())
def test_random_subscripts(places: list[str], columns: list[str], data: st.DataObject) -> None:
    what_is_taken_as_separable_is(places, columns, data)


@pytest.mark.long
@settings(max_examples=1000, deadline=None)
@given(places=st.lists(PLACES, min_size=3, max_size=3), columns=st.lists(COLUMNS, min_size=3, max_size=3), data=st.data())
def test_many_random_subscripts(places: list[str], columns: list[str], data: st.DataObject) -> None:
    what_is_taken_as_separable_is(places, columns, data)


def what_is_taken_as_separable_is(places: list[str], columns: list[str], data: st.DataObject) -> None:
    value = data.draw(st.sampled_from([*["{a}", "{a} + {b}", "{a}*2 - W[j]"]*3, "{a} + W[n%3]", "{a} + W[n//2]",
                                       "{a} + f32(n%2)"]))
    where = data.draw(st.sampled_from(["", "", "", ", n + j > 1", ", j > 0", ", n%2 == 0"]))
    a, b = (f"(X[{p},{c}] else 1)" for p, c in zip(places[:2], columns[:2], strict=True))
    text = f"T[n,j] = 0 where n in 0:6, j in 0:3\nT[{places[2]},{columns[2]}] += {value.format(a=a, b=b)} " \
           f"where n in 0:6, j in 0:3{where}\nY[n,j] = T[n,j]*2\n-> (Y)"
    try:
        p = program(text, X=(N, 3), **({"W": (3,)} if "W" in text else {}))
    except errors.CompileError:
        return
    whole = evaluate(p, arrays_of(p))["Y"]
    for some in (1, 2, 3):
        found = in_parts(p, of_images(p), some)
        if found is not None:
            np.testing.assert_array_equal(found["Y"], whole)
