"""How large the blocks of keys and the tiles of items are where a chain of products and exponentials is one kernel, and what
that takes beside separate kernels.

The estimate counts what an item does for a block of keys: multiply-adds, the operands of each, its part of the copies, the
exponentials, and what the items of a row tell each other; groups are rounded up to whole rounds of all compute units, as those
of contractions are (rewrite.gpu.contraction_tiles). Separate kernels take the time of the two products by the best tiles, and
write and read the scores and the weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import ceil, prod

from polytc.machine import Machine, estimates
from polytc.machine.device_costs import Groups
from polytc.program import program as pr
from polytc.program.affine import interval
from polytc.program.linear import linear
from polytc.program.scalars import F32
from polytc.rewrite.gpu import contraction_tiles, matrix_tiles, tile_copies
from polytc.rewrite.gpu.matrix_tiles import ADDRESSES
from polytc.rewrite.gpu.softmax.chain import Chain
from polytc.rewrite.gpu.softmax.key_blocks import MATRIX, KeyBlocks
from polytc.rewrite.gpu.softmax.streamed import PARTS
from polytc.schedule.facts.fusion_groups import is_contraction, partition, reduced_indices
from polytc.schedule.facts.occupancy import MAX_WORK_GROUP

ACROSS, DOWN = (4, 8, 16, 32), (1, 2, 4, 8, 16, 32)
"""Items of a group across keys and columns, and down rows."""
KEYS, ROWS, COLUMNS = (1, 2, 4, 8), (1, 2, 4, 8), 16
"""Keys and rows of an item, and columns at most."""
BLOCK = (8, 128)
"""Keys of a block, at least and at most."""
STEPS = (128, 96, 80, 64, 48, 32, 16, 8)
"""Features, and keys of values, that are copied at once."""
MEETINGS = 3
"""Of the items of a group in a block: the copies are there, the maxima, and the weights."""
OF_ROW = 6
"""Numbers of a row that an item has: the maximum and its steps, the factor and the sum."""


@dataclass(frozen=True)
class Extents:
    """Of a chain. bytes: of a number of the scores; operands: of one of the queries, keys and values; apart: elements from
    one row of the queries, and one column of the values, to the next, all of which are copied; seen: the part of the keys that
    conditions leave."""

    batch: int
    rows: int
    keys: int
    features: int
    columns: int
    bytes: int
    operands: tuple[int, int, int]
    apart: tuple[int, int]
    seen: float

    @staticmethod
    def of(program: pr.Program, chain: Chain) -> Extents:
        """Those of a chain."""
        s, n = chain.score, chain.score.extents
        types = tuple(r.dtype.bytes for r in (chain.queries, chain.keys, chain.values))
        return Extents(prod(r.extent for r in chain.batch), n[chain.row], n[chain.key], n[chain.feature], chain.column.extent,
                       program.tensor(s.target).dtype.bytes, (types[0], types[1], types[2]),
                       (_apart(chain.queries, chain.row), _apart(chain.values, chain.column.index)), _seen(chain))


def _apart(read: pr.Read, index: str) -> int:
    """The factor of an index in what is read."""
    return max(abs(f.coefficient(index)) for e in read.subscripts if (f := linear(e)) is not None)


def _seen(chain: Chain) -> float:
    """The part of the pairs of rows and keys for which all conditions hold, by a grid of samples."""
    conditions = (*chain.conditions, *chain.hides)
    if not conditions:
        return 1.0
    box = chain.score.box
    forms = [(c, linear(pr.Binary("-", c.a, c.b, pr.Index("").dtype))) for c in conditions if isinstance(c, pr.Binary)]
    found = 0
    for a, b in product(range(SAMPLES), repeat=2):
        at = {i: (low + high) // 2 for i, (low, high) in box.items()}
        for i, n in ((chain.row, a), (chain.key, b)):
            low, high = box[i]
            at[i] = low + (2 * n + 1) * (high - low + 1) // (2 * SAMPLES)
        found += all(_holds(c.op, interval(f, {i: (x, x) for i, x in at.items()})[0]) for c, f in forms if f is not None)
    return max(found, 1) / SAMPLES**2


SAMPLES = 32
"""Of rows and of keys."""


def _holds(op: str, value: int) -> bool:
    return {"<": value < 0, "<=": value <= 0, ">": value > 0, ">=": value >= 0}[op]


def half(program: pr.Program, chain: Chain, machine: Machine) -> str:
    """The type of the operands that a matrix unit may multiply; '' where it may not: a value that a row does not see must not
    enter its results, though it be NaN, and the unit knows of no conditions."""
    unit, s = machine.matrix_unit, chain.score
    if unit is None or not matrix_tiles.divides_so(machine) or chain.conditions or program.tensor(s.target).dtype != F32:
        return ""
    operands, column = (chain.queries, chain.keys, chain.values), chain.column.index
    casts = [e for e in (*pr.walk(s.value), chain.term) if isinstance(e, pr.Cast) and e.dtype == F32 and e.a in operands]
    types = {r.dtype.name for r in operands}
    along = (chain.queries, chain.feature, chain.row), (chain.keys, chain.feature, chain.key), (chain.values, chain.key, column)
    plain = all(r.default is None and matrix_tiles.lies(matrix_tiles.forms_of(r), k, side) for r, k, side in along)
    return types.pop() if plain and len(casts) == 3 and len(types) == 1 and types <= {*unit.types} else ""


def candidates(program: pr.Program, chain: Chain, machine: Machine) -> Iterator[tuple[KeyBlocks, float]]:
    """The ways in which a group may go through the keys, the quickest first, and their seconds."""
    x = Extents.of(program, chain)
    made = [*_shapes(chain, x, machine), *(_of_warps(chain, x, machine) if half(program, chain, machine) else ())]
    found = [(by, seconds(by, x, machine)) for by in made]
    yield from sorted(found, key=lambda f: f[1])


def _shapes(chain: Chain, x: Extents, machine: Machine) -> Iterator[KeyBlocks]:
    lanes = max(1, min(4, 16 // x.bytes))
    for across, down, keys, rows in product(ACROSS, DOWN, KEYS, ROWS):
        own = -(-x.columns // across)
        columns = next(n for n in range(own, own + lanes) if n % min(lanes, 1 << (own - 1).bit_length()) == 0)
        by = KeyBlocks(chain.score.name, (across, down), (keys, rows, columns), (0, 0))
        good = BLOCK[0] <= by.keys <= BLOCK[1] and columns <= COLUMNS and by.rows < 2 * x.rows + down
        if good and machine.warp <= prod(by.items) <= min(MAX_WORK_GROUP, machine.max_work_group):
            deep = fitting(by, x, machine)
            if deep is not None:
                yield deep


def _of_warps(chain: Chain, x: Extents, machine: Machine) -> Iterator[KeyBlocks]:
    """The shapes of groups whose warps multiply on a matrix unit."""
    each = 2 * matrix_tiles.PAIR
    columns = -(-x.columns // (matrix_tiles.ACROSS * each)) * each
    for warps, keys, rows in product((1, 2, 4, 8), (4, 8, 16), (2, 4)):
        items = matrix_tiles.ACROSS, matrix_tiles.DOWN * warps
        by = KeyBlocks(chain.score.name, items, (keys, rows, columns), (0, 0), MATRIX)
        good = columns <= COLUMNS * 2 and by.rows < 2 * x.rows + matrix_tiles.DOWN
        deep = fitting(by, x, machine) if good and prod(items) <= machine.max_work_group else None
        if deep is not None:
            yield deep


def fitting(by: KeyBlocks, x: Extents, machine: Machine) -> KeyBlocks | None:
    """The tiles with steps such that local memory has room; None if it has not, or registers have not."""
    if registers(by, x) > min(matrix_tiles.MOST_REGISTERS, machine.item_registers * 256 // prod(by.items)):
        return None
    features = [x.features] if x.features <= STEPS[0] else []
    features += [n for n in STEPS if n < x.features and x.features % n == 0] or [16]
    if by.is_matrix:
        features = [n for n in (-(-x.features // 16) * 16, 64, 32, 16) if n < x.features + 16]
    values = [by.keys, *(n for n in STEPS if n < by.keys and by.keys % n == 0 and not (by.is_matrix and n % 16))]
    deep = (replace(by, steps=(d, j)) for d, j in product(features, values))
    return next((d for d in deep if local_bytes(d, x) <= machine.local_bytes), None)


def registers(by: KeyBlocks, x: Extents) -> int:
    """Of an item, about."""
    keys, rows, columns = by.elements
    numbers = rows * (keys + columns + OF_ROW) + rows + max(keys, columns)
    return numbers * x.bytes // 4 + ADDRESSES


def local_bytes(by: KeyBlocks, x: Extents) -> int:
    """Of a group, rows a vector longer against bank conflicts."""
    (features, values), pad = by.steps, 16
    queries, keys, of_values = x.operands
    rows, columns = by.rows * x.apart[0], by.columns * x.apart[1]
    if by.is_matrix:
        return ((rows + by.keys) * (features * queries + pad) + values * (columns * of_values + pad)
                + PARTS * by.rows * (by.keys * of_values + pad) + by.rows * (by.items[0] * x.bytes + pad))
    queries, keys, of_values = (max(4, n) for n in x.operands)  # halves are floats there
    return (features * (rows * queries + pad) + features * (by.keys * keys + pad) + values * (columns * of_values + pad)
            + by.keys * (by.rows * x.bytes + pad) + by.rows * (by.items[0] * x.bytes + pad))


def seconds(by: KeyBlocks, x: Extents, machine: Machine) -> float:
    """Of the kernel."""
    costs, items = machine.costs.groups, prod(by.items)
    keys, rows, columns = by.elements
    features, values = by.steps
    wide = x.bytes / 4
    products = float(rows * keys * x.features + rows * columns * by.keys)
    operands = float((rows + keys) * x.features + (rows + columns) * by.keys)
    if by.is_matrix and machine.matrix_unit is not None:
        products = (rows * keys * x.features + PARTS * rows * columns * by.keys) / machine.matrix_unit.faster
        mine = rows * matrix_tiles.DOWN
        read = (mine + by.keys) * x.features + PARTS * (mine + by.columns) * by.keys
        operands = 2 * read * costs.local_byte / machine.warp
    shared = rows * keys * costs.exponential + rows * (by.items[0] + keys + columns + costs.exponential)
    boxes = [(by.keys, x.features), (by.keys, x.columns * x.apart[1])]
    boxes += [(by.rows * x.apart[0], x.features)] if features < x.features else []
    copies = sum(_copied(box, by, costs) for box in boxes) / items
    meetings = MEETINGS + 2 * (ceil(x.features / features) - 1) + 2 * (by.keys // values - 1) + (values >= by.keys)
    per_block = (products + operands + shared) * wide + copies
    blocks = max(1.0, x.seen * ceil(x.keys / by.keys) + (x.seen < 1))
    groups = x.batch * ceil(x.rows / by.rows)
    rounds = ceil(groups / machine.cores)
    beside = max(1, min(_room(by, x, machine), rounds))
    waiting = (1 + (MAX_WORK_GROUP / (beside * items))**costs.hiding) ** (1 / costs.hiding)
    busiest = rounds * items * waiting + costs.idle * groups * items / machine.cores
    start = tile_copies.cost((by.rows * x.apart[0], x.features), costs) / items
    total = busiest * (blocks * per_block + start) + rounds * blocks * meetings * costs.meeting / beside
    waits = rounds * blocks * (ceil(x.features / features) + (by.keys // values if values < by.keys else 0)) / beside
    return matrix_tiles.seconds(total, machine) + machine.costs.launches.launch + waits * costs.arrival


def _copied(box: tuple[int, int], by: KeyBlocks, costs: Groups) -> float:
    """Multiply-adds in the time of a copy to local memory."""
    if not by.is_matrix:
        return tile_copies.cost(box, costs)
    return prod(box) * (2 * costs.second_cache + costs.copy * 4 / (matrix_tiles.BYTES // 2))


def _room(by: KeyBlocks, x: Extents, machine: Machine) -> int:
    """Groups of a unit at once."""
    held = machine.costs.groups.per_unit * machine.item_registers * MAX_WORK_GROUP
    items = prod(by.items)
    return min((machine.unit_local_bytes or machine.local_bytes) // local_bytes(by, x), held // (registers(by, x) * items),
               machine.costs.launches.items // items)


def separate(program: pr.Program, chain: Chain, machine: Machine) -> float:
    """Seconds of a chain's statements in kernels of their own."""
    x, names = Extents.of(program, chain), set(chain.names)
    statements = tuple(s for s in program.statements if s.name in names)
    total, alone = 0.0, replace(program, statements=statements)
    for group in partition(alone):
        total += machine.costs.launches.launch
        best = next(contraction_tiles.candidates(alone, group, machine), None)
        steps = prod(s.extents[i] for s in group.statements if is_contraction(s) for i in reduced_indices(s))
        total += x.seen * matrix_tiles.seconds(best[1] * steps, machine) if best is not None else 0.0
    scores = x.batch * x.rows * x.keys * x.bytes * x.seen
    moved = 4 * scores + sum(n * b for n, b in zip((x.rows * x.features, x.keys * x.features, x.keys * x.columns), x.operands,
                                                    strict=True)) * x.batch
    return total + estimates.of_all_units(machine, moved).seconds
