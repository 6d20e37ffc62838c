"""Where the operands of declared intrinsics lie, what their values are, and what their texts say: results beside numpy."""

from __future__ import annotations

import numpy as np
import pytest

import polytc
from polytc.program import program as pr
from polytc.program.intrinsics import Intrinsic
from polytc.schedule.user.changes import intrinsic_operands, intrinsic_texts, listed
from polytc.schedule.user.recipe import Recipe
from tests import cuda_here
from tests.schedule.user.changes.test_tensorization import BYTES, DOT8, MATMUL, MM448, SHAPES, TEXT

LOOP = "for (int k = 0; k < 8; k++)"
TWO = {"X": (6, 32), "Y": (6, 32)}
PRODUCT = "C[i] += X[i,k] * Y[i,k]"


def declared(name: str, text: str, body: str, shapes: dict[str, tuple[int, ...]] | None = None, **more: object) -> Intrinsic:
    """With one text for all languages."""
    given = {"A": (8,), "B": (8,)} if shapes is None else shapes
    return polytc.intrinsic(name, text, given, **{"c": body, "opencl": body, "cuda": body} | more)  # type: ignore[arg-type]


DOT = declared("dot", "C += A[k] * B[k]", f"{LOOP} {{C}} += ({{A}})[k] * ({{B}})[k];")
SQUARES = declared("squares", "C += A[k] * A[k]", f"{LOOP} {{C}} += ({{A}})[k] * ({{A}})[k];", {"A": (8,)})
SQUARE = declared("square", "B[k] = A[k] * A[k]", f"{LOOP} ({{B}})[k] = ({{A}})[k] * ({{A}})[k];", {"A": (8,)})
BEHIND = declared("behind", "C += A[k+1] * B[k]", f"{LOOP} {{C}} += ({{A}})[k + 1] * ({{B}})[k];", {"A": (9,), "B": (8,)})
BACK = declared("back", "C += A[7-k] * B[k]", f"{LOOP} {{C}} += ({{A}})[7 - k] * ({{B}})[k];")
NEXT = declared("next", "C += A[k] * A[k+1]", f"{LOOP} {{C}} += ({{A}})[k] * ({{A}})[k + 1];", {"A": (9,)})
COUNTED = declared("counted", "C += A[k] * f32(k)", f"{LOOP} {{C}} += ({{A}})[k] * (float)k;", {"A": (8,)})
TURNED = declared("turned", "C += A[i,k] * A[k,i]",
                  "for (int i = 0; i < 4; i++) for (int k = 0; k < 4; k++) "
                  "{C} += ({A})[i * {A.0} + k] * ({A})[k * {A.0} + i];", {"A": (4, 4)})
SECOND = declared("second", "C += A[1,k] * B[k]", f"{LOOP} {{C}} += ({{A}})[8 + k] * ({{B}})[k];", {"A": (2, 8), "B": (8,)})


def pieces(text: str, shapes: dict[str, tuple[int | str, ...]], intrinsic: Intrinsic, index: str = "k", target: str = "C"
           ) -> Recipe:
    return polytc.schedule(text, shapes).split(target, index, 8).tensorize(target, f"{index}.1", intrinsic)


def whole(text: str, shapes: dict[str, tuple[int, ...]], intrinsic: Intrinsic, loop: str = "k") -> Recipe:
    return polytc.schedule(text, shapes).tensorize("C", loop, intrinsic)


def run(text: str, made: Recipe, given: list[np.ndarray], targets: tuple[str, ...]) -> list[np.ndarray]:
    """On all targets whose text runs here."""
    found = [polytc.run(text, *given, target=target, schedule=made)
             for target in ("interp", "cpu", *(["opencl"] if "opencl" in targets else []))]
    if cuda_here.COMPILER is not None:
        found.append(polytc.compile(text, cuda_here.CompiledCuda(), schedule=made)(*given))
    return found


def array(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(-9, 9, shape).astype("f4")


X, Y, P = array(6, 32), array(6, 32)[:, ::-1].copy(), array(6, 33)
K = np.arange(32, dtype="f4")
RIGHT = {
    "squares": (SQUARES, "C[i] += X[i,k] * X[i,k]", [X], (X * X).sum(1)),
    "one tensor for two": (DOT, "C[i] += X[i,k] * X[i,k]", [X], (X * X).sum(1)),
    "one element behind": (BEHIND, "C[i] += P[i,k+1] * Y[i,k]", [P, Y], (P[:, 1:] * Y).sum(1)),
    "begins behind": (DOT, "C[i] += P[i,k+1] * Y[i,k]", [P, Y], (P[:, 1:] * Y).sum(1)),
    "back": (BACK, "C[i] += X[i,31-k] * Y[i,k]", [X, Y], (X[:, ::-1] * Y).sum(1)),
    "neighbours": (NEXT, "C[i] += P[i,k] * P[i,k+1] where k in 0:32", [P], (P[:, 1:] * P[:, :-1]).sum(1)),
    "counted": (COUNTED, "C[i] += X[i,k] * f32(k % 8)", [X], (X * (K % 8)).sum(1)),
}


@pytest.mark.part(7)
@pytest.mark.parametrize("name", RIGHT)
def test_operands_begin_where_the_text_says(name: str, targets: tuple[str, ...]) -> None:
    intrinsic, text, given, expected = RIGHT[name]
    made = pieces(text, dict(zip([n for n in "XPY" if f"{n}[" in text], (a.shape for a in given), strict=True)), intrinsic)
    for found in run(text, made, given, targets):
        np.testing.assert_array_equal(found, expected)


def test_a_whole_index_is_counted_from_0(targets: tuple[str, ...]) -> None:
    x = array(6, 8)
    text = "C[i] += X[i,k] * f32(k)"
    for made in (whole(text, {"X": (6, 8)}, COUNTED), pieces(text, {"X": (6, 8)}, COUNTED)):
        for found in run(text, made, [x], targets):
            np.testing.assert_array_equal(found, (x * np.arange(8)).sum(1))


def test_a_matrix_and_what_lies_across(targets: tuple[str, ...]) -> None:
    z = array(3, 4, 4)
    text = "C[z] += Z[z,i,k] * Z[z,k,i]"
    made = whole(text, {"Z": z.shape}, TURNED, "i")
    for found in run(text, made, [z], targets):
        np.testing.assert_array_equal(found, np.einsum("zik,zki->z", z, z))


REFUSED = {
    "B1 two tensors": (lambda: pieces(PRODUCT, TWO, SQUARES),
                       "has one operand A in A[k] and A[k], S1 accesses X[i, k] and Y[i, k]"),
    "B1 two places": (lambda: pieces("C[i,j] += X[i,k] * X[j,k]", {"X": (6, 32)}, SQUARES),
                      "S1 accesses X[i, k] and X[j, k]"),
    "B1 an assignment": (lambda: pieces("B[k] = X[k] * Y[k]", {"X": (32,), "Y": (32,)}, SQUARE, target="B"),
                         "has one operand A in A[k] and A[k], S1 accesses X[k] and Y[k]"),
    "B1 other neighbours": (lambda: pieces("C[i] += P[i,k+1] * P[i,k] where k in 0:32", {"P": (6, 33)}, NEXT),
                            "S1 accesses P[i, k + 1] and P[i, k]"),
    "B2": (lambda: pieces(PRODUCT, TWO, BEHIND),
           "has 9 elements in dimension 0 of A, which it accesses as A[k + 1]: S1 accesses X[i, k], which takes X from -1 to "
           "31 where it has 0 to 31"),
    "B2 open": (lambda: pieces("C[i,m] += P[i,k+m] * Y[i,k] where k in 0:32", {"P": (6, "J"), "Y": (6, 32)}, BEHIND),
                "there may be no such"),
    "B2 in a dimension that stays": (lambda: pieces(PRODUCT, TWO, SECOND), "reads one of 2 elements in dimension 0 of A[1, k]"),
    "B4": (lambda: pieces("C[i] += X[i,k] * f32(k)", {"X": (6, 32)}, COUNTED),
           "has k in its value, which is k % 8 in these loops, where S1 has k"),
    "B4 another loop": (lambda: pieces("C[i,m] += X[i,k] * f32(m) where m in 0:8", {"X": (6, 32)}, COUNTED),
                        "in its value, which is k % 8 in these loops, where S1 has m"),
    "B4 a number": (lambda: pieces("C[i] += X[i,k] * f32(k % 8 + 1)", {"X": (6, 32)}, COUNTED), "S1 has k % 8 + 1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_places_and_values_are_refused(name: str) -> None:
    make, words = REFUSED[name]
    with pytest.raises(polytc.CompileError) as refusal:
        make()
    assert refusal.value.code == "E711"
    assert words in str(refusal.value)


def test_elements_that_a_copy_may_not_keep() -> None:
    """The text may read A[0], which the loops do not touch as A."""
    text, shapes = "C[i] += P[i,k+1] * P[i,k] where k in 0:32", {"P": (6, 33)}
    made = polytc.schedule(text, shapes).split("C", "k", 8).cache("C", "P", at="k.0").tensorize("C", "k.1", BEHIND)
    p = array(6, 33)
    np.testing.assert_array_equal(polytc.run(text, p, target="interp", schedule=made), (p[:, 1:] * p[:, :-1]).sum(1))
    with pytest.raises(polytc.TargetError, match="keeps fewer elements than A has") as refusal:
        polytc.lower(text, "c", shapes=shapes, schedule=made)
    assert refusal.value.code == "E527"


@pytest.mark.part(2)
@pytest.mark.parametrize("copied", ["X", "Y"])
def test_operands_that_run_back_in_local_memory(copied: str, targets: tuple[str, ...]) -> None:
    text = "C[i] += X[i,31-k] * Y[i,k]"
    made = polytc.schedule(text, TWO).split("C", "k", 8).split("C", "i", 2).reorder("C", "i.0", "k.0", "i.1", "k.1")
    made = made.bind("C", {"i.0": "grid.x", "i.1": "block.x"}).cache("C", copied, at="k.0").tensorize("C", "k.1", BACK)
    for found in run(text, made, [X, Y], targets):
        np.testing.assert_array_equal(found, (X[:, ::-1] * Y).sum(1))


def test_conditions_count_as_the_loops_do(targets: tuple[str, ...]) -> None:
    some = declared("some", "C += k < 4 ? A[k] : 0.0", f"{LOOP} {{C}} += k < 4 ? ({{A}})[k] : 0;", {"A": (8,)})
    with pytest.raises(polytc.CompileError, match="which is k % 8 in these loops, where S1 has k"):
        pieces("C[i] += k < 4 ? X[i,k] : 0.0", {"X": (6, 32)}, some)
    text = "C[i] += k % 8 < 4 ? X[i,k] : 0.0"
    for found in run(text, pieces(text, {"X": (6, 32)}, some), [X], targets):
        np.testing.assert_array_equal(found, (X * (K % 8 < 4)).sum(1))


def test_a_range_that_begins_later_is_counted_from_0(targets: tuple[str, ...]) -> None:
    with pytest.raises(polytc.CompileError, match="which is k - 8 in these loops, where S1 has k"):
        whole("C[i] += X[i,k] * f32(k) where k in 8:16", {"X": (6, 32)}, COUNTED)
    text = "C[i] += X[i,k] * f32(k - 8) where k in 8:16"
    for found in run(text, whole(text, {"X": (6, 32)}, COUNTED), [X], targets):
        np.testing.assert_array_equal(found, (X[:, 8:16] * K[:8]).sum(1))


def test_strides_are_told_for_each_language() -> None:
    text = MM448.in_language("cuda")
    assert text is not None
    without = polytc.intrinsic("mm448", "C[i,j] += A[i,k] * B[k,j]", {"A": (4, 8), "B": (8, 4)}, cuda=text[0],
                               c=text[0].replace("{A.0}", "8"))
    made = polytc.schedule(MATMUL, {"A": (16, 24), "B": (24, 32)}).tile("C", i=4, j=4, k=8)
    with pytest.raises(polytc.CompileError, match=r"take \{A\.0\} in its text for c, or cache A"):
        made.tensorize("C", "i.1", without)


def test_two_intrinsics_of_one_name() -> None:
    text = "C[i] += X[i,k] * Y[i,k]; D[i] += X[i,k] * X[i,k]"
    made = pieces(text, TWO, DOT).split("D", "k", 8)
    other = declared("dot", "C += A[k] * A[k]", "{C} += f({A});", {"A": (8,)})
    with pytest.raises(polytc.CompileError, match="dot is the name of another intrinsic, which S1 calls") as refusal:
        made.tensorize("D", "k.1", other)
    assert refusal.value.code == "E711"
    made.tensorize("D", "k.1", DOT)


@pytest.mark.parametrize(("at", "intrinsic", "code"), [
    ("k.1", None, "E708"), ("k.1", "sum8", "E708"), (None, DOT, "E707"), (3, DOT, "E707")])
def test_calls_that_make_no_sense(at: object, intrinsic: object, code: str) -> None:
    made = polytc.schedule(PRODUCT, TWO).split("C", "k", 8)
    with pytest.raises(polytc.CompileError) as refusal:
        made.tensorize("C", at, intrinsic)  # type: ignore[arg-type]
    assert refusal.value.code == code


def test_loops_are_one_call() -> None:
    made = polytc.schedule(TEXT, SHAPES, BYTES).split("C", "k", 8).tensorize("C", "k.1", DOT8)
    with pytest.raises(polytc.CompileError, match="S1 is a call of dot8 already") as refusal:
        made.tensorize("C", "k.1", DOT8)
    assert refusal.value.code == "E708"


@pytest.mark.parametrize(("given", "code", "words"), [
    ({"c": "{C} += {A.7};"}, "E711", "has {A.7} in its text for c: A has 1 dimensions"),
    ({"c": "{C.0}"}, "E711", "C has 0 dimensions"), ({"c": "{A.foo}"}, "E711", "{A.foo}"), ({"c": "{A.-1}"}, "E711", "{A.-1}"),
    ({"c": "{A.}"}, "E711", "{A.}"), ({"c": "{Z}"}, "E711", "Z is none of its operands C, A"),
    ({"c": "f({A}); /* never"}, "E711", "a comment in its text for c that does not end"),
    ({"head": {"c": "/* never"}}, "E711", "a comment in its head for c"), ({"c": 5}, "E410", "a name"),
    ({"name": 5}, "E410", "a name"), ({"text": 5}, "E410", "a name"), ({"head": {"c": 5}}, "E410", "heads"),
    ({"head": 5}, "E410", "heads"), ({"name": "int"}, "E410", "no word of C"),
    ({"text": "C += A[k-1] else 0 where k in 0:8"}, "E711", "no single statement")])
def test_declarations_that_say_nonsense(given: dict[str, object], code: str, words: str) -> None:
    with pytest.raises(polytc.PolytcError) as refusal:
        polytc.intrinsic(**{"name": "sum8", "text": "C += A[k]", "shapes": {"A": (8,)}, "c": "f({A});"} | given)  # type: ignore[arg-type]
    assert refusal.value.code == code
    assert words in str(refusal.value)


def test_braces_and_comments_of_c() -> None:
    fine = 'float s[8] = {0}; /* {A} */ { x; } // /*\n f("/*", \'"\', {A}, {A.0}, {A.space});'
    made = polytc.intrinsic("sum8", "C += A[k]", {"A": (8,)}, c=fine)
    assert intrinsic_texts.wrong(made, {"C": 0, "A": 1}) == ""


def test_saved_texts_are_looked_at() -> None:
    bad = str(SQUARES).replace("({A})[k]", "({Q})[k]")
    change = listed.read(f"tensorize S1 k/1%8 {bad}")
    program = polytc.build("C[i] += X[i,k] * X[i,k]", {"X": (6, 32)})
    with pytest.raises(polytc.CompileError, match="Q is none of its operands"):
        change.apply(program)


def test_numbers_that_are_the_same() -> None:
    program = polytc.build("C[i] = f32(2*i + 1) + f32(1 + i + i) + f32(2*i)  where i in 0:4", {})
    numbers = [x.a for x in pr.walk(program.statements[0].value) if isinstance(x, pr.Cast)]
    assert intrinsic_operands.same(numbers[0], numbers[1])
    assert not intrinsic_operands.same(numbers[0], numbers[2])
