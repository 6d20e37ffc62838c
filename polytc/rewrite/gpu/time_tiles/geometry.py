"""How far a tile reaches: what a group computes of each stage, so that its tile of the last iteration is right.

    iterations of B[i] = A[i-1] + A[i+1];  A[i] = B[i-1] + B[i+1], of a tile t:t+n
    in the last one B is computed at t-1:t+n+1 and A at t:t+n, in each before it 2 more cells on either side

What a group computes beside its tile its neighbours compute, too (overlapped tiles: Krishnamoorthy et al., Effective Automatic
Parallelization of Stencil Computations, PLDI 2007; Holewinski et al., High-Performance Code Generation for Stencil Computations
on GPU Architectures, ICS 2012). Where states take turns between buffers, a round is as many iterations as there are buffers,
behind which each state is where it was; else it is one iteration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from polytc.program import program as pr
from polytc.rewrite.gpu.time_tiles.stencils import Ends, Offsets, Stage, Stencils

Widths = tuple[tuple[int, int], ...]
"""Cells before and behind something, of each dimension."""


@dataclass(frozen=True)
class Instance:
    """A stage in one of the iterations of a round. step: which; target: the buffer that it writes; reads: the buffer of each
    read, and how far from the cell; beside: cells beside the tile that it computes in the last round."""

    stage: Stage
    step: int
    target: str
    reads: Mapping[pr.Read, tuple[str, Offsets]]
    beside: Widths = ()


@dataclass(frozen=True)
class Load:
    """What a buffer holds at first. inside, outside: the tensor that it is loaded from within a box, and elsewhere; `inside` is
    '' where that is written before it is read; beside: cells beside the tile in the last round."""

    buffer: str
    inside: str
    outside: str
    box: Ends
    beside: Widths


@dataclass(frozen=True)
class Reach:
    """What a launch computes. more: cells that each round before the last one computes beside what the next one does; stored:
    the tensors whose values the next launch or the end of the loop needs, which are in buffers of their names."""

    instances: tuple[Instance, ...]
    loads: tuple[Load, ...]
    more: Widths
    stored: tuple[str, ...]

    @property
    def buffers(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(dict.fromkeys([x.buffer for x in self.loads] + [x.target for x in self.instances]))

    def halo(self, rounds: int) -> Widths:
        """The cells beside the tile that buffers have in a launch of so many rounds."""
        widest = _widest(*(x.beside for x in self.loads), *(x.beside for x in self.instances))
        return tuple((a + (rounds - 1) * m, b + (rounds - 1) * n) for (a, b), (m, n) in zip(widest, self.more, strict=True))


def reach(program: pr.Program, s: Stencils) -> Reach:
    """What launches of a loop compute."""
    instances = [Instance(x, n, buffer(s, x.target, n), {r: (buffer(s, r.tensor, n), o) for r, o in x.reads.items()})
                 for n in range(s.round) for x in s.stages]
    sides = [[_side(instances, d, way) for way in (-1, 1)] for d in range(s.rank)]
    found = [Instance(x.stage, x.step, x.target, x.reads, tuple((a[1][n], b[1][n]) for a, b in sides))
             for n, x in enumerate(instances)]
    stored = tuple(t for t in s.states if carried(s, t))
    tile: Widths = ((0, 0),) * s.rank
    needs = dict.fromkeys(stored, tile)
    for x in found:
        for name, offsets in x.reads.values():
            read = tuple((a - o, b + o) for (a, b), o in zip(x.beside, offsets, strict=True))
            needs[name] = _widest(needs.get(name, tile), read)
    loads = tuple(load for b, beside in needs.items() if (load := _load(program, s, b, beside)) is not None)
    return Reach(tuple(found), loads, tuple((a[0], b[0]) for a, b in sides), stored)


def buffer(s: Stencils, tensor: str, step: int) -> str:
    """The buffer that holds a tensor in an iteration of a round."""
    return s.turns[(s.turns.index(tensor) + step) % len(s.turns)] if tensor in s.turns else tensor


def carried(s: Stencils, tensor: str) -> bool:
    """Does an iteration read what an earlier one wrote?"""
    if tensor in s.turns:
        return tensor != s.turns[-1]
    writers = [n for n, x in enumerate(s.stages) if x.target == tensor]
    readers = [n for n, x in enumerate(s.stages) if any(r.tensor == tensor for r in x.reads)]
    return min(readers, default=len(s.stages)) <= writers[0] or s.writes(tensor) != s.stages[writers[0]].domain


def _side(instances: Sequence[Instance], d: int, way: int) -> tuple[int, list[int]]:
    """Towards lower coordinates of a dimension (way -1) or higher ones (1): the cells that a round computes beside what the
    next one does, as few as can be, and those of each instance beside the tile in the last round. What an instance reads has
    been computed there, in the same round if before it, else in the round before."""
    needs = [(reader, writer, way * offsets[d], writer >= reader)
             for reader, x in enumerate(instances) for name, offsets in x.reads.values()
             for writer, w in enumerate(instances) if w.target == name]
    for more in count():
        beside = [0] * len(instances)
        for _ in range(len(instances) + 1):
            changed = False
            for reader, writer, offset, earlier in needs:
                wanted = beside[reader] + offset - more * earlier
                if wanted > beside[writer]:
                    beside[writer], changed = wanted, True
            if not changed:
                return more, beside
    raise AssertionError("unreachable")


def _widest(*widths: Widths) -> Widths:
    return tuple((max(a for a, _ in d), max(b for _, b in d)) for d in zip(*widths, strict=True))


def _load(program: pr.Program, s: Stencils, name: str, beside: Widths) -> Load | None:
    """What a buffer holds at first; None where all of that is written before it is read."""
    if name in s.turns:
        return Load(name, name if name != s.turns[-1] else "", s.turns[-2], s.copied, beside)
    if carried(s, name):
        return Load(name, name, name, s.writes(name), beside)
    t = program.tensor(name)
    whole = tuple((low, low + n - 1) for low, n in zip(t.lower, t.shape, strict=True))
    return Load(name, "", name, s.writes(name), beside) if s.writes(name) != whole else None
