"""The strategy for GPUs: shared loops to work-groups and work-items.

The fastest work-item axis gets the loop in which accesses are contiguous, so that neighbouring items touch neighbouring words
(Verdoolaege et al., Polyhedral Parallel Code Generation for CUDA, TACO 2013).
"""

from __future__ import annotations

from math import prod

from polytc.lang import program as pr
from polytc.machine import Machine
from polytc.poly import isl
from polytc.poly.nest import Band, Leaf, Member, Nest, Sequence
from polytc.schedule.fusion import Fusion
from polytc.schedule.groups import Group, partition
from polytc.schedule.strides import of_statement, vector_score

BLOCKS = {1: (256,), 2: (32, 8), 3: (32, 4, 2)}
"""Work-group extents for 1, 2 and 3 mapped loops, fastest axis first."""


def nest(program: pr.Program, machine: Machine, fusion: Fusion | None = None) -> Nest:
    """The loop nest of a whole program; each group becomes one kernel. fusion: which statements are grouped."""
    groups = fusion.groups if fusion is not None else partition(program)
    parts = tuple(_group(program, g, machine, f"G{n}") for n, g in enumerate(groups))
    return parts[0] if len(parts) == 1 else Sequence(parts)


def _group(program: pr.Program, group: Group, machine: Machine, name: str) -> Nest:
    leaves = tuple(_leaf(group, n, name) for n in range(len(group.statements)))
    body: Nest = leaves[0] if len(leaves) == 1 else Sequence(leaves)
    if not group.rows:
        return body
    axes = mapping(program, group, machine)
    sizes = dict(axes)
    order = [r for r in range(len(group.rows)) if r not in sizes] + [r for r, _ in reversed(axes)]
    fastest = {r: axis for axis, (r, _) in enumerate(axes)}
    blocks = tuple(Member(_rows(group, r, sizes.get(r, 1), "floor({}/{})"), f"block{fastest.get(r, 2)}", coincident=True)
                   for r in order)
    threads = tuple(Member(_rows(group, r, size, "{} mod {}"), f"thread{fastest[r]}", coincident=True)
                    for r, size in reversed(axes))
    return Band(name, blocks, Band(f"{name}.thread", threads, body, permutable=True), permutable=True)


def mapping(program: pr.Program, group: Group, machine: Machine) -> list[tuple[int, int]]:
    """(row, work-group extent) for at most three rows, fastest axis first."""
    heavy = max(range(len(group.statements)), key=lambda n: (group.statements[n].points, n))
    accesses = of_statement(program, group.statements[heavy])
    rows = range(len(group.rows))
    contiguous = max(rows, key=lambda r: (vector_score(accesses, group.rows[r][heavy]), r))
    mapped = [contiguous, *[r for r in reversed(rows) if r != contiguous]][:3]
    extents = [min(size, _power_of_two(group.extents[r])) for r, size in zip(mapped, BLOCKS[len(mapped)], strict=True)]
    while prod(extents) > max(1, machine.max_work_group or 256):
        widest = extents.index(max(extents))
        extents[widest] //= 2
    return list(zip(mapped, extents, strict=True))


def _power_of_two(n: int) -> int:
    """The smallest power of two that is not below n."""
    return 1 << max(0, n - 1).bit_length()


def _rows(group: Group, row: int, size: int, form: str) -> tuple[tuple[str, str], ...]:
    return tuple((s.name, form.format(isl.name(group.rows[row][n]), size)) for n, s in enumerate(group.statements))


def _leaf(group: Group, position: int, name: str) -> Nest:
    s = group.statements[position]
    inner = group.inner(position)
    if not inner:
        return Leaf(s.name)
    return Band(f"{name}.{s.name}", tuple(Member(((s.name, isl.name(r.index)),)) for r in inner), Leaf(s.name))
