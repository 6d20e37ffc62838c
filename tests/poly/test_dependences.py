"""Domains, dependences and legality of small programs, against what one works out by hand."""

from __future__ import annotations

import islpy
import pytest

from polytc.lang import build
from polytc.poly import dependences, legality, nest, scop
from polytc.poly.isl import QuotaExceeded, bounded
from polytc.program import program as pr
from tests import loop_statements as ls


def analysed(text: str, **shapes: tuple[int, ...]) -> tuple[scop.Scop, dependences.Dependences]:
    facts = scop.extract(build(text, shapes))
    return facts, dependences.analyse(facts)


def same(ctx: islpy.Context, found: islpy.UnionMap, expected: str) -> bool:
    return bool(found.is_equal(islpy.UnionMap.read_from_str(ctx, expected)))


def test_matmul() -> None:
    facts, deps = analysed("C[i,j] += A[i,k]*B[k,j]", A=(3, 4), B=(4, 5))
    box = "0 <= i < 3 and 0 <= j < 5"
    assert facts.domain.is_equal(islpy.UnionSet.read_from_str(
        facts.ctx, f"{{ S1_init[i,j] : {box}; S1[i,j,k] : {box} and 0 <= k < 4 }}"))
    init = f"S1_init[i,j] -> S1[i,j,k] : {box} and 0 <= k < 4"
    carried = f"S1[i,j,k] -> S1[i,j,l] : {box} and 0 <= k < l < 4"
    assert same(facts.ctx, deps.flow, f"{{ {init}; {carried} }}")
    assert same(facts.ctx, deps.output, f"{{ {init}; {carried} }}")
    assert same(facts.ctx, deps.order, f"{{ {init} }}"), "the reduction may be reordered"
    assert same(facts.ctx, deps.all, f"{{ {init}; {carried} }}"), "but not run at once"


def test_guarded_read_depends_only_inside() -> None:
    facts, deps = analysed("T[i] = X[i]; Y[i] = (T[i-1] else 0) where i in 0:4", X=(4,))
    assert same(facts.ctx, deps.order, "{ S1[i] -> S2[i+1] : 0 <= i < 3 }")


def test_scattered_reduction_meets_in_one_element() -> None:
    facts, deps = analysed("O[2*h+r] += I[h]*W[r]", I=(3,), W=(3,))
    assert same(facts.ctx, deps.reduction.intersect(deps.all), "{ S1[h,r] -> S1[g,s] : 2h+r = 2g+s and 0 <= h,g < 3 and "
                "0 <= r,s < 3 and h < g }")


def test_gather_reads_the_whole_dimension() -> None:
    facts = scop.extract(build("Y[b,d] = T[I[b],d]", {"T": (3, 2), "I": (4,)}, {"T": "f32", "I": "i64"}))
    assert same(facts.ctx, facts.reads, "{ S1[b,d] -> T[a,d] : 0 <= b < 4 and 0 <= d < 2 and 0 <= a < 3; "
                "S1[b,d] -> I[b] : 0 <= b < 4 and 0 <= d < 2 }")


def test_names_of_indices_do_not_meet_those_of_dimensions() -> None:
    facts = scop.extract(build("Y[a1,a0] = T[I[a1],a0]", {"T": (3, 2), "I": (4,)}, {"T": "f32", "I": "i64"}))
    assert same(facts.ctx, facts.reads, "{ S1[b,d] -> T[a,d] : 0 <= b < 4 and 0 <= d < 2 and 0 <= a < 3; "
                "S1[b,d] -> I[b] : 0 <= b < 4 and 0 <= d < 2 }")


def test_program_order_is_legal_and_the_reverse_is_not() -> None:
    facts, deps = analysed("T[i] += X[i,k]; Y[i] = T[i]*2", X=(3, 4))
    assert legality.violation(facts.original, deps.order) is None
    parts = tuple(nest.own_band(s) for s in reversed(facts.program.statements))
    backwards = nest.tree(facts.ctx, facts.program, nest.Sequence(parts))
    broken = legality.violation(backwards, deps.order)
    assert broken is not None
    assert "must run before" in str(broken)
    assert broken.source.startswith(("S1[", "S1_init["))
    assert broken.sink.startswith(("S1[", "S2["))


def test_a_reader_between_the_iterations_of_a_reduction_is_found() -> None:
    """What value-based dependences without self pairs would let through; see Note [Reductions]."""
    facts, deps = analysed("C[i] += A[i,k]; D[i] = C[i]*2", A=(2, 4))
    text = ('{ domain: "{ S1_init[i] : 0<=i<2; S1[i,k] : 0<=i<2 and 0<=k<4; S2[i] : 0<=i<2 }", child: { schedule: '
            '"[{ S1_init[i] -> [(i)]; S1[i,k] -> [(i)]; S2[i] -> [(i)] }, '
            '{ S1_init[i] -> [(-5)]; S1[i,k] -> [(-k)]; S2[i] -> [(-2)] }]" } }')
    assert legality.violation(islpy.Schedule.read_from_str(facts.ctx, text), deps.order) is not None


def test_carried_dependences() -> None:
    facts, deps = analysed("C[i] += A[i,k]", A=(2, 4))
    band = facts.original.get_root().child(0).child(1).child(0).child(0)
    assert band.get_type() == islpy.schedule_node_type.band
    assert legality.carried(band, 0, deps.all) is None
    found = legality.carried(band, 1, deps.all)
    assert found is not None
    assert found.source != found.sink


def test_budget() -> None:
    facts, deps = analysed("C[i,j] += A[i,k]*B[k,j]", A=(30, 40), B=(40, 50))
    constraints = islpy.ScheduleConstraints.on_domain(facts.domain).set_validity(deps.order)
    with pytest.raises(QuotaExceeded):
        bounded(facts.ctx, 10, constraints.compute_schedule)
    assert bounded(facts.ctx, 1_000_000, constraints.compute_schedule) is not None, "the context is still good"


def test_reserved_words_are_names_like_others() -> None:
    facts = scop.extract(build("C[mod,floor] += A[mod,exists]*B[exists,floor]", {"A": (3, 4), "B": (4, 5)}))
    assert not facts.domain.is_empty()


def test_loops_carry_dependences_both_ways() -> None:
    p = ls.jacobi(4, 6)
    facts = scop.extract(p)
    deps = dependences.analyse(facts)
    box = "0 <= t <= u < 4 and 1 <= i,j < 5 and -1 <= i - j <= 1"
    start = "S0[i] -> S2[u,j] : 0 <= u < 4 and 0 <= i < 6 and 1 <= j < 5 and -1 <= i - j <= 1"
    assert same(facts.ctx, deps.flow, f"{{ {start}; S1[t,i] -> S2[u,j] : {box}; S2[t,i] -> S1[u,j] : {box} and t < u }}")
    assert same(facts.ctx, deps.output, "{ S0[i] -> S1[t,i] : 0 <= t < 4 and 1 <= i < 5; "
                "S1[t,i] -> S1[u,i] : 0 <= t < u < 4 and 1 <= i < 5; S2[t,i] -> S2[u,i] : 0 <= t < u < 4 and 1 <= i < 5 }")
    assert legality.violation(facts.original, deps.order) is None


def test_an_update_in_a_loop_commutes_unless_it_reads_its_target_itself() -> None:
    def update(value: pr.Expr) -> tuple[scop.Scop, dependences.Dependences]:
        s = ls.statement("S1", "A", "i", "+", value, [("t", 0, 3), ("i", 0, 4)], (), ["L"])
        facts = scop.extract(pr.Program("p", (ls.tensor("A", 4), ls.tensor("X", 3)), (s,), ("X", "A"), ("A",)))
        return facts, dependences.analyse(facts)
    facts, deps = update(ls.read("X", "t"))
    assert deps.order.is_empty()
    assert not deps.all.is_empty()
    facts, deps = update(ls.calc("*", ls.read("X", "t"), ls.read("A", "i")))
    assert same(facts.ctx, deps.order, "{ S1[t,i] -> S1[u,i] : 0 <= t < u < 3 and 0 <= i < 4 }")


def test_nested_loops_order_statements_of_different_depth() -> None:
    facts = scop.extract(ls.nested(3, 3))
    deps = dependences.analyse(facts)
    assert same(facts.ctx, deps.flow.intersect_domain(islpy.UnionSet.read_from_str(facts.ctx, "{ S4[t] }")),
                "{ S4[t] -> S2[v,t] : 0 <= t < v < 3 }"), "S1 reads X[t] in an iteration before that of S4"
    assert legality.violation(facts.original, deps.order) is None


@pytest.mark.parametrize("program", [ls.jacobi(4, 6), ls.nested(3, 4), ls.cholesky(5)], ids=lambda p: p.name)
def test_without_a_budget_the_order_of_loops_is_known(program: pr.Program) -> None:
    facts = scop.extract(program)
    coarse = dependences.analyse(facts, operations=1)
    assert coarse.coarse
    exact = dependences.analyse(facts)
    assert exact.all.is_subset(coarse.all)
    assert legality.violation(facts.original, coarse.order) is None
