"""Contractions by Einstein notation, of any number of operands."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from polytc.graph.operators.binding import Apply, Binder, Lowering, Ref, Site, Step
from polytc.graph.operators.index_packs import spell


@dataclass(frozen=True)
class _Operand:
    """A tensor with one index name for each axis."""

    source: Ref
    names: tuple[str, ...]
    shape: tuple[int, ...]

    def subscripts(self, extents: dict[str, int]) -> str:
        """The names, 0 where an extent of 1 repeats."""
        return spell(n if e == extents[n] else "0" for n, e in zip(self.names, self.shape))


def einsum(site: Site) -> Lowering:
    """One statement for one or two operands; more are contracted two by two, the pair with the smallest result first."""
    terms, result = _parsed(site, str(site.attr("equation", "")).replace(" ", ""))
    if len(set(result)) < len(result):
        raise site.misfit("an index occurs twice in the result")
    operands = [_Operand(i, names, site.shape(i)) for i, names in enumerate(terms)]
    extents: dict[str, int] = {}
    for operand in operands:
        for name, extent in zip(operand.names, operand.shape):
            if 1 not in (extent, extents.get(name, extent)) and extent != extents.get(name, extent):
                raise site.misfit(f"the extents {extents[name]} and {extent} of one index differ")
            extents[name] = extent if extents.get(name, 1) == 1 else extents[name]
    steps: list[Step] = []
    while len(operands) > 2:
        pair = min(itertools.combinations(operands, 2), key=lambda p: _cost(_kept(p, operands, result), extents))
        names = _kept(pair, operands, result)
        joined = _Operand(f"t{len(steps)}", names, tuple(extents[n] for n in names))
        steps.append(_product(pair, names, extents, f"t{len(steps)}"))
        operands = [o for o in operands if o not in pair] + [joined]
    return (*steps, _product(operands, result, extents, 0))


def _product(operands: Sequence[_Operand], result: Sequence[str], extents: dict[str, int], output: int | str) -> Step:
    spelling = {letter: o.subscripts(extents) for letter, o in zip("ab", operands)}
    return Apply(f"linear.Einsum{len(operands)}", tuple(o.source for o in operands), (output,),
                 spell={**spelling, "y": spell(result)})


def _kept(pair: Sequence[_Operand], operands: Sequence[_Operand], result: Sequence[str]) -> tuple[str, ...]:
    """Indices of a pair that the result or another operand still needs."""
    needed = {*result, *(n for o in operands if o not in pair for n in o.names)}
    return tuple(dict.fromkeys(n for o in pair for n in o.names if n in needed))


def _cost(names: Sequence[str], extents: dict[str, int]) -> int:
    return math.prod(extents[n] for n in names)


def _parsed(site: Site, equation: str) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """Index names of the operands and of the result. `...` stands for e0, e1, ..., aligned to the last."""
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(site.shapes):
        raise site.misfit(f"the equation {equation!r} is not one of {len(site.shapes)} operands")
    free = [site.rank(i) - len(t.replace("...", "")) for i, t in enumerate(terms)]
    depth = max((f for f, t in zip(free, terms) if "..." in t), default=0)
    if any(f < 0 or f > 0 and "..." not in t for f, t in zip(free, terms)):
        raise site.misfit(f"the equation {equation!r} does not have an index for each axis")
    every = [f"e{a}" for a in range(depth)]
    named = [_names(t, every[depth - f:]) for t, f in zip(terms, free)]
    if not arrow:
        counts = Counter(left.replace("...", "").replace(",", ""))
        return named, (*every, *(f"i_{c}" for c in sorted(counts) if counts[c] == 1))
    return named, _names(right, every)


def _names(term: str, ellipsis: Sequence[str]) -> tuple[str, ...]:
    """Upper and lower case letters are different indices; the text must not confuse them with the names A, B, Y."""
    before, dots, after = term.partition("...")
    return (*(f"i_{c}" for c in before), *(ellipsis if dots else ()), *(f"i_{c}" for c in after))


ROWS: dict[str, Binder] = {"Einsum": einsum}
