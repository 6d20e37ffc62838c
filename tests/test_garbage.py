"""While something is compiled Python looks for cycles seldom, and afterwards as often as before."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

import polytc
from polytc.garbage import SELDOM, seldom_collected
from polytc.poly import scop
from polytc.program.program import Program

OFTEN = (700, 10, 10)


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before, on = gc.get_threshold(), gc.isenabled()
    gc.set_threshold(*OFTEN)
    yield
    gc.set_threshold(*before)
    (gc.enable if on else gc.disable)()


def test_thresholds_come_back_behind_the_last_one_inside() -> None:
    first, second = seldom_collected(), seldom_collected()
    first.__enter__()
    second.__enter__()
    assert gc.get_threshold() == SELDOM
    first.__exit__(None, None, None)
    assert gc.get_threshold() == SELDOM
    second.__exit__(None, None, None)
    assert gc.get_threshold() == OFTEN


def test_they_come_back_behind_an_error() -> None:
    with pytest.raises(polytc.CompileError):
        polytc.lower("C[i] = A[i,j,k] +", shapes={"A": (3, 3, 3)})
    with pytest.raises(RuntimeError), seldom_collected():
        raise RuntimeError
    assert gc.get_threshold() == OFTEN


def test_a_program_and_a_text_are_lowered_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    extract = scop.extract

    def noted(program: Program) -> scop.Scop:
        seen.append(gc.get_threshold())
        return extract(program)
    monkeypatch.setattr(scop, "extract", noted)
    polytc.lower("C[i] = 2*A[i]", shapes={"A": (3,)})
    assert seen == [SELDOM]
    assert gc.get_threshold() == OFTEN


@pytest.mark.parametrize("own", [(0, 10, 10), (1_000_000, 10, 10)], ids=["off", "larger"])
def test_who_collects_less_keeps_that(own: tuple[int, int, int]) -> None:
    gc.set_threshold(*own)
    with seldom_collected():
        assert gc.get_threshold() == own
    assert gc.get_threshold() == own


def test_what_others_set_meanwhile_stays() -> None:
    with seldom_collected():
        gc.set_threshold(1234, 5, 6)
    assert gc.get_threshold() == (1234, 5, 6)
    with seldom_collected():
        assert gc.get_threshold() == SELDOM
    assert gc.get_threshold() == (1234, 5, 6)
