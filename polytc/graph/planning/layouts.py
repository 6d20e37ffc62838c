"""How the values between convolutions are stored: channels first, as models say, or last, where that fills more vectors.

    Y[n,m,h,w] += X[n,c,h+r,w+s] * W[m,c,r,s]   ->   Y[n,h,w,m] += X[n,h+r,w+s,c] * W[m,c,r,s]

With channels last the vectors of a convolution run along its filters, whatever the extents of the image, its stride and its
windows; with channels first along the image. An inner value is nobody's business but that of the programs that touch it, whose
subscripts are exchanged, so that no operator is named here: what counts is the form of the sums. Values that are touched by
one program are stored alike, so that nothing is copied between them; each such region is decided by its vectors. Values that
a program turns, a transposed image say, are no region: their second dimension is not that of the others. Inputs and outputs of
the plan, constants, and values that are seen in another shape stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import TypeAlias, TypeVar

from polytc.graph.plan import Array, Call, Plan
from polytc.machine import Machine
from polytc.program import program as pr
from polytc.program.affine import Linear
from polytc.program.linear import linear
from polytc.program.scalars import F32, I8, I32, U8
from polytc.program.traces.values import at
from polytc.rewrite.tidy import axes

T = TypeVar("T")
Dimension: TypeAlias = tuple[str, int]
"""A tensor, and one of its dimensions."""

STRIDED = 2.0
"""Vectors of a convolution along an image in strides, in those along a contiguous one."""
SCATTERED = 1.15
"""Vectors along the filters that are stored one by one, in those that are stored as they are."""
QUANTISED = (I8, U8, I32)
"""Integers that images and their sums of products are made of."""
CROSSING = 1.0
"""Cycles for an element of a value that is read in one layout and written in the other."""


@dataclass(frozen=True)
class Sliding:
    """A sum of products along an image: filters: extent of what only weights and result have, 1 where each channel has weights
    of its own; channels: of the data; places: of the result along the image; work: products. moves: do windows slide, and in
    strides?"""

    filters: int
    channels: int
    places: tuple[int, ...]
    work: int
    windows: bool
    strided: bool


def choose(plan: Plan, machine: Machine) -> Plan:
    """The plan with channels last where that takes fewer cycles by count."""
    return _stored(plan, _moved(plan, machine))


def choose_at(plan: Plan, machine: Machine, sizes: Mapping[str, int]) -> Plan:
    """The same for a plan of traced sizes, counted at some of them: of the others it may be slower, and is as right."""
    types = {n: at(t, sizes) for n, t in plan.types.items()}
    calls = tuple(replace(c, program=at(c.program, sizes)) for c in plan.calls)
    return _stored(plan, _moved(replace(plan, calls=calls, types=types), machine))


def _moved(plan: Plan, machine: Machine) -> set[str]:
    """The values that are stored with channels last."""
    lanes = machine.lanes(F32.bytes)
    if machine.kind != "cpu" or lanes < 2:
        return set()
    return {v for region in _regions(plan, _candidates(plan)) if _gain(plan, region, lanes) > 0 for v in region}


def order(rank: int) -> tuple[int, ...]:
    """The dimensions with channels, the second, last."""
    return 0, *range(2, rank), 1


# ---- what may move together

def _candidates(plan: Plan) -> set[str]:
    """Values with channels and places that only programs touch whose arguments may be stored otherwise."""
    seen = {*plan.inputs, *plan.lasting, *plan.aliases, *map(plan.base, (*plan.lasting, *plan.aliases))}
    fixed = {v for c in plan.calls if not axes.movable(c.program) for v in (*c.inputs, *c.outputs)}
    made = {v for c in plan.calls for v in c.outputs} - seen - fixed
    return {v for v in made if (t := plan.types[v]).dtype.is_float or t.dtype in QUANTISED
            if len(t.shape) >= 3 and t.shape[1] > 1 and prod(t.shape[2:]) > 1}


def _regions(plan: Plan, candidates: set[str]) -> list[list[str]]:
    """The candidates, those together that one program touches without turning them."""
    region: dict[str, list[str]] = {v: [v] for v in sorted(candidates)}
    for c in plan.calls:
        groups: list[list[str]] = []
        for v in _arguments(c):
            group = next((g for g in groups if not any(_turned(c, v, other) for other in g)), None)
            if v in candidates and group is None:
                groups.append([v])
            elif v in candidates and group is not None:
                _merge(region, group[0], v)
                group.append(v)
    return list({id(found): found for found in region.values()}.values())


def _merge(groups: dict[T, list[T]], a: T, b: T) -> None:
    """Make the groups of two members one."""
    if groups[a] is not groups[b]:
        both = groups[a] + groups[b]
        groups |= dict.fromkeys(both, both)


def _arguments(call: Call) -> dict[str, str]:
    """Value -> the argument that it is of the program, of several the last."""
    return dict(zip((*call.inputs, *call.outputs), (*call.program.inputs, *call.program.outputs), strict=True))


def _turned(call: Call, a: str, b: str) -> bool:
    """Does the program see the second dimension of one value as another dimension of the other?"""
    return _channels_at(call, a, b) not in (None, 1) or _channels_at(call, b, a) not in (None, 1)


def _channels_at(call: Call, value: str, other: str) -> int | None:
    """The dimension of another value that is the second of this one to the program, if there is one."""
    one, two = (_arguments(call)[v] for v in (value, other))
    same = _dimensions(call.program).get((one, 1), [])
    return next((d for tensor, d in same if tensor == two), None)


@lru_cache(maxsize=1024)
def _dimensions(program: pr.Program) -> Mapping[Dimension, list[Dimension]]:
    """The dimensions of tensors that are the same to a program: subscripts of one statement have an index in common."""
    found: dict[Dimension, list[Dimension]] = {}
    for s in program.statements:
        first: dict[str, Dimension] = {}
        for tensor, subscripts in ((s.target, s.subscripts), *((r.tensor, r.subscripts) for r in pr.reads(s))):
            for d, form in enumerate(map(linear, subscripts)):
                found.setdefault((tensor, d), [(tensor, d)])
                for index, _ in form.terms if form is not None else ():
                    _merge(found, first.setdefault(index, (tensor, d)), (tensor, d))
    return found


# ---- what it is worth

def _gain(plan: Plan, region: list[str], lanes: int) -> float:
    """Cycles that channels last save in the programs that touch the region; none where no sum runs along an image."""
    own, gain, images = set(region), 0.0, 0
    for c in plan.calls:
        touched = own.intersection((*c.inputs, *c.outputs))
        sums = _sums(c.program) if touched else ()
        images += len(sums)
        gain += sum(_first(s, lanes) - _last(s, lanes) for s in sums)
        if touched:
            others = c.outputs if sums else tuple(dict.fromkeys((*c.inputs, *c.outputs)))
            gain -= CROSSING * sum(_crosses(plan, c, v, touched, bool(sums)) for v in others)
    return gain if images else 0.0


def _crosses(plan: Plan, call: Call, value: str, touched: set[str], summed: bool) -> int:
    """Elements of a value beside the region that keeps the order of its dimensions: as many more are copied out of order, or
    fewer if the program turns it, so that its channels are last. touched: what the call has of the region. summed: many
    products make an element."""
    t = plan.types[value]
    image = len(t.shape) >= 3 and t.shape[1] > 1 and prod(t.shape[2:]) > 1
    if not image or value in touched or value in plan.constants or summed:
        return 0
    turned = any(_channels_at(call, v, value) == len(t.shape) - 1 for v in touched)
    return -prod(t.shape) if turned else prod(t.shape)


def _first(s: Sliding, lanes: int) -> float:
    """Cycles along the image, or along the filters with results stored one by one."""
    row = s.places[-1] if s.windows else prod(s.places)
    along = s.work * _waste(row, lanes) * (STRIDED if s.strided else 1.0)
    across = s.work * _waste(s.filters, lanes) * SCATTERED if s.filters > 1 else along
    return min(along, across) / (2 * lanes)


def _last(s: Sliding, lanes: int) -> float:
    return s.work * _waste(s.filters if s.filters > 1 else s.channels, lanes) / (2 * lanes)


def _waste(extent: int, lanes: int) -> float:
    """Lanes that vectors have, over those that an extent fills."""
    return -(-extent // lanes) * lanes / extent


@lru_cache(maxsize=1024)
def _sums(program: pr.Program) -> tuple[Sliding, ...]:
    return tuple(found for s in program.statements if s.op == "+" and isinstance(s.value, pr.Binary) and s.value.op == "*"
                 for found in _slidings(program, s, s.value))


def _slidings(program: pr.Program, s: pr.Statement, product: pr.Binary) -> Iterator[Sliding]:
    """The statement as a sum along an image, if it is one: in each dimension from the third on the result has a place, and the
    data that place, or a multiple of it and the taps of a window."""
    target = [linear(sub) for sub in s.subscripts]
    for data in map(_widened, (product.a, product.b)):
        if not isinstance(data, pr.Read) or len(target) < 3 or len(data.subscripts) != len(target):
            continue
        image = [linear(sub) for sub in data.subscripts]
        pairs = [(t, d) for t, d in zip(target, image, strict=True) if t is not None and d is not None]
        if len(pairs) < len(target) or not all(_slides(t, d) for t, d in pairs[2:]):
            continue
        extent = s.extents
        written, read = ({i for i, _ in form.terms} for form in pairs[1])
        whole = {i for form in image if form is not None for i, _ in form.terms}
        inner = [d.coefficient(t.index) for t, d in pairs[2:] if t.index is not None]
        if not read or written & read and written - read:
            continue
        yield Sliding(prod(extent[i] for i in written - whole), program.tensor(data.tensor).shape[1],
                      tuple(extent[t.index] for t, _ in pairs[2:] if t.index is not None), s.points,
                      any(len(d.terms) > 1 for _, d in pairs[2:]), abs(inner[-1]) > 1)
        return


def _widened(e: pr.Expr) -> pr.Expr:
    """What a cast has for its operand."""
    return e.a if isinstance(e, pr.Cast) else e


def _slides(place: Linear, data: Linear) -> bool:
    return place.index is not None and data.coefficient(place.index) != 0


# ---- the plan with other layouts

def _stored(plan: Plan, moved: set[str]) -> Plan:
    if not moved:
        return plan
    types = {n: Array(t.dtype, tuple(t.shape[d] for d in order(len(t.shape)))) if n in moved else t
             for n, t in plan.types.items()}
    return replace(plan, calls=tuple(_call(c, plan.types, moved) for c in plan.calls), types=types)


def _call(call: Call, types: Mapping[str, Array], moved: set[str]) -> Call:
    """The call with its arguments, and temporaries of their shapes, as they are stored."""
    p = call.program
    values = dict(zip((*p.inputs, *p.outputs), (*call.inputs, *call.outputs), strict=True))
    shapes = {types[v].shape for v in values.values() if v in moved}
    if not shapes:
        return call
    temporaries = {n for n in p.temporaries if p.tensor(n).shape in shapes}
    names = {t for t, v in values.items() if v in moved} | temporaries
    return replace(call, program=axes.exchanged(p, {n: order(len(p.tensor(n).shape)) for n in names}))
