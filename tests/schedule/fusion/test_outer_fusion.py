"""Groups under common outer loops, and what must stay apart."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc.compiler import lower_program
from polytc.lang import build
from polytc.machine import AVX2
from polytc.schedule.facts.fusion_groups import Group, partition
from polytc.schedule.fusion.cluster import Cluster
from polytc.schedule.fusion.outer_fusion import clusters, handed_on, may_swap, shared_rows
from polytc.targets.llvm.target import LLVMTarget
from tests.behind import rewritten as behind_all

DEPTHWISE = "O[c,h,w] += (I[c,h+r-1,w+s-1] else 0)*W[c,r,s] where h in 0:28, w in 0:28"
ATTENTION = "S[h,i,j] += Q[h,i,d]*K[h,j,d]; O[h,i,e] += exp(S[h,i,j])*V[h,j,e]"
CHAIN = "T[i,j] += A[i,k]*B[k,j]; O[i,l] += exp(T[i,j])*C[j,l]"
SHAPES = {"depthwise": {"I": (64, 28, 28), "W": (64, 3, 3)}, "attention": dict.fromkeys("QKV", (12, 64, 32)),
          "chain": dict.fromkeys("ABC", (128, 128))}
TEXTS = {"depthwise": DEPTHWISE, "attention": ATTENTION, "chain": CHAIN}


def sizes(name: str) -> list[int]:
    """Groups of each cluster."""
    rewritten = behind_all(build(TEXTS[name], SHAPES[name]), AVX2)
    return [len(c.groups) for c in clusters(rewritten, partition(rewritten), AVX2)]


def test_a_padded_copy_lives_inside_the_loop_over_channels() -> None:
    assert sizes("depthwise") == [2]
    module = lower_program(build(DEPTHWISE, SHAPES["depthwise"]), LLVMTarget(AVX2)).loops
    assert len(module.kernels) == 1
    assert not module.scratch, "only a slice is left, inside the kernel"


def test_stages_of_attention_share_the_heads() -> None:
    assert max(sizes("attention")) > 1


def test_a_chain_of_products_keeps_the_reuse_of_its_operands() -> None:
    assert max(sizes("chain")) == 1


BLOCKS = """V[b,t,u,c] = X[b,t,c] + Y[u,c]
            Q[b,u,t,m] += V[b,t,u,c] * W[u,c,m]
            Z[b,t,2*m] = Q[b,0,t,m] + Q[b,1,t,m] where m in 0:64
            Z[b,t,2*m+1] = Q[b,0,t,m] - Q[b,1,t,m] where m in 0:64"""
BLOCK_SHAPES = {"X": (16, 12, 64), "Y": (2, 64), "W": (2, 64, 64)}


def test_stages_of_blocks_keep_their_values_in_cache() -> None:
    """Every stage runs inside the loop over blocks, the products with loops of their own; writes apart are no conflict."""
    lowered = lower_program(build(BLOCKS, BLOCK_SHAPES), LLVMTarget(AVX2))
    groups = partition(lowered.rewritten)
    assert [len(g.statements) for g in groups] == [1, 2, 2]
    assert [len(c.groups) for c in clusters(lowered.rewritten, groups, AVX2)] == [3]
    assert len(lowered.loops.kernels) == 1
    assert not lowered.loops.scratch


def test_loops_along_memory_are_not_shared() -> None:
    lowered = lower_program(build("T[a,i,c] = exp(X[i,c]) * A[a]; Y[i,b,c] = T[0,i,c] + T[7,i,c]*B[b]",
                                  {"X": (64, 256), "A": (8,), "B": (8,)}), LLVMTarget(AVX2))
    for cluster in clusters(lowered.rewritten, partition(lowered.rewritten), AVX2):
        assert all("c" not in row for row in cluster.whole.rows if cluster.rows)


@pytest.mark.part(2)
@pytest.mark.parametrize("name", TEXTS)
def test_results(name: str) -> None:
    rng = np.random.default_rng(0)
    arrays = {n: rng.standard_normal(s).astype(np.float32) / 8 for n, s in SHAPES[name].items()}
    expected = polytc.evaluate(TEXTS[name], **arrays)
    np.testing.assert_allclose(polytc.run(TEXTS[name], **arrays), expected, rtol=1e-4, atol=1e-4)


CUBE, SQUARE = {"X": (64, 96, 5)}, {"X": (64, 64)}


def apart(text: str, shapes: dict[str, tuple[int, ...]]) -> tuple[Group, ...]:
    """Each statement by itself, an update with what it begins with."""
    return partition(build(text, shapes), "min")


@pytest.mark.parametrize(("text", "shapes", "shared"), [
    ("T[i,j,k] = X[i,j,k]; Y[j,i] += T[i,j,k]", CUBE, ["ii", "jj"]),
    ("T[i,j,k] = X[i,j,k]; Y[c,b,a] = T[a,b,c]", CUBE, ["ia", "jb", "kc"]),
    ("T[i,j,k] = X[i,j,k]; Y[c,b,a] = T[a,b,4-c]", CUBE, ["ia", "jb"]),
    ("T[i,j,k] = X[i,j,k]; Y[a,b] = T[a,b,0] + T[a,b,4]", CUBE, ["ia", "jb"]),
    ("T[i,j] = X[i,j]; Y[a,b] = T[a,b]", SQUARE, ["ia", "jb"]),
    ("T[i,j] = X[i,j]; Y[a,b] = T[b,a]", SQUARE, ["ib", "ja"]),
    ("T[i,j] = X[i,j]; Y[a,b] = T[a,b] + T[b,a]", SQUARE, []),
    ("T[i,j] = X[i,j]; Y[a,b] = T[a,a] * X[b,b]", SQUARE, ["ia"]),
    ("T[i,j] = X[i,j]; Y[a,b] = T[a,b] where b in 1:64", SQUARE, ["ia"]),
    ("T[i,j] = X[i,j]; Y[a,b] = X[a,b]", SQUARE, ["ia", "jb"]),
])
def test_loops_that_a_group_shares(text: str, shapes: dict[str, tuple[int, ...]], shared: list[str]) -> None:
    first, second = apart(text, shapes)
    found = shared_rows(Cluster((first,)), second)
    assert [first.rows[a][0] + second.rows[b][0] for a, b in found] == shared
    assert len({b for _, b in found}) == len(found)


def test_all_statements_of_a_cluster_and_what_is_inside_of_its_loops() -> None:
    first, second, third = apart("T[i,j,k] = X[i,j,k]; Y[j,i] += T[i,j,k]; Z[j] += Y[j,a]", CUBE)
    pair = Cluster((first, second), ((1, 0),))
    assert pair.whole.rows == (("j", "j", "j"),)
    assert pair.whole.ranges == ((0, 96),)
    assert [s.target for s in pair.whole.statements] == ["T", "Y", "Y"]
    assert shared_rows(pair, third) == ((1, 0, 0),)
    triple = Cluster((*pair.groups, third), shared_rows(pair, third))
    assert triple.whole.rows == (("j",) * 5,)
    assert triple.without_last == pair
    assert pair.without_last == Cluster((first,))
    assert pair.part(0).extents == (64, 5)
    assert pair.part(1).rows == (("i", "i"),)
    assert [s.indices for s in pair.part(1).statements] == [("i",), ("i", "k")]


def test_groups_that_may_change_places() -> None:
    a, b, c, d = apart("T[i,j,k] = X[i,j,k]; Y[i] = X[i,0,0]; Z[i] = T[i,0,0]; W[i] = Y[i] + T[i,1,1]", CUBE)
    assert [may_swap(x, y) for x, y in ((a, b), (b, a), (a, c), (c, a), (b, c), (c, d), (b, d), (d, a))] == [
        True, True, False, False, True, True, False, False]


def test_what_flows_from_group_to_group() -> None:
    program = build("T[i,j,k] = X[i,j,k]; U[i] += T[i,j,k]; U2[i] = U[i] + 1; Y[i] = U2[i] * U[i] -> (Y, U2)", CUBE)
    t, u, u2, y = partition(program, "min")
    assert handed_on(program, (t, u, u2, y)) == {"T", "U"}, "U2 leaves the program"
    assert handed_on(program, (u, y)) == {"U"}
    assert handed_on(program, (u,)) == set(), "an update reads its own target"
    assert handed_on(program, (t, u2)) == set()


HEAD = "polytc decisions 1\n"


def given(name: str, lines: str) -> polytc.compiler.Lowered:
    return polytc.lower(TEXTS[name], LLVMTarget(AVX2), shapes=SHAPES[name], decisions=HEAD + lines)


def test_groups_share_the_outer_loops_that_a_record_says() -> None:
    """The copy is whole where its readers run after it, and a slice where they run in its loop."""
    own = given("depthwise", "")
    assert "outer S1_init: joins=S1_I_pad rows=x0" in [str(e) for e in own.decisions.entries]
    apart = given("depthwise", "outer S1_init: joins=none\n")
    assert [b.name for b in apart.loops.scratch] == ["I_pad"]
    assert not own.loops.scratch
    rng = np.random.default_rng(0)
    arrays = {n: rng.standard_normal(s).astype("f4") for n, s in SHAPES["depthwise"].items()}
    for record in (own.decisions, apart.decisions):
        found = polytc.compile(DEPTHWISE, shapes=SHAPES["depthwise"], decisions=record)(**arrays)
        np.testing.assert_allclose(found, polytc.evaluate(DEPTHWISE, **arrays), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("line", "words"), [
    ("outer S1_init: joins=S7 rows=c", "it can join S1_I_pad or none"),
    ("outer S1_init: joins=S1_I_pad", "the loops that it can share with S1_I_pad are x0, in this order"),
    ("outer S1_init: joins=S1_I_pad rows=x0,x1", "the loops that it can share with S1_I_pad are x0, in this order"),
    ("outer S1_I_pad: joins=none", "`outer` lines are about S1_init"),
    ("outer S1_init: joins=none\nouter S1_init: joins=S1_I_pad rows=x0\nfusion: policy=min", "the schedule has no `outer`"),
])
def test_outer_loops_that_do_not_fit_are_told(line: str, words: str) -> None:
    with pytest.raises(polytc.CompileError) as raised:
        given("depthwise", line)
    assert raised.value.code == "E710"
    assert words in str(raised.value)


def test_a_group_has_a_line_for_each_level() -> None:
    """The second line of a statement is about the loops inside of those that the first one shares."""
    text = "S[i,j] += Q[i,d]*K[j,d]; E[i,j] = exp(S[i,j]/8); Z[i] += E[i,j]; Y[i,d] += E[i,j]*V[j,d]/Z[i]"
    shapes = dict.fromkeys("QKV", (2048, 64))
    own = polytc.lower(text, LLVMTarget(AVX2), shapes=shapes)
    names = [e.statement for e in own.decisions.entries if e.step == "outer"]
    twice = next(n for n in names if names.count(n) == 2)
    again = polytc.lower(text, LLVMTarget(AVX2), shapes=shapes, decisions=str(own.decisions))
    assert again.source.text == own.source.text
    lines = [e for e in again.decisions.entries if (e.step, e.statement) == ("outer", twice)]
    assert [dict(e.values)["joins"] for e in lines] == [dict(e.values)["joins"] for e in own.decisions.entries
                                                       if (e.step, e.statement) == ("outer", twice)]
