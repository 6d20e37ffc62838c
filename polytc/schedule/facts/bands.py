"""What isl's scheduler found, as plain data: permutable bands of linear loops, whose rows are linear forms of
the statements' indices.

Parameters (poly.symbolic_sizes) are back to numbers here. Rows of one statement that are constant, or follow from those
outside, stay: they place the statement among the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import islpy

from polytc.poly import isl
from polytc.poly.nest import Leaf, Sequence
from polytc.program.affine import Linear
from polytc.program.linear import collected


class Unreadable(Exception):
    """A schedule tree with a node or a row that is not linear."""


@dataclass(frozen=True)
class LinearLoop:
    """One member of a band. rows: (statement, its time) for each statement below; coincident: carries nothing."""

    rows: tuple[tuple[str, Linear], ...]
    coincident: bool

    def row(self, statement: str) -> Linear:
        return dict(self.rows)[statement]

    def only(self, statements: tuple[str, ...]) -> LinearLoop:
        """The loop over some of its statements."""
        return LinearLoop(tuple((s, r) for s, r in self.rows if s in statements), self.coincident)


@dataclass(frozen=True)
class PermutableBand:
    """Loops, outermost first, that may be permuted and tiled."""

    loops: tuple[LinearLoop, ...]
    child: Tree


@dataclass(frozen=True)
class Cut:
    """Statements whose ranges say how their loops run (rewrite.gpu.local_tiles): one launch, inside of the `for` loops around
    them."""

    statements: tuple[str, ...]


Tree: TypeAlias = "PermutableBand | Sequence[Tree] | Leaf | Cut"


def statements(t: Tree) -> tuple[str, ...]:
    """The statements below, in order."""
    match t:
        case Leaf():
            return (t.statement,)
        case Cut():
            return t.statements
        case Sequence():
            return tuple(s for p in t.children for s in statements(p))
        case PermutableBand():
            return statements(t.child)


def has_cut(t: Tree) -> bool:
    """Are there cut statements below?"""
    match t:
        case Cut():
            return True
        case Leaf():
            return False
        case Sequence():
            return any(map(has_cut, t.children))
        case PermutableBand():
            return has_cut(t.child)


def read(schedule: islpy.Schedule, number: Callable[[str], int], known: dict[str, tuple[str, ...]]) -> Tree:
    """number: the value of a parameter; known: the statements and their indices, both by isl's names (the result has isl's
    names too). Raises Unreadable."""
    found = _node(schedule.get_root().child(0), number, known, frozenset(known))
    if lost := known.keys() - set(statements(found)):  # isl leaves out what never runs
        raise Unreadable(f"no instances of {', '.join(sorted(lost))}")
    return found


def _node(node: islpy.ScheduleNode, number: Callable[[str], int], known: dict[str, tuple[str, ...]],
          here: frozenset[str]) -> Tree:
    """here: the statements that get to this node."""
    match node.get_type():
        case islpy.schedule_node_type.leaf:
            if len(here) != 1:
                raise Unreadable(f"{len(here)} statements at a leaf")
            return Leaf(next(iter(here)))
        case islpy.schedule_node_type.band:
            loops = tuple(_loop(node, m, number, known, here) for m in range(node.band_n_member()))
            child = _node(node.child(0), number, known, here)
            if len(loops) > 1 and not node.band_get_permutable():
                for loop in reversed(loops):
                    child = PermutableBand((loop,), child)
                return child
            return PermutableBand(loops, child) if loops else child
        case islpy.schedule_node_type.sequence | islpy.schedule_node_type.set:
            parts = []
            for i in range(node.n_children()):
                below = node.child(i)
                inside = here & {s.get_tuple_name() for s in isl.sets(below.filter_get_filter())}
                parts.append(_node(below.child(0), number, known, inside))
            return parts[0] if len(parts) == 1 else Sequence(tuple(parts))
        case kind:
            raise Unreadable(f"a node of kind {kind}")


def _loop(node: islpy.ScheduleNode, member: int, number: Callable[[str], int], known: dict[str, tuple[str, ...]],
          here: frozenset[str]) -> LinearLoop:
    rows: dict[str, Linear] = {}
    pieces = node.band_get_partial_schedule().get_at(member).get_pw_aff_list()
    for k in range(pieces.n_pw_aff()):
        piece = pieces.get_at(k)
        name = piece.domain().get_tuple_name()
        if name in here:
            rows[name] = _row(piece, number, known[name])
    if set(rows) != here:
        raise Unreadable("a band without a row for some statement")
    return LinearLoop(tuple(sorted(rows.items())), bool(node.band_member_get_coincident(member)))


def _row(piece: islpy.PwAff, number: Callable[[str], int], indices: tuple[str, ...]) -> Linear:
    forms = [aff for _, aff in piece.get_pieces()]
    if len(forms) != 1:
        raise Unreadable("a row in pieces")
    aff = forms[0]
    if aff.dim(islpy.dim_type.div) and any(not aff.get_coefficient_val(islpy.dim_type.div, d).is_zero()
                                           for d in range(aff.dim(islpy.dim_type.div))):
        raise Unreadable("a row with divisions")
    terms = [(index, int(aff.get_coefficient_val(islpy.dim_type.in_, d).to_python())) for d, index in enumerate(indices)]
    constant = int(aff.get_constant_val().to_python())
    for p in range(aff.dim(islpy.dim_type.param)):
        c = int(aff.get_coefficient_val(islpy.dim_type.param, p).to_python())
        constant += c * number(aff.get_dim_name(islpy.dim_type.param, p)) if c else 0
    return collected(terms, constant)
