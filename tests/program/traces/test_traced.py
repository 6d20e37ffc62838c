"""Traced integers: what is computed with them holds for all sizes that meet the guards."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from polytc.program.traces.traced import Trace, named_numbers, traced, tracing, whole
from polytc.program.traces.values import Formulas, Guards, any_traced, at, sizes_in


def trace(**sizes: int) -> Trace:
    return Trace(sizes, dict.fromkeys(sizes, 2))


def computed(chance: random.Random, a: Any, b: Any) -> list[Any]:
    """A random computation with comparisons, the same for the same seed as long as these have the same answers."""
    values: list[Any] = [a, b, 3, a * 4 + 1]
    for _ in range(12):
        x, y = chance.choice(values), chance.choice(values)
        kind = chance.randrange(9)
        if kind < 3:
            values.append([x + y, x - y, x * chance.randrange(-2, 4)][kind])
        elif kind == 3:
            values.append(x // chance.choice([1, 2, 3, 7, -2]))
        elif kind == 4:
            values.append(x % chance.choice([2, 5, 8]))
        elif kind == 5:
            values.append(max(x, y))
        elif kind == 6:
            values.append(x if x == y else y if x < y else -x)
        elif kind == 7 and y != 0:
            values.append(x // y + x % y)
        else:
            values.append(abs(x) if x >= 7 else x - 1)
        if not -10**9 < values[-1] < 10**9:
            values[-1] = 5
    return values


@pytest.mark.part(6)
@pytest.mark.parametrize("seed", range(60))
def test_what_is_computed_holds_wherever_the_guards_are_met(seed: int) -> None:
    chance = random.Random(seed)
    point = {"a": chance.randrange(2, 40), "b": chance.randrange(2, 40)}
    found = trace(**point)
    values = computed(random.Random(seed), found.size("a"), found.size("b"))
    formulas, guards = Formulas(found.sizes, values), Guards(tuple(found.sizes), found.conditions)
    assert at(tuple(values), point) == tuple(computed(random.Random(seed), point["a"], point["b"]))
    met = 0
    for _ in range(200):
        other = {"a": chance.randrange(2, 60), "b": chance.randrange(2, 60)}
        assert guards.met(other) == found.met(other)
        if found.met(other):
            met += 1
            expected = computed(random.Random(seed), other["a"], other["b"])
            assert list(formulas.values(other)) == expected == list(at(tuple(values), other))
    assert found.met(point)
    assert not found.met({"a": 1, "b": 5})


def test_comparisons_become_guards_unless_all_sizes_answer_alike() -> None:
    t = trace(n=16)
    n = t.size("n")
    assert n > 1
    assert n + 1 != 0
    assert n * 4 >= 8
    assert not t.guards
    assert n * 64 > 512
    assert (n + 1) // 2 != 4
    assert [t.met({"n": k}) for k in (7, 8, 9, 10)] == [False, False, True, True]


@pytest.mark.parametrize("ask", [int, float, range, lambda n: np.zeros((n, 2)), lambda n: np.arange(4)[n % 3:],
                                 lambda n: [0] * n, lambda n: n ** 2, lambda n: np.array([n], np.int64),
                                 lambda n: format(n, "d")])
def test_whoever_asks_for_the_number_pins_it(ask: Callable[[Any], object]) -> None:
    t = trace(n=5)
    ask(t.size("n"))
    assert t.pinned
    assert t.met({"n": 5})
    assert not t.met({"n": 6})


def test_arithmetic_with_numpy_numbers_and_arrays_pins_nothing() -> None:
    t = trace(n=5)
    n = t.size("n")
    assert at(np.int64(4) * n + np.int32(1), {"n": 7}) == 29
    assert at(math.prod((2, n, n)), {"n": 3}) == 18
    assert isinstance(n, int)
    assert not isinstance(n, bool)
    assert not t.pinned


def test_keys_meet_no_plain_numbers_and_equal_ones_are_noted() -> None:
    t = trace(n=5, m=5)
    n, m = t.size("n"), t.size("m")
    known = {5: "plain", n: "n"}
    assert len(known) == 2
    assert known[5] == "plain"
    assert known[m] == "n"
    assert not t.met({"n": 5, "m": 6})
    assert t.met({"n": 7, "m": 7})


def test_two_traces_do_not_mix() -> None:
    a, b = trace(n=5).size("n"), trace(n=5).size("n")
    assert a != b
    assert {a: 1}.get(b) is None


def test_a_divisor_may_not_become_zero() -> None:
    t = Trace({"n": 3}, {"n": None})
    n = t.size("n")
    assert at((2 * n + n) // n, {"n": 9}) == 3
    assert not t.met({"n": 0})
    with pytest.raises(ZeroDivisionError):
        n // (n - 3)


def test_words_stand_for_formulas_in_texts() -> None:
    t = trace(n=5)
    with tracing(t):
        text = f"Y[i] = X[i] where i in 0:{t.size('n') * 2}"
        (word, number), = named_numbers(text).items()
        assert word in text
        assert at(number, {"n": 8}) == 16
    assert named_numbers(text) == {}
    assert not t.pinned


def test_nothing_is_decided_after_a_trace() -> None:
    t = trace(n=5)
    n = t.size("n")
    t.closed = True
    with pytest.raises(AssertionError):
        n > 7  # noqa: B015
    assert at(n + 1, {"n": 2}) == 3


@dataclass(frozen=True)
class Thing:
    extents: tuple[int, ...]
    name: str = "x"


def test_values_for_given_sizes() -> None:
    t = trace(n=5, m=3)
    thing = Thing((t.size("n"), 4, t.size("m") // 2))
    sizes: Mapping[str, int] = {"n": 9, "m": 8}
    assert at(thing, sizes) == Thing((9, 4, 4))
    assert sizes_in(thing) == {"n", "m"}
    assert any_traced((1, thing))
    assert not any_traced((1, Thing((2,))))
    fixed = Thing((1, 2))
    assert at(fixed, sizes) is fixed
    assert traced(whole(t.size("n")))
    assert whole(np.int64(3)) == 3


def test_a_tentative_decision_is_noted_only_if_it_is_kept() -> None:
    t = trace(n=5)
    with t.tentative():
        assert t.size("n") < 7
    assert not t.guards
    with t.tentative() as keep:
        assert t.size("n") < 7
        keep()
    assert t.guards
