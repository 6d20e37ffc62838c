"""polytc as a backend of opt_einsum, which finds `einsum`, `tensordot` and `transpose` in the module that it is named."""

from __future__ import annotations

import numpy as np
import pytest

import polytc

opt_einsum = pytest.importorskip("opt_einsum")
testing = pytest.importorskip("opt_einsum.testing")

SPECS = ["ab,bc->ac", "ab,bc,cd->ad", "ab,bc->ca", "ab,ab->", "abc,bd,cd->a", "ab,cd->acbd", "aab,b->a", "ab,cb,db,eb->acde",
         "abc,acd,de->be", "a,b,c->cba"]


def operands(spec: str) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    sizes = dict(zip("abcde", (3, 4, 5, 6, 2), strict=True))
    return [rng.standard_normal([sizes[c] for c in term]) for term in spec.split("->")[0].split(",")]


@pytest.mark.part(2)
@pytest.mark.parametrize("spec", SPECS)
def test_contract(spec: str) -> None:
    arrays = operands(spec)
    np.testing.assert_allclose(opt_einsum.contract(spec, *arrays, backend="polytc"), np.einsum(spec, *arrays), atol=1e-12)


def test_expressions_with_constants_and_out() -> None:
    spec = "ab,bc,cd->ad"
    a, b, c = operands(spec)
    expression = opt_einsum.contract_expression(spec, a.shape, b, c, constants=[1, 2])
    np.testing.assert_allclose(expression(a, backend="polytc"), a @ b @ c)
    out = np.empty((3, 6))
    assert opt_einsum.contract_expression(spec, a.shape, b.shape, c.shape)(a, b, c, out=out, backend="polytc") is out
    np.testing.assert_allclose(out, a @ b @ c)


def test_a_random_network() -> None:
    spec, shapes = testing.rand_equation(8, 3, n_out=2, seed=3)
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(s) for s in shapes]
    expected = opt_einsum.contract(spec, *arrays)
    np.testing.assert_allclose(opt_einsum.contract(spec, *arrays, backend="polytc"), expected, rtol=1e-8)


@pytest.mark.parametrize(("a", "b", "axes"), [
    ((3, 4), (4, 5), 1), ((3, 4, 5), (4, 5, 2), 2), ((3, 4), (2, 5), 0), ((3, 4, 5), (4, 3, 2), ([1, 0], [0, 1])),
    ((3, 4, 5), (5, 3), ([-1], [0])), ((3, 4), (3, 4), ([0, 1], [0, 1])), ((3, 4), (4,), (1, 0))])
def test_tensordot(a: tuple[int, ...], b: tuple[int, ...], axes: object) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal(a), rng.standard_normal(b)
    np.testing.assert_allclose(polytc.tensordot(x, y, axes), np.tensordot(x, y, axes))


def test_transpose_is_a_view() -> None:
    x = np.zeros((2, 3, 4))
    assert polytc.transpose(x, (2, 0, 1)).shape == (4, 2, 3)
    assert np.shares_memory(polytc.transpose(x), x)
