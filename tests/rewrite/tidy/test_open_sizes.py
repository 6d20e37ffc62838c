"""Rewrites of programs whose sizes stay open act as on fixed sizes, and one kernel is right at all sizes, against numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest

import polytc
from polytc import compiler
from polytc.machine import DEVICES
from polytc.poly import in_bounds
from polytc.program import program as pr
from polytc.program.linear import linear
from polytc.program.sizes import Size, at
from polytc.rewrite.tidy import coalesce, pad, scan
from polytc.runtime.sized import sized
from polytc.targets.llvm.target import LLVMTarget
from polytc.targets.opencl.target import OpenCLTarget
from tests.rewrite.equal import with_open_sizes

GPU = DEVICES["nvidia-sm90"]
SIZES = (1, 2, 3, 5, 7, 13, 26, 131)
"""The smallest ones, where windows are larger than what they move over, primes, and more than one tile."""
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Case:
    """shapes: of the inputs; typical: sizes by name; reference: what numpy makes of the inputs; steps: that act on CPUs and on
    GPUs."""

    text: str
    shapes: Callable[[Mapping[str, int]], dict[str, tuple[int, ...]]]
    typical: Mapping[str, int]
    reference: Callable[..., Array]
    cpu: tuple[str, ...]
    gpu: tuple[str, ...] = ()

    def inputs(self, sizes: Mapping[str, int]) -> dict[str, Array]:
        rng = np.random.default_rng(sum(sizes.values()))
        return {n: rng.integers(-3, 4, shape).astype("f4") for n, shape in self.shapes(sizes).items()}


def clamped_window(X: Array, W: Array) -> Array:
    rows = np.arange(len(X))
    return sum(X[np.clip(rows + r - 2, 0, len(X) - 1)] * W[r] for r in range(5))  # type: ignore[no-any-return]


def clamped_convolution(I: Array, W: Array) -> Array:
    padded = np.pad(I, ((0, 0), (1, 1), (1, 1)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    return np.einsum("chwrs,mcrs->mhw", windows, W)


def wrapped_convolution(I: Array, W: Array) -> Array:
    return sum(np.einsum("ch,mc->mh", np.roll(I, -r, 1), W[:, :, r]) for r in range(3))  # type: ignore[no-any-return]


def dilated(I: Array, W: Array) -> Array:
    result = np.zeros((len(I), 16), I.dtype)
    for r, h in product(range(3), range(len(I))):
        if 0 <= h + 70 * r - 70 < len(I):
            result[h] += I[h + 70 * r - 70] @ W[r]
    return result


def pieces(T: Array) -> Array:
    n = T.shape[1]
    for i, j in product(range(n), range(n)):
        for k in range(i + 1, j) if j > i else ():
            T[i, j] = max(T[i, j], T[i, k] + T[k + 1, j])
    return T


def best_of_rows(A: Array, B: Array) -> Array:
    return np.where(np.tri(len(A), dtype=bool), A @ B.T, -np.inf).max(1)


def powers(X: Array) -> Array:
    return X * np.prod([X] * 8, 0)


CASES = {
    "periodic": Case(
        "def f(f32[n,m] X) -> (Y) { Y[i,j] = X[i,(j+m-1)%m] + X[i,(j+2)%m] - X[(i+1)%n,j] where i in 0:n, j in 0:m }",
        lambda s: {"X": (s["n"], s["m"])}, {"n": 500, "m": 500},
        lambda X: np.roll(X, 1, 1) + np.roll(X, -2, 1) - np.roll(X, -1, 0),
        ("open_remainders", "borders"), ("open_remainders",)),
    "clamped": Case(
        "def f(f32[n] X) -> (Y) { Y[i] = X[clamp(i-2,0,n-1)] - X[min(i+1,n-1)] where i in 0:n }",
        lambda s: {"X": (s["n"],)}, {"n": 5000},
        lambda X: X[np.maximum(np.arange(len(X)) - 2, 0)] - X[np.minimum(np.arange(len(X)) + 1, len(X) - 1)], ("borders",)),
    "clamped window": Case(
        "def f(f32[n,16] X, f32[5] W) -> (Y) { Y[i,j] += X[clamp(i+r-2,0,n-1),j]*W[r] where i in 0:n }",
        lambda s: {"X": (s["n"], 16), "W": (5,)}, {"n": 500}, clamped_window, ("borders",)),
    "periodic of a number": Case(
        "def f(f32[n,8] X) -> (Y) { Y[i,j] = X[i,(j+7)%8] where i in 0:n, j in 0:8 }",
        lambda s: {"X": (s["n"], 8)}, {"n": 500}, lambda X: np.roll(X, 1, 1), ("borders",)),
    "strided": Case(
        "def f(f32[64,64] W, f32[64,n,5] X) -> (O) { O[k,h,w] += W[k,c]*X[c,2*h,w] where h in 0:(n+1)//2 }",
        lambda s: {"W": (64, 64), "X": (64, s["n"], 5)}, {"n": 200},
        lambda W, X: np.einsum("kc,chw->khw", W, X[:, ::2]), ("compact", "coalesce"), ("compact", "coalesce")),
    "clamped convolution": Case(
        "direct def f(f32[16,n,m] I, f32[16,16,3,3] W) -> (O) { "
        "O[k,h,w] += I[c,clamp(h+r-1,0,n-1),clamp(w+s-1,0,m-1)]*W[k,c,r,s] where h in 0:n, w in 0:m }",
        lambda s: {"I": (16, s["n"], s["m"]), "W": (16, 16, 3, 3)}, {"n": 64, "m": 64}, clamped_convolution,
        ("piecewise_copies",), ("piecewise_copies",)),
    "wrapped convolution": Case(
        "def f(f32[64,n] I, f32[64,64,3] W) -> (O) { O[k,h] += I[c,(h+r)%n]*W[k,c,r] where h in 0:n }",
        lambda s: {"I": (64, s["n"]), "W": (64, 64, 3)}, {"n": 500}, wrapped_convolution,
        ("open_remainders", "piecewise_copies"), ("open_remainders", "piecewise_copies")),
    "groups": Case(
        "def f(f32[n,32,h] X, f32[32,8] W) -> (Y) { Y[b,8*g+m,y] += X[b,8*g+c,y]*W[8*g+m,c] "
        "where g in 0:4, m in 0:8, c in 0:8 }",
        lambda s: {"X": (s["n"], 32, s["h"]), "W": (32, 8)}, {"n": 4, "h": 300},
        lambda X, W: np.einsum("bgcy,gmc->bgmy", X.reshape(len(X), 4, 8, -1), W.reshape(4, 8, 8)).reshape(X.shape),
        ("delinearization",), ("delinearization",)),
    "open groups": Case(
        "def f(f32[n,8,h] X, f32[n,8,8] W) -> (Y) { Y[8*g+m,y] += X[g,c,y]*W[g,m,c] }",
        lambda s: {"X": (s["n"], 8, s["h"]), "W": (s["n"], 8, 8)}, {"n": 16, "h": 300},
        lambda X, W: np.einsum("gcy,gmc->gmy", X, W).reshape(8 * len(X), -1),
        ("delinearization",), ("delinearization",)),
    "triangle": Case(
        "def f(f32[n,64] A, f32[n,64] B) -> (Y) { S[i,j] += A[i,k]*B[j,k] where j <= i, i in 0:n, j in 0:n\n"
        "Y[i] max= S[i,j] where j <= i }", lambda s: {"A": (s["n"], 64), "B": (s["n"], 64)}, {"n": 500}, best_of_rows,
        ("dead_initialisation",), ("dead_initialisation",)),
    "dilated": Case(
        "def f(f32[n,16] I, f32[3,16,16] W) -> (O) { O[h,f] += (I[h+70*r-70,c] else 0)*W[r,c,f] where h in 0:n }",
        lambda s: {"I": (s["n"], 16), "W": (3, 16, 16)}, {"n": 90}, dilated, ("taps",)),
    "steps in time": Case(
        "def f(f32[n] X) -> (Y) { T[i,0] = X[i]\nfor j in 1:9 { T[i,j] = T[i,j-1]*X[i] where i in 0:n }\nY[i] = T[i,8] }",
        lambda s: {"X": (s["n"],)}, {"n": 500}, powers, ("layout",)),
    "pieces of a row": Case(
        "def f(inout f32[n+1,n] T) -> (T) {\n"
        "for i in 0:n { for j in i+1:n { T[i,j] max= T[i,k] + T[k+1,j] where k in i+1:j } } }",
        lambda s: {"T": (s["n"] + 1, s["n"])}, {"n": 200}, pieces, ("transposed_copies",)),
    "short rows": Case(
        "def f(f32[n,7] X, f32[n,7] B) -> (Y) { Y[i,j] = X[i,j]*B[i,j] }", lambda s: {"X": (s["n"], 7), "B": (s["n"], 7)},
        {"n": 500}, lambda X, B: X * B, ("coalesce",), ("coalesce",)),
}


@pytest.mark.part(5)
@pytest.mark.parametrize("name", CASES)
def test_steps_act(name: str) -> None:
    case = CASES[name]
    program = with_open_sizes(case.text, dict(case.typical))
    for target, steps in ((LLVMTarget(), case.cpu), (OpenCLTarget(GPU), case.gpu)):
        acted = {r.step for r in compiler.lower_program(program, target).steps if r.acted}
        assert set(steps) <= acted


@pytest.mark.part(28)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_one_kernel_is_right_at_all_sizes(name: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    right_at_all_sizes(CASES[name], "cpu", threads, monkeypatch)


@pytest.mark.part(8)
@pytest.mark.parametrize("name", [n for n, case in CASES.items() if case.gpu])
def test_one_kernel_of_a_gpu_is_right_at_all_sizes(name: str, targets: tuple[str, ...],
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    if "opencl" not in targets:
        pytest.skip("there is no OpenCL driver")
    right_at_all_sizes(CASES[name], OpenCLTarget(GPU), 1, monkeypatch)


def right_at_all_sizes(case: Case, target: Any, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code for typical sizes serves all others but for few small ones, at which the program is another one."""
    compiled = list[bool]()
    compile_ = compiler.compile_program
    monkeypatch.setattr(compiler, "compile_program", lambda p, *rest: compiled.append(bool(p.sizes)) or compile_(p, *rest))
    op = polytc.compile(case.text, target, symbolic=True, typical=case.typical, threads=threads)
    combinations = [*product(SIZES, repeat=len(case.typical))]
    for values in combinations:
        sizes = dict(zip(case.typical, values, strict=True))
        given = case.inputs(sizes)
        expected = case.reference(**{n: a.copy() for n, a in given.items()})
        np.testing.assert_array_equal(op(**given), expected, err_msg=str(sizes))
    assert compiled.count(True) == 1
    assert compiled.count(False) <= len(combinations) // 2


def test_a_remainder_that_wraps_around_often_is_refused() -> None:
    with pytest.raises(polytc.PolytcError, match=r"(?s)E412.*\(i \+ 9\) % n has more than 6 pieces"):
        polytc.compile("def f(f32[n] X) -> (Y) { Y[i] = X[(i+9)%n] where i in 0:n }", symbolic=True)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 64])
def test_a_remainder_may_divide_by_another_size_than_the_extent(n: int) -> None:
    """The proof that all accesses are inside is about the sizes at which those of the text are, remainders included."""
    op = polytc.compile("def f(f32[n] Z, f32[m] X) -> (f32[n] Y) { Y[i] = Z[i] + X[(i+1)%n] where i in 0:n }", symbolic=True)
    Z, X = np.ones(n, "f4"), np.arange(n + 3, dtype="f4")
    np.testing.assert_array_equal(op(Z=Z, X=X), 1 + np.roll(X[:n], -1))


@pytest.mark.parametrize("n", [1, 2, 3, 7, 64])
def test_values_may_wrap_around_often(n: int) -> None:
    """They stay remainders, and those in subscripts become choices all the same."""
    op = polytc.compile("def f(f32[n] X) -> (Y) { Y[i] = X[(i+1)%n] * ((9*i)%n) where i in 0:n }", symbolic=True)
    X = np.arange(n, dtype="f4") + 1
    np.testing.assert_array_equal(op(X=X), np.roll(X, -1) * (9 * np.arange(n) % n))


def test_a_guard_that_may_act_keeps_no_other_one() -> None:
    """Whether the first one acts depends on the sizes."""
    program = with_open_sizes("def f(f32[n] X, f32[m] Z) -> (Y) { Y[i] = (X[i] else 0) + (Z[i] else 0) where i in 0:n }",
                              {"n": 90, "m": 80})
    assert pr.format_statement(pad.drop_guards(program).statements[0]) == "Y[i] = X[i] + (Z[i] else 0.0)  where i in 0:n"


@pytest.mark.parametrize("n", [1, 2, 3, 5, 7, 13, 131])
def test_a_padded_copy_has_no_fewer_than_no_elements(n: int) -> None:
    """Of a loop that has no iterations at small sizes."""
    program = with_open_sizes("def f(f32[n,16] I, f32[16,16,3] W) -> (O) { O[h,k] = 0.0 where h in 0:n, k in 0:16; "
                              "O[h,k] += (I[h+r-1,c] else 0)*W[k,c,r] where h in 3:n-3 }", {"n": 500})
    made = pad.materialise(program)
    assert "I_pad" in {t.name for t in made.tensors}
    assert all(at(e, {"n": n}) >= 0 for t in made.tensors for e in t.shape)


def test_the_first_element_of_a_scan_that_may_be_empty(targets: tuple[str, ...]) -> None:
    """The kernel is right where there is none, though an Op has another one there."""
    program = with_open_sizes("def f(f64[n] v) -> (P) { P[i] = 0.0 where i in 0:n; "
                              "P[i] += v[k] where k <= i, i in 2:n, k in 2:n }", {"n": 50})
    made = scan.simplify_prefixes(program)
    assert made != program
    assert in_bounds.out_of_bounds(made) is None
    for target in (LLVMTarget(), *([OpenCLTarget(GPU)] if "opencl" in targets else [])):
        executable = compiler.compile_program(program, target)
        for n in (1, 2, 3, 4, 9, 200):
            v, found = np.arange(n) + 1.0, np.zeros(n)
            sized(executable, compiler.options(executable), {"n": n}).run([v, found])
            np.testing.assert_array_equal(found, np.concatenate([np.zeros(min(n, 2)), np.cumsum(v[2:])]))


def test_rows_of_open_length_are_not_filled_by_a_product_of_an_index_and_a_size() -> None:
    """P is read along both indices as one, and written along each."""
    program = with_open_sizes("def f(f32[2,n] X, f32[n,2,n] A) -> (O) { P[r,i] = X[r,n-1-i] where i in 0:n; "
                              "O[k] += P[r,i]*A[k,r,i] }", {"n": 90})
    made = coalesce.coalesce(program)
    sums = [linear(sub) for s in made.statements for sub in s.subscripts]
    assert not any(isinstance(c, Size) for form in sums if form is not None for _, c in form.terms)


def test_schedules_by_hand_of_remainders() -> None:
    text, shapes = "def f(f32[n] X) -> (Y) { Y[i] = X[(i+1)%n]*2 where i in 0:n }", {"X": ("n",)}
    for schedule in ("program", polytc.schedule(text, shapes=shapes).split("S1", "i", 8)):
        op = polytc.compile(text, shapes=shapes, schedule=schedule)
        for n in (1, 5, 100):
            x = np.arange(n, dtype=np.float32)
            np.testing.assert_array_equal(op(x), 2 * np.roll(x, -1))
    with pytest.raises(polytc.CompileError, match=r"E412: .*cannot stay open in a schedule: \(i \+ 9\) % n"):
        polytc.schedule(text.replace("+1", "+9"), shapes=shapes)
