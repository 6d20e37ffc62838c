"""Clusters: groups of statements, each with loops and tiles of its own, under coincident loops that they share."""

from __future__ import annotations

from dataclasses import dataclass, replace

from polytc.program import program as pr
from polytc.program.scalars import I64
from polytc.schedule.facts.fusion_groups import Group


@dataclass(frozen=True)
class Cluster:
    """groups: in order, as they were. rows[r]: for each group the number of its row that is shared loop r, outermost first; no
    rows for a group alone. block: iterations that the groups run one after another, of the only shared loop if it is not 1."""

    groups: tuple[Group, ...]
    rows: tuple[tuple[int, ...], ...] = ()
    block: int = 1

    @property
    def whole(self) -> Group:
        """All statements under the shared loops alone."""
        first = self.groups[0]
        return Group(tuple(s for g in self.groups for s in g.statements),
                     tuple(tuple(i for g, r in zip(self.groups, row, strict=True) for i in g.rows[r]) for row in self.rows),
                     tuple(first.ranges[row[0]] for row in self.rows), ((0, self.block),) if self.block > 1 else ())

    @property
    def without_last(self) -> Cluster:
        """All groups but the last."""
        groups = self.groups[:-1]
        return replace(self, groups=groups, rows=tuple(row[:-1] for row in self.rows)) if len(groups) > 1 else Cluster(groups)

    def part(self, position: int) -> Group:
        """A group as it is inside the shared loops: its statements with the shared indices fixed, its other rows; in blocks,
        all of its rows, of which one has the iterations of the first block."""
        group = self.groups[position]
        if self.block > 1:
            return _first_block(group, self.rows[0][position], self.block)
        shared = [row[position] for row in self.rows]
        fixed = tuple(_fixed(s, {group.rows[r][n]: group.ranges[r][0] for r in shared}) for n, s in enumerate(group.statements))
        kept = [r for r in range(len(group.rows)) if r not in shared]
        return Group(fixed, tuple(group.rows[r] for r in kept), tuple(group.ranges[r] for r in kept),
                     tuple((kept.index(r), block) for r, block in group.blocks if r in kept))


def _first_block(group: Group, row: int, block: int) -> Group:
    """The group with so many iterations of a row, the first ones."""
    statements = tuple(replace(s, ranges=tuple(replace(r, upper=block) if r.index == index else r for r in s.ranges))
                       for s, index in zip(group.statements, group.rows[row], strict=True))
    ranges = tuple((0, block) if n == row else ends for n, ends in enumerate(group.ranges))
    return Group(statements, group.rows, ranges, (*group.blocks, (row, block)))


def _fixed(s: pr.Statement, values: dict[str, int]) -> pr.Statement:
    """The statement for one value of some indices."""
    numbers: dict[str, pr.Expr] = {name: pr.Const(value, I64) for name, value in values.items()}
    return replace(s, value=pr.substitute(s.value, numbers), subscripts=tuple(pr.substitute(x, numbers) for x in s.subscripts),
                   where=tuple(pr.substitute(x, numbers) for x in s.where),
                   bounds=tuple(replace(b, lower=pr.substitute(b.lower, numbers), upper=pr.substitute(b.upper, numbers))
                                for b in s.bounds if b.index not in values),
                   ranges=tuple(r for r in s.ranges if r.index not in values))
