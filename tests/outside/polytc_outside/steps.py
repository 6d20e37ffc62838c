"""A step of rewriting: `pow(x, 2)` is computed as `x * x`.

    Y[i] = pow(X[i], 2.0)    ->    Y[i] = X[i] * X[i]
"""

from __future__ import annotations

from dataclasses import replace

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.rewrite.step import NOT_PRECISE, Decision, Reasons, Step
from polytc.rewrite.table import Added


def decide(program: pr.Program, machine: Machine) -> Decision:
    """The statements that have such powers."""
    reasons = Reasons()
    found = [s.name for s in program.statements if any(map(_is_square, pr.walk(s.value)))]
    for name in found:
        reasons.acts(name, "pow(x, 2) is one multiplication")
    return Decision(machine, tuple(found), tuple(reasons.rows))


def apply(program: pr.Program, decision: Decision) -> pr.Program:
    """The program with products in their place."""
    statements = tuple(replace(s, value=pr.map_expr(s.value, _product)) if s.name in decision.choices else s
                       for s in program.statements)
    return replace(program, statements=statements)


def _is_square(e: pr.Expr) -> bool:
    return isinstance(e, pr.Call) and e.fn == "pow" and isinstance(e.args[1], pr.Const) and e.args[1].value == 2


def _product(e: pr.Expr) -> pr.Expr:
    return pr.Binary("*", e.args[0], e.args[0], e.dtype) if isinstance(e, pr.Call) and _is_square(e) else e


SQUARES = Added(Step("squares", "second powers become products", apply, decide, needs=(NOT_PRECISE,), open_sizes=True),
                after="inline")
