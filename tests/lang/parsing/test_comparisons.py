"""Comparisons chain as Python's do, in values and in `where`: Python itself is the judge."""

import itertools
import random

import numpy as np
import pytest

from polytc import lang
from polytc.lang.parsing.parser import parse
from polytc.program import program as pr

OPS = ("==", "!=", "<", "<=", ">", ">=")


def chains(count, operands, seed):
    """Texts such as `x <= 2 != y < 1`."""
    rng = random.Random(seed)
    for _ in range(count):
        rest = "".join(f" {rng.choice(OPS)} {rng.choice(operands)}" for _ in range(rng.randrange(1, 4)))
        yield rng.choice(operands) + rest


@pytest.mark.parametrize("pair", list(itertools.product(OPS, OPS)), ids="".join)
def test_two_comparisons(pair):
    text = f"x[i] {pair[0]} y[i] {pair[1]} 1"
    x, y = (np.array(v, np.int64) for v in zip(*itertools.product(range(3), repeat=2), strict=True))
    program = lang.build(f"O[i] = {text}", {"x": (9,), "y": (9,)}, {"x": "i64", "y": "i64"})
    want = [eval(f"a {pair[0]} b {pair[1]} 1", {"a": int(a), "b": int(b)}) for a, b in zip(x, y, strict=True)]
    assert lang.evaluate(program, {"x": x, "y": y})["O"].tolist() == want


def test_chains_of_values_mean_what_they_mean_in_python():
    x, y = np.random.default_rng(0).integers(0, 4, (2, 20))
    for text in chains(60, ["x[i]", "y[i]", "1", "2", "(x[i] + 1)", "(y[i] < 2)", "i % 3"], 1):
        program = lang.build(f"O[i] = {text} where i in 0:20", {"x": (20,), "y": (20,)}, {"x": "i64", "y": "i64"})
        want = [eval(text, {"x": x.tolist(), "y": y.tolist(), "i": i}) for i in range(20)]
        assert lang.evaluate(program, {"x": x, "y": y})["O"].tolist() == want, text


def test_chains_in_where_mean_what_they_mean_in_python():
    for text in chains(60, ["i", "j", "2", "3", "(i + j)", "i % 3"], 2):
        want = [[int(eval(text, {"i": i, "j": j})) for j in range(6)] for i in range(6)]
        if np.any(want):  # a statement without instances is refused
            program = lang.build(f"O[i,j] = 0 where i in 0:6, j in 0:6; O[i,j] += 1 where i in 0:6, j in 0:6, {text}", {})
            assert lang.evaluate(program, {})["O"].tolist() == want, text


def test_conditions_on_memory_chain():
    program = lang.build("S += 1 where 1 <= v[i] < 4 != i", {"v": (7,)}, {"v": "i32"})
    v = np.array([0, 1, 2, 3, 3, 4, 9], np.int32)
    assert lang.evaluate(program, {"v": v})["S"] == 3


def test_an_operand_of_a_chain_is_written_once():
    """What stands in the middle is one node of the tree, and one expression of the program."""
    (s,) = parse("O[i] = 0 < exp(x[i]) < 1 ? 1 : 0")[0].body
    assert len(s.value.condition.operands) == 3
    value = lang.build("O[i] = 0 < exp(x[i]) < 1", {"x": (3,)}).statement("S1").value
    assert value.a.b == value.b.a


def test_operators_write_out_chains():
    program = lang.build("op F<a>(X[*i]) -> Y[*i] { Y[*i] = a < X[*i] < 3 ? 1 : 0 }", {"X": (2, 3)}, attrs={"a": 1})
    assert lang.evaluate(program, {"X": np.arange(6.).reshape(2, 3)})["Y"].tolist() == [[0, 0, 1], [0, 0, 0]]


@pytest.mark.parametrize("text", ["(x[i] < 2) == (y[i] < 3)", "(x[i] < 2) == p[i]", "x[i] < 2 == y[i]", "p[i] == (x[i] < 2)"])
def test_printed_comparisons_read_back(text):
    shapes = dict.fromkeys("xyp", (3,))
    first = lang.build(f"O[i] = {text} && x[i] >= 0 && y[i] >= 0 && p[i]", shapes, {"p": "bool"}).statement("S1").value
    again = lang.build(f"O[i] = {pr.format_expr(first)}", shapes, {"p": "bool"}).statement("S1").value
    assert again == first
