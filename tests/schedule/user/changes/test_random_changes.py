"""Random chains of stages under steps that change the program: what is legal computes what numpy does, also as work-groups and
items, what is not is refused with a code, and what is saved is the same program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import polytc
from polytc import errors
from polytc.program import program as pr
from polytc.schedule.user import loopnest
from polytc.schedule.user.program_steps import ProgramSteps
from polytc.schedule.user.recipe import Recipe

SETTINGS = settings(max_examples=7, deadline=None, derandomize=True,
                    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
REFUSALS = {"E701", "E704", "E707", "E708"}
UNFIT = {"E505", "E510", "E511"}
"""What a target says of loops over items that do not fit a device."""
AXES = ("grid.x", "grid.y", "block.x", "block.y")


@dataclass(frozen=True)
class Chain:
    """T[i] sums up or is made of X, Y reads T twice, S adds up Y in rows. rows, columns: of Y; step, offset, back: Y[i] reads
    T[step*i] and T[step*i + offset], or from the end; terms: of each element of T; guarded: reads beside T give 0."""

    rows: int
    columns: int
    step: int
    offset: int
    back: bool
    terms: int
    guarded: bool

    @property
    def extent(self) -> int:
        """Of T and X along i."""
        return self.step * (self.rows - 1) + self.offset + 1

    @property
    def text(self) -> str:
        first = f"{self.step * (self.rows - 1)} - {self.step}*i" if self.back else f"{self.step}*i"
        second = f"T[{first} + {self.offset},j]"
        if self.guarded:
            first, second = f"{first} - 1", f"(T[{first} + {self.offset},j] else 0)"
            first = f"(T[{first},j] else 0)"
        else:
            first = f"T[{first},j]"
        made = f"T[i,j] += X[i,j,k] where i in 0:{self.extent}" if self.terms > 1 else (
            f"T[i,j] = X[i,j,0] * 2 where i in 0:{self.extent}")
        return f"{made}\nY[i,j] = {first} - {second} * 3 where i in 0:{self.rows}\nS[i] += Y[i,j]"

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {"X": (self.extent, self.columns, self.terms)}

    def result(self, x: np.ndarray) -> np.ndarray:
        t = x.sum(2) if self.terms > 1 else x[:, :, 0] * 2
        places = self.step * np.arange(self.rows)[::-1 if self.back else 1]
        padded = np.vstack([np.zeros((1, self.columns)), t, np.zeros((1, self.columns))])
        first = padded[places + 1 - self.guarded]
        return np.asarray((first - padded[places + self.offset + 1] * 3).sum(1))


chains = st.builds(Chain, st.sampled_from([1, 2, 5, 8, 13]), st.sampled_from([1, 3, 8]), st.integers(1, 2), st.integers(0, 3),
                   st.booleans(), st.sampled_from([1, 1, 3, 6]), st.booleans())


def step(s: Recipe, draw: Callable[..., object]) -> Recipe:
    """One random step. Raises what it raises."""
    name = draw(st.sampled_from(loopnest.statements(s.body)))
    own = [x.name(name) for x in loopnest.loops(s.body, name)]
    tensors = sorted({r.tensor for r in pr.reads(s.program.statement(name))})
    what = draw(st.sampled_from(STEPS if own else ("fuse", "inline")))
    loop = draw(st.sampled_from(own)) if own else ""
    note(f"{what} {name} {loop}")
    match what:
        case "cache" if tensors:
            return s.cache(name, draw(st.sampled_from(tensors)), at=loop, space=draw(st.sampled_from(["local", "private"])))
        case "compute_at" if tensors:
            return s.compute_at(draw(st.sampled_from(tensors)), name, loop)
        case "accumulate":
            return s.accumulate(name, draw(st.sampled_from([None, loop])))
        case "rfactor":
            return s.rfactor(name, loop)
        case "inline":
            return s.inline(draw(st.sampled_from(["T", "Y"])))
        case "peel":
            return s.peel(name, loop, draw(st.integers(1, 3)))
        case "tile":
            return s.tile(name, {n: draw(st.integers(2, 4)) for n in own[:draw(st.integers(1, 2))]})
        case "fuse":
            return s.fuse(name, draw(st.sampled_from(loopnest.statements(s.body))))
        case "distribute":
            return s.distribute(name, draw(st.sampled_from(loopnest.statements(s.body))))
        case "reorder":
            return s.reorder(name, *draw(st.permutations(own)))
        case "collapse":
            return s.collapse(name, loop, own[min(len(own) - 1, own.index(loop) + 1)])
        case "reverse":
            return s.reverse(name, loop)
        case "bind":
            return s.bind(name, {loop: draw(st.sampled_from(AXES))})
        case "parallel":
            return s.parallel(name, loop)
        case _:
            return s.split(name, loop, draw(st.integers(1, 5)))


STEPS = ("cache", "compute_at", "compute_at", "accumulate", "rfactor", "inline", "peel", "tile", "tile", "fuse", "distribute",
         "reorder", "collapse", "reverse", "bind", "bind", "parallel", "split")


def transformed(chain: Chain, draw: Callable[..., object], most: int = 7) -> Recipe:
    """The chain under some random steps, those that are refused left out."""
    note(f"{chain.text!r}, {chain.shapes}")
    s = polytc.schedule(chain.text, shapes=chain.shapes, exact=True)
    for _ in range(draw(st.integers(2, most))):
        if len(loopnest.statements(s.body)) > 12 or sum(1 for _ in loopnest.walk(s.body)) > 30:
            break
        try:
            s = step(s, draw)
        except errors.CompileError as refusal:
            assert refusal.code in REFUSALS, str(refusal)  # noqa: PT017 -- any other one is a defect
    note(str(s))
    return s


def agrees(chain: Chain, s: ProgramSteps, target: str) -> None:
    x = np.random.default_rng(chain.rows).integers(-3, 4, chain.shapes["X"]).astype("f4")
    try:
        found = polytc.run(chain.text, x, schedule=s, target=target, threads=2)
    except errors.TargetError as refusal:
        assert refusal.code in UNFIT, str(refusal)  # noqa: PT017 -- any other one is a defect
        return
    np.testing.assert_array_equal(found, chain.result(x))


@given(chains, st.data())
@SETTINGS
def test_changed_programs_compute_the_same(chain: Chain, data: st.DataObject) -> None:
    s = transformed(chain, data.draw)
    agrees(chain, s, data.draw(st.sampled_from(["cpu", "interp"])))
    assert polytc.schedule(chain.text, shapes=chain.shapes).read(s.yaml()).program == s.program


@pytest.mark.long
@given(chains, st.data())
@settings(SETTINGS, max_examples=3000)
def test_many_changed_programs(chain: Chain, data: st.DataObject) -> None:
    agrees(chain, transformed(chain, data.draw, 10), data.draw(st.sampled_from(["cpu", "interp"])))
