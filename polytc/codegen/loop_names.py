"""What readers call the variables of loops: after the index of the program that a loop runs over.

    for c0 { for c1 { S[8*c0 + c1] } }   ->   c0 is 'i_tile', c1 is 'i_point', where S has the index i
"""

from __future__ import annotations

from collections.abc import Mapping

from polytc.codegen import iterators, linear_forms, loops, traverse

_OUTER = {"block": "group", "thread": "item"}
_INNER = {"thread": "item", "vector": "lane", "unroll": "row"}


def title(var: str, kind: str, values: Mapping[str, loops.Expr]) -> str:
    """The title of the loop over `var`, one of isl's c0, c1, ... from the outside; '' if no index depends on it.

    values: what an instance inside of the loop takes for its indices. An index that is the variable gives its name, one that
    several loops make up a name with a suffix that says which; a loop around others that moves an index by one is a wave over
    several of them.
    """
    for name, value in values.items():
        if _alone(value) == var:
            return name
    for name, value in values.items():
        if var in (depends := traverse.variables(value)):
            depths = [d for v in depends if (d := iterators.depth(v)) is not None]
            if len(depths) < 2:
                return name
            inner = var == iterators.name(max(depths))
            if not inner and kind == "sequential" and abs(linear_forms.linear(value).get(loops.Var(var), 0)) == 1:
                return "wave"
            return f"{name}_{(_INNER if inner else _OUTER).get(kind, 'point' if inner else 'tile')}"
    return ""


def _alone(value: loops.Expr) -> str:
    """The variable of `c`, `c + 1` or `c - 1`; '' for other expressions."""
    if isinstance(value, loops.Binary) and value.op in ("+", "-") and isinstance(value.b, loops.Const):
        value = value.a
    return value.name if isinstance(value, loops.Var) else ""
