"""The tile of a group of statements on a CPU."""

from __future__ import annotations

from dataclasses import dataclass

from polytc.schedule.cost import tile_order


@dataclass(frozen=True)
class Tile:
    """Point-loop sizes of the shared loops of a group: sizes[r] iterations of row r (1: not tiled); vector: the row whose
    point loop becomes vectors, or None; order: the rows as tile loops, outermost first; block: how the reduction of one
    statement is cut, or None; straight: (statement, indices of its reduction that are unrolled), or None; caches: (row,
    iterations of a block of tiles) for the rows whose tile loops run block by block; around: the loops over such blocks are
    outside of all others."""

    sizes: tuple[int, ...]
    vector: int | None
    order: tuple[int, ...]
    block: tile_order.Block | None = None
    straight: tuple[str, tuple[str, ...]] | None = None
    caches: tuple[tuple[int, int], ...] = ()
    around: bool = False
