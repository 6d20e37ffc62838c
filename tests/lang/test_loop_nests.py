"""Programs with `for` loops on every target, in the order of the text and under hand-written nests, against `evaluate`."""

import numpy as np
import pytest

from polytc import compiler, errors, lang
from polytc.poly import dependences, nest, scop
from polytc.program import program as pr
from polytc.program.scalars import I64
from polytc.schedule.tree import Schedule, checked, to_yaml
from tests import loop_statements as ls

PROGRAMS = {p.name: p for p in (ls.cholesky(9), ls.jacobi(5, 40), ls.recurrence(17), ls.carried_scalar(4, 30), ls.nested(5, 6))}
RANDOM = np.random.default_rng(2)


def arrays(p):
    given = {n: RANDOM.random(p.tensor(n).shape) for n in p.inputs}
    return {"A": given["A"] @ given["A"].T + np.eye(len(given["A"]))} if p.name == "cholesky" else given


def check(p, target, schedule, threads=2):
    given = arrays(p)
    expected = lang.evaluate(p, given)
    buffers = {n: given[n].copy() if n in given else np.full(p.tensor(n).shape, np.nan) for n in p.arrays}
    compiler.compile_program(p, target, threads, schedule).run(list(buffers.values()))
    for n in p.outputs:
        np.testing.assert_allclose(buffers[n], expected[n], rtol=1e-12)


@pytest.mark.part(8)
@pytest.mark.parametrize("schedule", ["program", None, "isl"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_targets(name, schedule, targets):
    for target in targets:
        check(PROGRAMS[name], target, schedule)


def band(name, index, statements, child, kind="sequential"):
    return nest.Band(name, (nest.Member(tuple((s, index) for s in statements), kind),), child)


def given(p, root):
    """The YAML of a nest that has been checked."""
    facts = scop.extract(p)
    return to_yaml(checked(Schedule(facts.tree(root)), dependences.analyse(facts)))


def test_parallel_loops_inside_a_sequential_one():
    p = ls.jacobi(5, 400)
    both = [band(f"B{s}", "i", [s], nest.Leaf(s), "parallel") for s in ("S1", "S2")]
    root = nest.Sequence((nest.own_band(p.statements[0]), band("B", "t", ["S1", "S2"], nest.Sequence(tuple(both)))))
    for target in ("interp", "cpu"):
        check(p, target, given(p, root))


def test_a_value_in_a_register_is_carried_and_read_by_a_parallel_loop():
    p = ls.carried_scalar(4, 300)
    inner = nest.Sequence((band("B1", "i", ["S1"], nest.Leaf("S1"), "parallel"), band("B2", "i", ["S2"], nest.Leaf("S2")),
                           nest.Leaf("S3")))
    root = nest.Sequence((nest.Leaf("S0"), band("B", "t", ["S1", "S2", "S3"], inner)))
    for target in ("interp", "cpu"):
        check(p, target, given(p, root))


def rows(t, n, back):
    """R[t, i] is made of X; Y[t] is made of R[t - back] and, reversed, of R[t]."""
    mirror = ls.plus(n - 1, pr.Unary("-", pr.Index("i"), I64))
    make = ls.statement("S1", "R", "ti", None, ls.calc("*", ls.read("X", "t", "i"), ls.number(2.0)), [("t", 0, t), ("i", 0, n)],
                        (), ["L"])
    use = ls.statement("S2", "Y", "ti", None, ls.calc("+", ls.read("R", ls.plus("t", -back), "i", default=0.5),
                                                      ls.read("R", "t", mirror)), [("t", 0, t), ("i", 0, n)], (), ["L"])
    return pr.Program("rows", (ls.tensor("X", t, n), ls.tensor("R", t, n), ls.tensor("Y", t, n)), (make, use), ("X",), ("Y",))


@pytest.mark.parametrize("back", [0, 1, 3])
def test_slices_are_kept_only_for_what_an_iteration_uses_alone(back):
    p = rows(6, 50, back)
    inner = nest.Sequence(tuple(band(f"B{s}", "i", [s], nest.Leaf(s), "parallel") for s in ("S1", "S2")))
    schedule = given(p, band("B", "t", ["S1", "S2"], inner))
    loops = compiler.lower_program(p, "cpu", schedule).loops
    assert ("alloc local" in str(loops)) == (back == 0)
    for target in ("interp", "cpu"):
        check(p, target, schedule)


def test_a_carried_loop_is_not_parallel():
    p = ls.jacobi(3, 9)
    inner = nest.Sequence(tuple(band(f"B{s}", "i", [s], nest.Leaf(s)) for s in ("S1", "S2")))
    root = nest.Sequence((nest.own_band(p.statements[0]), band("B", "t", ["S1", "S2"], inner, "parallel")))
    with pytest.raises(errors.IllegalTransform) as error:
        given(p, root)
    assert error.value.code == "E704"


def test_loops_apart_are_illegal_where_a_value_goes_back_and_forth():
    p = ls.jacobi(3, 9)
    root = nest.Sequence(tuple(nest.own_band(s) for s in p.statements))
    with pytest.raises(errors.IllegalTransform) as error:
        given(p, root)
    assert error.value.code == "E701"
    assert "S2[t=" in str(error.value)
