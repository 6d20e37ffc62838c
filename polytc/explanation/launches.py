"""How kernels are launched on a device: groups, the items of each, and the guard that keeps items beyond an end from work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from polytc.codegen import loops, ndrange, traverse
from polytc.codegen.passes import launch_grid
from polytc.codegen.target import Repeat, Source
from polytc.program.extents import Extent


@dataclass(frozen=True)
class Grid:
    """One launch. groups, items: on each axis that it has, axis 0 first. guard: where an item has something to do, '' for
    everywhere; of kernels whose items share other loops the guards stand further inside, and are not told. repeats: loops of
    the host around it."""

    kernel: str
    groups: tuple[Extent, ...]
    items: tuple[int, ...]
    guard: str
    repeats: tuple[Repeat, ...]

    def __str__(self) -> str:
        told = f"{self.kernel}: {' x '.join(map(str, self.groups))} groups of {' x '.join(map(str, self.items))} items"
        told += f", which work where {self.guard}" if self.guard else ""
        return told + "".join(f"; {r}" for r in self.repeats)


def grids(source: Source) -> Iterator[Grid]:
    """The launches of a source, in order; none of a target that launches nothing."""
    if not all(launch.global_size for launch in source.launches):
        return
    for launch, kernel in zip(source.launches, source.module.kernels, strict=True):
        found = ndrange.extract(kernel)
        yield Grid(launch.entry, found.groups[:found.rank], found.local_size, _guard(kernel), launch.loops)


def _guard(kernel: loops.Kernel) -> str:
    """The condition inside of all loops over groups and items, with the titles of these loops for their variables."""
    chain, body = launch_grid.grid_loops(kernel)
    if not isinstance(body, loops.If) or body.orelse is not None:
        return ""
    titles = {s.var: loops.Var(s.title) for s in chain if s.title}
    return loops.format_expr(traverse.map_expr(body.cond, lambda e: titles.get(e.name, e) if isinstance(e, loops.Var) else e))
