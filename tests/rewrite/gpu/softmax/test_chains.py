"""Which statements are a chain of two products with a softmax between them, and which are none."""

from __future__ import annotations

import pytest

from polytc import stages
from polytc.machine import DEVICES
from polytc.program import program as pr
from polytc.rewrite import pipeline, table
from polytc.rewrite.gpu.softmax import chain, chains, fusion
from tests.rewrite.gpu.softmax.test_fusion import GROUPED, MASKED, PLAIN, READ_AT_FIRST, SAFE, sizes

GPU = DEVICES["nvidia-sm90"]


def before(text: str, shapes: dict[str, tuple[int, ...]], machine=GPU,  # type: ignore[no-untyped-def]
           but: str = "") -> pr.Program:
    """The program as it comes to the step. but: a step that is left out."""
    steps = [s for s in table.steps() if machine.kind in s.kinds and s.name != but]
    at = [s.name for s in steps].index("online_softmax")
    return pipeline.run(stages.build(text, shapes), machine, steps[:at])[0]


def found(text: str, shapes: dict[str, tuple[int, ...]]) -> list[chain.Chain]:
    return list(chains.chains(before(text, shapes)))


PLAINLY = PLAIN.format(w="")
BATCH = sizes(2, 20, 24, 8, 16)


def test_a_chain_is_told_in_the_indices_of_its_scores() -> None:
    x, = found(PLAIN.format(w=" where j <= i"), BATCH)
    assert (x.row, x.key, x.feature, x.score.name, x.safe) == ("i", "j", "d", "S1", False)
    assert [str(pr.format_expr(c)) for c in x.conditions] == ["j <= i"]
    assert x.names[-1] == "S6"
    assert [s.target for s in x.sums] == ["Z"]


def test_a_choice_of_minus_infinity_hides_keys() -> None:
    x, = found(SAFE, BATCH | {"A": (20, 24)})
    assert ([pr.format_expr(c) for c in x.hides], x.conditions, x.safe) == (["j <= i"], (), True)
    assert "j <= i" not in pr.format_expr(x.value)


def test_rows_are_those_of_the_longest_index() -> None:
    x, = found(GROUPED, {"Q": (2, 2, 3, 18, 8), "K": (2, 2, 21, 8), "V": (2, 2, 21, 12), "X": (12,)})
    assert (x.row, [r.index for r in x.batch]) == ("i", ["b", "g", "r"])
    assert {s.target for s in x.tail} == {"N", "T", "Y", "L"}


@pytest.mark.parametrize("text", [
    PLAINLY.replace("V[b,j,e]", "V[b,j,e]\nW[b,i,j] = E[b,i,j] * 2"),               # the weights are a result
    PLAINLY.replace("exp(P[b,i,j] * 0.25 - M[b,i])", "exp(P[b,i,j] - M[b,i])"),     # not of what the maximum is of
    PLAINLY.replace("M[b,i] max=", "M[b,i] min="),
    PLAINLY.replace("exp(", "tanh("),
    PLAINLY.replace("E[b,i,j] * V", "E[b,i,j] * E[b,i,j] * V"),                     # not linear in the weights
    PLAINLY.replace("M[b,i] max= P[b,i,j] * 0.25", "M[b,i] max= P[b,i,j] * 0.25 where j <= 9"),  # of other keys than the sums
])
def test_what_is_no_chain(text: str) -> None:
    assert not found(text, BATCH)


def test_a_reader_between_the_beginning_and_the_product() -> None:
    shapes = sizes(2, 18, 21, 8, 16)
    assert not found(READ_AT_FIRST, shapes)
    assert found(READ_AT_FIRST.replace("X[b,i,j] = S[b,i,j] + 1\n", ""), shapes)


@pytest.mark.parametrize(("condition", "is_one"), [
    ("N[b,i] == 0 ? 0 : W[b,i,j] / N[b,i]", True),
    ("N[b,i] != 0 ? W[b,i,j] / N[b,i] : 0", True),
    ("N[b,i] == 1 ? 0 : W[b,i,j] / N[b,i]", False),           # weights may be NaN, and their zeros meet infinities in V
    ("M[b,i] == 0 ? 0 : W[b,i,j] / N[b,i]", False),
    ("M[b,i] == -inf ? 0 : W[b,i,j] / N[b,i]", False),
    ("N[b,i] > 1 ? W[b,i,j] : W[b,i,j] / N[b,i]", True),
])
def test_zeros_in_place_of_weights(condition: str, is_one: bool) -> None:
    text = MASKED.replace("W[b,i,j] / N[b,i]", condition)
    assert len(found(text, BATCH | {"A": (20, 24)})) == is_one


def test_a_query_by_itself_has_no_rows() -> None:
    assert not found(PLAINLY, sizes(2, 1, 24, 8, 16))


def test_results_may_not_overwrite_an_operand() -> None:
    text = """def f(f32[I,D] Q, f32[J,D] K, inout f32[J,D] V) -> (V) {
P[i,j] += Q[i,d]*K[j,d]
M[i] max= P[i,j]
E[i,j] = exp(P[i,j] - M[i])
O[i,e] += E[i,j]*V[j,e]
V[i,e] = O[i,e]
}"""
    assert not found(text, {"Q": (16, 8), "K": (16, 8), "V": (16, 8)})


def test_sums_with_factors_of_the_row() -> None:
    x, = found(MASKED, BATCH | {"A": (20, 24)})
    assert "N" in pr.format_expr(x.product.value)
    assert chain.is_linear(x.product.value, "j")
    assert not chain.is_linear(pr.Binary("*", x.product.value, x.product.value, x.product.value.dtype), "j")


def test_the_step_leaves_others_alone() -> None:
    program = before("C[i,j] += A[i,k]*B[k,j]", {"A": (64, 64), "B": (64, 64)})
    assert fusion.fuse(program, fusion.decide(program, GPU)) == program
