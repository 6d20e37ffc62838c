"""x"""
from __future__ import annotations
from dataclasses import dataclass, replace
from polytc.machine import Machine
from polytc.program import program as pr
from polytc.program.affine import Affine
from polytc.program.linear import normalise
from polytc.program.names import Names
from polytc.program.scalars import BOOL, I64
from polytc.rewrite.gpu.time_tiles import geometry, stencils
from polytc.rewrite.gpu.time_tiles.geometry import Reach
from polytc.rewrite.gpu.time_tiles.launches import Frame, Launch, Store
from polytc.rewrite.gpu.time_tiles.stencils import Ends, Stencils, hull


@dataclass(frozen=True)
class Tiled:
    statement: str
    steps: int
    items: tuple[int, ...]
    elements: tuple[int, ...]


def tiled(program: pr.Program, s: Stencils, by: Tiled, names: Names, alive: frozenset[str]):
    return _Tiling(program, s, by, names, alive)


class _Tiling:
    def __init__(self, program, s, by, names, alive):
        self.program, self.s, self.by, self.names, self.alive = program, s, by, names, alive
        self.tensors, self.statements = [], []
        self.reach = geometry.reach(program, s)
        self.grid = grid(program, s)
        self.items, self.elements = tuple(reversed(by.items)), tuple(reversed(by.elements))
        rounds = by.steps // s.round
        margin = self.reach.halo(1)
        w = [i * e for i, e in zip(self.items, self.elements)]
        self.alone = all(hi - lo + 1 + a + b <= n for (lo, hi), (a, b), n in zip(self.grid, margin, w))
        self.rounds = rounds
        self.next = {}

    def make(self):
        s = self.s
        plain = 0 if self.alone else int(any(t in self.alive and t not in s.turns and not geometry.carried(s, t) for t in s.written))
        total = (s.loop.extent - plain) // s.round
        if self.alone:
            self.launch((), Affine(0, ()), total, False)
        else:
            self.next = {t: self.names.label(f"{t}_next") for t in doubled(s, self.reach)}
            self.tensors += [replace(self.program.tensor(t), name=n, title="") for t, n in self.next.items()]
            k = min(self.rounds, total // 2)
            pairs, rest = divmod(total, 2 * k)
            t = replace(s.loop, lower=0, upper=pairs)
            around = ((t, s.members[0].loops[0]),) if pairs > 1 else ()
            for p in (0, 1):
                self.launch(around, Affine(p * k, ((t.index, 2 * k),) if around else ()), k, bool(p))
            done = 2 * k * pairs
            if rest > 1:
                half = (rest + 1) // 2
                self.launch((), Affine(done, ()), half, False)
                self.launch((), Affine(done + half, ()), rest - half, True)
            total -= rest == 1
        for n in range(s.loop.lower + total * s.round, s.loop.upper):
            for x in s.members:
                self.statements.append(pr.with_expressions(replace(x, name=self.names.label(x.name), loops=()), lambda e: normalise(pr.substitute(e, {s.loop.index: pr.Const(n, I64)})), x.ranges[1:]))
        return self

    def launch(self, around, first, rounds, back):
        s, r = self.s, self.reach
        frame = Frame(self.items, self.elements, self.grid, rounds, around, first)
        made = Launch(self.program, s, r, frame, r.halo(1 if self.alone else rounds), self.names, s.members[0].name)
        stores = []
        for t in r.stored if not self.alone else [t for t in s.states if t not in s.turns[-1:] and (t in self.alive or t in r.stored)]:
            box = s.copied if t in s.turns else s.writes(t)
            if t in self.next and not back and not t in s.turns[:-2]:
                box = made.grid_of(t)
            stores.append(Store(t, t if back or t not in self.next else self.next[t], box))
        made.make(self.next if back else {}, stores)
        self.tensors += made.tensors
        self.statements += made.statements


def grid(program, s) -> Ends:
    boxes = []
    for x in s.stages:
        boxes.append(x.domain)
        for read, o in x.reads.items():
            t = program.tensor(read.tensor)
            moved = tuple((lo + d, hi + d) for (lo, hi), d in zip(x.domain, o))
            boxes.append(tuple((max(lo, f), min(hi, f + n - 1)) for (lo, hi), f, n in zip(moved, t.lower, t.shape)))
    return hull(*boxes)


def doubled(s, r: Reach):
    seen = set()
    for load in r.loads:
        if load.inside and any(a or b for a, b in load.beside):
            seen.add(load.inside)
            if load.inside in s.turns: seen.add(load.outside)
    return [t for t in s.states if t in seen]
