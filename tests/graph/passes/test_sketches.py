"""What the docstrings of graph passes show is what happens, and computes the same."""

from __future__ import annotations

import re

import numpy as np
import pytest

import polytc.graph.passes
from polytc.graph.ir import Graph
from polytc.graph.passes import (
    algebraic_simplification,
    batchnorm_folding,
    common_subexpressions,
    constant_folding,
    identities,
    integer_products,
    patterns,
    quantised_weights,
    scale_folding,
    transpose_sinking,
)
from polytc.program.scalars import named
from tests.graph.passes.expressions import graph_of, is_shown
from tests.sketches import INPUT, Sketch, arrows, sketches

PASSES = {m.__name__: run for m, run in (
    (algebraic_simplification, algebraic_simplification.simplify), (batchnorm_folding, batchnorm_folding.merge_batchnorm),
    (common_subexpressions, common_subexpressions.merge_duplicates), (constant_folding, constant_folding.fold_constants),
    (identities, identities.drop_identities), (integer_products, integer_products.use_integers),
    (patterns, patterns.group_patterns), (quantised_weights, quantised_weights.narrow_weights),
    (scale_folding, scale_folding.merge_scales), (transpose_sinking, transpose_sinking.sink_transposes))}
SKETCHES = sketches(polytc.graph.passes)
RANDOM = np.random.default_rng(0)


def array(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Positive numbers, so that they can be deviations and scales; small ones of integers."""
    kind = named(dtype).numpy
    return np.array(RANDOM.random(shape) + 0.5 if kind.kind == "f" else RANDOM.integers(1, 9, shape)).astype(kind)


def before(sketch: Sketch) -> Graph:
    found = list(INPUT.finditer(sketch.inputs))
    typed = {m[3]: (m[2] or "f32", tuple(int(n) for n in m[4].split(",") if n)) for m in found}
    constants = {m[3]: array(*typed[m[3]]) for m in found if m[1] == "constant"}
    inputs = {n: (named(dtype).numpy, shape) for n, (dtype, shape) in typed.items() if n not in constants}
    return graph_of(sketch.before, inputs, constants)


@pytest.mark.parametrize("sketch", SKETCHES, ids=str)
def test_a_sketch_shows_what_happens(sketch: Sketch) -> None:
    graph = before(sketch)
    made = PASSES[sketch.place](graph)
    assert is_shown(sketch.after, made, frozenset(graph.constants)), f"the pass made\n{made}"
    assert not is_shown(sketch.after, graph, frozenset(graph.constants)), "it was so before"
    feeds = {v.name: array(str(v.dtype), v.shape) for v in graph.inputs}
    for got, expected in zip(*(g.compile(target="evaluate").run(None, feeds) for g in (made, graph)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1 if expected.dtype.kind in "iu" else 1e-6)


def test_every_pass_has_a_sketch() -> None:
    assert {s.place for s in SKETCHES} == set(PASSES)
    assert set(PASSES.values()) == set(polytc.graph.passes.PIPELINE.values())


def test_every_arrow_belongs_to_a_sketch_that_is_checked() -> None:
    assert arrows(polytc.graph.passes) == []


@pytest.mark.parametrize(("after", "right"), [
    ("Transpose(Relu(x), perm=[1, 0])", True), ("Transpose(Relu(x))", True), ("Transpose(Relu(x), perm=[0, 1])", False),
    ("Relu(Transpose(x))", False), ("Transpose(x)", False), ("a = Relu(x); Transpose(a)", True), ("Transpose(Relu(z))", False)])
def test_sketches_that_show_something_else_are_refused(after: str, right: bool) -> None:
    graph = graph_of("Transpose(Relu(x), perm=[1, 0])", {"x": (np.dtype(np.float32), (3, 4))}, {})
    assert is_shown(re.sub(r"\s+", " ", after), graph, frozenset()) == right
