"""Arguments that a call leaves out are the defaults of their parameters.

    def scaled(f32[N] x, f32 a = 0.5) -> (y) { y[i] = a * x[i] }
    S = scaled(P)                                                    ->   S = scaled(P, 0.5)
"""

from __future__ import annotations

from polytc.lang.parsing import syntax as sx


def completed(call: sx.Call, callee: sx.Function) -> tuple[sx.Expr, ...]:
    """The arguments of a call, with those that it leaves out; as they are where one of these has no default."""
    rest = callee.params[len(call.args):]
    if any(p.default is None for p in rest):
        return call.args
    return (*call.args, *(sx.Number(p.default, call.span) for p in rest if p.default is not None))


def count(params: tuple[sx.Param, ...]) -> str:
    """How many arguments a definition takes: `2 arguments`, `1 to 3 arguments`."""
    least = sum(p.default is None for p in params)
    return f"{f'{least} to ' if least < len(params) else ''}{len(params)} argument{'s' * (len(params) != 1)}"
