"""No two values that are alive together share memory, and memory is reused."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from polytc.graph.planning.memory import Life, plan
from polytc.machine import ALIGNMENT

LIVES = st.lists(st.tuples(st.integers(1, 5000), st.integers(0, 12), st.integers(0, 6)), max_size=24).map(
    lambda rows: [Life(f"v{i}", size, first, first + length) for i, (size, first, length) in enumerate(rows)])


@given(LIVES)
def test_values_alive_together_do_not_overlap(lives: list[Life]) -> None:
    arena = plan(lives)
    for i, a in enumerate(lives):
        assert arena.offsets[a.name] % ALIGNMENT == 0
        assert arena.offsets[a.name] + a.bytes <= arena.bytes
        for b in lives[:i]:
            if a.first <= b.last and b.first <= a.last:
                x, y = arena.offsets[a.name], arena.offsets[b.name]
                assert x + a.bytes <= y or y + b.bytes <= x


@given(LIVES)
def test_never_more_than_without_reuse(lives: list[Life]) -> None:
    assert plan(lives).bytes <= sum(-(-v.bytes // ALIGNMENT) * ALIGNMENT for v in lives)


def test_a_chain_needs_two_buffers() -> None:
    assert plan([Life(f"v{i}", 640, i, i + 1) for i in range(10)]).bytes == 2 * 640


def test_tightest_gap_is_chosen() -> None:
    lives = [Life("a", 640, 0, 9), Life("hole", 320, 0, 1), Life("b", 256, 0, 9), Life("late", 320, 5, 9)]
    arena = plan(lives)
    assert arena.offsets["late"] == arena.offsets["hole"]
