"""isl's AST executes instances in the order of the schedule tree, also where they lie a stride apart."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from itertools import pairwise
from random import Random
from typing import Any

import islpy
import pytest

from polytc.codegen import astgen

_OP = islpy.ast_expr_op_type
_BINARY: dict[Any, Callable[[int, int], int]] = {
    _OP.add: operator.add, _OP.sub: operator.sub, _OP.mul: operator.mul, _OP.max: max, _OP.min: min,
    _OP.eq: operator.eq, _OP.le: operator.le, _OP.lt: operator.lt, _OP.ge: operator.ge, _OP.gt: operator.gt,
    _OP.div: operator.floordiv, _OP.fdiv_q: operator.floordiv, _OP.pdiv_q: operator.floordiv,
    _OP.pdiv_r: operator.mod, _OP.zdiv_r: operator.mod}
Instance = tuple[str, tuple[int, ...]]


def value(e: islpy.AstExpr, env: dict[str, int]) -> int:
    if e.get_type() == islpy.ast_expr_type.int:
        return int(e.get_val().to_python())
    if e.get_type() == islpy.ast_expr_type.id:
        return env[e.get_id().get_name()]
    args, op = [e.get_op_arg(i) for i in range(e.get_op_n_arg())], e.get_op_type()
    if op in (_OP.and_, _OP.and_then):
        return all(value(a, env) for a in args)
    if op in (_OP.or_, _OP.or_else):
        return any(value(a, env) for a in args)
    if op in (_OP.cond, _OP.select):
        return value(args[1] if value(args[0], env) else args[2], env)
    if op == _OP.minus:
        return -value(args[0], env)
    found = value(args[0], env)
    for a in args[1:]:
        found = _BINARY[op](found, value(a, env))
    return found


def executed(node: islpy.AstNode, env: dict[str, int]) -> Iterator[Instance]:
    """The instances that an AST executes, one after another."""
    match node.get_type():
        case islpy.ast_node_type.for_:
            name = node.for_get_iterator().get_id().get_name()
            env = {**env, name: value(node.for_get_init(), env)}
            if node.for_is_degenerate():
                yield from executed(node.for_get_body(), env)
                return
            while value(node.for_get_cond(), env):
                yield from executed(node.for_get_body(), env)
                env[name] += value(node.for_get_inc(), env)
        case islpy.ast_node_type.if_:
            if value(node.if_get_cond(), env):
                yield from executed(node.if_get_then_node(), env)
            elif node.if_has_else_node():
                yield from executed(node.if_get_else_node(), env)
        case islpy.ast_node_type.block:
            children = node.block_get_children()
            for i in range(children.n_ast_node()):
                yield from executed(children.get_at(i), env)
        case _:
            call = node.user_get_expr()
            name, *args = (call.get_op_arg(i) for i in range(call.get_op_n_arg()))
            yield name.get_id().get_name(), tuple(value(a, env) for a in args)


def times(tree: islpy.Schedule) -> dict[Instance, tuple[int, ...]]:
    """When the tree wants each instance."""
    found: dict[Instance, tuple[int, ...]] = {}
    whole = tree.get_map().intersect_domain(tree.get_domain())

    def of(m: islpy.Map) -> None:
        name, n = m.get_tuple_name(islpy.dim_type.in_), m.dim(islpy.dim_type.in_)

        def add(p: islpy.Point) -> None:
            count = p.get_space().dim(islpy.dim_type.set)
            at = [int(p.get_coordinate_val(islpy.dim_type.set, i).to_python()) for i in range(count)]
            found[name, tuple(at[:n])] = tuple(at[n:])
        m.wrap().flatten().foreach_point(add)
    whole.foreach_map(of)
    return found


def out_of_order(tree: islpy.Schedule) -> list[tuple[Instance, Instance]]:
    """Neighbours in the AST that the tree wants the other way round. Fails where an instance is left out, or executed twice."""
    build = islpy.AstBuild.from_context(islpy.Set.read_from_str(tree.get_ctx(), "{ : }"))
    ast = build.node_from_schedule(astgen._unshifted(tree))
    order, wanted = list(executed(ast, {})), times(tree)
    assert sorted(order) == sorted(wanted)
    return [(a, b) for a, b in pairwise(order) if wanted[b] < wanted[a]]


def read(domain: str, bands: list[str], sequence: list[str]) -> islpy.Schedule:
    text, space = f'domain: "{domain}"\n', ""
    for b in bands:
        text += f'{space}child:\n{space}  schedule: "[{{{b}}}]"\n'
        space += "  "
    text += f"{space}child:\n{space}  sequence:\n" + "".join(f'{space}  - filter: "{{ {s} }}"\n' for s in sequence)
    return islpy.Schedule.read_from_str(islpy.Context(), text)


def test_statements_that_the_first_of_them_says_nothing_about() -> None:
    """C, with which isl compares the others, has instances only where 1 - u is even; there A and B lie one apart."""
    tree = read("{ A[t,u] : (1+t) mod 2=0 and -5<=t<0 and 2<=u<=4; C[t] : (1+t) mod 2=0 and -5<=t<0; "
                "B[t,u] : (1+t) mod 2=0 and -5<=t<0 and 0<u<=4 }",
                ["A[t,u]->[(1-u)]; C[t]->[(1+t)]; B[t,u]->[(1-u)]", "A[t,u]->[(1+t+u)]; C[t]->[(5+t)]; B[t,u]->[(5+t)]"],
                ["A[t,u]", "B[t,u]", "C[t]"])
    assert out_of_order(tree) == []


def _random_tree(random: Random) -> islpy.Schedule:
    names = random.sample("ABCD", random.randint(2, 4))
    spaces = {n: "ijk"[:random.randint(1, 3)] for n in names}

    def domain(n: str) -> str:
        lines = []
        for index in spaces[n]:
            low = random.randint(-3, 1)
            lines.append(f"{low} <= {index} <= {low + random.randint(1, 5)}")
            if random.random() < .5:
                lines.append(f"({index} + {random.randint(0, 2)}) mod {random.choice((2, 2, 3))} = 0")
        if len(spaces[n]) > 1 and random.random() < .4:
            lines.append("j <= i + 1")
        return f"{n}[{','.join(spaces[n])}] : {' and '.join(lines)}"

    def form(n: str) -> str:
        chosen = random.sample(spaces[n], random.randint(0, min(2, len(spaces[n]))))
        return "(" + " + ".join([str(random.randint(-2, 5)), *(f"{random.choice((1, 1, -1, 2))}{c}" for c in chosen)]) + ")"
    bands = ["; ".join(f"{n}[{','.join(spaces[n])}]->[{form(n)}]" for n in names) for _ in range(random.randint(2, 3))]
    return read("{ " + "; ".join(map(domain, names)) + " }", bands, [f"{n}[{','.join(spaces[n])}]" for n in names])


@pytest.mark.part(2)
@pytest.mark.parametrize("seed", range(12))
def test_random_trees_with_strides(seed: int) -> None:
    random = Random(seed)
    for _ in range(6):
        tree = _random_tree(random)
        assert out_of_order(tree) == [], str(tree)
