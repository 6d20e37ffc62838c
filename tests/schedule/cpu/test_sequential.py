"""Programs with `for` loops through isl's scheduler: tiles of every kind give what `evaluate` gives."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polytc import compiler, lang
from polytc.machine import AVX2, AVX512, GENERIC_CPU
from polytc.poly import dependences, nest, scop, symbolic_sizes
from polytc.program import program as pr
from polytc.schedule.cpu import sequential
from polytc.schedule.tiling import tile_sizes
from polytc.schedule.tree import Schedule, checked, to_yaml
from tests import loop_statements as ls


def total(*terms):
    result = terms[0]
    for t in terms[1:]:
        result = ls.calc("+", result, t)
    return result


def near(tensor, *moves):
    """Sum of a plane's elements at some distances from (i, j)."""
    return total(*(ls.read(tensor, ls.plus("i", a), ls.plus("j", b)) for a, b in moves))


STAR = ((0, 0), (0, -1), (0, 1), (1, 0), (-1, 0))


def jacobi_2d(t, n, m):
    box = [("t", 0, t), ("i", 1, n - 1), ("j", 1, m - 1)]
    steps = [ls.statement(name, to, "ij", None, ls.calc("*", ls.number(0.2), near(of, *STAR)), box, (), ["L"])
             for name, to, of in (("S1", "B", "A"), ("S2", "A", "B"))]
    return pr.Program("jacobi_2d", (ls.tensor("A", n, m), ls.tensor("B", n, m)), tuple(steps), ("A", "B"), ("A", "B"))


def seidel_2d(t, n, m):
    moves = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1)]
    step = ls.statement("S1", "A", "ij", None, ls.calc("*", ls.number(0.11), near("A", *moves)),
                        [("t", 0, t), ("i", 1, n - 1), ("j", 1, m - 1)], (), ["L1", "L2", "L3"])
    return pr.Program("seidel_2d", (ls.tensor("A", n, m),), (step,), ("A",), ("A",))


def fields(t, n, m):
    """Two fields that make each other on staggered grids, and a boundary of lower dimension."""
    edge = ls.statement("S0", "E", (0, "j"), None, ls.read("F", "t"), [("t", 0, t), ("j", 0, m)], (), ["L"])
    electric = ls.statement("S1", "E", "ij", "+", ls.calc("*", ls.number(-0.5), ls.calc(
        "-", ls.read("H", "i", "j"), ls.read("H", ls.plus("i", -1), "j"))), [("t", 0, t), ("i", 1, n), ("j", 0, m)], (), ["L"])
    change = ls.calc("-", ls.read("E", ls.plus("i", 1), "j"), ls.read("E", "i", "j"))
    magnetic = ls.statement("S2", "H", "ij", "+", ls.calc("*", ls.number(-0.7), change),
                            [("t", 0, t), ("i", 0, n - 1), ("j", 0, m)], (), ["L"])
    return pr.Program("fields", (ls.tensor("F", t), ls.tensor("E", n, m), ls.tensor("H", n, m)), (edge, electric, magnetic),
                      ("F", "E", "H"), ("E", "H"))


def lu(n):
    """A[n,n] in place, row by row: each element waits for those before it in its row and its column."""
    value = pr.Unary("-", ls.calc("*", ls.read("A", "i", "k"), ls.read("A", "k", "j")), ls.F64)
    box = [("i", 0, n), ("j", 0, n)]
    lower = ls.statement("S1", "A", "ij", "+", value, [*box, ("k", 0, n)], [ls.below("j", "i"), ls.below("k", "j")],
                         ["L1", "L2"])
    scale = ls.statement("S2", "A", "ij", None, ls.calc("/", ls.read("A", "i", "j"), ls.read("A", "j", "j")), box,
                         [ls.below("j", "i")], ["L1", "L2"])
    upper = ls.statement("S3", "A", "ij", "+", value, [*box, ("k", 0, n)], [ls.below("i", ls.plus("j", 1)), ls.below("k", "i")],
                         ["L1", "L3"])
    return pr.Program("lu", (ls.tensor("A", n, n),), (lower, scale, upper), ("A",), ("A",))


def substitution(n):
    """x of a triangular system L x = b."""
    start = ls.statement("S1", "x", "i", None, ls.read("b", "i"), [("i", 0, n)], (), ["L1"])
    rest = ls.statement("S2", "x", "i", "+", pr.Unary("-", ls.calc("*", ls.read("A", "i", "j"), ls.read("x", "j")), ls.F64),
                        [("i", 0, n), ("j", 0, n)], [ls.below("j", "i")], ["L1"])
    scale = ls.statement("S3", "x", "i", None, ls.calc("/", ls.read("x", "i"), ls.read("A", "i", "i")), [("i", 0, n)], (),
                         ["L1"])
    return pr.Program("substitution", (ls.tensor("A", n, n), ls.tensor("b", n), ls.tensor("x", n)), (start, rest, scale),
                      ("A", "b"), ("x",))


def rows(n, m):
    """A recurrence along each row; rows are independent."""
    before = ls.calc("*", ls.number(0.5), ls.read("Y", "i", ls.plus("j", -1), default=1.0))
    step = ls.statement("S1", "Y", "ij", None, ls.calc("+", before, ls.read("X", "i", "j")), [("i", 0, n), ("j", 0, m)], (),
                        ["L1", "L2"])
    return pr.Program("rows", (ls.tensor("X", n, m), ls.tensor("Y", n, m)), (step,), ("X",), ("Y",))


PROGRAMS = {p.name: p for p in (
    ls.cholesky(19), ls.jacobi(7, 40), ls.recurrence(37), ls.carried_scalar(4, 30), ls.nested(9, 11), jacobi_2d(7, 18, 23),
    seidel_2d(6, 17, 19), fields(8, 15, 21), lu(18), substitution(29), rows(21, 26))}
RANDOM = np.random.default_rng(5)


def arrays(p):
    """Inputs that divisions and roots of the program take."""
    found = {n: RANDOM.random(p.tensor(n).shape) for n in p.inputs}
    if "A" in found and p.name in ("cholesky", "lu", "substitution"):
        n = len(found["A"])
        found["A"] = found["A"] @ found["A"].T / n + n * np.eye(n)
    return found


def planned(p, choose, machine=AVX512):
    """The YAML of the strategy's schedule, proved."""
    facts = scop.extract(p)
    deps = dependences.analyse(facts)
    root, _ = sequential.plan(facts, deps, machine, choose)
    return to_yaml(checked(Schedule(facts.tree(root)), deps))


def check(p, schedule, targets=("interp", "cpu")):
    given_arrays = arrays(p)
    expected = lang.evaluate(p, given_arrays)
    for target in targets:
        buffers = {n: given_arrays[n].copy() if n in given_arrays else np.full(p.tensor(n).shape, np.nan) for n in p.arrays}
        compiler.compile_program(p, target, 2, schedule).run(list(buffers.values()))
        for n in p.outputs:
            np.testing.assert_allclose(buffers[n], expected[n], rtol=1e-10, err_msg=f"{p.name} on {target}")


@pytest.mark.part(11)
@pytest.mark.parametrize("name", PROGRAMS)
def test_without_tiles(name):
    check(PROGRAMS[name], planned(PROGRAMS[name], lambda scene, band, fixed: tile_sizes.given(
        scene, band, fixed, [None] * len(band.loops))))


@pytest.mark.part(22)
@pytest.mark.parametrize(("name", "side"), [
    *((n, 5) for n in PROGRAMS), *(pytest.param(n, 4, marks=() if n == "jacobi" else pytest.mark.long) for n in PROGRAMS)])
def test_square_tiles(name, side):
    check(PROGRAMS[name], planned(PROGRAMS[name], lambda scene, band, fixed: tile_sizes.given(
        scene, band, fixed, [side if tile_sizes.tileable(band) else None] * len(band.loops))))


SETTINGS = settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))


@SETTINGS
@given(st.data())
def test_tiles_of_any_sizes(data):
    tiles_of_any_size(data)


@pytest.mark.long
@settings(SETTINGS, max_examples=100)
@given(st.data())
def test_many_tiles_of_any_sizes(data):
    tiles_of_any_size(data)


def tiles_of_any_size(data):
    p = data.draw(st.sampled_from(list(PROGRAMS.values())))
    machine = data.draw(st.sampled_from([GENERIC_CPU, AVX2, AVX512]))

    def choose(scene, band, fixed):
        sides = st.sampled_from([None, 1, 2, 3, 7, 8])
        chosen = [data.draw(sides) if tile_sizes.tileable(band) else None for _ in band.loops]
        return tile_sizes.given(scene, band, fixed, chosen)
    check(p, planned(p, choose, machine), data.draw(st.sampled_from([("interp",), ("cpu",)])))


def kinds(p, machine=AVX512):
    """(kinds of loops of the strategy's nest, what it says)."""
    facts = scop.extract(p)
    root, notes = sequential.plan(facts, dependences.analyse(facts), machine)
    return _kinds(root), notes


def _kinds(n):
    match n:
        case nest.Band():
            return [m.kind for m in n.members] + _kinds(n.child)
        case nest.Sequence():
            return [k for c in n.children for k in _kinds(c)]
    return []


@pytest.mark.part(4)
@pytest.mark.parametrize(("p", "expected"), [
    (ls.cholesky(1000), {"parallel"}), (lu(1000), {"parallel", "vector"}), (jacobi_2d(100, 1000, 1000), {"parallel", "vector"}),
    (seidel_2d(100, 1000, 1000), {"parallel"}), (fields(100, 1000, 1000), {"parallel", "vector"}),
    (rows(4000, 500), {"parallel"}), (substitution(2000), {"reduce"})], ids=lambda x: getattr(x, "name", ""))
def test_large_nests_are_parallel_and_use_vectors(p, expected):
    found, notes = kinds(p)
    assert expected <= set(found), notes


def test_a_time_loop_over_much_memory_is_tiled():
    _, notes = kinds(jacobi_2d(200, 3000, 3000))
    assert any("wavefront" in line for line in notes), notes


def test_the_result_for_large_sizes_is_legal_and_says_what_it_does():
    p = jacobi_2d(50, 400, 300)
    low = compiler.lower_program(p, "cpu")
    assert low.schedule.how.startswith("cpu strategy"), low.schedule.how
    assert "band (t, " in low.schedule.how


def test_numbers_become_parameters_and_neighbours_share_one():
    known = symbolic_sizes.symbols(jacobi_2d(100, 1000, 1300).statements)
    assert known.values == (1299, 999, 100)
    assert known.split(1297) == (0, 1, -2)
    assert known.split(-998) == (1, -1, 1)
    assert known.split(2) is None


def test_long_rows_are_loops_over_vectors():
    """Rows of thousands of elements are not unrolled: the code of a stencil stays small whatever its size."""
    assert len(str(compiler.lower_program(jacobi_2d(50, 900, 2500), "cpu").loops).splitlines()) < 400
