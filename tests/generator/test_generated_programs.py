"""Programs over the whole language, made up by tests/generator, on every target and under any schedule, against tests/meaning.

`python -m tests.generator` runs more of them than a test can.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polytc import compiler, errors
from polytc.codegen import astgen, loops
from polytc.lang import build, evaluate
from polytc.poly import isl
from polytc.poly.scop import Scop
from polytc.schedule.tree import Schedule
from polytc.schedule.user import recipe
from tests.generator import choices, features, programs
from tests.generator.campaign import Campaign, load
from tests.generator.case import Case, Input
from tests.generator.judge import Outcome, built, judge
from tests.generator.worker import Worker
from tests.meaning.run import meaning

SETTINGS = settings(max_examples=6, deadline=None, derandomize=True,
                    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large,
                                           HealthCheck.large_base_example])


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.close()


def cases() -> st.SearchStrategy[Case]:
    return st.composite(lambda draw: programs.case(choices.Choices(lambda n: draw(st.integers(0, n - 1)))))()


def check(case: Case, worker: Worker) -> Outcome:
    found = worker.judge(case)
    assert not found.bad, f"{found.kind}\n{case}\n{found.detail}"
    return found


@given(case=cases())
@SETTINGS
def test_what_is_compiled_computes_what_the_language_says(worker: Worker, case: Case) -> None:
    check(case, worker)


@pytest.mark.long
@given(case=cases())
@settings(SETTINGS, max_examples=3000)
def test_many_programs(worker: Worker, case: Case) -> None:
    check(case, worker)


@pytest.mark.long
def test_a_campaign_over_the_language(worker: Worker) -> None:
    """Programs chosen for their rare pairs of features; `python -m tests.generator --language` runs on."""
    campaign = Campaign(language=True)
    for _ in range(10):
        number, _, case = campaign.begin()
        campaign.end(number, case, check(case, worker))
    assert campaign.kinds["right"] >= 5
    assert len(campaign.coverage.missing()) < 3000


def test_rare_pairs_are_preferred() -> None:
    plain = Case("C[i] = A[i]", (Input("A", (5,), "f32"),), (), 0, "cpu", "automatic")
    rare = Case("def f(f32[N5] A) -> (C) { C[i] = A[i] else 0 where i in 0:9 }", plain.inputs, (), 0, "cpu", "automatic")
    known = features.Coverage()
    assert features.language(plain) == {"bare", "=", "f32"}
    assert {"def", "guard", "stated range", "size by name"} < features.language(rare)
    for _ in range(9):
        known.add(plain)
    assert known.rarity(rare) > known.rarity(plain)
    assert ("=", "f32") not in known.missing()
    assert ("def", "f32") in known.missing()
    assert ("bare", "def") not in known.missing()


def test_every_feature_occurs() -> None:
    seen = set[str]().union(*(features.language(programs.case(choices.seeded(seed), language=True)) for seed in range(1500)))
    assert features.ALL - seen == set()


def test_a_campaign_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    file, campaign = tmp_path / "campaign.json", Campaign(language=True)
    number, _, case = campaign.begin()
    campaign.begin()
    campaign.end(number, case, Outcome("right"))
    campaign.save(file)
    again = load(file)
    assert (again.next, again.kinds, again.language) == (1, {"right": 1}, True)  # the second one is begun again
    assert again.coverage.counts == campaign.coverage.counts


@pytest.mark.long
def test_most_programs_are_programs() -> None:
    """Few are refused, and every part of the language is among them."""
    texts = [programs.case(choices.seeded(seed)).text for seed in range(1500)]
    parts = ["for ", "inout ", "precise ", "acc(f64)", " else ", " ? ", "max=", "&=", "^=", "argm", "where", "||", "% 2 ==",
             "op ", ":2", ":-1", "exp", "bf16", "bool", "softmax", "[I", "+=!", "->", "N"]
    assert [p for p in parts if sum(p in t for t in texts) < 2] == []
    codes = Counter[str]()
    for seed in range(60):
        try:
            compiler.lower_program(built(programs.case(choices.seeded(seed))), "interp", "program")
        except errors.PolytcError as refusal:
            codes[refusal.code] += 1
    assert codes.total() < 20, codes


def test_a_wrong_result_a_hang_and_a_crash_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watchdog, and the comparison."""
    case = Case("C[i] = 2*A[i]", (Input("A", (5,), "f32"),), (), 0, "interp", "automatic")
    assert judge(case).kind == "right"
    slow = Worker(0.0)
    assert slow.judge(case).kind == "hang"
    monkeypatch.setattr("tests.generator.judge.meaning", lambda t, a, n: {"C": (a["A"] * 3, np.zeros(5))})
    found = judge(case)
    assert found.kind == "wrong"
    assert "expected" in found.detail


def test_open_sizes_are_those_of_one_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """At several sizes; a result for one of them is seen to be wrong."""
    monkeypatch.setattr("tests.generator.judge._sizes", lambda case: [{"N5": n} for n in (5, 6, 18)])
    text = "def f(f32[N5,3] A) -> (C) { C[i,j] = 2*A[i,j] where i in 0:N5 }"
    case = Case(text, (Input("A", (5, 3), "f32"),), (), 0, "interp", "automatic", open=("N5",))
    compiled, seen = list[bool](), list[int]()
    compile_ = compiler.compile_program
    monkeypatch.setattr(compiler, "compile_program", lambda p, *rest: compiled.append(bool(p.sizes)) or compile_(p, *rest))
    assert judge(case).kind == "right"
    assert compiled == [True]

    def wrong(text: str, arrays: dict[str, np.ndarray], numbers: dict[str, float]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        seen.append(len(arrays["A"]))
        return {n: (a + (seen[-1] == 18), error) for n, (a, error) in meaning(text, arrays, numbers).items()}
    monkeypatch.setattr("tests.generator.judge.meaning", wrong)
    found = judge(case)
    assert found.kind == "wrong"
    assert "at {'N5': 18}" in found.detail
    assert seen == [5, 6, 18]
    assert any(programs.case(choices.seeded(seed)).open for seed in range(100))


TRUE = Case("""
    T[i,j,k] = X[i,j,k]
    for t in 3:0:-1 {
        for u in 0:2 {
            for x in 1:5 {
                T[i,j,k] = X[x,k+1,k] where j in 0:7, i in 0:4, k in 1:3
                T[x,t+1,t-1] = X[u,x-u,t%3]
                T[i,u,u+1] = (V[u] < i) where i in t:5
            }
        }
        T[i,j,t-1] = (V[0] < V[0]) where i in 0:5:2, j in 0:7
    }
""", (Input("X", (5, 7, 3), "bool"), Input("V", (2,), "i8")), (), 0, "cpu", "automatic")
"""isl writes a condition that holds as 1."""


@pytest.mark.long
def test_conditions_that_isl_decides() -> None:
    assert judge(TRUE).kind == "right"


def test_loops_that_isl_cannot_write_in_time_are_those_of_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    generate = astgen.generate

    def bounded(scop: Scop, schedule: Schedule, operations: int = 1) -> loops.Module:
        if operations:
            raise isl.QuotaExceeded("more than 1 isl operations")
        return generate(scop, schedule, operations)
    monkeypatch.setattr(astgen, "generate", bounded)
    program = build("T[i,j] = X[i,j]; for t in 1:6 { T[t,j] = T[t-1,j] + T[t,j] where j <= t }", {"X": (6, 7)})
    assert "program order: the loops" in compiler.lower_program(program, "cpu").schedule.how
    x, result = np.arange(42, dtype=np.float32).reshape(6, 7), np.empty((6, 7), np.float32)
    compiler.compile_program(program, "cpu").run([x, result])
    np.testing.assert_array_equal(result, evaluate(program, {"X": x})["T"])
    text = recipe.start(program).yaml()
    with pytest.raises(errors.CompileError, match="take too long to write"):
        compiler.lower_program(program, "cpu", text)
