"""Which convolutions run in Winograd's way, and with which tiles: the fewest cycles by count.

Counted are, for the sums as written and for each tile that the rewrite offers: the register tiles of the products
(schedule.cost.register_tiles), the weights streamed once from memory and for later blocks from the cache they fit into, the two
transforms, and the copies that put channels last and back. Constant weights are transformed once, when arrays are bound, which
costs a call nothing; others are transformed in each call. Fewer products mean larger transformed weights: with few tiles,
reading those takes longer than the products saved.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from polytc.machine import Estimate, Machine, estimates
from polytc.program import program as pr
from polytc.program.generalise import numeric
from polytc.rewrite.cpu.winograd import convolution as winograd
from polytc.rewrite.cpu.winograd.convolution import TAPS, Choice, Convolution
from polytc.rewrite.step import Decision, Option, Reasons
from polytc.rewrite.tidy import hoist
from polytc.schedule.cost import register_tiles
from polytc.schedule.facts.strides import AccessStrides
from polytc.schedule.fusion import outer_fusion

RESULTS = (2, 3, 4)
"""Extents of the tiles that are tried: larger ones save little more and lose digits quickly."""
SHORTEST, LONGEST = 12, 64
"""Tiles of a block, if there are several."""
LONGEST_OPEN = 16
"""The same where it is open how long lines are: the last block of a line may have one tile."""
GAIN = 0.9
"""Another algorithm is taken for at most this part of the time: it also costs digits."""


@dataclass(frozen=True)
class Tiles:
    """Compute a convolution in tiles of results x results elements, `block` tiles at a time; 0: those of all images, where it
    is open how many there are."""

    statement: str
    results: int
    block: int


def decide(program: pr.Program, machine: Machine) -> Decision:
    """The convolutions that take fewer cycles in Winograd's way; of open sizes, for the typical ones."""
    fixed, chosen, why = hoist.constants(program), list[Tiles](), Reasons()
    for convolution in _convolutions(program):
        choice = choose(convolution, convolution.weights.tensor in fixed, machine, why)
        if choice is not None:
            chosen.append(Tiles(convolution.statement.name, choice.results, choice.block))
    return Decision(machine, tuple(chosen), tuple(why.rows))


def options(program: pr.Program, machine: Machine) -> list[list[Option]]:
    """For each convolution, the sums as written and the tiles that are tried."""
    fixed, places = hoist.constants(program), list[list[Option]]()
    for found in _convolutions(program):
        times, name = _times(found, found.weights.tensor in fixed, machine), found.statement.name
        places.append([Option((), direct_time(found, machine).seconds),
                       *(Option((Tiles(name, c.results, c.block),), seconds) for c, seconds in times.items())])
    return places


def _convolutions(program: pr.Program) -> Iterator[Convolution]:
    """Those of a program, with typical sizes, that are convolutions for all sizes."""
    typical = numeric(program)
    for s in program.statements:
        if winograd.recognise(program, s) is not None:
            found = winograd.recognise(typical, typical.statement(s.name))
            if found is not None:
                yield found


def rewrite(program: pr.Program, decision: Decision) -> pr.Program:
    """The program with the chosen convolutions in Winograd's way."""
    return winograd.rewrite(program, {tiles.statement: Choice(tiles.results, tiles.block) for tiles in decision.choices})


def fits(program: pr.Program, machine: Machine, tiles: Tiles) -> str:
    """Why a statement cannot be computed in such tiles; '' if it can."""
    convolution = next((c for c in _convolutions(program) if c.statement.name == tiles.statement), None)
    if convolution is None:
        return f"{tiles.statement} is no convolution of f32 with {TAPS} x {TAPS} taps and stride 1"
    if tiles.results not in RESULTS:
        return f"tiles have {' or '.join(map(str, RESULTS))} results a side"
    most = convolution.tiles(tiles.results)
    if tiles.block == 0 and not convolution.numbered:
        return "all images make one block where their number is open, and nothing else"
    return "" if 0 <= tiles.block <= most else f"a block has 1 to {most} tiles"


def choose(convolution: Convolution, constant: bool, machine: Machine, why: Reasons | None = None) -> Choice | None:
    """The best tile, or None if the sums as written are as good. constant: the weights do not change between calls."""
    times = _times(convolution, constant, machine)
    best = min(times, key=lambda choice: times[choice])
    part, why = times[best] / direct_time(convolution, machine).seconds, why or Reasons()
    told = f"tiles of {best.results} x {best.results} results, {best.block or 'all'} at a time: {part:.2f} of the time"
    if part > GAIN:
        why.declines(convolution.statement.name, f"{told}, and digits are worth more")
        return None
    why.acts(convolution.statement.name, told)
    return best


def _times(convolution: Convolution, constant: bool, machine: Machine) -> dict[Choice, float]:
    """The tiles that are tried, and their seconds."""
    choices = (Choice(m, block) for m in RESULTS for block in _blocks(convolution, m, machine))
    return {choice: time(convolution, choice, constant, machine).seconds for choice in choices}


def _blocks(convolution: Convolution, results: int, machine: Machine) -> list[int]:
    """Sizes of blocks that are tried: all tiles, or whole lines or equal parts of lines of them, few enough for many blocks and
    for what a block makes to stay in the second cache."""
    total, line = convolution.tiles(results), -(-convolution.windows[1].place.extent // results)
    parts = [line // d for d in range(1, line + 1) if line % d == 0] + [line * d for d in range(2, LONGEST // line + 1)]
    groups, channels, filters = map(_count, (convolution.groups, convolution.channels, convolution.filters))
    points = results + TAPS - 1
    tile = 4 * groups * (2 * points ** 2 * channels + (points + results) ** 2 * filters)  # of all that is kept for a tile
    fitting = min(LONGEST, machine.second_cache.bytes // tile)
    if convolution.lines:
        return sorted({min(total, LONGEST_OPEN), *(n for n in parts if SHORTEST <= n <= min(LONGEST_OPEN, fitting))})
    whole = [0] if convolution.numbered else []
    return [*whole, total, *(n for n in parts if SHORTEST <= n <= fitting and n * outer_fusion.FEWEST <= total)]


def direct_time(convolution: Convolution, machine: Machine) -> Estimate:
    """Of the sums as written, on packed weights."""
    lines, row = (w.place.extent for w in convolution.windows)
    depth = _count(convolution.channels) * TAPS ** 2
    weights = depth * _count(convolution.filters)
    times = _count(convolution.batch) * _count(convolution.groups) * lines
    products = times * _product(row, _count(convolution.filters), depth, machine)
    return estimates.arithmetic(machine, products) + _cold(weights, machine)


def time(convolution: Convolution, choice: Choice, constant: bool, machine: Machine) -> Estimate:
    """With these tiles and blocks."""
    lanes, groups, costs = machine.lanes(4), _count(convolution.groups), machine.costs.copies
    channels, filters = _count(convolution.channels), _count(convolution.filters)
    points = (choice.results + TAPS - 1) ** 2
    images, of_image = _count(convolution.batch) if convolution.apart else 1, convolution.tiles(choice.results)
    rows = images * (-(-convolution.windows[0].place.extent // choice.results) if convolution.lines else 1)
    tiles, blocks = (choice.block, rows * -(-of_image // choice.block)) if choice.block else (rows * of_image, 1)
    weights = points * channels * filters * groups
    products = estimates.arithmetic(machine, points * groups * _product(tiles, filters, channels, machine))
    streamed = estimates.streamed(machine, 4 * weights)
    products = streamed if blocks > 1 and streamed.seconds > products.seconds else products
    vectors = groups * (-(-channels // lanes) + -(-filters // lanes)) * tiles
    scratch = vectors * points * lanes
    around = vectors * points * costs.winograd + vectors * choice.results ** 2 * costs.layout
    block = products + estimates.arithmetic(machine, around) + 2 * estimates.streamed(machine, 4 * scratch)
    once = estimates.arithmetic(machine, 0.0 if constant else weights * costs.winograd_weight)
    return blocks * block + _cold(weights, machine) + once


def _count(ranges: tuple[pr.Range, ...]) -> int:
    return prod(r.extent for r in ranges)


def _product(rows: int, columns: int, depth: int, machine: Machine) -> float:
    """Cycles of O[rows, columns] += A[rows, depth] * B[depth, columns] with B in panels."""
    i, j, k = (pr.Index(name) for name in "ijk")
    s = pr.Statement("S", "O", (i, j), "+", k, (pr.Range("i", 0, rows), pr.Range("j", 0, columns), pr.Range("k", 0, depth)))
    lanes = machine.lanes(4)
    accesses = (AccessStrides("O", True, 0, 4, (("i", columns), ("j", 1))),
                AccessStrides("A", False, 0, 4, (("i", depth), ("k", 1))),
                AccessStrides("B", False, 0, 4, (("j", 1), ("k", lanes))))
    found = register_tiles.best(s, accesses, ("i", "j"), lanes, machine)
    return found.cycles if found is not None else float(rows * columns * depth)


def _cold(weights: int, machine: Machine) -> Estimate:
    """Of reading so many f32 that no cache holds. Those of a whole model do not stay in the caches from one run to the next,
    and the arithmetic hides little of the way: the first pass over a panel is its only slow one."""
    return Estimate(memory=4 * weights / machine.costs.traffic.cold / machine.clock)
