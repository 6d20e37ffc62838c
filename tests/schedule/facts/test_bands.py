"""What isl's scheduler leaves out is not lost silently."""

from __future__ import annotations

from dataclasses import replace

import pytest

from polytc import lang
from polytc.poly import dependences, scheduler, scop
from polytc.program import program as pr
from polytc.program.scalars import BOOL, I64
from polytc.schedule.facts import bands, scheduler_constraints


def test_statements_without_instances() -> None:
    text = """def f(inout i32[9,5] a, i32[9,5] x) { for t in 1:9 {
        a[t,j] = a[t-1,j] + x[t,j]; b[t,j] = x[t,j] * 2; c[t,j] = x[t,j-1] * 3 where j in 1:5 } }"""
    program = lang.build(text, {"a": (9, 5), "x": (9, 5)})
    first, second, third = program.statements
    t = pr.Index("t")
    never = tuple(pr.Binary(op, t, pr.Const(c, I64), BOOL) for op, c in ((">", 6), ("<", 4)))
    facts = scop.extract(replace(program, statements=(first, replace(second, where=never), third)))
    asked = scheduler_constraints.question(facts, dependences.analyse(facts), facts.program.statements)
    found = scheduler.find(asked.constraints, scheduler.SYMBOLIC_ATTEMPTS)
    with pytest.raises(bands.Unreadable, match="no instances of S2"):
        asked.answer(found)
