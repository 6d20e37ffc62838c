"""Coalescing: two indices that always walk memory together become one.

    Y[c,h,w] = max(X[c,h,w], 0)                         with X[3,4,5]
    ->  Y[c_h_w] = max(X[c_h_w], 0.0) where c_h_w in 0:60

    O[m,h,w] += W[m,c]*X[c,h,w]                         with W[8,8], X[8,7,9]
    ->  O[m,h_w] += W[m,c]*X[c,h_w]

Tensors change shape, not memory: the caller's arrays are viewed in the new shape. Where both extents are open, which no linear
formula multiplies, their product is a size with a name of its own, `Program.products`. A statement that only fills a temporary
for reductions keeps its own indices, and writes where they say:

    P[c,h,w] = X[c,2*h,2*w];  O[m,h,w] += W[m,c]*P[c,h,w]          with W[8,8], X[8,14,18]
    ->  P[c, h*9 + w] = X[c,2*h,2*w];  O[m,h_w] += W[m,c]*P[c,h_w]

    P[h,0] = -X[h,1];  P[h,1] = X[h,0];  S[i] += A[i,h,w]*P[h,w]   with X[8,2], A[9,8,2]
    ->  P[h*2] = -X[h,1];  P[h*2 + 1] = X[h,0];  S[i] += A[i,h_w]*P[h_w]

Two `for` loops become one if the inner one is all that is in the outer one; the order of the iterations stays:

    for i in 0:5 { for j in 0:6 { s[0] = s[0]*0.5 + X[i,j] } }     with inout s[1], X[5,6]
    ->  for i_j in 0:30 { s[0] = s[0]*0.5 + X[i_j] }
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from polytc.program import kinds
from polytc.program import program as pr
from polytc.program.linear import linear
from polytc.program.names import fresh
from polytc.program.scalars import I64
from polytc.program.sizes import Size, Undecided, bounds, form_of, may_be_less
from polytc.program.type_promotion import fold
from polytc.schedule.facts.work_groups import is_straight

Pair = tuple[str, str]
"""Two indices of a statement, outer first."""
LONGEST = 1 << 31
"""Iterations of a loop that no tensor bounds: any target's integers hold its index."""


def coalesce(program: pr.Program) -> pr.Program:
    """The program with as few indices as its accesses allow; where there are `for` loops, with as few loops. (Other indices
    stay there, but for those of tensors that loops walk along.) Ranges in memory are not looked at: there must be none."""
    while True:
        merged = _merge_some(program)
        if merged is None:
            return program
        program = merged


def _accesses(s: pr.Statement) -> list[tuple[str, tuple[pr.Expr, ...], bool]]:
    return [(s.target, s.subscripts, False), *((r.tensor, r.subscripts, r.default is not None) for r in pr.reads(s))]


def _plain(e: pr.Expr) -> str | None:
    form = linear(e)
    return form.index if form is not None else None


def _merge_some(program: pr.Program) -> pr.Program | None:
    """Merge one set of index pairs, one pair a statement, that goes together; None if there is none."""
    places = {(t.name, d) for t in program.tensors for d in range(len(t.shape) - 1)}
    pairs = {(s.name, pair) for s in program.statements for pair in _candidates(program, s)}
    changed = True
    while changed:
        good = {p for p in places if _place_ok(program, p, pairs)}
        kept = {(n, pair) for n, pair in pairs
                if _pair_ok(program.statement(n), pair, good) and _order_ok(program, n, pair, pairs)}
        changed = (good, kept) != (places, pairs)
        places, pairs = good, kept
    starts = pairs
    if _sequential(program):
        starts = {(n, pair) for n, pair in pairs if pair[0] in _loop_indices(program.statement(n))}
    first = sorted(starts) if program.sizes else sorted(starts)[:1]
    return next((made for start in first if (made := _apply(program, *_component(program, start, pairs))) is not None), None)


def _candidates(program: pr.Program, s: pr.Statement) -> set[Pair]:
    """Neighbours in some access, with an inner index that runs over whole dimensions starting at 0; and neighbouring loops that
    no access knows of. Work-groups and items that a step before has named stay as they are."""
    if any(kinds.is_mapped(r.kind) for r in s.ranges):
        return set()
    ranges = s.by_index
    used_elsewhere = _index_values(s)
    used = used_elsewhere | {n for _, subscripts, _ in _accesses(s) for e in subscripts if (n := _plain(e)) is not None}
    found = {(a, b) for a, b in pairwise(_loop_indices(s)) if not {a, b} & used and ranges[a].lower >= 0 == ranges[b].lower
             and not may_be_less(LONGEST, ranges[a].upper * ranges[b].upper + 1)}
    for tensor, subscripts, _ in _accesses(s):
        t = program.tensor(tensor)
        names = [_plain(e) for e in subscripts]
        for d in range(len(names) - 1):
            a, b = names[d], names[d + 1]
            if a is None or b is None or a == b or a not in ranges or b not in ranges or {a, b} & used_elsewhere:
                continue
            whole = (ranges[b].lower, ranges[b].upper) == (0, t.shape[d + 1])
            if _both_open(t.shape[d:d + 2]):
                whole = whole and not _sequential(program) and _multiplied(t.shape[d:d + 2], ranges[a])
            if whole and t.lower[d:d + 2] == (0, 0) and not may_be_less(ranges[a].lower, 0):
                found.add((a, b))
    return found


def _both_open(extents: tuple[int, ...]) -> bool:
    """Are two extents open, so that there is no linear formula for their product?"""
    return all(isinstance(n, Size) for n in extents)


def _multiplied(extents: tuple[int, ...], r: pr.Range) -> bool:
    """Can the product of two open extents be a size, and are the ends of a range of the outer one formulas of it?"""
    return _is_size(extents) and all(
        not isinstance(n, Size) or not isinstance(n - extents[0], Size) for n in (r.lower, r.upper))


def _is_size(extents: tuple[int, ...]) -> bool:
    """Is the product of two extents at least 1, as sizes are?"""
    return min(map(_least, extents)) >= 1


def _least(n: int) -> int:
    """The smallest value of an extent for all sizes, 0 where that is not known."""
    low, _ = bounds(form_of(n))
    return low or 0


def _index_values(s: pr.Statement) -> set[str]:
    """Indices used other than as plain subscripts: in conditions, as values, in composed subscripts."""
    found = {e.name for c in s.where for e in pr.walk(c) if isinstance(e, pr.Index)}

    def visit(e: pr.Expr) -> None:
        if isinstance(e, pr.Index):
            found.add(e.name)
        for child in pr.children(e):
            if not (isinstance(e, pr.Read) and _plain(child) is not None):
                visit(child)

    visit(s.value)
    for sub in s.subscripts:
        if _plain(sub) is None:
            visit(sub)
    return found


def _place_ok(program: pr.Program, place: tuple[str, int], pairs: set[tuple[str, Pair]]) -> bool:
    """Is every access of the tensor a mergeable pair in these two dimensions? A guard says the same of the new index, as the
    inner one never leaves its dimension; without `for` loops it keeps its dimensions all the same."""
    tensor, d = place
    t = program.tensor(tensor)
    seen = False
    for s in program.statements:
        for name, subscripts, guarded in _accesses(s):
            if name != tensor:
                continue
            seen = True
            a, b = _plain(subscripts[d]), _plain(subscripts[d + 1])
            if a is not None and isinstance(subscripts[d + 1], pr.Const) and _summed(program, place) and \
                    _fills(program, s, tensor, d):
                continue
            if guarded and not _sequential(program) or a is None or b is None:
                return False
            if (s.name, (a, b)) not in pairs and not _fills(program, s, tensor, d):
                return False
            if s.by_index[b].upper != t.shape[d + 1]:
                return False
    return seen and t.lower[d:d + 2] == (0, 0)


def _summed(program: pr.Program, place: tuple[str, int]) -> bool:
    """Do sums alone walk along these dimensions, the last ones? Elsewhere an index of few values is of use as it is."""
    tensor, d = place
    walks = [(s, _plain(r.subscripts[d])) for s in program.statements for r in pr.reads(s) if r.tensor == tensor]
    return d == len(program.tensor(tensor).shape) - 2 and all(
        i not in {n for e in s.subscripts for n in pr.index_names(e)} for s, i in walks)


def _fills(program: pr.Program, s: pr.Statement, tensor: str, d: int) -> bool:
    """Does the statement write a temporary that only reductions read, in rows that are as long for all sizes?"""
    if any(isinstance(n, Size) for n in program.tensor(tensor).shape[d + 1:d + 2]):
        return False  # a product of an index and a size is no linear form
    readers = [x for x in program.statements if any(r.tensor == tensor for r in pr.reads(x))]
    return (s.target == tensor and s.op is None and tensor in program.temporaries and s not in readers and not s.where
            and all(x.op is not None for x in readers))


def _pair_ok(s: pr.Statement, pair: Pair, places: set[tuple[str, int]]) -> bool:
    """Wherever one of the two indices occurs, both do, side by side, in dimensions that can be merged."""
    for tensor, subscripts, _ in _accesses(s):
        names = [_plain(e) for e in subscripts]
        at = [d for d, n in enumerate(names) if n in pair]
        together = len(at) == 2 and (names[at[0]], names[at[1]]) == pair and at[1] == at[0] + 1
        if at and not (together and (tensor, at[0]) in places):
            return False
    return True


def _sequential(program: pr.Program) -> bool:
    """Are there `for` loops outside of kernels?"""
    return not is_straight(program.statements)


def _loop_indices(s: pr.Statement) -> tuple[str, ...]:
    return s.indices[:s.depth]


def _order_ok(program: pr.Program, name: str, pair: Pair, pairs: set[tuple[str, Pair]]) -> bool:
    """Do the instances keep their order, if that matters, and is a pair of loops one for all statements in the outer one?"""
    if not _sequential(program):
        return True
    s = program.statement(name)
    outer, inner = map(s.indices.index, pair)
    if inner != outer + 1 or (outer < s.depth) != (inner < s.depth):
        return False
    return all(x.loops[:inner + 1] == s.loops[:inner + 1] and (x.name, pair) in pairs
               and (x.ranges[inner].lower, x.ranges[inner].upper) == (s.ranges[inner].lower, s.ranges[inner].upper)
               for x in _sharing(program, s, pair))


def _sharing(program: pr.Program, s: pr.Statement, pair: Pair) -> tuple[pr.Statement, ...]:
    """The statements in the loop of the outer index of a pair; none if that is no loop's."""
    depth = s.indices.index(pair[0]) + 1
    return tuple(x for x in program.statements if x.loops[:depth] == s.loops[:depth]) if depth <= s.depth else ()


def _component(program: pr.Program, start: tuple[str, Pair], pairs: set[tuple[str, Pair]]) \
        -> tuple[dict[str, Pair], set[tuple[str, int]]]:
    """All pairs and dimensions that must be merged with `start`, but one pair a statement and one place a tensor; nothing if
    some statement would need two pairs."""
    chosen: dict[str, Pair] = {start[0]: start[1]}
    places: set[tuple[str, int]] = set()
    todo, done = [start], {start}
    while todo:
        name, pair = todo.pop()
        s = program.statement(name)
        needed = [(x.name, pair) for x in _sharing(program, s, pair)]
        for tensor, subscripts, _ in _accesses(s):
            names = [_plain(e) for e in subscripts]
            if pair[0] in names:
                d = names.index(pair[0])
                places.add((tensor, d))
                needed += _there(program, tensor, d)
        for found in needed:
            if found not in pairs:  # it fills a temporary
                continue
            if chosen.setdefault(*found) != found[1]:
                return {}, set()
            if found not in done:
                done.add(found)
                todo.append(found)
    return chosen, places


def _there(program: pr.Program, tensor: str, d: int) -> list[tuple[str, Pair]]:
    """The pairs with which the statements access two neighbouring dimensions."""
    result = []
    for s in program.statements:
        for other, subscripts, _ in _accesses(s):
            if other == tensor:
                a, b = _plain(subscripts[d]), _plain(subscripts[d + 1])
                if a is not None and b is not None:  # a number: it fills a temporary
                    result.append((s.name, (a, b)))
    return result


def _apply(program: pr.Program, chosen: dict[str, Pair], places: set[tuple[str, int]]) -> pr.Program | None:
    dims = dict(places)
    if not chosen or len(dims) < len(places):
        return None
    try:
        product = _product(program, dims)
    except Undecided:
        return None

    def tensor(t: pr.Tensor) -> pr.Tensor:
        if t.name not in dims:
            return t
        d = dims[t.name]
        return replace(t, shape=(*t.shape[:d], product.of(t.shape[d], t.shape[d + 1]), *t.shape[d + 2:]),
                       lower=(*t.lower[:d], 0, *t.lower[d + 2:]))

    shapes = {t.name: t.shape for t in program.tensors}
    try:
        statements = tuple(_merged(program, s, chosen[s.name], dims, product) if s.name in chosen else _filling(s, dims, shapes)
                           for s in program.statements)
        made = replace(program, tensors=tuple(map(tensor, program.tensors)), statements=statements)
    except Undecided:
        return None
    if not product.name or product.name in program.sizes:
        return made
    products = (*program.products, (product.name, (product.outer, product.inner)))
    return replace(made, sizes=(*program.sizes, product.name), products=products)


@dataclass(frozen=True)
class _Product:
    """The product of two open extents. name: of the size that it is; '' where none is asked for."""

    outer: int = 0
    inner: int = 0
    name: str = ""

    def of(self, n: int, inner: int) -> int:
        """A number of rows times their length. Raises Undecided where there is no formula for that."""
        if not (isinstance(n, Size) and isinstance(inner, Size)):
            return n * inner
        beyond = n - self.outer
        if not self.name or inner != self.inner or isinstance(beyond, Size):
            raise Undecided(f"({n}) * ({inner})")
        return Size.named(self.name, int(self.outer) * int(self.inner)) + inner * beyond


def _product(program: pr.Program, dims: Mapping[str, int]) -> _Product:
    """That of the first of these pairs of dimensions that are open and have one; one without a name where there is none."""
    pairs = [t.shape[d:d + 2] for t in program.tensors if (d := dims.get(t.name)) is not None]
    found = next((p for p in pairs if _both_open(p) and _is_size(p)), None)
    if found is None:
        return _Product()
    outer, inner = found
    known = next((name for name, (a, b) in program.products if a == outer and b == inner), None)
    taken = {*program.sizes, *(t.name for t in program.tensors), *(i for s in program.statements for i in s.indices)}
    plain = f"{outer}_{inner}"
    return _Product(outer, inner, known or fresh(plain if plain.isidentifier() else "product", taken))


def _filling(s: pr.Statement, dims: dict[str, int], shapes: dict[str, tuple[int, ...]]) -> pr.Statement:
    """A statement that keeps its indices, with its target in the new shape."""
    d = dims.get(s.target)
    if d is None:
        return s
    outer, inner = s.subscripts[d], s.subscripts[d + 1]
    place = pr.Binary("+", pr.Binary("*", outer, pr.Const(shapes[s.target][d + 1], I64), I64), inner, I64)
    return replace(s, subscripts=(*s.subscripts[:d], fold(place), *s.subscripts[d + 2:]))


def _merged(program: pr.Program, s: pr.Statement, pair: Pair, dims: dict[str, int], product: _Product) -> pr.Statement:
    outer, inner = pair
    taken = {i for x in (s, *_sharing(program, s, pair)) for i in x.indices} | {*program.sizes, product.name}
    new = fresh(f"{outer}_{inner}", taken)

    def cut(tensor: str, subscripts: tuple[pr.Expr, ...]) -> tuple[pr.Expr, ...]:
        d = dims.get(tensor)
        if d is None or _plain(subscripts[d]) != outer:
            return subscripts
        return (*subscripts[:d], pr.Index(new), *subscripts[d + 2:])

    def go(e: pr.Expr) -> pr.Expr:
        return pr.map_expr(e, lambda x: replace(x, subscripts=cut(x.tensor, x.subscripts)) if isinstance(x, pr.Read) else x)

    extent = s.by_index[inner].extent
    whole = pr.Range(new, product.of(s.by_index[outer].lower, extent), product.of(s.by_index[outer].upper, extent))
    ranges = tuple(whole if r.index == outer else r for r in s.ranges if r.index != inner)
    place = s.indices.index(inner)
    return replace(s, subscripts=cut(s.target, tuple(map(go, s.subscripts))), value=go(s.value), ranges=ranges,
                   loops=(*s.loops[:place], *s.loops[place + 1:]))
