"""Declared intrinsics in place of loops: what is proved, what is refused, and what targets write; results beside numpy."""

from __future__ import annotations

import copy
import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import polytc
from polytc.codegen import loops, traverse
from polytc.export import bundle, c_host
from polytc.program.intrinsics import Intrinsic
from polytc.schedule.user.changes import listed
from polytc.schedule.user.recipe import Recipe
from polytc.targets import registry
from polytc.targets.ctext import intrinsic_nests
from tests import cuda_here
from tests.export import exported
from tests.test_cli import good

BYTES = {"A": "i8", "B": "i8"}
LOOP = "for (int k = 0; k < 8; k++) s += a[k] * b[k]; return s; }"
DOT8 = polytc.intrinsic(
    "dot8", "C += i32(A[k]) * i32(B[k])", {"A": (8,), "B": (8,)}, BYTES, alignment=8,
    c="{C} += dot8({A}, {B});", cuda="{C} += dot8({A}, {B});",
    opencl="{C} += dot8(vload8(0, {A}), vload8(0, {B}));",
    head={"c": "static int dot8(const int8_t *a, const int8_t *b) { int s = 0; " + LOOP,
          "cuda": "__device__ inline int dot8(const signed char *a, const signed char *b) { int s = 0; " + LOOP,
          "opencl": "static int dot8(char8 a, char8 b)\n{\n    const int8 p = convert_int8(a) * convert_int8(b);\n"
                    "    return p.s0 + p.s1 + p.s2 + p.s3 + p.s4 + p.s5 + p.s6 + p.s7;\n}\n"})
TEXT = "C[i,j] += i32(A[i,k]) * i32(B[j,k])"
SHAPES = {"A": (16, 64), "B": (24, 64)}
PRODUCT = "for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++) for (int k = 0; k < 8; k++)"
BODY = f"    {PRODUCT} ({{C}})[i * {{C.0}} + j] += ({{A}})[i * {{A.0}} + k] * ({{B}})[k * {{B.0}} + j];"
MM448 = polytc.intrinsic("mm448", "C[i,j] += A[i,k] * B[k,j]", {"A": (4, 8), "B": (8, 4)}, c=BODY, opencl=BODY, cuda=BODY)
MATMUL = "C[i,j] += A[i,k] * B[k,j]"


def recipe(text: str = TEXT, shapes: dict[str, tuple[int | str, ...]] | None = None, dtypes: dict[str, str] | None = None
           ) -> Recipe:
    return polytc.schedule(text, shapes or SHAPES, BYTES if dtypes is None else dtypes)


def dots() -> Recipe:
    return recipe().split("C", "k", 8).tensorize("C", "k.1", DOT8)


def on_groups() -> Recipe:
    return dots().bind("C", {"i": "grid.x", "j": "block.x"}).accumulate("C")


def tiles() -> Recipe:
    made = recipe(MATMUL, {"A": (16, 24), "B": (24, 32)}, {}).tile("C", i=4, j=4, k=8).tensorize("C", "i.1", MM448)
    return made.bind("C", {"i.0": "grid.y", "j.0": "grid.x"})


def reordered() -> Recipe:
    """The loops of the call in another order than the intrinsic's."""
    made = recipe(MATMUL, {"A": (16, 24), "B": (24, 32)}, {}).tile("C", i=4, j=4, k=8)
    return made.reorder("C", "k.1", "j.1", "i.1").tensorize("C", "k.1", MM448)


def through_local_memory() -> Recipe:
    made = recipe(MATMUL, {"A": (16, 24), "B": (24, 32)}, {}).tile("C", i=8, j=8, k=8).tile("C", {"i.1": 4, "j.1": 4})
    made = made.reorder("C", "i.1.0", "j.1.0", "i.1.1", "j.1.1", "k.1").reorder("C", "k.0", "i.1.0", "j.1.0")
    made = made.bind("C", {"i.0": "grid.y", "j.0": "grid.x", "i.1.0": "block.y", "j.1.0": "block.x"})
    made = made.cache("C", "A", at="k.0").cache("C", "B", at="k.0")
    return made.tensorize("C", "i.1.1", MM448)


SCHEDULES: dict[str, tuple[Callable[[], Recipe], str, str]] = {
    "dots": (dots, TEXT, "dot8("), "on groups": (on_groups, TEXT, "dot8("), "tiles": (tiles, MATMUL, PRODUCT),
    "reordered": (reordered, MATMUL, PRODUCT), "through local memory": (through_local_memory, MATMUL, PRODUCT)}


def arrays(text: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    r = np.random.default_rng(3)
    if text == TEXT:
        a, b = (r.integers(-128, 128, SHAPES[n]).astype("i1") for n in "AB")
        return a, b, a.astype("i4") @ b.astype("i4").T
    a, b = r.integers(-9, 9, (16, 24)).astype("f4"), r.integers(-9, 9, (24, 32)).astype("f4")
    return a, b, a @ b


@pytest.mark.part(3)
@pytest.mark.parametrize("name", SCHEDULES)
def test_results(name: str, targets: tuple[str, ...]) -> None:
    made, text, _ = SCHEDULES[name]
    a, b, expected = arrays(text)
    for target in ("interp", "cpu", *(["opencl"] if "opencl" in targets else [])):
        np.testing.assert_array_equal(polytc.run(text, a, b, target=target, schedule=made()), expected, target)


@pytest.mark.part(3)
@pytest.mark.skipif(cuda_here.COMPILER is None, reason="there is no C++ compiler")
@pytest.mark.parametrize("name", SCHEDULES)
def test_results_of_cuda_text(name: str) -> None:
    made, text, _ = SCHEDULES[name]
    a, b, expected = arrays(text)
    op = polytc.compile(text, cuda_here.CompiledCuda(), schedule=made())
    np.testing.assert_array_equal(op(a, b), expected)


@pytest.mark.part(3)
@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("target", ["opencl", "cuda", "c"])
def test_the_text_has_the_call(name: str, target: str) -> None:
    made, text, call = SCHEDULES[name]
    a, b, _ = arrays(text)
    low = polytc.lower(text, target, shapes={"A": a.shape, "B": b.shape}, dtypes=BYTES if text == TEXT else {}, schedule=made())
    written = " ".join(low.source.text.split())
    assert written.count(call) == 1 + written.count(f"int {call}")


def test_the_text_in_c_computes_the_same(tmp_path: Path) -> None:
    a, b, expected = arrays(TEXT)
    made = bundle.of_program(polytc.build(TEXT, SHAPES, BYTES), registry.target("c"), "dots", dots())
    c_host.write(made, tmp_path)
    subprocess.run([exported.CC or "cc", *exported.STRICT, "main.c", "dots.c", "-lm", "-o", "run"], cwd=tmp_path, check=True)
    np.testing.assert_array_equal(exported.outputs(tmp_path, "dots", [a, b])["C"], expected)
    assert "dot8(" in (tmp_path / "dots.c").read_text()


REFUSED: dict[str, tuple[Callable[[], Recipe], str, str]] = {
    "columns": (lambda: recipe("C[i,j] += i32(A[i,k]) * i32(B[k,j])", {"A": (16, 64), "B": (64, 24)}).split("C", "k", 8)
                .tensorize("C", "k.1", DOT8), "E711", "dimension 0 of B are 24 elements apart"),
    "shorter": (lambda: recipe().split("C", "k", 4).tensorize("C", "k.1", DOT8), "E711", "k % 4 in 4 iterations"),
    "a rest": (lambda: recipe(shapes={"A": (16, 60), "B": (24, 60)}).split("C", "k", 8).tensorize("C", "k.1", DOT8), "E711",
               "fewer iterations where k ends at 60"),
    "open": (lambda: recipe(shapes={"A": (16, "K"), "B": (24, "K")}).split("C", "k", 8).tensorize("C", "k.1", DOT8), "E711",
             "fewer iterations where k ends at K"),
    "sums": (lambda: recipe("C[i,j] += i32(A[i,k]) + i32(B[j,k])").split("C", "k", 8).tensorize("C", "k.1", DOT8), "E711",
             "has binary * of i32 where S1 has binary + of i32"),
    "another operator": (lambda: recipe("C[i,j] max= i32(A[i,k]) * i32(B[j,k])").split("C", "k", 8)
                         .tensorize("C", "k.1", DOT8), "E711", "is `+=`, S1 is `max=`"),
    "another step": (lambda: recipe("C[i,j] += i32(A[i,2*k]) * i32(B[j,k]) where k in 0:32").split("C", "k", 8)
                     .tensorize("C", "k.1", DOT8), "E711", "S1 through A as A[i, 2 * k] does not"),
    "a condition": (lambda: recipe("C[i,j] += i32(A[i,k]) * i32(B[j,k]) where k <= i").split("C", "k", 8)
                    .tensorize("C", "k.1", DOT8), "E711", "a condition on k leaves out iterations"),
    "a type": (lambda: recipe(dtypes={"A": "u8", "B": "i8"}).split("C", "k", 8).tensorize("C", "k.1", DOT8), "E711",
               "a read of i8 where S1 has a read of u8"),
    "more loops": (lambda: recipe().split("C", "k", 8).tensorize("C", "k.0", DOT8), "E711", "has 1 loops, S1 has 2 there"),
    "other statements": (lambda: recipe().fuse("C_init", "C", depth=2).tensorize("C", "j", DOT8), "E708",
                         "j runs S1_init besides S1"),
    "skewed": (lambda: recipe().skew("C", "k", by="j").tensorize("C", "k", DOT8), "E708", "no piece of an index"),
    "precise": (lambda: recipe("precise def f(f32[16,24] A, f32[24,32] B) -> (C) { C[i,j] += A[i,k] * B[k,j] }",
                               {"A": (16, 24), "B": (24, 32)}, {}).tile("C", i=4, j=4, k=8).tensorize("C", "i.1", MM448),
                "E708", "precise"),
    "no loop": (lambda: recipe().tensorize("C", "q", DOT8), "E707", "no loop 'q'"),
    "what it writes": (lambda: polytc.schedule(
        "def f(inout f32[64] C, f32[64] A) -> (C) { C[i] = C[i] * A[i] }", {"C": (64,), "A": (64,)}).split("C", "i", 8)
        .tensorize("C", "i.1", polytc.intrinsic("scale", "Y[i] = X[i] * A[i]", {"X": (8,), "A": (8,)}, c="{Y}{X}{A}")), "E708",
        "reads what it writes"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_loops_that_compute_something_else(name: str) -> None:
    make, code, words = REFUSED[name]
    with pytest.raises(polytc.CompileError) as refusal:
        make()
    assert refusal.value.code == code
    assert words in str(refusal.value)


def test_open_sizes_around_whole_pieces() -> None:
    """The rows stay open; the pieces have numbers of iterations."""
    made = recipe(shapes={"A": ("M", 64), "B": ("N", 64)}).split("C", "k", 8).tensorize("C", "k.1", DOT8)
    low = polytc.lower(TEXT, "opencl", shapes={"A": ("M", 64), "B": ("N", 64)}, dtypes=BYTES, schedule=made)
    assert "+= dot8(" in low.source.text


def test_loops_that_change_behind_it_are_told() -> None:
    for change in (lambda s: s.unroll("C", "k.1"), lambda s: s.split("C", "k.1", 4)):
        with pytest.raises(polytc.TargetError) as refusal:
            polytc.lower(TEXT, "opencl", shapes=SHAPES, dtypes=BYTES, schedule=change(dots()))
        assert refusal.value.code == "E527"
        polytc.lower(TEXT, "interp", shapes=SHAPES, dtypes=BYTES, schedule=change(dots()))


def test_rows_that_begin_between_multiples() -> None:
    shapes = {"A": (16, 68), "B": (24, 68)}
    text = "C[i,j] += i32(A[i,k]) * i32(B[j,k]) where k in 0:64"
    made = recipe(text, shapes).split("C", "k", 8).tensorize("C", "k.1", DOT8)
    with pytest.raises(polytc.TargetError, match="A may begin between two multiples of 8 bytes"):
        polytc.lower(text, "opencl", shapes=shapes, dtypes=BYTES, schedule=made)


def test_what_is_saved_reads_the_same() -> None:
    made = through_local_memory()
    again = recipe(MATMUL, {"A": (16, 24), "B": (24, 32)}, {}).read(made.yaml())
    assert again.yaml() == made.yaml()
    assert pickle.loads(pickle.dumps(made)).yaml() == made.yaml()
    assert Intrinsic.read(str(DOT8)) == DOT8 == copy.deepcopy(DOT8)
    for text in ("tensorize S1 k/8 {", "tensorize S1", 'tensorize S1 k {"name": 1}'):
        with pytest.raises(polytc.CompileError, match="no change of a program"):
            listed.read(text)


@pytest.mark.parametrize(("arguments", "code"), [
    ({"name": "2x"}, "E410"), ({"c": ""}, "E410"), ({"head": {"opencl": "x"}}, "E410"), ({"alignment": 3}, "E410"),
    ({"text": "T[i] = A[i]; C[i] = T[i] + A[i]"}, "E711"), ({"text": "C[i] += A[j] where j <= i, i in 0:8"}, "E711"),
    ({"text": "C[i] = A[i"}, "E002"), ({"shapes": {}}, "E208"), ({"shapes": {"X": (8,)}}, "E401")])
def test_declarations_that_are_none(arguments: dict[str, object], code: str) -> None:
    given = {"name": "copy8", "text": "C[i] = A[i]", "shapes": {"A": (8,)}, "c": "copy({C}, {A});"} | arguments
    with pytest.raises(polytc.PolytcError) as refusal:
        polytc.intrinsic(**given)  # type: ignore[arg-type]
    assert refusal.value.code == code


def test_loops_of_other_kernels_are_none() -> None:
    low = polytc.lower(TEXT, "interp", shapes=SHAPES, dtypes=BYTES, schedule=dots())
    kernels = [k for k in low.loops.kernels if dict(k.intrinsics)]
    assert kernels
    assert intrinsic_nests.nest_of(kernels[0].body, kernels[0], "fortran") is None  # type: ignore[arg-type]


def test_a_schedule_is_exported(tmp_path: Path) -> None:
    on_groups().save(tmp_path / "schedule.yaml")
    good("export", "opencl", TEXT, "--shape", "A=16,64", "--shape", "B=24,64", "--dtype", "A=i8", "--dtype", "B=i8", "--name",
         "dots", "-o", str(tmp_path), "--schedule", str(tmp_path / "schedule.yaml"))
    assert "+= dot8(" in (tmp_path / "dots.cl").read_text()
    a, b, expected = arrays(TEXT)
    np.testing.assert_array_equal(exported.in_python(tmp_path, "dots", [a, b])["C"], expected)


DOT4 = polytc.intrinsic(
    "dot4", "C += i32(A[k]) * i32(B[k])", {"A": (4,), "B": (4,)}, BYTES, alignment=4,
    cuda="{C} = dot4((const int*){A}, (const int*){B}, {C});",
    opencl="{C} = dot4(({A.space} const int*){A}, ({B.space} const int*){B}, {C});",
    head={language: f"{begin}int dot4({space}const int *a, {space}const int *b, int c)\n{{\n"
          f"    {space}const {byte} *p = ({space}const {byte} *)a;\n    {space}const {byte} *q = ({space}const {byte} *)b;\n"
          "    for (int k = 0; k < 4; k++) c += p[k] * q[k];\n    return c;\n}\n"
          for language, begin, space, byte in (("cuda", "__device__ inline ", "", "signed char"),
                                               ("opencl", "static inline ", "__local ", "char"))})
"""Words of four bytes, as __dp4a takes them."""


def words_in_local_memory() -> Recipe:
    made = recipe().tile("C", i=8, j=8, k=32).split("C", "k.1", 4).reorder("C", "k.1.0", "i.1", "j.1", "k.1.1")
    made = made.reorder("C", "i.1", "j.1", "k.1.0")
    made = made.bind("C", {"i.0": "grid.y", "j.0": "grid.x", "i.1": "block.y", "j.1": "block.x"}).accumulate("C")
    made = made.cache("C", "A", at="k.0").bind("A_S1", {"i": "block.y", "k": "block.x"})
    made = made.cache("C", "B", at="k.0").bind("B_S1", {"j": "block.y", "k": "block.x"})
    return made.tensorize("C", "k.1.1", DOT4)


def test_rows_in_local_memory_keep_the_alignment(targets: tuple[str, ...]) -> None:
    """Rows are padded, by whole words."""
    a, b, expected = arrays(TEXT)
    for target in ("interp", *(["opencl"] if "opencl" in targets else [])):
        np.testing.assert_array_equal(polytc.run(TEXT, a, b, target=target, schedule=words_in_local_memory()), expected, target)
    if cuda_here.COMPILER is not None:
        op = polytc.compile(TEXT, cuda_here.CompiledCuda(), schedule=words_in_local_memory())
        np.testing.assert_array_equal(op(a, b), expected)
    low = polytc.lower(TEXT, "cuda", shapes=SHAPES, dtypes=BYTES, schedule=words_in_local_memory())
    rows = {s.buffer.shape[-1] for k in low.loops.kernels for s in traverse.walk_stmt(k.body)
            if isinstance(s, loops.Alloc) and s.buffer.space == "local"}
    assert rows == {32, 36}


def test_rows_that_an_intrinsic_is_not_told_stay(targets: tuple[str, ...]) -> None:
    whole = polytc.intrinsic("mm448", "C[i,j] += A[i,k] * B[k,j]", {"A": (4, 8), "B": (8, 4)},
                             cuda=BODY.replace("{A.0}", "8").replace("{B.0}", "4"))
    made = recipe(MATMUL, {"A": (16, 24), "B": (24, 32)}, {}).tile("C", i=4, j=4, k=8)
    with pytest.raises(polytc.CompileError, match="those of dimension 0 of A are 24 elements apart"):
        made.tensorize("C", "i.1", whole)
