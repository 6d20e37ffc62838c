"""The estimate of a whole program, and which loop becomes vectors."""

from __future__ import annotations

from dataclasses import replace

import polytc
from polytc import decisions
from polytc.machine import AVX2, AVX512, Estimate, Machine
from polytc.schedule.cost import program_time, vector_loops
from polytc.schedule.facts.strides import of_statement

MATMUL = "C[i,j] += A[i,k]*B[k,j]"


def estimated(text: str, n: int, record: str | None = None, threads: int = 1, machine: Machine = AVX512) -> Estimate:
    shapes = {name: (n, n) for name in ("A", "B") if f"{name}[" in text}
    low = polytc.lower(text, shapes=shapes, machine=machine, decisions=record)
    return program_time.estimate(low.rewritten, low.decisions, machine, threads)


def test_more_work_takes_longer() -> None:
    for text in (MATMUL, "C[i,j] = exp(A[i,j])", "C[j,i] = A[i,j]", "C[i] += A[i,j]"):
        small, large = (estimated(text, n).seconds for n in (64, 256))
        assert large > 8 * small > 0


def test_parts_are_told() -> None:
    found = estimated(MATMUL, 512)
    assert found.arithmetic > found.second > 0
    assert found.threads == 0
    assert estimated(MATMUL, 2048).memory > 0, "operands beyond the third cache"
    two = estimated(MATMUL, 512, threads=2)
    assert found.seconds / 2 < two.seconds < found.seconds
    assert two.threads > 0


def test_a_poor_tile_takes_longer() -> None:
    head = "polytc decisions 1\npack: none\n"
    good, thin, spilling = (estimated(MATMUL, 512, f"{head}tile S1_init: rows=i,j sizes={m},{n} order=i,j vector=j\n")
                            for m, n in ((6, 64), (1, 16), (24, 64)))
    assert good.seconds < thin.seconds
    assert good.arithmetic < spilling.arithmetic


def test_vectors_are_cheaper_than_scalars() -> None:
    head = "polytc decisions 1\ncoalesce: none\ntile S1: rows=i,j order=i,j"
    vector, scalar = (estimated("C[i,j] = A[i,j]*2", 512, f"{head} {rest}\n").arithmetic
                      for rest in ("sizes=1,32 vector=j", "sizes=1,1"))
    assert scalar > 4 * vector


def test_the_clock_scales_all_but_nothing_else() -> None:
    fast = replace(AVX2, clock=2 * AVX2.clock)
    assert abs(estimated(MATMUL, 128, machine=AVX2).seconds / estimated(MATMUL, 128, machine=fast).seconds - 2) < 1e-9


def test_the_record_of_a_program_without_decisions() -> None:
    low = polytc.lower(MATMUL, shapes={"A": (64, 64), "B": (64, 64)}, machine=AVX2)
    bare = program_time.estimate(low.rewritten, decisions.Record(), AVX2)
    assert bare.seconds > program_time.estimate(low.rewritten, low.decisions, AVX2).seconds


def test_contiguous_loops_become_vectors() -> None:
    program = polytc.build("Y[i,j] = X[i,j] + Z[j,i]*2 + V[j]", {"X": (8, 9), "Z": (9, 8), "V": (9,)})
    accesses = of_statement(program, program.statements[0])
    assert vector_loops.best(accesses, ["i", "j"])[0] == 1
    assert vector_loops.best(accesses, ["i"])[1] <= 0
    assert vector_loops.best(accesses, []) == (None, 0)
    turned = [a for a in accesses if a.tensor == "Z"]
    assert vector_loops.best(accesses, ["j"], turned={"j": turned})[1] > vector_loops.best(accesses, ["j"])[1]


def test_of_equal_loops_the_first_or_the_last() -> None:
    program = polytc.build("Y += X[i]", {"X": (8,)})
    accesses = of_statement(program, program.statements[-1])
    assert vector_loops.best(accesses, ["i", "i"])[0] == 0
    assert vector_loops.best(accesses, ["i", "i"], later=True)[0] == 1
    assert vector_loops.score(accesses, "i", {"i"}) == 2, "the target does not count"


def test_accesses_by_their_strides() -> None:
    each = [vector_loops.access_cycles(s, 16, AVX512.costs) for s in (0, 1, -1, 2, None)]
    assert each[0] == 0 < each[1] < each[2] < each[3] == each[4]
