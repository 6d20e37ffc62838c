"""Storage contraction: what is contracted and to which slice, what must not be, and that results stay."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from polytc import compiler
from polytc.codegen import loops as L
from polytc.codegen import traverse
from polytc.codegen.passes.array_contraction import contract
from polytc.codegen.verify import verify
from polytc.lang import build
from polytc.machine import GENERIC_CPU, GENERIC_GPU
from polytc.program.program import Program
from polytc.program.scalars import F32
from polytc.targets.interp import InterpTarget
from tests.codegen import loop_programs as P
from tests.test_programs import check

N = 24
I, J, P_, Q = (L.Var(v) for v in "ijpq")


def buffers(*shape: int) -> tuple[L.Buffer, L.Buffer, L.Buffer]:
    """Input, scratch and output, one element each for N*N elements of the input."""
    return L.Buffer("X", F32, (N, N)), L.Buffer("T", F32, shape), L.Buffer("Y", F32, (N, N))


def slices(m: L.Module) -> list[tuple[int, ...]]:
    return [s.buffer.shape for k in m.kernels for s in traverse.walk_stmt(k.body) if isinstance(s, L.Alloc)]


def contracted(x: L.Buffer, t: L.Buffer, y: L.Buffer, body: L.Stmt) -> list[tuple[int, ...]]:
    """Shapes of the slices that take the place of T; checks that the results stay what they were."""
    before = P.module("m", (x, y), ("Y",), body, scratch=(t,))
    after = verify(contract(before, GENERIC_CPU))
    inputs = {"X": np.random.default_rng(0).standard_normal(x.shape).astype(np.float32)}
    target = InterpTarget()
    want, got = (P.run(target.load(target.build(target.emit(m))), m, inputs)["Y"] for m in (before, after))
    np.testing.assert_array_equal(got, want)
    assert np.isfinite(want[:, :N // 2]).all()
    assert (after.scratch == ()) == bool(slices(after))
    return slices(after)


def copy(x: L.Buffer, t: L.Buffer, at: tuple[L.Expr, ...], row: L.Expr = I, column: L.Expr = J) -> L.Store:
    return L.Store(t, at, P.load(x, row, column))


def test_a_row_that_one_iteration_uses_becomes_its_own() -> None:
    x, t, y = buffers(N, N)
    back = L.binary("-", L.const(N - 1), J)
    body = P.loop("i", N, L.block(P.loop("j", N, copy(x, t, (I, J))),
                                  P.loop("j", N, L.Store(y, (I, J), P.load(t, I, back)))), "parallel")
    assert contracted(x, t, y, body) == [(N,)]


def test_tiles_keep_the_extent_of_the_tile() -> None:
    x, t, y = buffers(N, N)
    row = P.scaled("p", 4, I)

    def tile(use: Callable[[L.Expr], L.Stmt]) -> L.Stmt:
        return P.loop("i", 4, P.loop("j", N, use(row)))
    body = P.loop("p", N // 4, L.block(tile(lambda r: copy(x, t, (r, J), r)),
                                       tile(lambda r: L.Store(y, (r, J), P.load(t, r, J)))))
    assert contracted(x, t, y, body) == [(4, N)]


def test_full_tiles_and_the_last_one_count_as_one_loop() -> None:
    x, t, y = buffers(N, N)
    row = P.scaled("p", 5, I)

    def tiles(first: int, last: int, rows: int) -> L.Stmt:
        make = P.loop("i", rows, P.loop("j", N, copy(x, t, (row, J), row)))
        use = P.loop("i", rows, P.loop("j", N, L.Store(y, (row, J), P.load(t, row, J))))
        return P.loop("p", last, L.block(make, use), lower=first)
    assert contracted(x, t, y, L.block(tiles(0, 4, 5), tiles(4, 5, 4))) == [(5, N), (5, N)]


def test_the_last_tile_may_say_its_rows_as_numbers() -> None:
    """As simplification leaves them in a loop that runs once."""
    x, t, y = buffers(N, N)

    def tiles(row: L.Expr, first: int, last: int, rows: int) -> L.Stmt:
        make = P.loop("i", rows, P.loop("j", N, copy(x, t, (row, J), row)))
        use = P.loop("i", rows, P.loop("j", N, L.Store(y, (row, J), P.load(t, row, J))))
        return P.loop("p", last, L.block(make, use), lower=first)
    for at in (20, 19):  # in the second case the tiles overlap: they have one row in common
        last = tiles(L.binary("+", I, L.const(at)), 4, 5, N - at)
        found = contracted(x, t, y, L.block(tiles(P.scaled("p", 5, I), 0, 4, 5), last))
        assert found == ([(5, N), (5, N)] if at == 20 else [])


@pytest.mark.parametrize(("op", "number", "then", "other"), [
    ("==", N - 1, N - 1, None), (">=", N - 1, N - 1, None), ("<", 1, 0, None), ("==", 0, 0, None), ("!=", 0, None, 0),
    ("==", 2, 2, None), (">", 5, None, None)])
def test_a_test_that_leaves_one_iteration_may_say_its_number(op: str, number: int, then: int | None, other: int | None) -> None:
    """then, other: what stands for the loop's variable where the test holds, and where it does not."""
    x, t, y = buffers(N, N)
    back = L.binary("-", L.const(N - 1), J)

    def rows(row: int | None) -> L.Stmt:
        at = I if row is None else L.const(row)
        return L.block(P.loop("j", N, copy(x, t, (at, J), at)), P.loop("j", N, L.Store(y, (at, J), P.load(t, at, back))))
    body = P.loop("i", N, L.If(L.binary(op, I, L.const(number)), rows(then), rows(other)))
    assert contracted(x, t, y, body) == [(N,)]


def test_a_number_that_is_not_the_iteration_keeps_the_buffer() -> None:
    x, t, y = buffers(N, N)
    three = L.const(3)
    rows = L.block(P.loop("j", N, copy(x, t, (three, J), three)), P.loop("j", N, L.Store(y, (three, J), P.load(t, three, J))))
    other = L.block(P.loop("j", N, copy(x, t, (I, J))), P.loop("j", N, L.Store(y, (I, J), P.load(t, I, J))))
    assert contracted(x, t, y, P.loop("i", N, L.If(L.binary(">=", I, L.const(3)), rows, other))) == []


def test_loops_of_one_name_over_the_same_range_are_two_loops() -> None:
    x, t, y = buffers(N, N)
    body = L.block(P.loop("i", N, P.loop("j", N, copy(x, t, (I, J)))),
                   P.loop("i", N, P.loop("j", N, L.Store(y, (I, J), P.load(t, I, J)))))
    assert contracted(x, t, y, body) == []


@pytest.mark.parametrize("number", [3, N])
def test_tests_of_one_loop_leave_it_one_loop(number: int) -> None:
    """What runs where a test does not hold, or never, says nothing of what runs where it does."""
    x, t, y = buffers(N, N)
    first = L.binary("<", I, L.const(number))
    make = L.If(first, copy(x, t, (I, J)), copy(x, t, (I, J)))
    use = L.If(first, L.Store(y, (I, J), P.load(t, I, J)), L.Store(y, (I, J), P.load(x, I, J)))
    body = L.block(*(P.loop("i", N, P.loop("j", N, s)) for s in (make, use)))
    assert contracted(x, t, y, body) == []


def test_two_loops_told_apart_by_one_dimension() -> None:
    x, t, y = buffers(N * N, 2)
    at = P.scaled("i", N, J)
    both = P.add(P.load(t, at, L.const(0)), P.load(t, at, L.const(1)))
    body = P.loop("i", N, P.loop("j", N, L.block(P.loop("p", 2, copy(x, t, (at, P_))), L.Store(y, (I, J), both))))
    assert contracted(x, t, y, body) == [(2,)]


def test_loops_whose_sum_is_ambiguous_are_not_told_apart() -> None:
    x, t, y = buffers(2 * N, N)
    at = P.add(I, J)
    body = P.loop("i", N, P.loop("j", N, L.block(P.loop("p", N, copy(x, t, (at, P_), J, P_)),
                                                 L.Store(y, (I, J), P.load(t, at, J)))))
    assert contracted(x, t, y, body) == []


def test_what_the_next_iteration_reads_stays() -> None:
    x, t, y = buffers(N + 1, N)
    body = L.block(P.loop("j", N, L.Store(t, (L.const(0), J), L.Const(1.0, F32))),
                   P.loop("i", N, L.block(P.loop("j", N, copy(x, t, (P.add(I, L.const(1)), J))),
                                          P.loop("j", N, L.Store(y, (I, J), P.load(t, I, J))))))
    assert contracted(x, t, y, body) == []


def test_an_index_from_memory_keeps_its_whole_dimension() -> None:
    x, t, y = buffers(N, N)
    wrapped = L.Call("min", (L.Call("max", (L.Cast(P.load(x, I, J), J.dtype), L.const(0)), J.dtype), L.const(N - 1)), J.dtype)
    body = P.loop("i", N, L.block(P.loop("j", N, copy(x, t, (I, J))),
                                  P.loop("j", N, L.Store(y, (I, J), P.load(t, I, wrapped)))))
    assert contracted(x, t, y, body) == [(N,)]


def test_vectors_count_with_the_lanes_that_are_used() -> None:
    x, t, y = buffers(N, 2 * N)
    ramp = L.Ramp(L.const(8), 1, 8, active=5)
    make = L.Store(t, (I, ramp), L.Load(x, (I, ramp), F32, 8))
    use = L.Store(y, (I, ramp), L.Load(t, (I, ramp), F32, 8))
    rest = P.loop("j", N, L.Store(y, (I, J), P.load(x, I, J)))
    assert contracted(x, t, y, P.loop("i", N, L.block(rest, make, use))) == [(5,)]


@pytest.mark.parametrize("inside", [True, False])
def test_work_items_keep_small_slices_of_their_own(inside: bool) -> None:
    """Also those that run two phases: each has its own row."""
    x, t, y = buffers(N, N)
    make, use = copy(x, t, (I, J)), L.Store(y, (I, J), P.load(t, I, J))
    def item(s: L.Stmt) -> L.Stmt:
        return P.loop("i", N, s, "thread")
    rows = [P.loop("j", N, s) for s in (make, use)]
    body = P.loop("q", 1, item(L.block(*rows)) if inside else L.block(*map(item, rows)), "block")
    after = contract(P.module("m", (x, y), ("Y",), body, scratch=(t,)), GENERIC_GPU)
    assert slices(after) == ([(N,)] if inside else [(N, N)])
    assert all(s.buffer.space == "private" for s in traverse.walk_stmt(after.kernels[0].body) if isinstance(s, L.Alloc))


def test_what_is_stored_once_and_never_read() -> None:
    x, t, y = buffers(N, N)
    body = P.loop("i", N, P.loop("j", N, L.block(copy(x, t, (I, J)), L.Store(y, (I, J), P.load(x, I, J)))))
    assert contracted(x, t, y, body) == [()]


def test_groups_without_items_keep_slices_of_their_own() -> None:
    x, t, y = buffers(N, N)
    rows = L.block(P.loop("j", N, copy(x, t, (I, J))), P.loop("j", N, L.Store(y, (I, J), P.load(t, I, J))))
    after = contract(P.module("m", (x, y), ("Y",), P.loop("i", N, rows, "block"), scratch=(t,)), GENERIC_GPU)
    assert slices(after) == [(N,)]
    assert after.scratch == ()


def test_softmax_needs_one_row_of_scratch() -> None:
    text = "M[i] max= X[i,j]; E[i,j] = exp(X[i,j]-M[i]); S[i] += E[i,j]; Y[i,j] = E[i,j]/S[i]"
    lowered = compiler.lower_program(build(text, {"X": (64, 129)}), InterpTarget())
    assert lowered.loops.scratch == ()
    assert max(map(np.prod, slices(lowered.loops))) <= 129


@st.composite
def stages(draw: Callable[..., object]) -> Program:
    """Stages over blocks b that hand tensors on: maps, sums, small matrix products; with extents that tiles do not divide."""
    b, n, k = draw(st.sampled_from([(3, 7, 5), (40, 9, 20), (33, 17, 3), (64, 4, 33)]))  # type: ignore[misc]
    lines, known = [], ["X[b,i,j]"]
    for s in range(draw(st.integers(2, 5))):  # type: ignore[call-overload]
        source = str(draw(st.sampled_from(known)))
        match draw(st.sampled_from(["*", "+", "+=", "max=", "mix"])):
            case "+=" | "max=" as op:
                lines.append(f"T{s}[b,i] {op} X[b,i,j] * {source}")
                known.append(f"T{s}[b,i]")
            case "mix":
                column = "X[b,q,j] * " if source.endswith("[b,i]") else ""
                lines.append(f"T{s}[b,i,j] += W[i,q] * {column}{source.replace('b,i', 'b,q')}")
                known.append(f"T{s}[b,i,j]")
            case op:
                lines.append(f"T{s}[b,i,j] = {source} {op} X[b,i,j]")
                known.append(f"T{s}[b,i,j]")
    lines.append(f"Y[b,i,j] = {known[-1]} - {known[len(known) // 2]} + X[b,i,j]")
    text = "\n".join(lines)
    note(text)
    return build(text, {"X": (b, n, k), "W": (n, n)} if "W[" in text else {"X": (b, n, k)})


SETTINGS = settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.long
@given(stages(), st.sampled_from(["cpu", "interp"]))
@SETTINGS
def test_stages_agree_with_the_evaluator(program: Program, target: str) -> None:
    check(program, target)


@pytest.mark.long
@given(stages(), st.sampled_from(["cpu", "interp"]))
@settings(SETTINGS, max_examples=150)
def test_many_stages_agree_with_the_evaluator(program: Program, target: str) -> None:
    check(program, target)
