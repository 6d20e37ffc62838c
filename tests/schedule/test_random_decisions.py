"""Records with random changes: what runs is right, between canaries; what does not fit is refused with the step's name."""

from __future__ import annotations

import random

import numpy as np
import pytest

import polytc
from polytc import compiler, decisions, errors
from polytc.decisions import Entry, Record, Value
from polytc.machine import AVX512
from polytc.schedule.decisions import KINDS
from tests import guarded
from tests.decided_programs import PROGRAMS
from tests.processor_here import target_for
from tests.rewrite.equal import small_numbers

MORE = {
    "batched": ("C[b,i,j] += A[b,i,k]*B[b,k,j]", {"A": (3, 20, 30), "B": (3, 30, 17)}),
    "layernorm": ("m[i] += X[i,k]/32; v[i] += (X[i,k]-m[i])*(X[i,k]-m[i]); Y[i,j] = (X[i,j]-m[i])/(v[i]+1)", {"X": (9, 32)}),
    "columns": ("S[j] += X[i,j]; Y[i,j] = X[i,j] - S[j]", {"X": (50, 33)}),
    "largest": ("M[i] max= X[i,j]*2", {"X": (7, 200)}),
    "stencil": ("B[i,j] = X[i,j]+X[i+1,j]+X[i,j+1]; Y[i,j] = B[i,j]*B[i+1,j]", {"X": (40, 41)}),
    "triangle": ("T[i] += X[i,j]*X[j,i] where j <= i; s[i] max= X[i,j]*T[j] where j <= i", {"X": (30, 30)}),
    "outer": ("O[i,j] = a[i]*b[j] + c[i]", {"a": (40,), "b": (50,), "c": (40,)}),
    "two products": ("T[i,j] += A[i,k]*B[k,j]; C[i,j] += T[i,k]*D[k,j]", {"A": (64, 24), "B": (24, 64), "D": (64, 20)}),
    "pooling": ("P[c,h,w] max= X[c,2*h+r,2*w+s] where r in 0:2, s in 0:2", {"X": (8, 20, 20)}),
    "depthwise": ("O[c,h,w] += X[c,h+r,w+s]*W[c,r,s]", {"X": (8, 18, 18), "W": (8, 3, 3)}),
    "strided": ("O[m,h] += X[c,2*h+r]*W[m,c,r] where h in 0:15", {"X": (4, 33), "W": (8, 4, 3)}),
    "transposed": ("C[i,j] += A[k,i]*B[j,k]", {"A": (40, 33), "B": (34, 40)}),
    "power": ("def power(f32[20,20] A, inout f32[20] x) { for t in 0:3 { y[i] +=! A[i,j]*x[j]; x[i] = y[i]/8 } }", {}),
    "scan": ("P[i,j] += X[i,k] where k <= j, j in 0:40", {"X": (6, 40)}),
    "gather": ("Y[i,j] = T[I[i],j]*2; S[i] += Y[i,j]", {"T": (10, 40), "I": (30,)}),
    "concat": ("Y[i,j] = A[i,j] where j in 0:20; Y[i,j+20] = B[i,j] where j in 0:20", {"A": (16, 20), "B": (16, 20)}),
    "norm": ("s += X[i]*X[i]; Y[i] = X[i]/(s+1)", {"X": (1000,)}),
    "chain": ("A[i] = X[i]+1; B[i] = A[i]*A[i]; C[i] = B[i]-A[i]", {"X": (777,)}),
    "mixed": ("C[i,j] += f32(A[i,k])*B[k,j]; Y[i] max= C[i,j]", {"A": (30, 40), "B": (40, 50)}),
    "windows": ("O[n,m,h,w] += X[n,c,h+r,w+s]*W[m,c,r,s]", {"X": (2, 8, 14, 14), "W": (8, 8, 3, 3)}),
}
ALL = {**PROGRAMS, **MORE}
NUMBERS = (0, 1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 24, 32, 48, 64, 100)
REFUSALS = ("E701", "E704", "E706", "E709", "E710")


def changed(record: Record, rng: random.Random) -> Record:
    """One line or two have other values or do nothing, and some lines go."""
    names = [str(v) for e in record.entries for _, v in e.values if isinstance(v, str)] + ["i", "j", "k"]
    entries = [e for e in record.entries if rng.random() < 0.8]
    for _ in range(rng.choice((1, 1, 2))):
        with_values = [n for n, e in enumerate(entries) if e.values]
        at = rng.choice(with_values) if with_values and rng.random() < 0.8 else rng.randrange(len(entries))
        e = entries[at]
        if not e.values or e.step not in KINDS and rng.random() < 0.3:
            entries[at] = Entry(e.step, e.statement, *(() if e.step in KINDS else (decisions.NONE,)))
            continue
        which = rng.randrange(len(e.values))
        values = tuple((k, other(v, rng, names) if n == which else v) for n, (k, v) in enumerate(e.values))
        entries[at] = Entry(e.step, e.statement, e.what, values)
    return Record(tuple(entries))


def other(value: Value, rng: random.Random, names: list[str]) -> Value:
    if isinstance(value, int):
        return rng.choice(NUMBERS)
    if isinstance(value, str):
        return rng.choice([*names, "", "yes", "no", "min", "max"])
    parts = list(value)
    if len(parts) > 1 and rng.random() < 0.5:
        rng.shuffle(parts)
    elif parts:
        at = rng.randrange(len(parts))
        parts[at] = rng.choice(NUMBERS) if isinstance(parts[at], int) else rng.choice(names)
    return tuple(parts)  # type: ignore[return-value]


def judge(name: str, seed: int, native: bool) -> str:
    """One record: 'right' or 'refused'."""
    text, shapes = ALL[name]
    types = {"gather": {"I": "i64"}, "mixed": {"A": "i8"}}.get(name)
    program = polytc.build(text, shapes, types)
    target = target_for(AVX512, "cpu" if native else "interp")
    given = changed(compiler.lower_program(program, target).decisions, random.Random(seed))
    arrays = {n: np.abs(a) % 3 + 1 if a.dtype.kind == "f" else a for n, a in small_numbers(program).items()}
    expected = polytc.lang.evaluate(program, {n: a.copy() for n, a in arrays.items()})
    try:
        made = compiler.compile_program(program, target, 2, str(given))
    except errors.CompileError as refused:
        return refusal(refused, given)
    buffers = {n: a.copy() for n, a in arrays.items()}
    buffers |= {n: np.empty(program.tensor(n).shape, program.tensor(n).dtype.numpy) for n in program.arrays if n not in buffers}
    guarded.run(made, [buffers[n] for n in program.arrays])
    for n in program.outputs:
        np.testing.assert_allclose(buffers[n], expected[n], rtol=2e-4, atol=1e-3, err_msg=f"{name} {seed}\n{given}")
    return "right"


def refusal(error: errors.CompileError, given: Record) -> str:
    assert error.code in REFUSALS, f"{error}\n{given}"
    assert error.code != "E710" or any(f"`{e.step}`" in str(error) for e in given.entries), str(error)
    return "refused"


@pytest.mark.part(15)
@pytest.mark.parametrize("name", ALL)
def test_a_random_record(name: str) -> None:
    judge(name, 1, native=True)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 9))
@pytest.mark.parametrize("name", ALL)
def test_random_records(name: str, seed: int) -> None:
    judge(name, seed, native=seed % 3 > 0)
