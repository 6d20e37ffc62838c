"""What is chosen, what is refused, and why."""

from __future__ import annotations

from math import prod

import pytest

import polytc
from polytc.errors import CompileError
from polytc.machine import DEVICES
from polytc.program import program as pr
from polytc.program.names import Names
from polytc.rewrite.gpu.softmax import chains, frame, fusion, key_blocks, shapes, streamed, visible
from polytc.targets.interp import InterpTarget
from tests.rewrite.gpu.softmax.test_chains import before
from tests.rewrite.gpu.softmax.test_fusion import HEAD, PLAIN, sizes

LONG = sizes(64, 1024, 1024, 64, 64)
PLAINLY = PLAIN.format(w="")


@pytest.mark.parametrize("machine", ["nvidia-sm80", "nvidia-sm90", "amd-gfx90a", "apple-m1"])
@pytest.mark.parametrize("columns", [32, 64, 80, 128])
@pytest.mark.part(8)
def test_a_group_fits_its_device(machine: str, columns: int) -> None:
    to = DEVICES[machine]
    program = before(PLAINLY, sizes(64, 1024, 1024, columns, columns), to)
    x, = chains.chains(program)
    extents, count = shapes.Extents.of(program, x), 0
    for by, seconds in shapes.candidates(program, x, to):
        count += 1
        assert prod(by.items) <= to.max_work_group
        assert shapes.local_bytes(by, extents) <= to.local_bytes
        assert by.columns >= columns
        assert seconds > 0
        assert fusion.fits(program, to, by) == ""
    assert count > 3


def test_decided_by_seconds() -> None:
    program = before(PLAINLY, LONG)
    by, = fusion.decide(program, DEVICES["nvidia-sm90"]).choices
    x, = chains.chains(program)
    best = next(shapes.candidates(program, x, DEVICES["nvidia-sm90"]))
    assert (by, best[1] < shapes.separate(program, x, DEVICES["nvidia-sm90"])) == (best[0], True)


@pytest.mark.parametrize(("machine", "shape", "why"), [
    ("mali", LONG, "is no faster than the caches"),
    ("nvidia-sm90", sizes(64, 1024, 1024, 64, 1024), "do not hold 1024 columns"),
    ("nvidia-sm90", sizes(1, 16, 65536, 64, 64), "in kernels of their own"),
])
def test_the_reason_is_told(machine: str, shape: dict[str, tuple[int, ...]], why: str) -> None:
    decision = fusion.decide(before(PLAINLY, shape, DEVICES[machine]), DEVICES[machine])
    assert not decision.choices
    assert why in str(decision.reasons[0])


@pytest.mark.part(3)
@pytest.mark.parametrize(("queries", "values", "rows", "columns"), [
    ("Q[b,i,d]", "V[b,j,e]", 64, 64), ("Q[b,8*i,d]", "V[b,j,e]", 512, 64), ("Q[b,63 - i,d]", "V[b,j,3*e + 1]", 64, 192)])
def test_what_a_group_copies_fits(queries: str, values: str, rows: int, columns: int) -> None:
    """Rows and columns that lie apart are copied with what lies between them."""
    text = PLAINLY.replace("Q[b,i,d]", queries).replace("V[b,j,e]", values)
    to = DEVICES["nvidia-sm90"]
    program = before(text, {"Q": (2, rows, 32), "K": (2, 64, 32), "V": (2, 64, columns)}, to, "compact")
    x, = chains.chains(program)
    extents, count = shapes.Extents.of(program, x), 0
    for by, _ in shapes.candidates(program, x, to):
        made, count = streamed.StreamedSoftmax(program, x, by, Names.of(program)), count + 1
        made.statements()
        local = [t for t in made.tensors if "_tile" in t.name or "_parts" in t.name]
        own = sum(prod(t.shape[len(made.groups):]) * t.dtype.bytes for t in local)
        assert (len(local), own <= shapes.local_bytes(by, extents) <= to.local_bytes) == (5, True)
    assert count


def test_a_diagonal_is_no_tile() -> None:
    text = PLAINLY.replace("Q[b,i,d]", "Q[b,i,i,d]")
    assert not list(chains.chains(before(text, sizes(2, 64, 64, 32, 64) | {"Q": (2, 64, 64, 32)})))


@pytest.mark.parametrize(("line", "why"), [
    ("S2: items=8,8 elements=2,2,2 steps=8,8", "begins with S1"),
    ("S1: items=8 elements=2,2,2 steps=8,8", "`items` are two numbers"),
    ("S1: items=64,64 elements=2,2,2 steps=8,8", "1024 items at most"),
    ("S1: items=8,8 elements=2,2,1 steps=8,8", "all 16 columns"),
    ("S1: items=8,8 elements=2,2,2 steps=8,5", "divides 16"),
    ("S1: items=32,8 elements=8,8,8 steps=64,64", "local memory would have to hold"),
    ("S1: items=8,8 elements=2,2,2 steps=8,8 by=hand", "`by` is items or matrix"),
    ("S1: items=4,8 elements=4,2,4 steps=16,16 by=matrix", "a matrix unit may not multiply there"),
])
def test_lines_that_do_not_fit(line: str, why: str) -> None:
    with pytest.raises(CompileError, match="E710") as caught:
        polytc.lower(PLAINLY, InterpTarget(DEVICES["nvidia-sm90"]), shapes=sizes(2, 64, 64, 64, 16),
                     decisions=f"{HEAD}{line}\n")
    assert why in str(caught.value)


def test_other_ways_are_offered() -> None:
    program = before(PLAINLY, LONG)
    options, = fusion.options(program, DEVICES["nvidia-sm90"])
    assert not options[0].choices
    assert all(isinstance(o.choices[0], key_blocks.KeyBlocks) for o in options[1:])
    assert fusion.options(before(PLAINLY, LONG, DEVICES["mali"]), DEVICES["mali"]) == []


def test_keys_that_no_row_sees_are_left_out() -> None:
    program = before(PLAIN.format(w=" where j <= i"), sizes(1, 64, 64, 8, 16))
    x, = chains.chains(program)
    made = streamed.StreamedSoftmax(program, x, key_blocks.KeyBlocks("S1", (4, 8), (2, 2, 4), (8, 8)), Names.of(program))
    assert isinstance(made, frame.Frame)
    made.loops = (("", made.block),)
    parts = [*visible.parts(x, made.cuts(), made.block, 8)]
    seen = {(g, c): [n for n, p in enumerate(parts) if all(_holds(w, i_group=g, j_block=c) for w in p.where)]
            for g in range(4) for c in range(8)}
    for (g, c), which in seen.items():
        whole, some = 8 * c + 7 <= 16 * g, 8 * c <= 16 * g + 15
        assert which == ([0] if whole else [1] if some else [])
    assert (parts[0].tested, len(parts)) == ((), 2)


def _holds(e: pr.Expr, **at: int) -> bool:
    """A comparison of sums and products, in Python."""
    return bool(eval(pr.format_expr(e), {}, at))
