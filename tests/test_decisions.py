"""Records of decisions: printed, given back, edited, wrong."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import polytc
from polytc import compiler, decisions, errors
from polytc.cli import app
from polytc.codegen.target import Target
from polytc.machine import AVX2, AVX512
from polytc.rewrite import record
from polytc.targets import registry
from polytc.targets.llvm.target import LLVMTarget
from polytc.targets.opencl.target import OpenCLTarget
from tests.decided_programs import EDITS, PROGRAMS, SEEN
from tests.processor_here import target_for

HEAD = f"{decisions.HEAD} {decisions.VERSION}\n"
CPU = LLVMTarget(AVX512)
TARGETS: dict[str, Target] = {"cpu": CPU, "gpu": OpenCLTarget(), "here": registry.target("cpu")}
MATMUL, SHAPES = PROGRAMS["matmul"]


def lowered(name: str, target: Target, by: str | None = None) -> compiler.Lowered:
    text, shapes = PROGRAMS[name]
    return polytc.lower(text, target, shapes=shapes, decisions=by)


def plain(text: str) -> list[str]:
    """The lines of a record without comments."""
    return [line.split("#")[0].rstrip() for line in text.splitlines()]


@pytest.mark.part(10)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_record_gives_the_same_code(name: str, target: str) -> None:
    own = lowered(name, TARGETS[target])
    again = lowered(name, TARGETS[target], str(own.decisions))
    assert again.source.text == own.source.text
    assert plain(str(again.decisions)) == plain(str(own.decisions))
    assert plain(str(decisions.read(str(own.decisions)))) == plain(str(own.decisions))
    assert decisions.read(str(own.decisions)) == decisions.read("\n\n# edited\n" + str(own.decisions))


@pytest.mark.parametrize(("text", "rows"), [("C[i,j] += A[i,k]*B[k,j] where k in 1:1000", 1000),
                                            ("C[i,j] += A[i,k]*B[k,j]", 5)])
def test_a_record_of_blocks_of_rows_is_read(text: str, rows: int) -> None:
    """Where the rows do not begin at 0, or are fewer than others have in a block."""
    shapes = {"A": (1, rows), "B": (rows, 200_000)}
    own = polytc.lower(text, CPU, shapes=shapes)
    assert " blocked=S1 along=k " in str(own.decisions)
    assert polytc.lower(text, CPU, shapes=shapes, decisions=str(own.decisions)).source.text == own.source.text


def test_a_block_of_panels_fits_on_a_stack() -> None:
    """C keeps it there, for each thread."""
    shapes = {"A": (40, 10_000), "B": (10_000, 400)}
    own = polytc.lower(MATMUL, LLVMTarget(AVX2), shapes=shapes)
    assert "joins=S1_B_packed rows=j block=48" in str(own.decisions)
    with pytest.raises(errors.CompileError, match="a block of 96 takes 3840000 bytes"):
        polytc.lower(MATMUL, LLVMTarget(AVX2), shapes=shapes, decisions=str(own.decisions).replace("block=48", "block=96", 1))


@pytest.mark.part(10)
@pytest.mark.parametrize("edit", range(3))
@pytest.mark.parametrize("name", PROGRAMS)
def test_an_edited_record_is_followed(name: str, edit: int) -> None:
    """The code is another one, as the lines tell, each of them is found again in its record, and it computes the same."""
    given = EDITS[name][edit]
    own, other = lowered(name, CPU), lowered(name, CPU, HEAD + given)
    assert other.source.text != own.source.text
    assert len(set(EDITS[name])) == 3
    for sign, seen in re.findall(r"([+-])(\S.*?)(?= [+-]|$)", SEEN[name][edit]):
        there, here = (str(x.loops) for x in ((own, other) if sign == "+" else (other, own)))
        assert seen in here
        assert seen not in there
    for line in given.splitlines():
        assert line in plain(str(other.decisions)) or line.startswith("fusion: ")
    text, shapes = PROGRAMS[name]
    arrays = numbers(polytc.build(text, shapes))
    expected = polytc.evaluate(text, **{n: a.copy() for n, a in arrays.items()})
    found = polytc.compile(text, target_for(AVX512), shapes=shapes, decisions=HEAD + given)(**arrays)
    for e, f in zip(*(x if isinstance(x, tuple) else (x,) for x in (expected, found)), strict=True):
        np.testing.assert_allclose(f, e, rtol=3e-4, atol=3e-4)


def numbers(program: compiler.Program) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {n: rng.standard_normal(program.tensor(n).shape).astype("f4") for n in program.inputs}


@pytest.mark.part(2)
@pytest.mark.parametrize(("text", "code", "words"), [
    ("", "E709", "the text is empty"),
    ("polytc decisions 2\nlanes: none", "E709", "reads version 1 of the record, not '2'"),
    (HEAD + "lanes none", "E709", "a line is `step statement: key=value ...`"),
    (HEAD + "pack S1: tensor", "E709", "`tensor` is no `key=value`"),
    (HEAD + "pack S1: along=j along=i", "E709", "`along` stands twice"),
    (HEAD + "packs S1: along=j", "E709", "there is no step 'packs' for cpus"),
    (HEAD + "items S1: rows=j sizes=4", "E710", "the schedule has no `items`"),
    (HEAD + "pack S1: tensor=B operand=1 along=j widht=32", "E710", "it has no `widht`; `width`?"),
    (HEAD + "pack S1: tensor=B operand=1 along=j", "E710", "`width` is missing"),
    (HEAD + "pack S1: tensor=B operand=1 along=j width=wide", "E710", "`width=wide` is no number"),
    (HEAD + "pack S1: tensor=B operand=1 along=k width=32", "E710", "panels of B may run along j"),
    (HEAD + "pack S1: tensor=B operand=0 along=j width=32", "E710", "the operands of S1 are 0: A, 1: B"),
    (HEAD + "pack S1: tensor=B operand=1 along=j width=151", "E710", "a panel has 1 to 150 values of j"),
    (HEAD + "pack S7: tensor=B operand=1 along=j width=32", "E710", "there is no statement 'S7'"),
    (HEAD + "pack S1: none", "E710", ""),
    (HEAD + "pack: all", "E710", "`all` leaves open what is done"),
    (HEAD + "inline S1: along=j", "E710", "the step has no choices"),
    (HEAD + "winograd S1: results=4 block=1", "E710", "S1 is no convolution of f32 with 3 x 3 taps and stride 1"),
    (HEAD + "lanes S1: along=j lanes=4", "E710", "j is no index over which S1 reduces"),
    (HEAD + "lanes S1: along=k lanes=141", "E710", "there may be 2 to 140 partial results along k"),
    (HEAD + "factors S1:", "E710", "S1 has no factor that can leave a sum of floats"),
    (HEAD + "widening S1: tensor=A", "E710", "the reads that can be are none"),
    (HEAD + "split_floats S1:", "E710", "the machine has no unit that multiplies tiles of bf16"),
    (HEAD + "dot_words S1: dot=dot_u8i8 along=k", "E710", "the machine has no dot product of what S1 multiplies"),
    (HEAD + "row_blocks S1: rows=i block=8", "E710", "chains of products begin with no statement"),
    (HEAD + "transposed_copies: all", "E710", "the step is left out, as it has no `for` loops"),
    (HEAD + "long_sums: none", "E710", "the step is always done"),
    (HEAD + "tile: none", "E710", "`none` says nothing of a schedule"),
    (HEAD + "tile S1: rows=i,j sizes=1,1 order=i,j", "E710", "`tile` lines are about "),
    (HEAD + "tile S1_init: rows=j,i sizes=1,1 order=i,j", "E710", "the shared loops are i, j, not j, i"),
    (HEAD + "tile S1_init: rows=i,j sizes=1,200 order=i,j", "E710", "the shared loops are i, j, of 130, 150 iterations"),
    (HEAD + "tile S1_init: rows=i,j sizes=1,1 order=i,i", "E710", "`order` names each once"),
    (HEAD + "tile S1_init: rows=i,j sizes=1,1 order=i,j vector=k", "E710", "`vector` is one of them or nothing"),
    (HEAD + "tile S1_init: rows=i,j sizes=130,150 order=i,j", "E710", "a tile of 19500 iterations"),
    (HEAD + "tile S1_init: rows=i,j sizes=8,8 order=i,j caches=4,0", "E710", "at least the size of its tile"),
    (HEAD + "tile S1_init: rows=i,j sizes=1,1 order=i,j blocked=S1 along=i block=4 depth=1", "E710", "S1 reduces over k of"),
    (HEAD + "tile S1_init: rows=i,j sizes=1,1 order=i,j blocked=S1 along=k block=4 depth=3", "E710", "`depth` is 0 to 2"),
    (HEAD + "tile S1_init: rows=i,j sizes=1,1 order=i,j unrolled=S1,i", "E710", "S1 reduces over k"),
    (HEAD + "tile S1_init: rows=i,j sizes=6,6 order=i,j unrolled=S1,k", "E710", "140 steps of a tile of 36"),
    (HEAD + "tile S1_init: rows=i,j sizes=1,1 order=i,j unrolled=S2,k", "E710", "the statements are S1_init, S1"),
    (HEAD + "threads S1_init: parallel=maybe", "E710", "`parallel` is yes or no"),
    (HEAD + "fusion: policy=most", "E710", "'most' is none of min, smart, max"),
    (HEAD + "group S1: statements=S1,S2", "E710", "there is no statement 'S2' here"),
])
def test_what_does_not_fit_is_told(text: str, code: str, words: str) -> None:
    """With the line of the record, and its cure."""
    if not words:
        assert not lowered("matmul", CPU, text).decisions.of("pack")
        return
    with pytest.raises(errors.CompileError) as raised:
        lowered("matmul", CPU, text)
    assert raised.value.code == code
    assert words in str(raised.value)
    assert raised.value.notes
    assert not text or "^" in str(raised.value)


def test_an_illegal_record_is_refused_with_its_witness() -> None:
    """S1 and S3 cannot share loops behind S2, which reads what S1 makes."""
    text = "B[i] = A[i]*2\nC[i] = B[63-i]*3\nD[i] = B[i] + C[i]"
    with pytest.raises(errors.IllegalTransform) as raised:
        polytc.lower(text, CPU, shapes={"A": (64,)}, decisions=HEAD + "inline: none\ngroup S1: statements=S1,S3")
    assert raised.value.code == "E701"
    assert "S2[" in str(raised.value)


def test_what_others_may_ask_for(tmp_path: Path) -> None:
    """An Op tells its record, and takes one; a schedule stands in for the lines about schedules; files go in and out."""
    op = polytc.compile(MATMUL, shapes=SHAPES, decisions=HEAD + "threads S1_init: parallel=no")
    assert "threads S1_init: parallel=no" in plain(str(op.decisions))
    assert str(pickle.loads(pickle.dumps(op)).decisions) == str(op.decisions)
    again = polytc.compile(MATMUL, shapes=SHAPES, decisions=op.decisions)
    assert plain(str(again.decisions)) == plain(str(op.decisions))
    own = lowered("matmul", CPU)
    given = polytc.lower(MATMUL, CPU, shapes=SHAPES, decisions=str(own.decisions), schedule="program")
    assert str(given.schedule) == str(polytc.lower(MATMUL, CPU, shapes=SHAPES, schedule="program").schedule)
    with pytest.raises(errors.ArgumentError, match="E410"):
        polytc.compile(MATMUL, shapes=SHAPES, decisions=op.decisions, schedule=polytc.schedule(MATMUL, SHAPES))
    with pytest.raises(errors.ArgumentError, match="E410"):
        polytc.compile(MATMUL, decisions=3)  # type: ignore[call-overload]
    shapes = [a for n, s in SHAPES.items() for a in ("--shape", f"{n}={','.join(map(str, s))}")]
    printed = CliRunner().invoke(app, ["emit", MATMUL, *shapes, "--stage", "decisions"])
    assert printed.exit_code == 0
    (tmp_path / "record").write_text(printed.output.replace("order=j,i", "order=i,j"), encoding="utf-8")
    by = ("--decisions", str(tmp_path / "record"))
    printed = CliRunner().invoke(app, ["emit", MATMUL, *shapes, "--stage", "decisions", *by])
    assert "order=i,j" in printed.output
    explained = CliRunner().invoke(app, ["explain", MATMUL, *shapes, *by, "--no-roofline"])
    assert "order=i,j" in explained.output


def test_a_record_is_of_its_machine() -> None:
    """Steps that only the other kind of machine has are refused."""
    record.check(decisions.read(HEAD + "local_tiles: none"), OpenCLTarget().machine)
    with pytest.raises(errors.CompileError, match="there is no step 'local_tiles' for cpus"):
        record.check(decisions.read(HEAD + "local_tiles: none"), AVX512)
