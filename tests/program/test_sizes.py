"""Sizes: arithmetic of formulas, and what may be asked of them."""

from __future__ import annotations

import json
import pickle

import pytest

from polytc.program.generalise import NotGeneral, agrees, generalise
from polytc.program.program import Const, Index, Program, Range, Statement, Tensor
from polytc.program.scalars import F32
from polytc.program.sizes import Size, Undecided, at, data, from_data, none_negative, representative, shortfall, surely

M, K = Size.named("M", 512), Size.named("K", 100)


def test_arithmetic_prints_as_formulas() -> None:
    assert [str(n) for n in (M + 1, 2*M - K, (M + 1)//2, (M - 1)//14 + 1, -K, M - (K + 3))] == [
        "M + 1", "-K + 2*M", "(M + 1)//2", "(M + 13)//14", "-K", "-K + M - 3"]
    assert f"{M:>4}" == "   M"


def test_formulas_that_are_numbers_are_numbers() -> None:
    assert type(M - M) is int
    assert (4*M + 3) // 2 - 2*M == 1
    assert type(M + 5 - M) is int


@pytest.mark.parametrize("n", [M + 1, 3*M - 2*K + 4, (M + K) // 7, M % 3, (M + 1) // 2 * 5])
def test_value_at_sizes(n: int) -> None:
    for m, k in ((1, 1), (7, 3), (20, 41)):
        expected = {str(M + 1): m + 1, str(3*M - 2*K + 4): 3*m - 2*k + 4, str((M + K) // 7): (m + k) // 7, str(M % 3): m % 3,
                    str((M + 1) // 2 * 5): (m + 1) // 2 * 5}[str(n)]
        assert at(n, {"M": m, "K": k}) == expected
    assert int(n) == at(n, {"M": 512, "K": 100})


def test_equal_are_equal_formulas() -> None:
    assert M + 1 == 1 + M
    assert hash(M + 1) == hash(1 + M)
    assert M != K
    assert M != 512
    assert Range("i", 0, M) == Range("i", 0, 0 + M)


def test_questions_with_one_answer_for_all_sizes() -> None:
    assert M > 0
    assert M + 1 > 0
    assert M + K >= 2
    assert not M < 1
    assert min(M, M + 3) is M
    assert bool(M)


def test_what_is_sure_and_how_far_below_zero_an_extent_may_be() -> None:
    assert surely(lambda: M > 0)
    assert not surely(lambda: M > 1)
    assert not surely(lambda: M < 1)
    assert [shortfall(n) for n in (5, M, M - 1, M - 3, (M - 3) // 2, 2 - M, M - K)] == [0, 0, 0, 2, 1, None, None]
    assert none_negative([4, M - 1])
    assert not none_negative([4, M - 2])


@pytest.mark.parametrize("ask", [lambda: M > 1, lambda: M < K, lambda: max(M, K), lambda: bool(M - 1), lambda: M * K,
                                 lambda: M / 2, lambda: 7 // M, lambda: M << 1, lambda: M // K])
def test_other_questions_raise(ask: object) -> None:
    with pytest.raises(Undecided):
        ask()  # type: ignore[operator]


def test_data_and_pickles() -> None:
    for n in (M, (M + 2*K + 1)//3, M % 5 + K, 7):
        for again in (from_data(json.loads(json.dumps(data(n)))), pickle.loads(pickle.dumps(n))):
            assert again == n
            assert int(again) == int(n)


def test_representative() -> None:
    found = representative(Range("i", 0, M))
    assert found == Range("i", 0, 512)
    assert type(found.upper) is int


def program(n: int, upper: int) -> Program:
    s = Statement("S1", "C", (Index("i"),), None, Const(1.0, F32), (Range("i", 0, upper),))
    return Program("p", (Tensor("C", F32, (upper,), (0,)),), (s,), (), ("C",))


@pytest.mark.parametrize("formula", [lambda n: n, lambda n: 3*n - 1, lambda n: (n + 1)//2, lambda n: (5*n + 2)//3 + 4,
                                     lambda n: n//4])
def test_generalise_finds_formulas(formula: object) -> None:
    general = generalise(lambda s: program(s["N"], formula(s["N"])), {"N": 50})  # type: ignore[operator]
    for n in range(1, 40):
        assert agrees(general, program(n, formula(n)), {"N": n})  # type: ignore[operator]
        assert not agrees(general, program(n, formula(n) + 1), {"N": n})  # type: ignore[operator]


def test_generalise_refuses_other_formulas() -> None:
    with pytest.raises(NotGeneral):
        generalise(lambda s: program(s["N"], s["N"]**2), {"N": 50})
    with pytest.raises(NotGeneral):
        generalise(lambda s: program(s["N"], s["N"] % 2 + 1), {"N": 50})
