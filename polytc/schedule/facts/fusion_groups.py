"""Fusion without an LP: statements of a program -> groups that share their outer coincident loops.

Greedy, in textual order: a statement joins the current group if each value it reads from the group was made in the same
iteration of every shared loop, and if sharing pays. It is deterministic and takes microseconds; the tree built from it is
checked against the exact dependences afterwards. (The idea is the smart fusion of Bondhugula et al., A Practical Automatic
Polyhedral Parallelizer and Locality Optimizer, PLDI 2008, for programs whose loops are already permutable.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod

from polytc.program import program as pr
from polytc.program.affine import affine
from polytc.program.calls.matrix_rows import row_indices
from polytc.program.linear import linear
from polytc.program.sizes import Size
from polytc.schedule.facts.own_reads import meets_itself

MINIMAL_PARALLELISM = 32
"""Shared iterations that a group keeps at least; fusion that leaves fewer would starve threads and vectors."""


LARGEST = 32
"""Statements of a group: fusing more gains little, and every decision about a group looks at all of them."""

TURNED = 8
"""Iterations of both loops from which on a statement that turns its operand runs in square tiles."""


@dataclass(frozen=True)
class Group:
    """Statements under common loops. rows[r][s]: the index of statement s that runs as shared loop r; extents[r]: that loop's
    half-open range, the same for all statements. Example: matmul + bias has rows (('i','i','i'), ('j','j','j')). blocks: (row,
    iterations) of shared loops that a loop around runs in blocks of so many, of which the ranges are the first."""

    statements: tuple[pr.Statement, ...]
    rows: tuple[tuple[str, ...], ...]
    ranges: tuple[tuple[int, int], ...]
    blocks: tuple[tuple[int, int], ...] = ()

    @property
    def extents(self) -> tuple[int, ...]:
        return tuple(upper - lower for lower, upper in self.ranges)

    @property
    def iterations(self) -> int:
        """Of all shared loops, blocks counted once."""
        blocks = dict(self.blocks)
        return prod(-(-e // blocks.get(r, 1)) for r, e in enumerate(self.extents))

    def inner(self, position: int) -> tuple[pr.Range, ...]:
        """The ranges of a statement's indices that are not shared."""
        s = self.statements[position]
        shared = {row[position] for row in self.rows}
        return tuple(r for r in s.ranges if r.index not in shared)


def coincident_indices(s: pr.Statement) -> tuple[str, ...]:
    """Indices whose iterations are independent: all those of an assignment, but for a scan's; of an update or a scatter, those
    that stand alone in a subscript of the target, so that other iterations write other elements; not those whose range in
    memory depends on others, which belong inside of these. In the target's order."""
    tied = {b.index for b in s.bounds if any(isinstance(n, pr.Index) for e in (b.lower, b.upper) for n in pr.walk(e))}
    forms = (form for sub in s.subscripts if (form := linear(sub)) is not None)
    plain = [p for form in forms if (p := form.index) in s.indices and p is not None and p not in tied]
    if s.op is not None or pr.overlaps(s):
        return tuple(dict.fromkeys(plain))
    carried = {i for r in pr.reads(s) if r.tensor == s.target for i in s.indices if not _kept(s, r, i)}
    if carried and not s.loops and not any(isinstance(r.extent, Size) for r in s.ranges) and not meets_itself(s):
        carried = set()
    return tuple(i for i in dict.fromkeys([*plain, *s.indices]) if i not in carried)


def _kept(s: pr.Statement, read: pr.Read, index: str) -> bool:
    """Does a read of the own target stay with the iteration of this index that writes there?"""
    at = _position(s, index)
    form = linear(read.subscripts[at]) if at is not None else None
    return form is not None and form.index == index


def reduced_indices(s: pr.Statement) -> tuple[str, ...]:
    """The indices that an update combines over, in order."""
    if s.op is None:
        return ()
    kept = coincident_indices(s)
    return tuple(i for i in s.indices if i not in kept)


def is_contraction(s: pr.Statement) -> bool:
    """An update that combines products of several tensors, or of several parts of one: worth a register tile of its own."""
    if s.op is None or not reduced_indices(s):
        return False
    free = coincident_indices(s)
    operands = {(r.tensor, frozenset(e.name for e in pr.walk(r) if isinstance(e, pr.Index) and e.name in free))
                for r in pr.reads(s)}
    return len(operands) > 1


def single(unit: tuple[pr.Statement, ...]) -> Group:
    """The group of an assignment, or of an initialisation and its update."""
    main = unit[-1]
    rows: list[tuple[str, ...]] = []
    ranges: list[tuple[int, int]] = []
    for index in coincident_indices(main):
        if index in row_indices(main):
            continue                                               # its iterations are other code each, see cpu.strategy
        r, row = main.by_index[index], tuple(_counterpart(main, index, s) if s is not main else index for s in unit)
        if all(i is not None and s.box.get(i) == r.ends for i, s in zip(row, unit, strict=True)):
            rows.append(tuple(i for i in row if i is not None))
            ranges.append((r.lower, r.upper))
    return Group(unit, tuple(rows), tuple(ranges))


def _counterpart(main: pr.Statement, index: str, init: pr.Statement) -> str | None:
    """The index of `init` that stands in the target where `index` stands in `main`."""
    for a, b in zip(main.subscripts, init.subscripts, strict=True):
        form, other = linear(a), linear(b)
        if form is not None and form.index == index and other is not None:
            return other.index
    return None


def partition(program: pr.Program, policy: str = "smart") -> tuple[Group, ...]:
    """The groups of a program, in an order that respects its dependences. policy: see schedule.fusion.policies."""
    groups: list[Group] = []
    for unit in _units(program.statements):
        candidate = single(unit)
        joined = _join(groups[-1], candidate, policy) if groups and policy != "min" else None
        if joined is not None:
            groups[-1] = joined
        else:
            groups.append(candidate)
    return tuple(groups)


def together(program: pr.Program, chosen: Sequence[Sequence[str]]) -> tuple[Group, ...] | str:
    """The groups of these statements, and of all others one by one; or the statement that cannot be in its group. An update and
    its initialisation are in one."""
    groups: dict[int, Group] = {}
    for n, unit in enumerate(_units(program.statements)):
        candidate = single(unit)
        at = next((k for k, names in enumerate(chosen) if any(s.name in names for s in unit)), None)
        place = n if at is None else -1 - at
        joined = _join(groups.pop(place), candidate, "max") if place in groups else candidate
        if joined is None:
            return unit[-1].name
        groups[place] = joined
    return tuple(groups.values())


def of_sizes(program: pr.Program, group: Group) -> Group | None:
    """A group of the program for typical sizes as one for all sizes; None where its loops agree in the typical ones only."""
    if not program.sizes:
        return group
    statements = tuple(program.statement(s.name) for s in group.statements)
    shared = [{(r.lower, r.upper) for s, index in zip(statements, row, strict=True) for r in [s.by_index[index]]}
              for row in group.rows]
    if any(len(ends) > 1 for ends in shared):
        return None
    return Group(statements, group.rows, tuple(next(iter(ends)) for ends in shared))


def _units(statements: tuple[pr.Statement, ...]) -> list[tuple[pr.Statement, ...]]:
    """Each update with the initialisation of its target put right before it, if nothing between them touches the target."""
    units: list[tuple[pr.Statement, ...]] = []
    for s in statements:
        place = next((n for n, u in enumerate(units) if len(u) == 1 and _initialises(u[0], s)), None)
        between = units[place + 1:] if place is not None else []
        apart = place is None or not _same_domain(units[place][0], s)
        if place is None or apart or any(_conflicts(units[place][0], x) for u in between for x in u):
            units.append((s,))
        else:
            units.append((*units.pop(place), s))
    return units


def _initialises(a: pr.Statement, update: pr.Statement) -> bool:
    return update.op is not None and a.op is None and a.target == update.target and len(a.subscripts) == len(update.subscripts)


def _same_domain(init: pr.Statement, update: pr.Statement) -> bool:
    """Do the conditions let both write the same elements, as far as they are about the target's indices alone? Tiles of a
    triangle would have to tell what is written from what is only initialised."""
    pairs = [(index, other) for index in coincident_indices(update) if (other := _counterpart(update, index, init)) is not None]
    return numbered_conditions(update, [a for a, _ in pairs]) == numbered_conditions(init, [b for _, b in pairs])


def numbered_conditions(s: pr.Statement, indices: Sequence[str]) -> frozenset[pr.Expr]:
    """The conditions of a statement that are about these indices alone, which are numbered."""
    numbers: dict[str, pr.Expr] = {name: pr.Index(str(n)) for n, name in enumerate(indices)}
    return frozenset(pr.substitute(c, numbers) for c in conditions_on(s, indices))


def conditions_on(s: pr.Statement, indices: Sequence[str]) -> tuple[pr.Expr, ...]:
    """The conditions of a statement in which none of its indices stands but these."""
    others = set(s.indices) - set(indices)
    return tuple(c for c in s.where if not any(e.name in others for e in pr.walk(c) if isinstance(e, pr.Index)))


def _same_iterations(group: Group, new: Group, shared: list[tuple[int, int]]) -> bool:
    """Do all statements run for the same iterations of the shared loops?"""
    regions = {numbered_conditions(s, [part.rows[r][n] for r in rows])
               for part, rows in ((group, [a for a, _ in shared]), (new, [b for _, b in shared]))
               for n, s in enumerate(part.statements)}
    return len(regions) == 1


def _conflicts(a: pr.Statement, b: pr.Statement) -> bool:
    """Must two statements keep their order?"""
    return (a.target == b.target or any(r.tensor == a.target for r in pr.reads(b))
            or any(r.tensor == b.target for r in pr.reads(a)))


def _join(group: Group, new: Group, policy: str) -> Group | None:
    """One group of both, or None if they had better stay apart (under the policy `smart`) or must."""
    if len(group.statements) + len(new.statements) > LARGEST:
        return None
    written = {s.target: n for n, s in enumerate(group.statements)}
    shared: list[tuple[int, int]] = []                                  # pairs (row of group, row of new)
    related = False
    for r in range(len(group.rows)):
        match = [n for n in range(len(new.rows)) if n not in {b for _, b in shared} and aligned(group, r, new, n, written)]
        if match and (related := True):
            shared.append((r, match[0]))
    if not related or hides_conflict(group, new, shared) or not _same_iterations(group, new, shared):
        return None
    if policy == "smart" and not _pays(group, new, shared):
        return None
    rows = tuple(group.rows[a] + new.rows[b] for a, b in shared)
    return Group(group.statements + new.statements, rows, tuple(group.ranges[a] for a, _ in shared))


def aligned(group: Group, row: int, new: Group, candidate: int, written: dict[str, int]) -> bool:
    """Every access of `new` to what the group wrote uses, in this row, exactly the iteration that wrote it; at least one
    does, or both read one tensor at the same place."""
    if group.ranges[row] != new.ranges[candidate]:
        return False
    seen = False
    places: dict[int, int | None] = {}                                  # of each writer's loop, asked for again and again
    for position, s in enumerate(new.statements):
        index = new.rows[candidate][position]
        for tensor, subscripts in [(r.tensor, r.subscripts) for r in pr.reads(s)] + [(s.target, s.subscripts)]:
            if tensor not in written:
                continue
            for n, writer in enumerate(group.statements):
                if writer.target != tensor:
                    continue
                if n not in places:
                    places[n] = _position(writer, group.rows[row][n])
                at = places[n]
                form = linear(subscripts[at]) if at is not None else None
                same = form is not None and form.index == index
                if not same and not _apart(writer.subscripts, subscripts):
                    return False
                seen |= same
    return seen or _siblings(group, row, new, candidate)


def _apart(a: tuple[pr.Expr, ...], b: tuple[pr.Expr, ...]) -> bool:
    """Do two accesses of a tensor never meet, whatever their indices: `4*t` and `4*s + 1`, say?"""
    for x, y in zip(map(affine, a), map(affine, b), strict=True):
        if x is not None and y is not None:
            step = gcd(*(c for _, c in (*x.terms, *y.terms)))
            if (x.constant - y.constant) % step if step else x.constant != y.constant:
                return True
    return False


def _siblings(group: Group, row: int, new: Group, candidate: int) -> bool:
    """Do both read some tensor in one dimension by exactly these loops, or in the same strides, as words do?"""
    places = [{(r.tensor, d, form.terms[0][1], form.constant) for n, s in enumerate(part.statements) for r in pr.reads(s)
               for d, sub in enumerate(r.subscripts)
               if (form := linear(sub)) is not None and [i for i, _ in form.terms] == [part.rows[at][n]]
               and (form.index is not None or form.terms[0][1] > 1)}
              for part, at in ((group, row), (new, candidate))]
    return bool(places[0] & places[1])


def _position(s: pr.Statement, index: str) -> int | None:
    """The dimension of the target in which `index` stands alone."""
    for d, sub in enumerate(s.subscripts):
        form = linear(sub)
        if form is not None and form.index == index:
            return d
    return None


def loses_register_tile(group: Group) -> bool:
    """Are loops that belong around the register tile of a contraction not among those that the group shares?"""
    for n, s in enumerate(group.statements):
        if is_contraction(s):
            own, shared = single((s,)), {row[n] for row in group.rows}
            if any(_around_tiles(own, r) for r, row in enumerate(own.rows) if row[0] not in shared):
                return True
    return False


def _around_tiles(group: Group, row: int) -> bool:
    """Does this loop belong around the register tile of a contraction? It does if an operand is read again in each iteration,
    or if none is contiguous along it: inside, each tile would walk the panels of all iterations."""
    for n, s in enumerate(group.statements):
        if is_contraction(s):
            index, reads = group.rows[row][n], pr.reads(s)
            lasts = [form for r in reads if r.subscripts and (form := linear(r.subscripts[-1])) is not None]
            if any(pr.Index(index) not in pr.walk(r) for r in reads) or all(f.coefficient(index) != 1 for f in lasts):
                return True
    return False


def _pays(group: Group, new: Group, shared: list[tuple[int, int]]) -> bool:
    """Contractions keep the loops around their register tiles, what turns its operand both loops of its square tiles; others
    keep enough iterations for threads."""
    kept = len(shared)
    for part, rows in ((group, {a for a, _ in shared}), (new, {b for _, b in shared})):
        if any(_around_tiles(part, r) for r in range(len(part.rows)) if r not in rows):
            return False
        if any(splits_transposition(s, {part.rows[r][n] for r in rows}) for n, s in enumerate(part.statements)):
            return False
    if kept == len(group.rows) == len(new.rows):
        return True
    extents = sorted(group.extents, reverse=True)[:kept]
    total = 1
    for extent in extents:
        total *= extent
    return total >= MINIMAL_PARALLELISM and kept == min(len(group.rows), len(new.rows))


def splits_transposition(s: pr.Statement, shared: set[str]) -> bool:
    """Is an assignment's target contiguous along one loop, what it reads along another, and only one of them among the indices
    `shared`? Square tiles take both, see schedule.cpu.strategy."""
    long = {r.index for r in s.ranges if r.extent >= TURNED}
    across = _contiguous(s.subscripts)
    for read in pr.reads(s) if s.op is None and across in long else ():
        along = _contiguous(read.subscripts)
        crossed = along in long and along != across and any(e == pr.Index(across) for e in pr.walk(read))
        if crossed and (along in shared) != (across in shared):
            return True
    return False


def _contiguous(subscripts: tuple[pr.Expr, ...]) -> str:
    """The index along which an access is contiguous; '' if there is none."""
    form = linear(subscripts[-1]) if subscripts else None
    return form.terms[0][0] if form is not None and [c for _, c in form.terms] == [1] else ""


def hides_conflict(group: Group, new: Group, shared: Sequence[tuple[int, int]] | None = None) -> bool:
    """Would a conflict other than with what the group wrote go unseen? Then stay apart: `new` overwrites something that the
    group only reads. shared: (row of group, row of new) of the loops that they would share; an element may be read and then
    overwritten in one iteration of these."""
    only_read = {r.tensor for s in group.statements for r in pr.reads(s)} - {s.target for s in group.statements}
    return any(s.target in only_read and not (shared and _reads_first(group, new, n, shared))
               for n, s in enumerate(new.statements))


def _reads_first(group: Group, new: Group, position: int, shared: Sequence[tuple[int, int]]) -> bool:
    """Does the group read what a statement of `new` overwrites in the same iteration of each shared loop?"""
    s = new.statements[position]
    for a, b in shared:
        at = _position(s, new.rows[b][position])
        for n, other in enumerate(group.statements):
            for read in (r for r in pr.reads(other) if r.tensor == s.target):
                form = linear(read.subscripts[at]) if at is not None else None
                if form is None or form.index != group.rows[a][n]:
                    return False
    return True
