"""Rows of open length that memory is walked along become one index, whose extent is a size with a name of its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

import polytc
from polytc import symbolic
from polytc.machine import AVX2, GENERIC_GPU
from polytc.program.sizes import specialised, with_products
from polytc.rewrite import table
from polytc.rewrite.tidy.coalesce import coalesce
from polytc.targets.opencl.target import OpenCLTarget
from tests.opencl_here import NEEDS_OPENCL
from tests.rewrite.equal import same_results, with_open_sizes

SIZES = (1, 2, 3, 7, 33)
CASES: dict[str, tuple[str, int, tuple[str, ...], Callable[..., np.ndarray]]] = {
    "two": ("def f(f32[n,m] X) -> (Y) { Y[a,b] = X[a,b]*2 }", 1, ("n_m is (n) * (m)",), lambda X: X*2),
    "three": ("def f(f32[n,m,l] X) -> (Y) { Y[a,b,c] = X[a,b,c]*2 }", 1, ("is (n) * (m)", " * (l)"), lambda X: X*2),
    "a name that is taken": ("def f(f32[n,m] X, f32[n,m] n_m) -> (a_b) { a_b[a,b] = X[a,b] + n_m[a,b] }", 1,
                             ("is (n) * (m)",), lambda X, n_m: X + n_m),
    "sums of images": ("def f(f32[o,c] W, f32[c,n,m] X) -> (Y) { Y[o_,a,b] += W[o_,i]*X[i,a,b] }", 3, ("is (n) * (m)",),
                       lambda W, X: np.einsum("oc,cnm->onm", W, X)),
    "inner rows": ("def f(f32[n,m] X) -> (f32[n+2,m] Y) { Y[a+1,b] = X[a,b]\nY[0,b] = 1\nY[n+1,b] = 2 where b in 0:m }", 2, (),
                   lambda X: np.pad(X, ((1, 1), (0, 0)), constant_values=((1, 2), (0, 0)))),
    "some rows": ("def f(f32[n,m] X) -> (f32[n-1,m] Y) { Y[a,b] = X[a,b]*3 where a in 0:n-1 }", 1, ("n_m is (n) * (m)",),
                  lambda X: X[:-1]*3),
    "fewer rows first": ("def f(f32[n] z, f32[n-1,m] V, f32[n,m] X) -> (Y) { Y[a,b] = V[a,b] + X[a,b] where a in 0:n-1 }", 1,
                         ("n_m is (n) * (m)", "f32[-m + n_m] V"), lambda z, V, X: V + X[:-1]),
    "a column": ("def f(f32[n,m] X, f32[m] z) -> (Y) { Y[a,b] = X[a,b] + z[b] }", 2, (), lambda X, z: X + z),
    "columns": ("def f(f32[n,m] X) -> (Y) { Y[b,a] = X[a,b] }", 2, (), lambda X: X.T.copy()),
    "halves of rows": ("def f(f32[n,m] X) -> (f32[n,m//2] Y) { Y[a,b] = X[a,b] where b in 0:m//2 }", 2, (),
                       lambda X: X[:, :X.shape[1]//2]),
}


@pytest.mark.part(3)
@pytest.mark.parametrize("name", CASES)
def test_rows_are_walked_as_one(name: str) -> None:
    text, indices, told, _ = CASES[name]
    program = with_open_sizes(text, {})
    made = coalesce(program)
    assert max(len(s.ranges) for s in made.statements) == indices
    assert all(part in str(made) for part in told)
    assert made.sizes[:len(program.sizes)] == program.sizes
    for numbers in product(SIZES[:4], repeat=len(program.sizes)):
        sizes = dict(zip(program.sizes, numbers, strict=True))
        if all(n > 0 for t in specialised(program, sizes).tensors for n in t.shape):
            same_results(specialised(program, sizes), specialised(made, with_products(sizes, made.products)))


TARGETS = [pytest.param("cpu"), pytest.param("interp"), pytest.param("opencl", marks=NEEDS_OPENCL),
           pytest.param(OpenCLTarget(GENERIC_GPU), marks=NEEDS_OPENCL, id="gpu")]


@pytest.mark.part(10)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("target", TARGETS)
def test_against_numpy(name: str, target: str | OpenCLTarget) -> None:
    text, _, _, reference = CASES[name]
    sizes = symbolic.OpenSizes(symbolic.declared(text, None, {}, every=True), {}, {})
    op = polytc.compile(text, target, symbolic=True)
    for numbers in product(SIZES[1:4] if target == "interp" else SIZES[1:], repeat=2):
        shapes = sizes.shapes(dict(zip(sizes.names[::-1], (*numbers, 3, 2), strict=False)))
        given = {n: (np.arange(math.prod(shape), dtype=np.float32) % 17).reshape(shape) for n, shape in shapes.items()}
        np.testing.assert_array_equal(op(**given), reference(**given), err_msg=str(shapes))
    assert op._open is not None
    assert op._open.kernels == 1


def test_the_step_names_the_product_for_the_rest() -> None:
    program = with_open_sizes(CASES["two"][0], {"n": 500, "m": 3})
    made = table.named("coalesce").run(program, AVX2)
    assert made.products == (("n_m", program.tensor("X").shape),)
    assert int(made.tensor("Y").shape[0]) == 1500
    assert coalesce(made) == made
