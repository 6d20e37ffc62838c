"""Which temporaries share storage, against a count of what is alive in each step."""

from __future__ import annotations

import random
from itertools import pairwise

from polytc.schedule.facts.storage_classes import Life, classes, needed


def test_lives_in_turn() -> None:
    chain = [Life(f"T{n}", n, n + 1, 8) for n in range(9)]
    assert [[x.name for x in c] for c in classes(chain)] == [["T0", "T2", "T4", "T6", "T8"], ["T1", "T3", "T5", "T7"]]
    assert needed(chain) == 16
    assert needed([*chain, Life("U", 0, 9, 8), Life("V", 11, 12, 8, "i64")]) == 32


def test_no_two_of_a_class_are_alive_at_once() -> None:
    """And of one size there are no more classes than are alive in some step."""
    for seed in range(200):
        r = random.Random(seed)
        lives = [Life(f"T{n}", a := r.randrange(20), a + r.randrange(8), 4 * r.choice([1, 1, 2, 5]), r.choice("ff8"))
                 for n in range(r.randrange(1, 12))]
        found = classes(lives)
        assert sorted(x.name for c in found for x in c) == sorted(x.name for x in lives)
        for c in found:
            assert all(a.last < b.first and a.like == b.like for a, b in pairwise(c))
        same = [Life(x.name, x.first, x.last, 4) for x in lives]
        assert len(classes(same)) == max(sum(x.first <= step <= x.last for x in same) for step in range(30))
        assert max(x.bytes for x in lives) <= needed(lives) <= sum(x.bytes for x in lives)
