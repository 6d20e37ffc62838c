"""Elements in registers: which are, that results stay, and that nothing is touched that was not touched before."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

import polytc
from polytc.codegen import loops as L
from polytc.codegen import traverse
from polytc.codegen.passes.scalar_replacement import drop_dead_stores, promote_kernel
from polytc.machine import AVX2, AVX512
from polytc.program.scalars import F64
from tests.codegen import loop_programs as P
from tests.codegen.loop_steps import arrays_of, results

I, J, K = L.Var("i"), L.Var("j"), L.Var("k")
N = 8
C, T = L.Buffer("C", F64, (N, N)), L.Buffer("T", F64, (N, N))
A = L.Buffer("A", F64, (N, N))


def update(b: L.Buffer, *at: L.Expr, term: L.Expr | None = None) -> L.Store:
    return L.Store(b, at, P.add(P.load(b, *at), term if term is not None else P.load(A, K, J)))


def promoted(body: L.Stmt, scratch: tuple[L.Buffer, ...] = ()) -> L.Kernel:
    """The kernel after the pass; checks that results stay."""
    kernel = P.module("m", (A, C), ("C",), body, scratch=scratch).kernels[0]
    made = promote_kernel(kernel, AVX512, frozenset(b.name for b in scratch))
    arrays = arrays_of(A, C, T)
    np.testing.assert_array_equal(results(made.body, arrays)["C"], results(body, arrays)["C"])
    return made


def inside(k: L.Kernel, var: str, name: str) -> bool:
    """Does the loop over `var` touch a buffer?"""
    loops = [s for s in traverse.walk_stmt(k.body) if isinstance(s, L.For) and s.var == var]
    return any(name in {e.buffer.name for top in traverse.expressions(x) for e, _ in traverse.loads(top)}
               or isinstance(x, L.Store) and x.buffer.name == name for s in loops for x in traverse.walk_stmt(s.body))


def nest(*stmts: L.Stmt) -> L.Stmt:
    return P.loop("i", N, P.loop("j", N, L.block(*stmts)))


START = L.Store(C, (I, J), L.Const(1.0, F64))


@pytest.mark.parametrize(("body", "registers"), [
    (nest(P.loop("k", N, update(C, I, J))), True),                                        # one element, loaded and stored
    (nest(START, P.loop("k", N, update(C, I, J))), True),
    (nest(START, P.loop("k", N, update(C, I, K))), False),                                # another one in each iteration
    (nest(START, P.loop("k", J, update(C, I, J))), True),                                 # a loop that may not run
    (nest(P.loop("k", J, update(C, I, J))), True),
    (nest(START, P.loop("k", N, L.If(L.binary("<", K, J), update(C, I, J)))), True),      # its element is stored in any case
    (nest(P.loop("k", N, L.If(L.binary("<", K, J), update(C, I, J)))), False),            # perhaps it is touched nowhere
    (nest(P.loop("k", N, L.block(L.If(L.binary("<", K, J), START), update(C, I, J)))), True),
    (nest(P.loop("k", N, L.block(update(C, I, J), update(C, J, I)))), False),             # may be one element, or two
    (nest(P.loop("k", N, L.block(update(C, I, L.const(1)), update(C, I, L.const(2))))), True),
    (nest(P.loop("k", N, update(C, L.Cast(P.load(A, L.const(0), L.const(0)), K.dtype), J))), False),
])
def test_what_lives_in_registers(body: L.Stmt, registers: bool) -> None:
    body = traverse.map_stmt(body, lambda s: s, lambda e: traverse.map_expr(e, small))
    assert inside(promoted(body), "k", "C") != registers


@pytest.mark.parametrize(("active", "second", "registers"), [
    (None, 4, True), (None, 3, False), (3, 3, True), (3, 2, False), (1, 1, True), (None, -4, True), (None, -3, False)])
def test_vectors_side_by_side(active: int | None, second: int, registers: bool) -> None:
    """Those that share an element cannot both be in registers."""
    def wide(at: int) -> L.Store:
        place = (I, L.Ramp(L.const(at), 1, 4, active=active))
        old = L.Load(C, place, F64, 4)
        return L.Store(C, place, L.Binary("+", old, L.Broadcast(P.load(A, K, I), 4, F64), F64, 4))
    first = max(0, -second)
    body = P.loop("i", N, P.loop("k", N, L.block(wide(first), wide(first + second))))
    assert inside(promoted(body), "k", "C") != registers


def small(e: L.Expr) -> L.Expr:
    """A number from memory as a place that is inside."""
    return L.binary("%", e, L.const(N)) if isinstance(e, L.Cast) else e


@pytest.mark.parametrize("kind", ["parallel", "thread"])
def test_threads_share_no_register(kind: str) -> None:
    body = P.loop("i", N, P.loop("k", N, update(C, I, L.const(0), term=P.load(A, I, K)), kind))
    assert inside(promoted(body), "k", "C")


def test_no_more_elements_than_registers_hold() -> None:
    """Four times as many as there are: those that do not fit are spilled, as the compiler likes."""
    def body(count: int) -> L.Stmt:
        rows = [update(C, L.const(n // N), L.const(n % N), term=P.load(A, K, L.const(n % N))) for n in range(count)]
        return P.loop("k", 3, L.block(*rows))
    few, wide = AVX2.vector_registers, L.Buffer("C", F64, (N * 16, N))
    assert few * 4 == 64
    for count, registers in ((64, True), (65, False)):
        moved = traverse.map_stmt(body(count), lambda s: L.Store(wide, s.indices, s.value) if isinstance(s, L.Store) else s,
                                  lambda e: traverse.map_expr(e, lambda x: P.load(wide, *x.indices) if isinstance(x, L.Load)
                                                              and x.buffer == C else x))
        kernel = P.module("m", (A, wide), ("C",), moved).kernels[0]
        assert inside(promote_kernel(kernel, AVX2, frozenset()), "k", "C") != registers


def test_scratch_that_stays_in_registers_is_gone() -> None:
    """Also what is stored and loaded once, which gains nothing elsewhere."""
    use = L.Store(C, (I, J), P.mul(P.load(T, I, J), P.load(T, I, J)))
    body = nest(L.Store(T, (I, J), P.load(A, I, J)), use)
    made = promoted(body, (T,))
    module = drop_dead_stores(L.Module("m", (A, C), ("C",), (T,), (made,)))
    assert module.scratch == ()
    assert "T[" not in str(module.kernels[0].body)
    assert inside(promoted(body), "j", "T")


def test_scratch_that_a_region_only_stores_stays() -> None:
    """Whether somebody reads it, registers gain nothing; a loop that stores an element again and again does."""
    once = nest(L.Store(T, (I, J), P.load(A, I, J)))
    assert inside(promoted(once, (T,)), "j", "T")
    again = nest(L.For("k", L.const(0), L.const(N), 1, L.Store(T, (I, J), P.load(A, K, J))))
    assert not inside(promoted(again, (T,)), "k", "T")


def vectors(rng: random.Random) -> L.Stmt:
    """Statements on vectors and scalars of two buffers, in loops and under conditions, at places that may overlap."""
    lanes = rng.choice((1, 2, 4))
    at = [rng.choice((I, L.const(rng.randint(0, 3)))), L.const(rng.choice((0, 1, 2, 4)))]
    if rng.random() < 0.3:
        at[1] = P.add(J, L.const(rng.choice((0, 2))))
    if lanes > 1:
        at[1] = L.Ramp(at[1], 1, lanes, active=rng.choice((None, lanes - 1)))
    b = rng.choice((C, T))
    value: L.Expr = L.Load(b, tuple(at), F64, lanes)
    other = L.Const(float(rng.randint(1, 5)), F64, lanes)
    s: L.Stmt = L.Store(b, tuple(at), L.Binary("+", value, other, F64, lanes) if rng.random() < 0.7 else other)
    if rng.random() < 0.2:
        s = L.If(L.binary("<", K, L.const(rng.randint(0, 4))), s)
    return s


@pytest.mark.part(2)
@pytest.mark.parametrize("start", range(0, 300, 100))
def test_any_region(start: int) -> None:
    chosen = 0
    for seed in range(start, start + 100):
        rng = random.Random(seed)
        parts: list[L.Stmt] = []
        for _ in range(rng.randint(1, 3)):
            inner = L.block(*(vectors(rng) for _ in range(rng.randint(1, 3))))
            parts.append(P.loop("k", rng.choice((L.const(3), L.const(0), J)), inner) if rng.random() < 0.7 else
                         P.loop("k", 1, inner))
        body = P.loop("i", 3, P.loop("j", 3, L.block(*parts)))
        before = P.module("m", (A, C, T), ("C", "T"), body).kernels[0]
        made = promote_kernel(before, AVX512, frozenset())
        chosen += made != before
        arrays = arrays_of(A, C, T, seed=seed)
        found, expected = results(made.body, arrays), results(body, arrays)
        for name in "CT":
            np.testing.assert_array_equal(found[name], expected[name], str(seed))
    assert chosen > 10


def test_a_loop_has_registers_where_what_follows_reads_halves_of_vectors() -> None:
    """Eight sums at a time are widened four at a time: the vectors overlap, and only the loop has them in registers."""
    text = "T[i] += i32(V[j] < V[i]); R[i] = i64(T[i])"
    made = str(polytc.lower(text, machine=AVX2, shapes={"V": (4096,)}).loops).splitlines()
    loop = next(n for n, line in enumerate(made) if "for c1 in 0:4096" in line)
    depth = len(made[loop]) - len(made[loop].lstrip())
    inside = [line for line in made[loop + 1:] if len(line) - len(line.lstrip()) > depth][:8]
    assert inside
    assert not any(line.lstrip().startswith("T[") for line in inside)
    v = np.random.default_rng(1).permutation(4096).astype(np.float32)
    np.testing.assert_array_equal(polytc.run(text, V=v), np.argsort(np.argsort(v)))


def test_loops_that_threads_share_or_that_run_once_have_none() -> None:
    first = L.const(0)
    threads = replace(P.loop("k", N, L.Store(A, (I, K), P.add(P.load(A, I, K), P.load(C, first, first)))), kind="parallel")
    made = promoted(P.loop("i", N, L.block(L.Store(C, (first, first), P.load(A, I, first)), threads)))
    assert "alloc" not in str(made)
    elsewhere = P.loop("k", N, update(C, K, K, term=P.load(A, K, K)))
    made = promoted(L.block(elsewhere, P.loop("i", 1, update(C, first, first, term=P.load(A, first, first)))))
    assert "alloc" not in str(made)
