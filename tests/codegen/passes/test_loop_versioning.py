"""Full tiles and others: the same instances in the same order, whatever the bounds; and no load outside of arrays."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from polytc import compiler
from polytc.codegen import loops as L
from polytc.codegen import traverse
from polytc.codegen.passes import loop_versioning, simplify
from polytc.codegen.passes.vectorize import expand_kernel
from polytc.codegen.verify import verify
from polytc.machine import AVX2, AVX512
from polytc.program.scalars import F64
from polytc.runtime.sized import sized
from polytc.targets.llvm.target import LLVMTarget
from tests.codegen import loop_programs as P
from tests.codegen.loop_steps import arrays_of, results, stores
from tests.rewrite.equal import with_open_sizes

ROWS, COLUMNS, DEPTH = 4, 8, 6
"""Of a tile, and iterations of the loop around it."""


COUNTS = {"i": 3, "j": 2, "k": DEPTH, "p": ROWS}


def form(rng: random.Random, names: str, middle: int) -> L.Expr:
    """A linear form of one or two of these variables that is `middle` somewhere in the middle of their ranges."""
    e: L.Expr = L.const(rng.randint(-5, 5))
    for name in rng.sample(names, rng.choice((1, 1, 1, 2)) if len(names) > 1 else 1):
        factor = rng.choice((-1, 1)) * rng.choice({"i": (1, ROWS), "j": (1, COLUMNS), "k": (1, 1, 2), "p": (1,)}[name])
        e = P.add(P.scaled(name, factor, L.const(-factor * COUNTS[name] // 2)), e)
    return P.add(e, L.const(middle))


def bound(rng: random.Random, fn: str, number: int, names: str) -> L.Expr:
    """A number, or the minimum (maximum) of it and of one or two forms."""
    e: L.Expr = L.const(number)
    for _ in range(rng.choice((0, 0, 1, 2) if fn == "min" else (0, 0, 0, 1))):
        e = L.Call(fn, (e, form(rng, names, number + (4 if fn == "min" else -4))), e.dtype)
    return e


def tiles(seed: int) -> tuple[L.Module, dict[str, np.ndarray]]:
    """Loops over tiles i, j and a reduction k, in any order, around a tile of p, q whose bounds are any."""
    rng = random.Random(seed)
    i, j, k, p, q = (L.Var(n) for n in "ijkpq")
    m, n = rng.choice((3 * ROWS, 3 * ROWS - 1)), rng.choice((2 * COLUMNS, 2 * COLUMNS - 3))
    y, x, z = L.Buffer("Y", F64, (m, n)), L.Buffer("X", F64, (m, DEPTH)), L.Buffer("Z", F64, (DEPTH, n))
    row, column = P.add(P.mul(i, L.const(ROWS)), p), P.add(P.mul(j, L.const(COLUMNS)), q)
    value = L.Binary("+", P.load(y, row, column), P.mul(P.load(x, row, k), P.load(z, k, column)), F64)
    inside_m, inside_n = (L.binary("-", L.const(e), P.mul(v, L.const(t))) for e, v, t in ((m, i, ROWS), (n, j, COLUMNS)))
    high_p = L.Call("min", (bound(rng, "min", ROWS, "ijk"), inside_m), p.dtype)
    body: L.Stmt = L.block(*(
        L.For("q", bound(rng, "max", 0, "ijkp"), L.Call("min", (bound(rng, "min", COLUMNS, "ijkp"), inside_n), q.dtype), 1,
              L.Store(y, (row, column), value), "vector")
        for _ in range(rng.choice((1, 1, 2)))))                         # of a union, isl makes loops one after another
    body = L.For("p", bound(rng, "max", 0, "ijk"), high_p, 1, body, "unroll")
    order = rng.choice(("ijk", "kij", "ikj", "jik"))
    for at, name in reversed(list(enumerate(order))):
        outer = order[:at]
        lower = bound(rng, "max", 0, outer) if outer else L.const(0)
        upper = bound(rng, "min", COUNTS[name], outer) if outer else L.const(COUNTS[name])
        body = L.For(name, lower, upper, 1, body, "parallel" if name != "k" and rng.random() < 0.3 else "sequential")
    module = P.module("tiles", (x, z, y), ("Y",), body)
    module = L.Module(module.name, module.args, module.outputs, (), tuple(map(simplify.simplify_kernel, module.kernels)))
    return module, arrays_of(x, z, y, seed=seed)


def per_element(found: list[Any]) -> dict[Any, list[Any]]:
    """The stores to each element in their order: rows that are left of a tile may come in another one among each other."""
    elements: dict[Any, list[Any]] = {}
    for store in found:
        elements.setdefault(store[:2], []).append(store)
    return elements


@pytest.mark.part(3)
@pytest.mark.parametrize("start", [0, 20, 40, *(pytest.param(n, marks=pytest.mark.long) for n in (10, 30, 50))])
def test_the_same_instances_in_the_same_order(start: int) -> None:
    """And masked vectors of these tiles stay inside of the arrays."""
    for seed in range(start, start + 10):
        module, arrays = tiles(seed)
        if module.kernels[0].body == L.Block(()):
            continue
        expected = stores(module, arrays)
        final = results(module, arrays)["Y"]
        for machine in (AVX512, AVX2):
            made = [loop_versioning.version_kernel(k, machine) for k in module.kernels]
            found = stores(L.block(*(k.body for k in made)), arrays)
            assert per_element(found) == per_element(expected), (seed, machine.masked)
            expanded = verify(L.Module("m", module.args, ("Y",), (), tuple(expand_kernel(k, machine) for k in made)))
            np.testing.assert_array_equal(results(expanded, arrays)["Y"], final, f"{seed} {machine.masked}")


def triangle(rows: int) -> L.Kernel:
    """The lower triangle of Y in tiles, of an X of so many rows."""
    x, y = L.Buffer("X", F64, (rows,)), L.Buffer("Y", F64, (12, 24))
    i, j, p, q = (L.Var(n) for n in "ijpq")
    row, column = P.scaled("i", ROWS, p), P.scaled("j", COLUMNS, q)
    diagonal = L.binary("-", P.add(row, L.const(1)), P.mul(j, L.const(COLUMNS)))
    upper = L.Call("min", (L.const(COLUMNS), diagonal), q.dtype)
    vector = P.loop("q", upper, L.Store(y, (row, column), P.load(x, row)), "vector")
    low = L.Call("max", (L.const(0), L.binary("-", P.mul(j, L.const(COLUMNS)), P.mul(i, L.const(ROWS)))), q.dtype)
    nest = P.loop("i", 3, P.loop("j", 3, L.For("p", low, L.const(ROWS), 1, vector, "unroll")))
    return P.module("triangle", (x, y), ("Y",), nest).kernels[0]


def constant(k: L.Kernel) -> list[bool]:
    """Of each tile, whether its rows are known, so that it becomes straight code."""
    return [isinstance(s.lower, L.Const) and isinstance(s.upper, L.Const) for s in traverse.walk_stmt(k.body)
            if isinstance(s, L.For) and s.kind == "unroll"]


def test_tiles_on_the_diagonal_are_straight_code_where_there_are_masks() -> None:
    """But for those that load for all lanes what lies in the array in rows with an iteration only."""
    assert constant(triangle(12)) == [False]
    assert constant(loop_versioning.version_kernel(triangle(12), AVX512)) == [True, True]
    assert constant(loop_versioning.version_kernel(triangle(12), AVX2)) == [True, False]
    assert constant(loop_versioning.version_kernel(triangle(11), AVX512)) == [True, False]


@pytest.mark.parametrize("kind", ["sequential", "parallel"])
def test_a_reduction_is_cut_where_its_tiles_become_full(kind: str) -> None:
    """So that full tiles stay in registers, in a block that the diagonal crosses, too. A loop that cannot be cut has a test
    above it: its tiles are full in all iterations if they are in the first."""
    x, y = L.Buffer("X", F64, (24,)), L.Buffer("Y", F64, (5, 24))
    i, j, k, q = (L.Var(n) for n in "ijkq")
    place = (i, P.scaled("j", COLUMNS, q))
    update = L.Store(y, place, P.add(P.load(y, *place), P.load(x, k)))
    upper = L.Call("min", (L.const(COLUMNS), P.add(P.scaled("i", -4, L.const(1)), k)), q.dtype)
    inner = L.For("k", P.mul(j, L.const(COLUMNS)), L.const(24), 1, P.loop("q", upper, update, "vector"), kind)
    kernel = P.module("m", (x, y), ("Y",), P.loop("i", 5, P.loop("j", 3, inner))).kernels[0]
    made = loop_versioning.version_kernel(kernel, AVX2)
    arrays = arrays_of(x, y)
    assert stores(made.body, arrays) == stores(kernel.body, arrays)
    tests = [s for s in traverse.walk_stmt(made.body) if isinstance(s, L.If)]
    reductions = [s for s in traverse.walk_stmt(made.body) if isinstance(s, L.For) and s.var == "k"]
    full = [isinstance(s.body, L.For) and s.body.upper == L.const(COLUMNS) for s in reductions]
    if kind == "sequential":
        assert (tests, full) == ([], [False, True])
    else:
        assert [t.then for t in tests] == [s for s, whole in zip(reductions, full, strict=True) if whole]


@pytest.mark.parametrize("low", [-5, -4, -1, 0, 3])
def test_rectangular_nests_of_vectors_that_begin_anywhere(low: int) -> None:
    y = L.Buffer("Y", F64, (ROWS, 24))
    a, p, q = (L.Var(n) for n in "apq")
    store = L.Store(y, (p, P.add(q, L.const(8))), P.add(P.load(y, p, P.add(q, L.const(8))), L.Const(1.0, F64)))
    first = L.Call("max", (L.const(0), P.add(a, L.const(-2))), p.dtype)
    upper = L.Call("min", (L.const(8), P.scaled("a", 2)), q.dtype)
    nest = L.For("p", first, L.const(ROWS), 1, P.loop("q", upper, store, "vector", lower=low), "unroll")
    made = loop_versioning.rectangular_nest(nest, {"a": (0, 5)})
    assert (made.lower, made.upper) == (L.const(0), L.const(ROWS))
    arrays = arrays_of(y)
    assert stores(P.loop("a", 6, made), arrays) == stores(P.loop("a", 6, nest), arrays)


def test_full_tiles_of_a_quotient_of_sizes() -> None:
    """The condition is a linear form of `(m + 1)//2`, which no loop changes."""
    text = "O[k,w] += W[k,c]*X[c,2*w] where w in 0:(m+1)//2"
    program = with_open_sizes(f"def f(f32[8,8] W, f32[8,m] X) -> (O) {{ {text} }}", {"m": 200})
    module = compiler.lower_program(program, "cpu").loops
    tests = [x for k in module.kernels for x in traverse.walk_stmt(k.body) if isinstance(x, L.If) and x.orelse is not None]
    assert any("(m + 1) // 2" in L.format_expr(x.cond) for x in tests)


def test_columns_left_of_an_open_extent_keep_their_results() -> None:
    """Without masks: in tiles of fewer and fewer columns, none of which stores a result in each iteration of a reduction."""
    text = "def f(f32[8,n,m] I, f32[8,8,3,3] W) -> (O) { O[k,h,w] += I[c,h+r,w+s]*W[k,c,r,s] }"
    program, target = with_open_sizes(text, {"n": 66, "m": 66}), LLVMTarget(AVX2)
    module = compiler.lower_program(program, target).loops
    sums = [x for k in module.kernels for x in traverse.walk_stmt(k.body) if isinstance(x, L.For) and x.kind == "sequential"
            and x.upper == L.const(8)]
    assert sums
    assert {x.buffer.space for s in sums for x in traverse.walk_stmt(s) if isinstance(x, L.Store)} == {"private"}
    executable, rng = compiler.compile_program(program, target), np.random.default_rng(1)
    for n, m in ((3, 3), (4, 5), (7, 26), (5, 27), (3, 40), (9, 66), (4, 75), (3, 97)):
        given, W = rng.integers(-3, 4, (8, n, m)).astype("f4"), rng.integers(-3, 4, (8, 8, 3, 3)).astype("f4")
        found = np.full((8, n - 2, m - 2), np.nan, "f4")
        sized(executable, compiler.options(executable), {"n": n, "m": m}).run([given, W, found])
        windows = np.lib.stride_tricks.sliding_window_view(given, (3, 3), (1, 2))
        np.testing.assert_array_equal(found, np.einsum("chwrs,kcrs->khw", windows, W))
