"""How far accesses move in memory, against the addresses of elements; and what that says of vectors."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from polytc.lang import build
from polytc.schedule.facts.strides import AccessStrides, along_rows, of_statement, panel_width, vector_score

SHAPE = (12, 20, 30)


@pytest.mark.parametrize(("subscripts", "address"), [
    ("i,j,k", lambda i, j, k: (i, j, k)),
    ("k,j,i", lambda i, j, k: (k, j, i)),
    ("i,i,i", lambda i, j, k: (i, i, i)),
    ("11-i,2*j,k+j+3", lambda i, j, k: (11 - i, 2 * j, k + j + 3)),
    ("i+j,0,2*i+k", lambda i, j, k: (i + j, 0, 2 * i + k)),
    ("3,j,4", lambda i, j, k: (3, j, 4)),
])
def test_linear_subscripts(subscripts: str, address) -> None:
    text = f"Y[i,j,k] = X[{subscripts}] where i in 0:5, j in 0:6, k in 0:7"
    program = build(text, {"X": SHAPE}, {"X": "f64"})
    target, read = of_statement(program, program.statements[-1])
    assert (target.write, read.write, read.tensor, read.width, read.bytes) == (True, False, "X", 8, 8 * 12 * 20 * 30)
    for access, shape, place in ((target, (5, 6, 7), lambda *p: p), (read, SHAPE, address)):
        flat = {p: int(np.ravel_multi_index(place(*p), shape)) for p in product(range(5), range(6), range(7))}
        for n, index in enumerate("ijk"):
            moves = {flat[(*p[:n], p[n] + 1, *p[n + 1:])] - a for p, a in flat.items() if p[n] + 1 < (5, 6, 7)[n]}
            assert moves == {access.stride(index)}, (access.tensor, index)


@pytest.mark.parametrize(("read", "strides", "width"), [
    ("X[i//4,j,i%4]", {"i": 1, "j": 30}, 4),            # panels: inside of one
    ("X[i//4,i%4,j]", {"i": 30, "j": 1}, 4),
    ("X[i//4,j,i%3]", {"i": None, "j": 30}, 3),         # the halves of different panels
    ("X[i//4,j,0]", {"i": None, "j": 30}, None),
    ("X[i%4,j,0]", {"i": 600, "j": 30}, 4),
    ("X[0,(i+j)//9,j]", {"i": None, "j": None}, None),
    ("X[0,j//2,j]", {"i": 0, "j": None}, None),
    ("X[0,j,j//2]", {"i": 0, "j": None}, None),
    ("X[N[i],j,2*i]", {"i": None, "j": 30}, None),
    ("X[0,0,j//16]", {"i": 0, "j": 0}, None),           # digits with whole vectors: the upper one stands still
    ("X[i,0,j%16]", {"i": 600, "j": 1}, None),          # and the lower one walks
    ("X[0,2*i+j//16,j]", {"i": 60, "j": 1}, None),
    ("X[0,0,(2*j+i)//32]", {"i": 0, "j": 0}, None),
    ("X[0,0,(2*j+i)//31]", {"i": 0, "j": None}, None),
    ("X[0,0,(2*j+1)%32]", {"i": 0, "j": 2}, None),
    ("X[0,0,(j//2+i)//20]", {"i": None, "j": None}, None),
])
def test_panels_and_what_nobody_knows(read: str, strides: dict[str, int | None], width: int | None) -> None:
    program = build(f"Y[i,j] = {read} where i in 0:8, j in 0:9", {"X": SHAPE, "N": (8,)}, {"X": "f32", "N": "i64"})
    s = program.statements[-1]
    found = next(a for a in of_statement(program, s) if a.tensor == "X")
    assert {i: found.stride(i) for i in "ij"} == strides
    assert panel_width(s, "i") == width
    assert read.count("j%") or panel_width(s, "j") is None


def score(write: int | None, *reads: int | None) -> int:
    accesses = [AccessStrides("T", n == 0, 4, 4, (("i", stride),)) for n, stride in enumerate((write, *reads))]
    return vector_score(tuple(accesses), "i")


def test_contiguous_accesses_are_for_vectors_and_strided_ones_against() -> None:
    assert score(1, 1) > score(1, 0) > score(1, 2) == score(1, -2) > score(1, 3) == score(1, None)
    assert score(1, 7) < score(1) < score(1, 1)
    assert score(0, 1) > 0 >= score(0, 0)
    assert score(1, 1) > score(2, 1)
    assert score(9, 1) < 0, "a store by single elements costs more than a load"
    assert vector_score((), "i") == 0


@pytest.mark.parametrize(("text", "walks"), [
    ("Y[i] = X[i,0]*X[i,1]", {"X": 1, "Y": 1}), ("Y[i] = X[i,0]", {"X": 2, "Y": 1}),
    ("Y[i] = X[i,1] + X[i+1,1]", {"X": 2, "Y": 1}), ("Y[i,p] = X[i,0] + X[i,1] where p in 0:2", {"X": 1, "Y": 1}),
    ("Y[i,p] = X[i,p]", {"X": 2, "Y": 2}), ("Y[i] += Z[i,0,j]*Z[i,1,j]", {"Z": 10, "Y": 1})])
def test_rows_that_are_touched_whole_count_as_contiguous(text: str, walks: dict[str, int]) -> None:
    shapes = {n: s for n, s in {"X": (40, 2), "Z": (9, 2, 5)}.items() if n in text}
    program = build(text, shapes, dict.fromkeys(shapes, "f64"))
    s = program.statements[-1]
    assert {a.tensor: a.stride("i") for a in along_rows(program, (s,), of_statement(program, s))} == walks


def test_rows_may_be_touched_by_statements_that_share_loops() -> None:
    program = build("Y[i,0] = X[i]; Y[i,1] = 2*X[i]", {"X": (40,)}, {"X": "f64"})
    first, second = program.statements
    for statements, stride in (((first,), 2), ((first, second), 1)):
        assert along_rows(program, statements, of_statement(program, first))[0].stride("i") == stride
