"""docs/decisions.md: its example runs, its tables have each step and line, its refusal is what polytc says."""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import fields
from pathlib import Path

import pytest

import polytc
from polytc import errors
from polytc.machine import AVX512
from polytc.rewrite import table
from polytc.schedule.decisions import KINDS
from polytc.targets.llvm.target import LLVMTarget

PAGE = (Path(__file__).parents[2] / "docs" / "decisions.md").read_text(encoding="utf-8")
TEXTS = re.findall(r"```text\n(.*?)```", PAGE, re.S)
MATMUL, SHAPES = "C[i,j] += A[i,k]*B[k,j]", {"A": (512, 512), "B": (512, 512)}


def test_the_example_runs() -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.S))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        names: dict[str, object] = {}
        exec(code, names)
    assert printed.getvalue().startswith("polytc decisions 1\n")
    assert "sizes=4,32 order=j,i" in str(names["other"].decisions)  # type: ignore[attr-defined]
    asked, made = names["second"].record, names["another"].decisions  # type: ignore[attr-defined]
    assert [made.of(e.step) for e in asked.entries] == [asked.of(e.step) for e in asked.entries]


def test_the_record_that_is_shown() -> None:
    found = str(polytc.lower(MATMUL, LLVMTarget(AVX512), shapes=SHAPES).decisions).splitlines()
    assert [line for line in TEXTS[0].splitlines() if line not in found] == []


def test_the_alternatives_that_are_shown() -> None:
    given = "polytc decisions 1\npack: none\nthreads: parallel=yes\n"
    found = polytc.alternatives(MATMUL, LLVMTarget(AVX512), given, shapes={"A": (130, 140), "B": (140, 150)})
    lines = next(t for t in TEXTS if t.startswith("tile")).splitlines()
    assert [str(way) for _, way in zip(lines, found, strict=False)] == lines


def test_the_refusal_that_is_shown() -> None:
    text = "polytc decisions 1\npack S1: tensor=B operand=1 along=k width=32\n"
    with pytest.raises(errors.CompileError) as raised:
        polytc.lower(MATMUL, LLVMTarget(AVX512), shapes=SHAPES, decisions=text)
    assert str(raised.value).strip() == next(t for t in TEXTS if t.startswith("E710")).strip()


def test_the_tables_have_each_step_and_its_values() -> None:
    rows = {row[0].strip(" `"): re.findall(r"`(\w+)`", row[1]) for row in
            (line.strip("|").split("|") for line in PAGE.splitlines() if line.startswith("| `"))}
    kinds = {s.name: s.choice for s in table.STEPS if s.choice is not None} | KINDS
    assert {name: [f.name for f in fields(kind) if f.name != "statement"] for name, kind in kinds.items()} == rows
