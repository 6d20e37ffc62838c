"""isl never runs unbounded: programs that are beyond its budget take simpler ways, say so, and still give what they mean."""

from __future__ import annotations

import time

import islpy
import numpy as np
import pytest

from polytc import compiler, errors
from polytc.codegen import astgen
from polytc.lang import build
from polytc.machine import AVX2
from polytc.poly import dependences, isl, legality, scop
from polytc.program.evaluator import evaluate
from polytc.program.program import Program
from polytc.schedule import automatic

AXES = "abcdefghijklmnopqrst"
PAIRS = list(enumerate(zip("ijklm", "jklmi", strict=True)))
COUPLED = " + ".join(f"T[{', '.join(f'{p * q % 5 + 1}*{a} + {(p + q) % 3 + 1}*{b}' for q, (a, b) in PAIRS)}]" for p in range(8))
MODULI = ", ".join(f"({x}*{k + 2} + {y}*{k + 3}) % {k + 3} != {k % 3}"
                   for k, (x, y) in enumerate(zip("ijklmn", "jklmni", strict=True)))
CHOICES = ", ".join(f"(i + {p}*j + {p + 1}*k) % {p + 2} == 0 || (j + {p}*k) % {p + 3} == 1 || k < {p}*i" for p in range(6))

NASTY: dict[str, tuple[str, dict[str, tuple[int, ...]]]] = {
    "8 reads with coupled subscripts": (
        f"T[a,b,c,d,e] = X[a,b,c,d,e]*2; Y[i,j,k,l,m] = {COUPLED} where {', '.join(f'{i} in 0:3' for i in 'ijklm')}",
        {"X": (20, 20, 20, 20, 20)}),
    "20 dimensions, reversed": (
        f"Y[{','.join(AXES)}] = X[{','.join(AXES)}] + 1; Z[{','.join(reversed(AXES))}] = Y[{','.join(AXES)}]*2",
        {"X": (2, 1) * 9 + (2, 3)}),
    "20 dimensions, every second summed": (f"Y[{','.join(AXES[::2])}] += X[{','.join(AXES)}]", {"X": (2, 1, 1, 2) * 5}),
    "coprime strides": ("O[7*i + 11*j + 13*k] += X[i,j,k]; Y[l,m] = O[3*l + 5*m] where l in 0:20, m in 0:20",
                        {"X": (30, 30, 30)}),
    "remainders": ("T[(7*i + 3*j) % 64, (5*i + 11*j)//3 % 32] += X[i,j]; Y[i,j] = T[(3*i + 5*j) % 64, (i//3 + j//5) % 32] "
                   "where i in 0:50, j in 0:60", {"X": (97, 89)}),
    "conditions modulo": (f"Y[(i*3 + j) % 6, (j*5 + k) % 6] += X[i,j,k,l,m,n] where {MODULI}", {"X": (6,) * 6}),
    "alternatives": (f"Y[i,j] += X[i,j,k] where {CHOICES}; Z[i] += Y[i,j] where j % 2 == 0 || i % 3 == 1", {"X": (20, 20, 20)}),
}


@pytest.mark.part(3)
@pytest.mark.parametrize("name", NASTY)
def test_nasty_programs_finish_in_seconds(name: str) -> None:
    start = time.process_time()
    lowered = compiler.lower_program(build(*NASTY[name]), "cpu")
    assert time.process_time() - start < 15  # one second or two where nothing else runs
    assert lowered.loops.kernels


def outputs(program: Program, x: np.ndarray, schedule: str | None = None) -> list[np.ndarray]:
    results = [np.empty(program.tensor(n).shape, np.float32) for n in program.outputs]
    compiler.compile_program(program, "cpu", schedule=schedule).run([x, *results])
    return results


@pytest.mark.part(2)
@pytest.mark.parametrize("name", ["conditions modulo", "alternatives"])
def test_conditions_beyond_the_budget_are_tested_at_each_instance(name: str) -> None:
    program = build(*NASTY[name])
    lowered = compiler.lower_program(program, "cpu")
    assert lowered.scop.boxed
    assert f"exact domains need {lowered.scop.boxed}" in lowered.schedule.how
    x = np.random.default_rng(0).integers(-4, 5, program.tensor("X").shape).astype(np.float32)
    for mine, expected in zip(outputs(program, x), evaluate(program, {"X": x}).values(), strict=True):
        np.testing.assert_array_equal(mine, expected)


def test_domains_beyond_the_budget_become_boxes() -> None:
    program = build("Y[i] += X[i,j] where j <= i", {"X": (4, 4)})
    assert scop.extract(program).boxed == ""
    wide = scop.extract(program, operations=100)
    assert "more than 100 isl operations" in wide.boxed
    assert wide.domain.is_equal(islpy.UnionSet.read_from_str(
        wide.ctx, "{ S1[i, j] : 0 <= i, j <= 3; S1_init[i] : 0 <= i <= 3 }"))
    schedule = automatic.schedule(wide, dependences.analyse(wide), AVX2)
    assert "if " in str(astgen.generate(wide, schedule))


def test_dependences_beyond_the_budget_are_coarse_and_hold_the_exact_ones() -> None:
    facts = scop.extract(build("T[i+j] += X[i,j]; Y[i] = T[2*i] where i in 0:3", {"X": (4, 4)}))
    exact, coarse = dependences.analyse(facts), dependences.analyse(facts, operations=100)
    assert exact.coarse == ""
    assert "operations" in coarse.coarse
    for name in ("flow", "anti", "output"):
        assert getattr(exact, name).is_subset(getattr(coarse, name)), name
    assert coarse.reduction.is_empty()
    limited = coarse.order.intersect_domain(facts.domain).intersect_range(facts.domain)
    assert legality.violation(facts.original, limited) is None
    assert automatic.schedule(facts, coarse, AVX2).how.startswith("program order: exact dependences need")


def test_a_check_beyond_the_budget_leaves_program_order(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = scop.extract(build("C[i,j] += A[i,k]*B[k,j]", {"A": (40, 40), "B": (40, 40)}))
    exact = dependences.analyse(facts)
    text = str(automatic.schedule(facts, exact, AVX2))
    monkeypatch.setattr(isl, "BUDGET", 1000)
    monkeypatch.setattr(isl, "EACH", 1)
    assert automatic.schedule(facts, exact, AVX2).how == \
        "program order: to check the cpu strategy needs more than 1000 isl operations"
    with pytest.raises(errors.CompileError, match="more than 1000 isl operations") as info:
        automatic.schedule(facts, exact, AVX2, text)
    assert info.value.code == "E706"


def test_an_ast_beyond_the_budget_is_made_from_boxes(monkeypatch: pytest.MonkeyPatch) -> None:
    program = build("Y[i] += X[i,j] where j <= i", {"X": (40, 40)})
    generate = astgen.generate
    monkeypatch.setattr(astgen, "generate", lambda s, t, _=0: generate(s, t, 1 << 30 if s.boxed else 10))
    lowered = compiler.lower_program(program, "cpu")
    assert lowered.scop.boxed == "more than 10 isl operations"
    assert " <= " in str(lowered.loops), "the condition is tested at each instance, whatever the width of vectors"
    monkeypatch.undo()
    x = np.arange(1600, dtype=np.float32).reshape(40, 40)
    np.testing.assert_array_equal(outputs(program, x)[0], np.tril(x).sum(1))


@pytest.mark.parametrize("request_", [None, "isl"])
def test_where_isl_gives_up_the_order_is_that_of_the_text(request_: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    program = build("T[i] = X[i]; for t in 0:1 { T[I[i]] += V[j] where i != j }", {"X": (3,), "I": (3,), "V": (7,)},
                    {"X": "f32", "I": "i32", "V": "f32"})
    if request_ == "isl":  # it schedules this one, with numbers for sizes
        monkeypatch.setattr(isl, "schedule", _gives_up)
    how = compiler.lower_program(program, "cpu", request_).schedule.how
    assert ("program order" if request_ == "isl" else "the loops of the text, as isl") in how
    assert "unable to carry dependences" in how
    arrays = {"X": np.ones(3, np.float32), "I": np.array([2, 0, 2], np.int32), "V": np.arange(7, dtype=np.float32)}
    result = np.empty(3, np.float32)
    compiler.compile_program(program, "cpu", schedule=request_).run([*arrays.values(), result])
    np.testing.assert_array_equal(result, evaluate(program, arrays)["T"])


def _gives_up(constraints: object) -> None:
    raise isl.Unschedulable("isl is unable to carry dependences")


LONG = """
for t in 7:-1:-1 {
    A[i] max= X3[i,i] + X4[t,i,j-t+7] where i in 0:5, j in 0:8, j < t
    for u in 3:0:-1 {
        for x in 0:4 {
            B = X6[u%3,u] - 3
            (C[i,j], D[i,j]) argmax=! (X7[j,u,i,k] + X8[2*t+u,i], k)
        }
        for x in u:5 { A[i] max= 2 where i in u:5 }
    }
    for u in 1:-1:-2 {
        E += (X6[u,i-j] else 1) where 0 <= j < 7, i in 0:6, j in 0:13
        for x in 4:-1:-1 {
            A[u+2] = X6[t%3,2]
            F = X7[x,u,0,0]
            F = X7[0,2,0,0]
        }
    }
}"""


@pytest.mark.long
def test_isls_own_schedule_gives_up_on_numbers_that_become_long() -> None:
    """The scheduler took half a minute for 300,000 operations."""
    program = build(LONG, {"X3": (5, 5), "X4": (8, 5, 15), "X6": (3, 4), "X7": (5, 4, 2, 3), "X8": (18, 2)})
    begun = time.thread_time()
    schedule = compiler.lower_program(program, "cpu", "isl").schedule
    assert time.thread_time() - begun < 10
    assert "program order: isl's scheduler needs" in schedule.how


@pytest.mark.parametrize("count", [20, pytest.param(60, marks=pytest.mark.long)])
def test_a_chain_of_many_contractions_has_its_schedule(count: int) -> None:
    links = [f"C{k}[i,j] += C{k - 1}[i,k]*B[k,j]" for k in range(1, count)]
    chain = build("\n".join(["C0[i,j] += A[i,k]*B[k,j]", *links]), {"A": (16, 16), "B": (16, 16)})
    assert compiler.lower_program(chain, "cpu").schedule.how.startswith("cpu strategy")
