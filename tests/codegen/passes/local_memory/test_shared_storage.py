"""Local arrays that share storage: random chains of statements against numpy, and what the check of the loops refuses."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from polytc import compiler, stages
from polytc.codegen import loops, traverse, verify
from polytc.codegen.target import Target
from polytc.errors import PolytcError
from polytc.machine import DEVICES
from polytc.program.program import Program
from polytc.targets.interp import InterpTarget
from polytc.targets.opencl.target import OpenCLTarget
from tests import cuda_here

GPU = DEVICES["nvidia-sm90"]
BATCH = 6


def chain(seed: int) -> tuple[str, Any]:
    """A chain of statements over a batch, each of which reads one of the last two or three in another order, and what numpy
    makes of it."""
    r = random.Random(seed)
    n, shapes = r.choice([16, 24, 32]), list[tuple[int, ...]]()
    text, steps = [f"def f(f32[B,{n}] X) -> (Y) {{"], list[Any]()
    for q in range(r.randrange(4, 9)):
        last = q - 1
        a, b = last, max(-1, last - r.choice([0, 0, 0, 1, 2]))
        two = [m for m in (2, 4, 8) if n % m == 0]
        shape = (n,) if r.random() < 0.6 else (n // (m := r.choice(two)), m)
        shapes.append(shape)

        def read(k: int, flat: str) -> str:
            if k < 0 or len(shapes[k]) == 1:
                return f"{'X' if k < 0 else f'T{k}'}[b,{flat}]"
            return f"T{k}[b,({flat})//{shapes[k][1]},({flat})%{shapes[k][1]}]"
        own = "i" if len(shape) == 1 else f"{shape[1]}*i + j"
        target = f"T{q}[b,i{',j' * (len(shape) > 1)}]"
        where = f"where i in 0:{shape[0]}" + (f", j in 0:{shape[1]}" if len(shape) > 1 else "")
        text.append(f"    {target} = {read(a, f'{n - 1} - ({own})')} + 2*{read(b, own)} {where}")
        steps.append((a, b))
    q = len(shapes) - 1
    end = f"T{q}[b,i]" if len(shapes[q]) == 1 else f"T{q}[b,i//{shapes[q][1]},i%{shapes[q][1]}]"
    text.append(f"    Y[b,i] = {end} * 3 + {'T' + str(q) + '[b,' + str(n - 1) + '-i]' if len(shapes[q]) == 1 else end} "
                f"where i in 0:{n}\n}}")

    def expected(x: np.ndarray) -> np.ndarray:
        made = {-1: x}
        for k, (a, b) in enumerate(steps):
            made[k] = made[a][:, ::-1] + 2 * made[b]
        t = made[len(steps) - 1]
        return t * 3 + (t[:, ::-1] if len(shapes[-1]) == 1 else t)
    return "\n".join(text), expected


def built(seed: int) -> tuple[Program, Any, np.ndarray]:
    text, expected = chain(seed)
    n = int(text.split("f32[B,")[1].split("]")[0])
    x = np.random.default_rng(seed).integers(-2, 3, (BATCH, n)).astype("f4")
    return stages.build(text, {"X": x.shape}), expected, x


def record(p: Program, machine: Any = GPU) -> str:
    first = compiler.lower_program(p, OpenCLTarget(machine)).rewritten.statements[0].name
    return f"polytc decisions 1\nchain {first}: by=group\n"


def local(low: compiler.Lowered) -> list[loops.Buffer]:
    return [x.buffer for k in low.loops.kernels for x in traverse.walk_stmt(k.body)
            if isinstance(x, loops.Alloc) and x.buffer.space == "local"]


def in_a_group(seed: int, target: Target) -> compiler.Lowered | None:
    """The chain in one launch; None where it is none."""
    p, _, _ = built(seed)
    try:
        return compiler.lower_program(p, target, schedule=record(p))
    except PolytcError as error:
        refused = error
    assert "E710" in str(refused)
    return None


@pytest.mark.parametrize(("seeds", "least"), [((0, 1, 3), (2, 1)),
                                              pytest.param(range(24), (10, 4), marks=pytest.mark.long)])
def test_random_chains(targets: tuple[str, ...], seeds: Sequence[int], least: tuple[int, int]) -> None:
    """least: so many share storage; of these, arrays of other shapes."""
    where: list[Target] = [InterpTarget(GPU)]
    where += [OpenCLTarget(GPU)] if "opencl" in targets else []
    where += [cuda_here.CompiledCuda(GPU)] if cuda_here.COMPILER else []
    met = rows = 0
    for seed in seeds:
        low = in_a_group(seed, OpenCLTarget(GPU))
        if low is None:
            continue
        p, expected, x = built(seed)
        met += any(k.shares for k in low.loops.kernels)
        rows += any(len({len(p.tensor(m.name).shape) for m in x.members}) > 1 for k in low.loops.kernels for x in k.shares)
        for target in where if seed < 8 else where[:1]:
            y = np.full(x.shape, np.nan, np.float32)
            compiler.compile_program(p, target, schedule=record(p)).run([x, y])
            np.testing.assert_array_equal(y, expected(x), f"{target.name} {seed}")
    assert met >= least[0]
    assert rows >= least[1]


def of_kernel() -> loops.Kernel:
    found = next(k for seed in range(24) if (low := in_a_group(seed, OpenCLTarget(GPU))) is not None
                 for k in low.loops.kernels if k.shares)
    assert verify.verify_kernel(found) is found
    return found


def test_without_barriers_the_check_refuses_it() -> None:
    k = of_kernel()
    parts = [s for s in traverse.walk_stmt(k.body) if isinstance(s, loops.Barrier)]
    assert parts
    met = 0
    for n in range(len(parts)):
        count = iter(range(len(parts)))

        def dropped(s: loops.Stmt, n: int = n, count: Any = count) -> loops.Stmt:
            return loops.Block(()) if isinstance(s, loops.Barrier) and next(count) == n else s
        less = replace(k, body=traverse.map_stmt(k.body, dropped, lambda e: e))
        try:
            verify.verify_kernel(less)
        except AssertionError as e:
            met += "no barrier between" in str(e)
    assert met


def test_what_is_alive_at_once_is_refused() -> None:
    k = of_kernel()
    shared, *others = k.shares
    with pytest.raises(AssertionError, match=rf"are alive in {shared.name} at once"):
        verify.verify_kernel(replace(k, shares=(replace(shared, members=shared.members[::-1]), *others)))


def test_arrays_that_live_together_do_not_share() -> None:
    p = stages.build("A[b,i] = X[b,31-i]; C[b,i] = X[b,i]*2; D[b,i] = A[b,31-i] + C[b,i]; E[b,i] = D[b,31-i] * A[b,i]; "
                     "F[b,i] = E[b,31-i] + C[b,31-i]", {"X": (500, 32)})
    low = compiler.lower_program(p, OpenCLTarget(GPU), schedule=record(p))
    together = {frozenset(m.name for m in x.members) for k in low.loops.kernels for x in k.shares}
    assert not any({a, b} <= s for s in together for a, b in (("A", "C"), ("A", "D"), ("C", "D"), ("C", "E"), ("D", "E")))
