"""The strategy for CPUs: vector dimension, register tile, loop order and parallel loops of every group, without tuning.

    C[i,j] += A[i,k]*B[k,j]                                     with A[512,512], B[512,512] on avx512
    ->  parallel j // 32, i // 14 { for k { unroll i % 14, vector j % 32 { C[i,j] += A[i,k]*B[k,j] } } }

    Y[i,j] = X[j,i]                                             with X[512,512] on avx512
    ->  parallel j // 64, i // 64 { for j // 16 % 4, i // 16 % 4 { unroll i % 16, vector j % 16 { Y[i,j] = X[j,i] } } }

Element-wise work is vectorised along the shared loop in which accesses are contiguous; reductions get the register tile that
schedule.cost.register_tiles chooses. The rest is order: the tile loop whose operand is larger runs outermost, so that it is
streamed once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from math import prod

from polytc.machine import Machine, estimates
from polytc.poly import isl
from polytc.poly.nest import Band, Leaf, Member, Nest, Sequence
from polytc.program import program as pr
from polytc.program.calls.matrix_rows import row_indices
from polytc.schedule.cost import matrix_blocks, parallel_profitability, register_tiles, streams, tile_order, vector_loops
from polytc.schedule.cpu import given_tiles
from polytc.schedule.cpu.tile import Tile
from polytc.schedule.decisions import Decisions, Priced, Threaded
from polytc.schedule.facts.fusion_groups import Group, coincident_indices, is_contraction, partition, reduced_indices
from polytc.schedule.facts.strides import AccessStrides, along_rows, lane_width, of_statement, panel_width
from polytc.schedule.fusion.cluster import Cluster
from polytc.schedule.fusion.outer_fusion import clusters
from polytc.schedule.fusion.policies import Fusion

SQUARE = 16
"""Lanes of a square tile at most: its rows should fit the registers."""
SCAN = 8
"""Vectors side by side of what goes down rows below each other: several lines of memory of each."""
VECTORS = (1, 2, 4, 8)
"""Vectors side by side of element-wise work that there are to choose from."""
SHORT = 16
"""Reads and operations of statements so short that the loop around them takes time: two vectors a turn make up for it."""


def nest(program: pr.Program, machine: Machine, prefix: str = "G", fusion: Fusion | None = None,
         made: Decisions | None = None) -> Nest:
    """The loop nest of a whole program. prefix: the names of its bands begin with it; fusion: which statements share loops;
    made: where decisions are noted, and given ones found."""
    made = made or Decisions()
    groups = fusion.groups if fusion is not None else partition(program)
    alone = fusion is not None and fusion.policy == "min"
    found = tuple(map(Cluster, ((g,) for g in groups))) if alone else clusters(program, groups, machine, made=made)
    parts = tuple(_cluster(program, c, machine, f"{prefix}{n}", _kind(program, c.groups, machine, made), 1, made)
                  for n, c in enumerate(found))
    return parts[0] if len(parts) == 1 else Sequence(parts)


def _cluster(program: pr.Program, cluster: Cluster, machine: Machine, name: str, kind: str, around: int,
             made: Decisions) -> Nest:
    """The shared loops of a cluster around its groups, or clusters of these, one after another in each iteration. kind: of
    these loops; around: iterations of the loops outside."""
    whole = cluster.whole
    if not whole.rows:
        return _group(program, cluster.groups[0], machine, name, kind, made)
    count = around * whole.iterations
    inner = clusters(program, tuple(cluster.part(n) for n in range(len(cluster.groups))), machine, count, made)
    parts = tuple(_cluster(program, c, machine, f"{name}.{n}", "sequential", count, made) for n, c in enumerate(inner))
    rows = (tuple((s.name, _tile_loop(i, cluster.block)) for s, i in zip(whole.statements, row, strict=True))
            for row in whole.rows)
    members = tuple(Member(row, kind, coincident=True) for row in rows)
    return Band(name, members, parts[0] if len(parts) == 1 else Sequence(parts), permutable=True)


def _kind(program: pr.Program, groups: tuple[Group, ...], machine: Machine, made: Decisions) -> str:
    def own() -> str:
        work = parallel_profitability.work(program, (s for g in groups for s in g.statements), machine)
        return "parallel" if parallel_profitability.pays(work, machine) else "sequential"
    first = groups[0].statements[0].name
    return made.take("threads", first, own, lambda kind: Threaded(first, "yes" if kind == "parallel" else "no"),
                     given_tiles.kind, options=lambda: [("parallel", None), ("sequential", None)] if groups[0].rows else ())


def _group(program: pr.Program, group: Group, machine: Machine, name: str, kind: str, made: Decisions) -> Nest:
    """kind: of the group's outermost loops."""
    tile = choose_tile(program, group, machine) if not group.rows else made.take(
        "tile", group.statements[0].name, lambda: choose_tile(program, group, machine),
        lambda tile: given_tiles.written(group, tile), lambda given: given_tiles.read(group, given),
        options=lambda: tile_options(program, group, machine))
    cut = tile.block.depth if tile.block is not None else len(tile.order)
    parts: list[Nest] = []
    for n, s in enumerate(group.statements):
        part = _leaf(program, group, n, tile, machine, name)
        alone = kind if cut == 0 and not tile.around else "sequential"
        inner = tuple(_row(group, r, tile, alone, (n,)) for r in tile.order[cut:])
        part = Band(f"{name}.{s.name}.rows", inner, part, permutable=True) if inner else part
        if tile.block is not None and s.name == tile.block.statement:
            steps = Member(((s.name, f"floor({isl.name(tile.block.index)}/{tile.block.size})"),))
            part = Band(f"{name}.{s.name}.block", (steps,), part)
        parts.append(part)
    body: Nest = parts[0] if len(parts) == 1 else Sequence(tuple(parts))
    everyone = tuple(range(len(group.statements)))
    blocked = [r for r in tile.order if r in dict(tile.caches)]
    if tile.around:
        outer = [_cache_block(group, r, tile, kind) for r in blocked]
        outer += [_row(group, r, tile, kind if r not in blocked else "sequential", everyone) for r in tile.order[:cut]]
    else:
        outer = [_row(group, r, tile, kind, everyone) for r in tile.order[:cut] if r not in blocked]
        outer += [_cache_block(group, r, tile, kind) for r in blocked]
        outer += [_row(group, r, tile, "sequential", everyone) for r in blocked]
    return Band(name, tuple(outer), body, permutable=True) if outer else body


def _row(group: Group, row: int, tile: Tile, kind: str, positions: tuple[int, ...]) -> Member:
    """A shared loop, over tiles, of some of the group's statements."""
    cache = dict(tile.caches).get(row, dict(group.blocks).get(row))
    return Member(tuple((group.statements[n].name, _tile_loop(group.rows[row][n], tile.sizes[row], cache)) for n in positions),
                  kind, coincident=True)


def _cache_block(group: Group, row: int, tile: Tile, kind: str) -> Member:
    """The loop over the blocks of tiles of a shared loop."""
    size, block = dict(tile.caches)[row], dict(group.blocks).get(row)
    return Member(tuple((s.name, _tile_loop(group.rows[row][n], size, block)) for n, s in enumerate(group.statements)), kind,
                  coincident=True)


def _tile_loop(index: str, size: int, cache: int | None = None) -> str:
    """Over the tiles of an index; within a block of tiles, if `cache` says how long that is."""
    text = isl.name(index) if cache is None else f"({isl.name(index)} mod {cache})"
    return text if size == 1 else f"floor({text}/{size})"


def _leaf(program: pr.Program, group: Group, position: int, tile: Tile, machine: Machine, name: str) -> Nest:
    """The loops of one statement inside the shared ones: its own loops, then the point loops, the vector innermost."""
    s = group.statements[position]
    inner = group.inner(position)
    lanes = lane_width(program, s, machine)
    own_vector = None if tile.vector is not None else _inner_vector(program, s, inner, lanes)
    unrolled = (*row_indices(s), *(tile.straight[1] if tile.straight is not None and tile.straight[0] == s.name else ()))
    loops = [Member(((s.name, _own_loop(s, r.index, tile)),), "unroll" if r.index in unrolled else "sequential")
             for r in inner if r is not own_vector]
    strips = own_vector is not None and own_vector.extent > _strip(own_vector, lanes) and not s.where
    if own_vector is not None and strips:
        loops.append(Member(((s.name, f"floor({isl.name(own_vector.index)}/{_strip(own_vector, lanes)})"),)))
    rows = [r for r in range(len(group.rows)) if tile.sizes[r] > 1 and r != tile.vector]
    rows += [tile.vector] if tile.vector is not None else []
    jam = [Member(((s.name, f"{isl.name(group.rows[r][position])} mod {tile.sizes[r]}"),),
                  "vector" if r == tile.vector else "unroll", coincident=True) for r in rows]
    if own_vector is not None:
        size, reduced = _strip(own_vector, lanes), own_vector.index in reduced_indices(s)
        text = isl.name(own_vector.index)
        jam.append(Member(((s.name, f"{text} mod {size}" if strips else f"{text} - {own_vector.lower}"),),
                          "reduce" if reduced else "vector", coincident=not reduced))
    nest: Nest = Leaf(s.name)
    if jam:
        nest = Band(f"{name}.{s.name}.point", tuple(jam), nest, permutable=True)
    return Band(f"{name}.{s.name}", tuple(loops), nest) if loops else nest


def _own_loop(s: pr.Statement, index: str, tile: Tile) -> str:
    """A loop that only this statement has; inside a block of the reduction it counts from 0."""
    blocked = tile.block is not None and (s.name, index) == (tile.block.statement, tile.block.index)
    return f"{isl.name(index)} mod {tile.block.size}" if tile.block is not None and blocked else isl.name(index)


def _strip(r: pr.Range, lanes: int) -> int:
    """Iterations of a statement's own loop that become vectors at once."""
    return min(4 * lanes, r.extent) if r.lower == 0 else lanes


def _inner_vector(program: pr.Program, s: pr.Statement, inner: tuple[pr.Range, ...], lanes: int) -> pr.Range | None:
    """The statement's own index that vectorises best, if any does."""
    if s.bounds or not inner:
        return None
    accesses = of_statement(program, s)
    reduced = set(reduced_indices(s))
    free = set(coincident_indices(s))
    long = [r for r in inner if r.extent >= 4 and r.index not in row_indices(s)]
    usable = [r for r in long if (r.index in free or r.index in reduced) and (r.index not in reduced or
                                                     (not program.precise and accesses[0].stride(r.index) == 0))]
    place, score = vector_loops.best(accesses, [r.index for r in usable], reduced)
    return usable[place] if place is not None and score > 0 else None


def choose_tile(program: pr.Program, group: Group, machine: Machine) -> Tile:
    """Point-loop sizes and order for the shared loops of a group."""
    rows = range(len(group.rows))
    flat = Tile((1,) * len(group.rows), None, tuple(rows))
    if not group.rows or any(s.bounds for s in group.statements):
        return flat
    s, index = _heaviest(group)
    accesses = along_rows(program, (s,), of_statement(program, s))
    lanes = lane_width(program, s, machine)
    if s.op is not None and reduced_indices(s):
        chosen = vector_loops.of_contraction(s, accesses, tuple(index), lanes, machine)
        if chosen is not None:
            stream = None if group.blocks else streams.better(program, s, accesses, chosen, tuple(index), lanes, machine)
            return _streamed(s, group, index, lanes, stream) if stream is not None else \
                _register_tile(program, s, group, index, lanes, chosen, machine)
        return _unrolled(s, group, accesses, index, machine)[0] if is_contraction(s) and not s.where else flat
    accesses = along_rows(program, group.statements, accesses)
    wide = [r for r in rows if group.extents[r] >= min(4, lanes)]
    crossing = {r: _crossing(accesses, index, r, wide) for r in wide}
    turned = {index[r]: crossing[r] for r in wide}
    place, score = vector_loops.best(accesses, list(turned), later=True, turned=turned)
    if place is None or score <= 0:
        free = set(s.indices) <= set(coincident_indices(s))
        return _narrow_inside(accesses, index, group, flat) if free else _chains(group, flat, machine)
    vector = wide[place]
    panel = panel_width(s, index[vector])
    if crossing[vector]:
        other = Counter(crossing[vector].values()).most_common(1)[0][0]
        return _square(group, vector, other, panel, max(a.width for a in accesses), machine, program.once)
    if s.where and len(group.statements) == 1 and group.ranges[vector][0] >= 0:
        sizes = tuple(max(1, group.ranges[r][1]) if r == vector else 1 for r in rows)
        return Tile(sizes, vector, tuple(rows))                       # one tile a row: code generation makes the strips
    return _streaming(group, vector, panel or _vectors(s, index, group) * lanes)


def tile_options(program: pr.Program, group: Group, machine: Machine) -> Iterator[Priced[Tile]]:
    """What `choose_tile` weighs, with the seconds on one core where it counts cycles, and its own tile with other orders of the
    loops over tiles."""
    if not group.rows or any(s.bounds for s in group.statements):
        return
    s, index = _heaviest(group)
    accesses, lanes = along_rows(program, (s,), of_statement(program, s)), lane_width(program, s, machine)
    if s.op is not None and reduced_indices(s):
        first = vector_loops.of_contraction(s, accesses, tuple(index), lanes, machine)
        for chosen in (*filter(None, (first,)), *register_tiles.candidates(s, accesses, tuple(index), lanes, machine)):
            tile = _register_tile(program, s, group, index, lanes, chosen, machine)
            yield tile, estimates.arithmetic(machine, chosen.cycles).seconds
        yield from ((tile, None) for tile in (_unrolled(s, group, accesses, index, machine) if first is None else ()))
    else:
        for row in sorted(range(len(index)), key=lambda r: -vector_loops.score(accesses, index[r])):
            panel = panel_width(s, index[row])
            yield from ((_streaming(group, row, n), None) for n in (panel, *(lanes * v for v in VECTORS)) if n is not None)
    own = choose_tile(program, group, machine)
    yield from ((replace(own, order=(row, *(r for r in own.order if r != row))), None) for row in own.order)
    yield replace(own, block=None, caches=()), None
    yield Tile((1,) * len(index), None, tuple(range(len(index)))), None


def _heaviest(group: Group) -> tuple[pr.Statement, list[str]]:
    """The statement of most instances, for which tiles are chosen, and its indices of the shared loops."""
    heavy = max(range(len(group.statements)), key=lambda n: (group.statements[n].points, n))
    return group.statements[heavy], [row[heavy] for row in group.rows]


def _chains(group: Group, flat: Tile, machine: Machine) -> Tile:
    """A scan along memory: each of its operations waits for the one before, so that several scans go on at a time."""
    row = max(range(len(group.rows)), key=lambda r: (group.extents[r], r))
    side = min(machine.fma_latency, group.extents[row])
    return replace(flat, sizes=tuple(side if r == row else 1 for r in range(len(group.rows))))


def _narrow_inside(accesses: tuple[AccessStrides, ...], index: list[str], group: Group, flat: Tile) -> Tile:
    """Rows of two or three elements that reads walk contiguously, as the channels of an image, run innermost: LLVM writes them
    out, and makes vectors of the loop around that take such elements apart."""
    narrow = [r for r in flat.order if 1 < group.extents[r] < 4 and any(a.stride(index[r]) in (1, -1) for a in accesses[1:])]
    return replace(flat, order=(*(r for r in flat.order if r not in narrow), *narrow))


def _crossing(accesses: tuple[AccessStrides, ...], index: list[str], vector: int, rows: list[int]) -> dict[AccessStrides, int]:
    """The reads that walk the vector's row in strides, but another one contiguously; and that one."""
    strided = [a for a in accesses[1:] if a.stride(index[vector]) not in (0, 1, None)]
    along = {a: next((r for r in rows if a.stride(index[r]) == 1), None) for a in strided}
    return {a: r for a, r in along.items() if r is not None}


def _square(group: Group, vector: int, other: int, panel: int | None, width: int, machine: Machine, once: bool) -> Tile:
    """Reads that are contiguous in another row than the writes: square tiles, which code generation transposes in registers
    (codegen.passes.register_transpose), in blocks of which all lines stay in the first cache until they are used up.

    width: bytes of an element; panel: the writes' panel width, which tiles respect; once: a vector at a time will do, as
    transpositions are hundreds of lines of code, but not with its lines read anew for each; so a short side stays in the block.
    """
    lanes = min(machine.lanes(width), SQUARE)
    edge = lanes
    while 2 * (2 * edge) ** 2 * width <= machine.caches[0].bytes:
        edge *= 2
    sizes = [1] * len(group.rows)
    for r in (vector,) if once else (vector, other):
        sizes[r] = min(lanes, group.extents[r])
    long = [r for r in (other, vector) if group.extents[r] > edge]
    caches = dict.fromkeys((other, vector) if once and long else long, edge)
    if panel is not None:
        sizes[vector], caches[vector] = (lanes, panel) if panel % lanes == 0 else (panel, panel)
    order = [r for r in range(len(sizes)) if r not in (vector, other)]
    return Tile(tuple(sizes), vector, (*order, vector, other), caches=tuple(caches.items()))


def _vectors(s: pr.Statement, index: list[str], group: Group) -> int:
    """Vectors side by side of element-wise work. s: its heaviest statement, with these indices of the shared loops."""
    if not set(s.indices) <= {*index, *row_indices(s)}:
        return SCAN
    nodes = sum(isinstance(e, pr.Binary | pr.Call | pr.Read) for x in group.statements for e in pr.walk(x.value))
    nodes *= prod(s.extents[i] for i in row_indices(s))
    return 2 if nodes < SHORT else 1


def _streaming(group: Group, vector: int, width: int) -> Tile:
    """Element-wise work: a few vectors at a time, nothing else."""
    size = min(width, group.extents[vector])
    sizes = tuple(size if r == vector else 1 for r in range(len(group.rows)))
    return Tile(sizes, vector, tuple(range(len(group.rows))))


def _register_tile(program: pr.Program, s: pr.Statement, group: Group, index: list[str], lanes: int,
                   chosen: register_tiles.RegisterTile, machine: Machine) -> Tile:
    """A tile of schedule.cost.register_tiles, with the order of loops and the blocks that go with it."""
    vector, jam = index.index(chosen.vector), index.index(chosen.jam) if chosen.jam is not None else None
    sizes = [1] * len(index)
    panel = panel_width(s, chosen.vector)
    width = panel if panel is not None and -(-panel // lanes) == chosen.width else chosen.width * lanes
    sizes[vector] = min(width, group.extents[vector])
    if jam is not None:
        sizes[jam] = chosen.rows
    named = dict(zip(index, sizes, strict=True))
    if jam is not None and isinstance(s.value, pr.Call) and machine.multiplies_tiles(s.value.fn):
        found = matrix_blocks.choose(program, s, named, chosen.vector, index[jam], machine)
        caches = ((index.index(found.index), found.size),) if found.index else ()
        return Tile(tuple(sizes), vector, found.order, found.block, None, caches, bool(caches))
    rows = tile_order.of_tiles(program, s, named, machine)
    block = tile_order.block(program, s, named, rows, machine) if not chosen.straight else None
    straight = (s.name, reduced_indices(s)[-chosen.straight:]) if chosen.straight else None
    return Tile(tuple(sizes), vector, rows, block, straight)


def _streamed(s: pr.Statement, group: Group, index: list[str], lanes: int, stream: streams.Stream) -> Tile:
    """A tile that takes some rows of a large operand after others (schedule.cost.streams); threads share their columns."""
    chosen, vector = stream.tile, index.index(stream.tile.vector)
    tiled = [vector] if chosen.jam is None else [vector, index.index(chosen.jam)]
    sides = dict(zip(tiled, (min(chosen.width * lanes, group.extents[vector]), chosen.rows), strict=False))
    others = [r for r in range(len(index)) if r not in tiled]
    block = tile_order.Block(s.name, stream.index, min(streams.ROWS, s.extents[stream.index]), len(others))
    return Tile(tuple(sides.get(r, 1) for r in range(len(index))), vector, (*others, *tiled), block, None,
                ((vector, stream.columns),), True)


def _unrolled(s: pr.Statement, group: Group, accesses: tuple[AccessStrides, ...], index: list[str], machine: Machine
              ) -> list[Tile]:
    """A contraction whose vectors are its own lanes of partial sums: unroll the two loops with reuse, so that the accumulators
    fit the registers. The best comes first."""
    reused = [r for r in range(len(index)) if group.extents[r] > 1 and any(a.stride(index[r]) == 0 for a in accesses[1:])]
    chosen = sorted(reused, key=lambda r: -group.extents[r])[:2]
    shapes: list[tuple[int, ...]] = [()]
    if len(chosen) == 2:
        high, wide = (group.extents[r] for r in chosen)
        shapes = [(m, n) for m in range(1, 9) for n in range(1, 9)
                  if m * n + n + 1 <= machine.vector_registers and m <= high and n <= wide]
        shapes.sort(key=lambda t: (t[0] * t[1] / (t[0] + t[1] + 2), t[1]), reverse=True)
    elif chosen:
        shapes = [(min(group.extents[chosen[0]], 4),)]
    named = (dict(zip(chosen, shape, strict=True)) for shape in shapes)
    return [Tile(tuple(sizes.get(r, 1) for r in range(len(index))), None, tuple(range(len(index)))) for sizes in named]
