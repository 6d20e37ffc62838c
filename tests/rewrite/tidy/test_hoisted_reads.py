"""Reads that rewrites take out of statements which may have no instances: at such sizes nobody asks for their elements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import polytc
from polytc import compiler, symbolic
from polytc.machine import AVX2, GENERIC_GPU
from polytc.program.sizes import specialised
from polytc.rewrite import table
from polytc.runtime.sized import sized
from polytc.targets.opencl.target import OpenCLTarget
from tests.opencl_here import NEEDS_OPENCL
from tests.rewrite.equal import with_open_sizes

CASES: dict[str, tuple[str, Callable[..., tuple[np.ndarray, ...]]]] = {
    "compact": ("def f(f32[n,c] W, f32[c,q] X, f32[k] Z) -> (O, R) { O[m,h] += W[m,i]*X[i,2*h] where m in 0:n-2, h in 0:k\n"
                "R[j] = Z[j] }",
                lambda W, X, Z: (W[:max(0, len(W) - 2)] @ X[:, :2*len(Z):2], Z) if len(W) > 2 else
                (np.zeros((0, len(Z)), "f4"), Z)),
    "piecewise_copies": ("def f(f32[n,c] W, f32[q] X, f32[k] Z) -> (O, R) {\n"
                         "O[m,h] += W[m,i]*X[clamp(h+i-1,0,k-1)] where m in 0:n-2, h in 0:k\nR[j] = Z[j] }",
                         lambda W, X, Z: (np.stack([sum((W[m, i] * X[np.clip(np.arange(len(Z)) + i - 1, 0, len(Z) - 1)]
                                                         for i in range(W.shape[1])), np.zeros(len(Z), "f4"))
                                                    for m in range(len(W) - 2)]) if len(W) > 2 else
                                          np.zeros((0, len(Z)), "f4"), Z)),
    "constant_terms": ("def f(f32[n,k] X, f32[q] g, f32[q] v) -> (O, R) {\n"
                       "O[a,b] = X[a,b]*(g[b]/sqrt(v[b] + 15)) where a in 0:n-2, b in 0:k\nR[j] = g[j] }",
                       lambda X, g, v: (X[:max(0, len(X) - 2)] * (g / np.sqrt(v + np.float32(15)))[:X.shape[1]], g)
                       if len(X) > 2 else (np.zeros((0, X.shape[1]), "f4"), g)),
}
TYPICAL = {"n": 200, "c": 64, "q": 100, "k": 40}
SIZES = (1, 2, 3, 4, 9)
TARGETS = [pytest.param("cpu"), pytest.param("interp"), pytest.param(OpenCLTarget(GENERIC_GPU), marks=NEEDS_OPENCL, id="gpu")]


def program(name: str) -> polytc.program.program.Program:
    made = with_open_sizes(CASES[name][0], TYPICAL)
    return replace(made, constants=tuple(n for n in made.inputs if n in "gv"))


@pytest.mark.part(2)
@pytest.mark.parametrize("name", CASES)
def test_the_step_acts(name: str) -> None:
    before = program(name)
    made = table.named(name).run(before, AVX2)
    assert made != before
    assert " else 0.0)" in str(made)
    rewritten = compiler.lower_program(before, "cpu").rewritten
    assert any(name.split("_")[0][:5] in t.name or "term" in t.name for t in rewritten.tensors), "it was given up"


@pytest.mark.part(9)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", TARGETS)
def test_one_kernel_for_all_sizes_against_numpy(name: str, target: str | OpenCLTarget) -> None:
    """Also where the statement has no instances, and the tensor less elements than it would read."""
    whole, (text, reference) = program(name), CASES[name]
    code = compiler.compile_program(whole, target)
    for numbers in product(SIZES if target != "interp" else SIZES[1:4], repeat=len(whole.sizes)):
        sizes = dict(zip(whole.sizes, numbers, strict=True))
        shapes = [tuple(max(0, n) for n in t.shape) for t in map(specialised(whole, sizes).tensor, whole.arrays)]
        given = [np.arange(np.prod(s), dtype="f4").reshape(s) % 5 for s in shapes[:len(whole.inputs)]]
        if sizes["n"] > 2 and (2*sizes["k"] - 1 if name == "compact" else sizes["k"]) > sizes["q"]:
            continue  # which is out of bounds
        found = [np.full(s, -7, "f4") for s in shapes[len(whole.inputs):]]
        sized(code, compiler.options(code), sizes).run([*given, *found])
        for mine, wanted in zip(found, reference(*given), strict=True):
            np.testing.assert_allclose(mine, wanted, rtol=1e-6, err_msg=f"{text} {sizes}")


@pytest.mark.part(3)
@pytest.mark.parametrize("name", CASES)
def test_calls_take_it(name: str) -> None:
    op = polytc.compile(CASES[name][0], symbolic=True, typical={n: v for n, v in TYPICAL.items() if n in program(name).sizes})
    dims = symbolic.OpenSizes(symbolic.declared(CASES[name][0], None, {}, every=True), {}, {})
    for n in (0, 1, 2, 3, 20):
        shapes = dims.shapes({"n": n, "c": 3, "q": 9, "k": 4})
        given = {x: (np.arange(np.prod(s), dtype="f4") % 5).reshape(s) for x, s in shapes.items()}
        for mine, wanted in zip(op(**given), CASES[name][1](**given), strict=True):
            np.testing.assert_allclose(mine, wanted, rtol=1e-6, err_msg=str(n))
