"""Barriers: where phases of a work-group meet in one element, and nowhere else."""

from __future__ import annotations

import re

import pytest

from polytc.codegen import loops as L
from polytc.codegen import traverse
from polytc.codegen.passes import barriers, work_items
from polytc.program.scalars import F32

ITEM = L.Var("item0")
X, Y = L.Buffer("X", F32, (8,)), L.Buffer("Y", F32, (8,))
T = L.Buffer("T", F32, (8,), "local")


def phase(*stmts: L.Stmt) -> L.For:
    return L.For("item0", L.const(0), L.const(8), 1, L.block(*stmts), "thread", 0)


def put(b: L.Buffer, at: L.Expr, value: L.Expr) -> L.Store:
    return L.Store(b, (at,), value)


def get(b: L.Buffer, at: L.Expr) -> L.Load:
    return L.Load(b, (at,), F32)


def kernel(*stmts: L.Stmt) -> L.Kernel:
    body = L.For("g", L.const(0), L.const(1), 1, L.Alloc(T, L.block(*stmts)), "block", 0)
    return barriers.insert_barriers(L.Kernel("k", (X, Y), ("Y",), body))


def shape(k: L.Kernel) -> str:
    """B for a barrier, P for a phase, ( ) around a loop."""
    text = re.sub(r"\n\s+(thread0 for[^\n]*)", r" P", str(k))
    marks = "".join(re.findall(r"barrier| P|for t", text))
    return marks.replace("barrier", "B").replace(" P", "P").replace("for t", "L")


MIRROR = L.binary("-", L.const(7), ITEM)
WRITE, READ = phase(put(T, ITEM, get(X, ITEM))), phase(put(Y, ITEM, get(T, MIRROR)))


@pytest.mark.parametrize(("stmts", "expected"), [
    ((WRITE, READ), "PBP"),
    ((READ, WRITE), "PBP"),
    ((WRITE, phase(put(T, MIRROR, get(X, ITEM)))), "PBP"),
    ((WRITE, phase(put(Y, ITEM, get(T, ITEM)))), "PP"),
    ((READ, READ), "PP"),
    ((WRITE, READ, READ), "PBPP"),
    ((WRITE, READ, WRITE), "PBPBP"),
    ((phase(put(T, ITEM, get(X, ITEM))), put(Y, L.const(0), get(T, L.const(3)))), "PB"),
])
def test_between_phases(stmts: tuple[L.Stmt, ...], expected: str) -> None:
    assert shape(kernel(*stmts)) == expected


def test_an_iteration_meets_the_next() -> None:
    inside = L.For("t", L.const(0), L.const(4), 1, L.block(WRITE, READ))
    assert shape(kernel(inside)) == "LBPBP"
    assert shape(kernel(L.For("t", L.const(0), L.const(4), 1, L.block(WRITE, phase(put(Y, ITEM, get(T, ITEM))))))) == "LPP"


def test_a_loop_in_which_no_item_meets_another_is_a_phase() -> None:
    wide = L.Buffer("T", F32, (64,), "local")
    chunk = L.binary("+", L.binary("*", L.Var("t"), L.const(8)), ITEM)
    copy = L.For("t", L.const(0), L.const(8), 1, phase(put(wide, chunk, get(X, ITEM))))
    read = L.For("t", L.const(0), L.const(8), 1, phase(put(Y, ITEM, get(wide, L.binary("*", MIRROR, L.const(8))))))
    assert shape(kernel(L.For("tt", L.const(0), L.const(4), 1, L.block(copy, read)))) == "LBLPBLP"


def test_items_of_the_longest_loop_over_them_count() -> None:
    """Items 0 and 8 write one element in neighbouring iterations, whatever shorter loops over items there are."""
    wide, few = L.Buffer("T", F32, (96,), "local"), phase(put(Y, ITEM, get(X, ITEM)))
    chunk = L.binary("+", L.binary("*", L.Var("t"), L.const(8)), ITEM)
    many = L.For("item0", L.const(0), L.const(32), 1, put(wide, chunk, L.Load(wide, (chunk,), F32)), "thread", 0)
    assert shape(kernel(L.For("t", L.const(0), L.const(8), 1, many), few)) == "LBPP"


def test_a_loop_over_items_that_begins_elsewhere_each_time_moves_elements_to_other_items() -> None:
    """x in t:t+4 is item x - t: what one item stores, its neighbour loads in the next iteration."""
    t = L.Var("t")
    moved = L.For("x", t, L.binary("+", t, L.const(4)), 1, put(T, L.Var("x"), get(T, L.Var("x"))), "thread", 0)
    inside = L.For("t", L.const(0), L.const(4), 1, moved)
    text = str(kernel(put(T, L.const(0), get(X, L.const(0))), inside))
    assert text.index("for t") < text.rindex("barrier") < text.index("for x")


def test_a_barrier_says_through_which_global_memory_items_meet() -> None:
    """One item stores what another one has stored: the order counts in global memory, too."""
    def through(*stmts: L.Stmt) -> set[frozenset[str]]:
        return {s.through for s in traverse.walk_stmt(kernel(*stmts).body) if isinstance(s, L.Barrier)}
    assert through(phase(put(Y, ITEM, get(X, ITEM))), phase(put(Y, MIRROR, get(X, ITEM)))) == {frozenset(("Y",))}
    assert through(WRITE, READ) == {frozenset()}


def test_what_all_items_run_alike_is_the_first_items_if_it_loads_what_it_stores() -> None:
    t = L.Var("t")
    same = L.For("t", L.const(0), L.const(4), 1, L.If(L.binary("<", get(X, t), get(X, L.const(0))), put(Y, t, get(Y, t))))
    text = str(kernel(WRITE, same))
    assert re.search(r"thread0 for item0 in 0:1[^\n]*\n\s+for t", text)


def test_digits_of_an_index_tell_the_item() -> None:
    wide = L.Buffer("T", F32, (64,), "local")
    chunk = L.binary("+", L.binary("*", L.Var("u"), L.const(8)), ITEM)

    def loop(s: L.Stmt) -> L.For:
        return phase(L.For("u", L.const(0), L.const(8), 1, s))
    own = kernel(loop(put(wide, chunk, get(X, ITEM))), loop(put(Y, ITEM, get(wide, chunk))))
    assert "barrier" not in str(own)
    overlap = L.binary("+", L.binary("*", L.Var("u"), L.const(4)), ITEM)
    assert "barrier" in str(kernel(loop(put(wide, overlap, get(X, ITEM))), loop(put(Y, ITEM, get(wide, overlap)))))


def test_private_arrays_lose_the_dimensions_of_the_items() -> None:
    acc = L.Buffer("acc", F32, (8, 2), "private")
    first = phase(L.Store(acc, (ITEM, L.const(1)), get(X, ITEM)))
    last = phase(put(Y, ITEM, L.Load(acc, (ITEM, L.const(1)), F32)))
    body = L.For("g", L.const(0), L.const(1), 1, L.Alloc(acc, L.block(first, last)), "block", 0)
    small = work_items.drop_item_dimensions(L.Kernel("k", (X, Y), ("Y",), body))
    assert "alloc private f32 acc[2]" in str(small)
    assert "acc[1] = X[item0]" in str(small)


ROW = L.Var("item1")
WIDE = L.Buffer("W", F32, (8, 8), "local")


def rows(*stmts: L.Stmt) -> L.For:
    """A phase of the items of the second axis."""
    return L.For("item1", L.const(0), L.const(8), 1, L.block(*stmts), "thread", 1)


def test_a_phase_without_a_loop_over_an_axis_is_the_first_items() -> None:
    """Only where it loads what it stores: other items would load it meanwhile."""
    both = phase(rows(L.Store(WIDE, (ROW, ITEM), get(X, ITEM))))
    update = rows(put(T, ROW, L.binary("+", get(T, ROW), L.Load(WIDE, (ROW, L.const(0)), F32))))
    body = L.For("g", L.const(0), L.const(1), 1, L.Alloc(T, L.Alloc(WIDE, L.block(both, update))), "block", 0)
    text = str(barriers.insert_barriers(L.Kernel("k", (X, Y), ("Y",), body)))
    assert re.search(r"barrier\s+thread0 for item0 in 0:1\s+thread1 for item1 in 0:8\s+T", text), text
    copy = rows(put(T, ROW, L.Load(WIDE, (ROW, L.const(0)), F32)))
    body = L.For("g", L.const(0), L.const(1), 1, L.Alloc(T, L.Alloc(WIDE, L.block(both, copy))), "block", 0)
    assert "0:1" not in str(barriers.insert_barriers(L.Kernel("k", (X, Y), ("Y",), body))).split("barrier")[1]


def test_a_phase_inside_of_a_loop_over_an_axis_does_not_lack_it() -> None:
    update = rows(put(T, ROW, L.binary("+", get(T, ROW), get(X, ITEM))))
    both = phase(update, rows(put(Y, ROW, get(X, ITEM))))
    body = L.For("g", L.const(0), L.const(1), 1, L.Alloc(T, both), "block", 0)
    assert str(barriers.insert_barriers(L.Kernel("k", (X, Y), ("Y",), body))).count("for item0") == 1


def test_both_branches_of_a_condition_keep_their_phases() -> None:
    for other in (None, phase(put(Y, ITEM, get(X, MIRROR)))):
        made = kernel(WRITE, L.If(L.binary("<", L.Var("g"), L.const(1)), READ, other))
        (found,) = [s for s in traverse.walk_stmt(made.body) if isinstance(s, L.If)]
        assert found.orelse == other


def test_items_meet_before_a_loop_over_them_that_has_conditions() -> None:
    """Each item runs one iteration, so that what iterations store in common is no reason for a barrier inside."""
    first = rows(phase(L.Store(WIDE, (ROW, ITEM), get(X, ITEM))))
    one, two = (phase(put(Y, at, L.Load(WIDE, (ROW, MIRROR), F32))) for at in (ITEM, MIRROR))
    then = rows(L.If(L.binary("<", ROW, L.const(1)), one, two))
    body = L.For("g", L.const(0), L.const(1), 1, L.Alloc(WIDE, L.block(first, then)), "block", 0)
    text = str(barriers.insert_barriers(L.Kernel("k", (X, Y), ("Y",), body)))
    assert text.count("barrier") == 1
    assert re.search(r"barrier\s+thread1 for item1 in 0:8\s+if", text), text
