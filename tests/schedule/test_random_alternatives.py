"""Walks over the tree of alternatives: polytc's own is first, and whatever is taken is a record that fits, and right."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

import polytc
from polytc import compiler
from polytc.codegen.target import Target
from polytc.decisions import Record
from polytc.machine import AVX512, GENERIC_GPU
from polytc.targets.interp import InterpTarget
from polytc.targets.llvm.target import LLVMTarget
from polytc.targets.opencl.target import OpenCLTarget
from tests import guarded
from tests.processor_here import target_for
from tests.rewrite.equal import small_numbers
from tests.schedule.test_random_decisions import ALL

MORE = {  # groups that share outer loops, at several levels
    "padded": ("P[c,h,w] = (X[c,h-1,w-1] else 0) where h in 0:30, w in 0:30; O[c,h,w] += P[c,h+r,w+s]*W[c,r,s]",
               {"X": (64, 28, 28), "W": (64, 3, 3)}),
    "long rows": ("S[i,j] += Q[i,d]*K[j,d]; E[i,j] = exp(S[i,j]/8); Z[i] += E[i,j]; Y[i,d] += E[i,j]*V[j,d]/Z[i]",
                  {"Q": (512, 24), "K": (1024, 24), "V": (1024, 24)}),
}
PROGRAMS = {**ALL, **MORE}
EMITTED: dict[str, Target] = {"cpu": LLVMTarget(AVX512), "gpu": OpenCLTarget()}
RUN: dict[str, Target] = {"cpu": target_for(AVX512), "gpu": InterpTarget(GENERIC_GPU)}
FIRST = 12
"""Alternatives of a decision that walks choose from: there may be hundreds."""


def build(name: str) -> compiler.Program:
    text, shapes = PROGRAMS[name]
    return polytc.build(text, shapes, {"gather": {"I": "i64"}, "mixed": {"A": "i8"}}.get(name))


def walk(program: compiler.Program, target: Target, rng: random.Random | None = None) -> Record:
    """A record with an alternative of each decision: polytc's own where there is no `rng`."""
    record = Record()
    while ways := list(itertools.islice(compiler.alternatives(program, target, record), FIRST if rng is not None else 1)):
        record = (rng.choice(ways) if rng is not None else ways[0]).record
    return record


def plain(record: Record) -> list[str]:
    """The lines of a record without their reasons."""
    return [line.split("#")[0].rstrip() for line in str(record).splitlines()]


def followed(program: compiler.Program, target: Target, record: Record) -> compiler.Lowered:
    """What is made of a record; what is decided in the end begins with it."""
    lowered = compiler.lower_program(program, target, str(record))
    lines = plain(record)
    assert plain(lowered.decisions)[:len(lines)] == lines
    return lowered


@pytest.mark.part(32)
@pytest.mark.parametrize("target", EMITTED)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_first_alternatives_are_what_polytc_decides(name: str, target: str) -> None:
    program, to = build(name), EMITTED[target]
    assert followed(program, to, walk(program, to)).source.text == compiler.lower_program(program, to).source.text


def judge(name: str, target: str, seed: int) -> None:
    """A random walk: its record fits, and what is made of it computes the same, between canaries."""
    program = build(name)
    record = walk(program, RUN[target], random.Random(seed))
    followed(program, RUN[target], record)
    arrays = {n: np.abs(a) % 3 + 1 if a.dtype.kind == "f" else a for n, a in small_numbers(program).items()}
    expected = polytc.lang.evaluate(program, {n: a.copy() for n, a in arrays.items()})
    buffers = {n: a.copy() for n, a in arrays.items()}
    buffers |= {n: np.empty(program.tensor(n).shape, program.tensor(n).dtype.numpy) for n in program.arrays if n not in buffers}
    guarded.run(compiler.compile_program(program, RUN[target], 2, str(record)), [buffers[n] for n in program.arrays])
    for n in program.outputs:
        np.testing.assert_allclose(buffers[n], expected[n], rtol=2e-4, atol=1e-3, err_msg=f"{name} {seed}\n{record}")


@pytest.mark.part(30)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_random_walk(name: str) -> None:
    judge(name, "cpu", 1)


@pytest.mark.part(32)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_random_walk_for_a_gpu(name: str) -> None:
    program = build(name)
    followed(program, EMITTED["gpu"], walk(program, EMITTED["gpu"], random.Random(1)))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 8))
@pytest.mark.parametrize("name", PROGRAMS)
def test_random_walks(name: str, seed: int) -> None:
    judge(name, "cpu", seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 6))
@pytest.mark.parametrize("name", ALL)
def test_random_walks_for_a_gpu(name: str, seed: int) -> None:
    judge(name, "gpu", seed)
