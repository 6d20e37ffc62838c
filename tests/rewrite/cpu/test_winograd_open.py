"""Winograd's convolutions of open sizes: of the batch, and of the extents of images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

import polytc
from polytc.compiler import lower_program
from polytc.lang import evaluate
from polytc.machine import AVX512
from polytc.program.generalise import generalise
from polytc.program.names import indices_beside_sizes
from polytc.program.program import Program
from polytc.program.sizes import specialised
from polytc.rewrite.cpu.winograd import choice, convolution
from polytc.stages import build
from polytc.targets.llvm.target import LLVMTarget
from tests.rewrite.cpu.test_winograd import PLAIN, close, random, rewritten, sums


@pytest.mark.part(3)
@pytest.mark.parametrize("block", [0, 3, 6])
def test_an_open_batch_has_blocks_of_one_image(block: int) -> None:
    """Extents are formulas, here N + 1 of N + 2 images that are there; the size is called as an index of the stages is."""
    text = PLAIN.format(H=9, W=7).replace("X[n,", "X[n+1,").replace("h in", "n in 0:{N}, h in")

    def at(sizes: Mapping[str, int]) -> Program:
        n = sizes["n0"] + 1
        return build(text.replace("{N}", str(n)), {"X": (n + 1, 4, 9, 7), "W": (5, 4, 3, 3)})
    program = generalise(at, {"n0": 4})
    made = indices_beside_sizes(rewritten(program, 4, block))
    assert made.sizes == ("n0",)
    w = random(5, 4, 3, 3)
    for n in (1, 2, 6):
        x = random(n + 2, 4, 9, 7)
        fixed = replace(specialised(made, {"n0": n}), sizes=())
        close(evaluate(fixed, {"X": x, "W": w})["O"], sums(x[1:], w, (1, 1), (9, 7)))


OPEN = {"whole": ("h+r,w+s", "{H}-2", "{W}-2", (0, 0)), "same": ("h+r-1,w+s-1", "{H}", "{W}", (1, 1)),
        "wide": ("h+r-2,w+s-2", "{H}+2", "{W}+2", (2, 2)), "before": ("h+r-2,w+s-1", "{H}", "{W}", (2, 1)),
        "behind": ("h+r,w+s", "{H}", "{W}", (0, 0))}


def of_open_extents(name: str, sizes: Mapping[str, int], still: Mapping[str, int]) -> Program:
    """A convolution of images of some of its sizes; the others stand still."""
    known = {"N": 2, "H": 20, "W": 24} | still | sizes
    places, high, wide, _ = OPEN[name]
    text = f"O[n,m,h,w] += (X[n,c,{places}] else 0) * W[m,c,r,s] where h in 0:{high}, w in 0:{wide}"
    return build(text.format(**known), {"X": (known["N"], 4, known["H"], known["W"]), "W": (5, 4, 3, 3)})


@pytest.mark.part(60)
@pytest.mark.parametrize("name", OPEN)
@pytest.mark.parametrize("open_", ["NHW", "HW", "H", "W"])
@pytest.mark.parametrize(("results", "block"), [(2, 3), (4, 2), (4, 6)])
def test_images_of_open_extents_have_blocks_of_one_line(name: str, open_: str, results: int, block: int) -> None:
    program = generalise(lambda sizes: of_open_extents(name, sizes, {}), {n: {"N": 2, "H": 20, "W": 24}[n] for n in open_})
    made = rewritten(program, results, block)
    assert made.sizes == tuple(open_)
    w = random(5, 4, 3, 3)
    for high, wide, n in ((20, 24, 2), (3, 3, 1), (4, 31, 3), (17, 5, 1)):
        now = {"N": n, "H": high, "W": wide}
        at = {k: now[k] if k in open_ else v for k, v in (("N", 2), ("H", 20), ("W", 24))}
        x = random(at["N"], 4, at["H"], at["W"])
        fixed = replace(specialised(made, {k: at[k] for k in open_}), sizes=())
        _, lines, columns, before = OPEN[name]
        more = [int(t[3:] or 0) for t in (lines, columns)]
        close(evaluate(fixed, {"X": x, "W": w})["O"], sums(x, w, before, (at["H"] + more[0], at["W"] + more[1])))


def test_open_images_of_which_a_part_is_seen_keep_their_sums() -> None:
    """How many zeros lie behind the data in whole tiles would depend on the sizes."""
    def at(sizes: Mapping[str, int]) -> Program:
        return build(PLAIN.format(H=sizes["H"] // 2, W=56), {"X": (1, 64, sizes["H"], 56), "W": (64, 64, 3, 3)})
    program = generalise(at, {"H": 56})
    assert convolution.recognise(program, program.statement("S1")) is None
    assert not choice.decide(program, AVX512).choices


def test_open_images_are_compiled_in_tiles(targets: tuple[str, ...]) -> None:
    text = ("def f(X[N,C,H,W], K[M,C,3,3]) -> (O[N,M,H,W]) {"
            " O[n,m,h,w] += (X[n,c,h+r-1,w+s-1] else 0) * K[m,c,r,s] }")
    shapes, typical = {"X": ("N", 32, "H", "W"), "K": (32, 32, 3, 3)}, {"N": 1, "H": 40, "W": 40}
    assert "winograd S1: results=" in str(polytc.lower(text, shapes=shapes, typical=typical, machine=AVX512).decisions)
    op = polytc.compile(text, shapes=shapes, typical=typical, threads=2)
    for n, high, wide in ((1, 40, 40), (2, 1, 1), (3, 2, 9), (1, 57, 30)):
        x, k = random(n, 32, high, wide), random(32, 32, 3, 3)
        close(op(X=x, K=k), sums(x, k, (1, 1), (high, wide)))


def test_an_open_batch_is_chosen_for_where_it_pays() -> None:
    def at(sizes: Mapping[str, int]) -> Program:
        made = build(PLAIN.format(H=28, W=28), {"X": (sizes["N"], 64, 28, 28), "W": (64, 64, 3, 3)})
        return replace(made, constants=("W",))
    program = generalise(at, {"N": 4})
    low = lower_program(program, LLVMTarget(AVX512))
    assert "winograd S1: results=4" in str(low.decisions)
