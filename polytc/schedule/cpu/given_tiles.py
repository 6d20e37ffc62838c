"""Tiles and threads as lines of a record of decisions, and back (see schedule.decisions)."""

from __future__ import annotations

from math import prod

from polytc.program.program import Range
from polytc.schedule.cost.tile_order import Block
from polytc.schedule.cpu.tile import Tile
from polytc.schedule.decisions import Misfit, Threaded, Tiled
from polytc.schedule.facts.fusion_groups import Group, reduced_indices

MOST = 4096
"""Iterations of a tile at most: each is code of its own."""


def written(group: Group, tile: Tile) -> Tiled:
    """The line of a tile."""
    rows = tuple(row[0] for row in group.rows)
    caches = dict(tile.caches)
    block = tile.block
    return Tiled(group.statements[0].name, rows, tile.sizes, tuple(rows[r] for r in tile.order),
                 rows[tile.vector] if tile.vector is not None else "",
                 *((block.statement, block.index, block.size, block.depth) if block is not None else ("", "", 0, 0)),
                 (tile.straight[0], *tile.straight[1]) if tile.straight is not None else (),
                 tuple(caches.get(r, 0) for r in range(len(rows))) if caches else (), int(tile.around))


def read(group: Group, given: Tiled) -> Tile:
    """The tile that a line says. Raises Misfit."""
    rows = tuple(row[0] for row in group.rows)
    told = f"the shared loops are {', '.join(rows) or 'none'}"
    if given.rows != rows:
        raise Misfit(f"{told}, not {', '.join(given.rows) or 'none'}")
    if sorted(given.order) != sorted(rows):
        raise Misfit(f"{told}: `order` names each once")
    if given.vector and given.vector not in rows:
        raise Misfit(f"{told}, and `vector` is one of them or nothing")
    if len(given.sizes) != len(rows) or any(not 1 <= n <= e for n, e in zip(given.sizes, group.extents, strict=True)):
        raise Misfit(f"{told}, of {', '.join(map(str, group.extents)) or 'no'} iterations: `sizes` has a number for each")
    if prod(given.sizes) > MOST:
        raise Misfit(f"a tile of {prod(given.sizes)} iterations; {MOST} at most become code")
    if given.caches and (len(given.caches) != len(rows) or any(c < 0 or c and c < n for c, n in
                                                               zip(given.caches, given.sizes, strict=True))):
        raise Misfit("`caches` has a number for each loop: 0, or at least the size of its tile")
    at = {name: r for r, name in enumerate(rows)}
    return Tile(given.sizes, at[given.vector] if given.vector else None, tuple(at[name] for name in given.order),
                _block(group, given), _straight(group, given), tuple((r, c) for r, c in enumerate(given.caches) if c),
                bool(given.around))


def _block(group: Group, given: Tiled) -> Block | None:
    if not given.blocked:
        return None
    steps = {i: r.extent for i, r in _reduced(group, given.blocked).items()}
    if given.along not in steps or steps[given.along] < given.block or given.block < 1:
        raise Misfit(f"{given.blocked} reduces over {', '.join(f'{i} of {n} steps' for i, n in steps.items()) or 'nothing'}")
    if not 0 <= given.depth <= len(group.rows):
        raise Misfit(f"`depth` is 0 to {len(group.rows)}")
    return Block(given.blocked, given.along, given.block, given.depth)


def _straight(group: Group, given: Tiled) -> tuple[str, tuple[str, ...]] | None:
    if not given.unrolled:
        return None
    name, *indices = given.unrolled
    reduced = {i: r.extent for i, r in _reduced(group, name).items()}
    if not indices or any(i not in reduced for i in indices):
        raise Misfit(f"{name} reduces over {', '.join(reduced) or 'nothing'}")
    if prod(given.sizes) * prod(reduced[i] for i in indices) > MOST:
        raise Misfit(f"{prod(reduced[i] for i in indices)} steps of a tile of {prod(given.sizes)}; {MOST} at most become code")
    return name, tuple(indices)


def _reduced(group: Group, statement: str) -> dict[str, Range]:
    """The reduced indices of a statement, and their ranges."""
    s = next((s for s in group.statements if s.name == statement), None)
    if s is None:
        raise Misfit(f"the statements are {', '.join(s.name for s in group.statements)}")
    return {r.index: r for r in s.ranges if r.index in reduced_indices(s)}


def kind(given: Threaded) -> str:
    """How the outermost loops run. Raises Misfit."""
    if given.parallel not in ("yes", "no"):
        raise Misfit("`parallel` is yes or no")
    return "parallel" if given.parallel == "yes" else "sequential"
