"""Where the ranges of indices begin changes nothing: the same kernels, whichever index of a program runs from elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from polytc import compiler, stages
from polytc.machine import DEVICES
from polytc.program import program as pr
from polytc.program.program import Program
from polytc.program.scalars import I64
from polytc.targets.opencl.target import OpenCLTarget
from tests.rewrite.gpu.test_open_sizes import CASES

SIZES = {"M": 131, "K": 1030, "N": 66, "G": 3, "H": 9, "L": 14}
PROGRAMS = {n: (c.text, {a: tuple(SIZES[d] if isinstance(d, str) else d for d in s) for a, s in c.shapes.items()})
            for n, c in CASES.items() if n != "two results of one read"} | {  # which fuses where subscripts are plain
    "a batch with what follows": ("T[b,i,j] += A[b,i,k]*B[b,k,j]; C[b,i,j] = max(T[b,i,j]+c[b], 0) -> (C)",
                                  {"A": (3, 64, 48), "B": (3, 48, 64), "c": (3,)})}


def moved(program: Program, index: str, by: int) -> Program:
    """The same program, in which an index and the coordinates of what is written for it are larger by so much."""
    less = pr.Binary("-", pr.Index(index), pr.Const(by, I64), I64)
    written = {s.target for s in program.statements} - set(program.inputs)
    axes = {(s.target, d) for s in program.statements for d, e in enumerate(s.subscripts)
            if s.target in written and e == pr.Index(index)}

    def expr(e: pr.Expr) -> pr.Expr:
        if e == pr.Index(index):
            return less
        if isinstance(e, pr.Read):
            return replace(e, subscripts=place(e.tensor, e.subscripts))
        return e

    def place(tensor: str, subscripts: tuple[pr.Expr, ...]) -> tuple[pr.Expr, ...]:
        return tuple(pr.Index(index) if (tensor, d) in axes and e == less else e for d, e in enumerate(subscripts))

    def one(s: pr.Statement) -> pr.Statement:
        ranges = tuple(replace(r, lower=r.lower + by, upper=r.upper + by) if r.index == index else r for r in s.ranges)
        return replace(s, ranges=ranges, value=pr.map_expr(s.value, expr), where=tuple(pr.map_expr(c, expr) for c in s.where),
                       subscripts=place(s.target, tuple(pr.map_expr(e, expr) for e in s.subscripts)))
    tensors = tuple(replace(t, lower=tuple(low + by * ((t.name, d) in axes) for d, low in enumerate(t.lower)))
                    for t in program.tensors)
    return replace(program, tensors=tensors, statements=tuple(map(one, program.statements)))


def shape(program: Program, machine: str) -> tuple[int, int]:
    """Launches and barriers."""
    low = compiler.lower_program(program, OpenCLTarget(DEVICES[machine]))
    assert "program order" not in low.schedule.how
    return len(low.source.launches), low.source.text.count("barrier(")


@pytest.mark.part(30)
@pytest.mark.parametrize("machine", ["nvidia-sm90", "mali"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_kernels(name: str, machine: str) -> None:
    text, shapes = PROGRAMS[name]
    program = stages.build(text, shapes, dict.fromkeys(shapes, "f32"))
    expected = shape(program, machine)
    for index in sorted({i for s in program.statements for i in s.indices}):
        for by in (1, -3):
            assert shape(moved(program, index, by), machine) == expected, (index, by)
