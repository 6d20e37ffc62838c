"""What sums of bytes take on GPUs: how estimates of the three ways compare, and what they count."""

from __future__ import annotations

from dataclasses import replace

import pytest

from polytc import stages
from polytc.machine import DEVICES, Estimate, Machine
from polytc.program import program as pr
from polytc.program.calls.words import DOTS
from polytc.program.scalars import I8
from polytc.rewrite import dot_words, word_estimates
from polytc.rewrite.word_estimates import Dots
from polytc.rewrite.word_tensors import Factor, Words, number

GPU, AMD = DEVICES["nvidia-sm90"], DEVICES["amd-gfx90a"]


def dots(m: int, n: int, k: int, machine: Machine = GPU, turned: bool = False, zero: int = 0,
         fixed: frozenset[str] = frozenset()) -> Dots:
    """Of a product; turned: both operands lie along the sum."""
    b, shape = ("B[j,k]", (n, k)) if turned else ("B[k,j]", (k, n))
    program = stages.build(f"C[i,j] += i32(A[i,k])*i32({b})", {"A": (m, k), "B": shape}, {"A": "i8", "B": "i8"})
    s = program.statement("S1")
    reads = {r.tensor: r for r in pr.reads(s)}
    taken = number(zero) if zero else None
    words = (Words(Factor(reads["A"]), I8, 1, k, -(-k // 4)), Words(Factor(reads["B"], taken), I8, int(turned), k, -(-k // 4)))
    return Dots(program, s, DOTS["dot_i8i8"], words, fixed, machine)


def seconds(e: Estimate | None) -> float:
    assert e is not None
    return e.seconds


def test_four_products_are_one_dot_product() -> None:
    found = dots(1024, 1024, 1024)
    plain = word_estimates.multiply_adds(found.sum, GPU)
    assert plain.seconds == pytest.approx(2 * 1024**3 / (132 * 128 * 1.98e9))
    assert found.by_items().seconds == pytest.approx(plain.seconds / 4)
    assert seconds(dots(1024, 1024, 1024, turned=True).by_unit()) == pytest.approx(plain.seconds / 2 / 19.2)


def test_what_lies_across_the_sum_is_turned_for_the_unit() -> None:
    there, turned = dots(1024, 1024, 1024).by_unit(), dots(1024, 1024, 1024, turned=True).by_unit()
    assert there is not None
    assert turned is not None
    assert there.launches == GPU.costs.launches.launch
    assert turned.launches == turned.memory == 0
    assert there.memory == pytest.approx(2 * 2**20 / (GPU.costs.groups.memory * 132))


def test_words_of_constants_cost_nothing() -> None:
    assert seconds(dots(1024, 1024, 1024, fixed=frozenset({"B"})).by_unit()) == pytest.approx(
        seconds(dots(1024, 1024, 1024, turned=True).by_unit()))


def test_a_last_word_that_is_no_whole_one_takes_kernels() -> None:
    assert dots(512, 512, 512).by_items().launches == 0
    assert dots(512, 512, 511).by_items().launches == 2 * GPU.costs.launches.launch


def test_a_zero_point_takes_the_sum_of_the_other_side() -> None:
    assert dots(512, 512, 512, zero=3).by_items().launches == GPU.costs.launches.launch
    assert dots(512, 512, 512, zero=3, fixed=frozenset({"A"})).by_items().launches == 0


@pytest.mark.parametrize("machine", [AMD, replace(GPU, matrix_unit=None), DEVICES["intel-xe"]], ids=["amd", "none", "xe"])
def test_no_unit_no_estimate(machine: Machine) -> None:
    assert dots(1024, 1024, 1024, machine).by_unit() is None


def test_few_results_are_not_for_the_unit() -> None:
    assert dots(8, 1024, 1024).by_unit() is None
    assert dots(33, 1024, 1024, turned=True).by_unit() is not None
    assert seconds(dots(33, 1024, 1024, turned=True).by_unit()) == pytest.approx(
        seconds(dots(64, 1024, 1024, turned=True).by_unit()), rel=1e-6)


def test_without_tiles_columns_take_kernels() -> None:
    """Those that are their own words do not, whether their top bits are flipped or not."""
    columns, rows = (replace(dots(4, 1024, 1024, turned=turned), tiled=False).by_items() for turned in (False, True))
    assert columns.launches == GPU.costs.launches.launch
    assert columns.memory == pytest.approx(2 * 2**20 / (GPU.costs.groups.memory * 132))
    assert rows.launches == rows.memory == 0


@pytest.mark.parametrize(("m", "k", "taken"), [(1, 4096, False), (4, 4096, False), (8, 4096, True), (64, 8, False)])
def test_few_results_or_steps_have_no_tiles(m: int, k: int, taken: bool) -> None:
    """Bytes in columns stay bytes there: to make words of them, a kernel would write as much as it reads."""
    program = stages.build("C[i,j] += i32(A[i,k])*i32(B[k,j])", {"A": (m, k), "B": (k, 4096)}, {"A": "i8", "B": "i8"})
    for machine in (GPU, AMD):
        found = dot_words.decide(program, machine)
        assert [c.dot for c in found.choices] == ["dot_i8i8"] * taken
        plan = dot_words.group(program, replace(found, choices=(dot_words.DotWords("S1", "dot_i8i8", "k"),)))
        assert word_estimates.is_tiled(plan, "S1", machine) == taken
