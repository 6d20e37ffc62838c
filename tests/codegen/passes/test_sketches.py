"""What the docstrings of passes show is what happens: loops before and behind a pass, as they print."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

import polytc.codegen.passes
from polytc.codegen import loops as L
from polytc.codegen import traverse
from polytc.codegen.passes import (
    PASSES,
    Pass,
    loop_versioning,
    simplify,
    vectorize,
    work_group_coarsening,
)
from polytc.codegen.passes.local_memory import double_buffers, shared_storage
from polytc.codegen.verify import verify
from polytc.machine import AVX2, AVX512, GENERIC_GPU, Machine
from polytc.program.scalars import named
from polytc.targets.ctext import predicated_updates, unroll_hints
from tests.codegen import loop_programs as P
from tests.codegen.loop_text import statements
from tests.sketches import INPUT, Sketch, arrows, sketches

MACHINES = {"avx2": AVX2, "avx512": AVX512, "gpu": GENERIC_GPU, "cpu": replace(AVX2, max_work_group=256)}
Run = Callable[[L.Module, Machine], L.Module]


def each(run: Callable[[L.Kernel], L.Kernel]) -> Run:
    return lambda m, machine: replace(m, kernels=tuple(map(run, m.kernels)))


def applied(p: Pass) -> Run:
    return lambda m, machine: p.apply(m, machine, frozenset(b.name for b in m.scratch))


def squared(s: L.Stmt, known: dict[str, tuple[int, int]], made: Callable[[L.For, dict[str, tuple[int, int]]], L.Stmt]
            ) -> L.Stmt:
    """What is made of the nest of point loops in sequential ones of known bounds."""
    assert isinstance(s, L.For)
    if s.kind != "sequential":
        return made(s, known)
    ends = [int(b.value) for b in (s.lower, s.upper) if isinstance(b, L.Const)]
    return replace(s, body=squared(s.body, {**known, s.var: (ends[0], ends[1] - 1)}, made))


ROOM = "polytc.codegen.passes"
RUN: dict[str, Run] = {f"{ROOM}.{p.name}": applied(p) for p in PASSES}
RUN |= {
    shared_storage.__name__: RUN[f"{ROOM}.shared_storage"],
    double_buffers.__name__: RUN[f"{ROOM}.double_buffers"],
    f"{ROOM}.strip_mining": lambda m, machine: each(lambda k: vectorize.expand_kernel(k, machine))(m, machine),
    f"{ROOM}.work_group_coarsening": lambda m, machine: each(lambda k: work_group_coarsening.coarsen(k, machine))(m, machine),
    f"{ROOM}.tile_promotion": RUN[f"{ROOM}.scalar_replacement"],
    unroll_hints.__name__: lambda m, machine: each(lambda k: unroll_hints.mark_short_loops(k, machine))(m, machine),
    predicated_updates.__name__: each(predicated_updates.predicate),
    f"{ROOM}.loop_versioning.rectangular_nest": each(
        lambda k: replace(k, body=squared(k.body, {}, loop_versioning.rectangular_nest))),
    f"{ROOM}.loop_versioning.tested_nest": each(lambda k: replace(k, body=squared(k.body, {}, loop_versioning.tested_nest))),
}
"""By the module or function in whose docstring a sketch stands: a pass of the list, a part of one, or one of a target's own."""
SKETCHES = [*sketches(polytc.codegen.passes), *sketches(double_buffers), *sketches(unroll_hints),
            *sketches(predicated_updates)]


def buffers(sketch: Sketch) -> tuple[dict[str, L.Buffer], set[str]]:
    """Those of a sketch, by name, and which are scratch."""
    found = {m[3]: L.Buffer(m[3], named(m[2] or "f32"), tuple(int(n) for n in m[4].split(",") if n.strip()))
             for m in INPUT.finditer(sketch.inputs) if m[4] is not None}
    return found, {m[3] for m in INPUT.finditer(sketch.inputs) if m[1] == "scratch"}


def before(sketch: Sketch) -> L.Module:
    known, scratch = buffers(sketch)
    args = [b for b in known.values() if b.name not in scratch]
    module = P.module("m", args, (), statements(sketch.before, known), scratch=[known[n] for n in sorted(scratch)])
    written = tuple(b.name for b in args if b.name in module.kernels[0].writes)
    fast = any(m[3] == "fast" for m in INPUT.finditer(sketch.inputs))
    return replace(module, outputs=written, kernels=tuple(replace(k, fast=fast) for k in module.kernels))


def whole(module: L.Module) -> L.Kernel:
    """All kernels as one, with the loops that the host runs around each."""
    bodies = []
    for k in module.kernels:
        body = k.body
        for host in reversed(k.host):
            body = replace(host, body=body, kind="host")  # type: ignore[arg-type]
        bodies.append(body)
    return replace(module.kernels[0], body=L.block(*bodies))


def lines(kernel: L.Kernel) -> str:
    return "\n".join(L.format_stmt(kernel.body))


@pytest.mark.parametrize("sketch", SKETCHES, ids=str)
def test_a_sketch_shows_what_happens(sketch: Sketch) -> None:
    """As it prints, or once more simplified, as the passes behind leave it."""
    module = verify(before(sketch))
    made = RUN[sketch.place](module, MACHINES[sketch.machine or "avx2"])
    behind = whole(made)
    assert lines(behind) != lines(whole(module)), "the pass changes nothing"
    found = [k(behind) for k in (lambda k: k, simplify.simplify_kernel)]
    wanted = replace(behind, body=statements(sketch.after, {b.name: b for b in every(behind)} | buffers(sketch)[0]))
    shown = [k(wanted) for k in (lambda k: k, simplify.simplify_kernel)]
    assert any(is_shown(lines(w), lines(f)) for w, f in zip(shown, found, strict=True)), f"the pass made\n{lines(behind)}"


def every(kernel: L.Kernel) -> list[L.Buffer]:
    return [*kernel.args, *(s.buffer for s in traverse.walk_stmt(kernel.body) if isinstance(s, L.Alloc | L.Store))]


def is_shown(wanted: str, found: str) -> bool:
    pattern = re.escape(wanted).replace(r"\.\.\.\[\]\ =\ 0", ".*")
    return re.fullmatch(pattern, found, re.DOTALL) is not None


def test_every_pass_has_a_sketch() -> None:
    """But those that only take the module apart, name its items, and put it together, or do what another one has done."""
    others = {"work_items", "phase_contraction", "simplify_again", "merge"}
    assert {p.name for p in PASSES} - {s.place.rpartition(".")[2] for s in SKETCHES} == others


def test_every_arrow_belongs_to_a_sketch_that_is_checked() -> None:
    assert arrows(polytc.codegen.passes) == []


@pytest.mark.parametrize(("wanted", "right"), [
    ("for i in 0:9 { Y[i] = X[i] * 2 }", True), ("for i in 0:9 { ... }", True), ("...", True),
    ("for i in 0:9 { Y[i] = X[i] * 3 }", False), ("for i in 0:8 { Y[i] = X[i] * 2 }", False),
    ("parallel for i in 0:9 { Y[i] = X[i] * 2 }", False), ("...; barrier", False), ("Y[0] = 1.0; for i in 0:9 { ... }", False)])
def test_sketches_that_show_something_else_are_refused(wanted: str, right: bool) -> None:
    known = {n: L.Buffer(n, named("f32"), (9,)) for n in "XY"}
    texts = ["\n".join(L.format_stmt(statements(t, known))) for t in (wanted, "for i in 0:9 { Y[i] = X[i] * 2 }")]
    assert is_shown(*texts) == right


def test_text_is_read_as_it_prints() -> None:
    """But for types, which only numbers and what is declared have in it."""
    known = {n: L.Buffer(n, named("f32"), (64,)) for n in "XY"}
    body = statements("""
        block0 for g in 0:4:2 { alloc local f32 T[8]; thread1 for t in 0:8 { T[t] = -X[t] + min(X[t], 2) / 3 }; barrier
            if g < 3 && !(g == 2) || g >= 7 { Y[ramp(0, 1, 8, active ramp(0, 1, 8) < x8(g))] = x8(exp(X[3])) } else {
                Y[g % 4 - 1] = select(g != 1, reduce_+(X[ramp(g, 1, 8)]), 1.5) } }""", known)
    again = "\n".join(L.format_stmt(body))
    assert "thread1 for t in 0:8" in again
    assert "T[t] = (-X[t] + (min(X[t], 2.0) / 3.0))" in again
    assert "if (((g < 3) && !(g == 2)) || (g >= 7))" in again
    assert "Y[((g % 4) - 1)] = select((g != 1), reduce_+(X[ramp(g, 1, 8)]), 1.5)" in again
