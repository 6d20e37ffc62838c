"""Marks: what stands above a band in a schedule tree, its name and how its loops run, as a value.

    mark: "G0.tile block0 block1"   <->   Mark('G0.tile', ('block0', 'block1'))

isl keeps and prints the text; this is the one place that writes and reads it.
"""

from __future__ import annotations

from dataclasses import dataclass

import islpy


@dataclass(frozen=True)
class Mark:
    """name: of the band, unique in the tree, without spaces; kinds: of its members, outermost first (program.kinds). Members
    beyond them are sequential."""

    name: str
    kinds: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join((self.name, *self.kinds))

    def kind(self, member: int) -> str:
        """How a member of the band runs."""
        return self.kinds[member] if member < len(self.kinds) else "sequential"

    def id(self, ctx: islpy.Context) -> islpy.Id:
        """What isl puts in a tree."""
        text = str(self)
        return islpy.Id.read_from_str(ctx, text) if text.isidentifier() else islpy.Id(text, None, ctx)


def read(text: str) -> Mark:
    """The mark that prints so."""
    name, *kinds = text.split() or [""]
    return Mark(name, tuple(kinds))


def of(node: islpy.ScheduleNode) -> Mark:
    """The mark that a node is."""
    return read(node.mark_get_id().get_name())
