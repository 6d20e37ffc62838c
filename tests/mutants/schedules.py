"""The property of broken schedules: they are refused with a diagnostic, or legal after all, and then the code is right."""

from __future__ import annotations

import functools
import random
import traceback
from dataclasses import dataclass

import numpy as np

import polytc
from polytc.errors import PolytcError
from tests.generator.judge import Outcome
from tests.mutants import texts

PROGRAMS: dict[str, tuple[str, dict[str, tuple[int, ...]]]] = {
    "product": ("C[i,j] += A[i,k] * B[k,j]", {"A": (9, 6), "B": (6, 7)}),
    "rows": ("M[i] max= X[i,j]; E[i,j] = exp(X[i,j] - M[i]); S[i] += E[i,j]; Y[i,j] = E[i,j] / S[i]", {"X": (5, 8)}),
    "stencil": ("for t in 0:3 { B[i] = (A[i-1] else 0) + X[i] where i >= t; A[i] = B[i] where i in 0:9 }".replace(
        "(A[i-1] else 0)", "X[i]"), {"X": (9,)}),
    "recurrence": ("for i in 0:9 { P[i] = (P[i-1] else 0) + X[i]; Q[i] = P[i] * X[i] }", {"X": (9,)}),
    "triangle": ("P[i] += X[k] where k <= i, i in 0:9", {"X": (9,)})}


@dataclass(frozen=True)
class Mutant:
    program: str
    schedule: str
    target: str


def mutant(number: int) -> Mutant:
    """The broken schedule of that number."""
    r = random.Random(number)
    name = r.choice(list(PROGRAMS))
    return Mutant(name, texts.mutant(r, schedules(name)), "interp" if number % 4 else "cpu")


@functools.cache
def schedules(name: str) -> tuple[str, ...]:
    """Good schedules of a program: of the strategies, and edited ones, which are of the program as written."""
    text, shapes = PROGRAMS[name]
    start = polytc.schedule(text, shapes)
    found = [start.yaml(), start.complete("cpu").yaml(), str(polytc.lower(text, shapes=shapes).schedule)]
    statement = start.program.statements[-1]
    for index in statement.indices:
        for size in (2, 4):
            try:
                tiled = start.tile(statement.name, **{index: size})
                found += [tiled.yaml(), tiled.parallel(statement.name, f"{index}.0").yaml()]
            except PolytcError:
                continue
    assert all("domain" in x for x in found)
    return tuple(found)


def judge(case: Mutant) -> Outcome:
    text, shapes = PROGRAMS[case.program]
    arrays = {n: np.random.default_rng(3).integers(1, 5, s).astype(np.float32) for n, s in shapes.items()}
    try:
        op = polytc.compile(text, case.target, shapes=shapes, schedule=case.schedule, threads=2)
        found = op(**arrays)
    except PolytcError as error:
        return Outcome("refused", getattr(error, "code", ""))
    except Exception:
        return Outcome("failed", f"{case.schedule}\n{traceback.format_exc()}")
    wanted = polytc.evaluate(text, **arrays)
    pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else ((found, wanted),)
    right = all(np.allclose(a, b, rtol=1e-5) for a, b in pairs)
    return Outcome("ran") if right else Outcome("wrong", case.schedule)
