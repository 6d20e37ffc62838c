"""What comes before the blocks of a scan in one pass: each group looks back at what those before it have published.

    for i in 1:65537 { x[i] += x[i-1] }                 with inout x[65537] on nvidia
    ->  x_words[i2] = 0
        ...
        x_own[i_block] = x_part[i_block,0,15] + x_part[i_block,1,15] + ...
        x_words[i_block + 1] = published(x_own[...])
        x_seen_mine[i_block,line5,item5] = -f32(0.0)
        x_seen_mine[i_block,line5,item5] += awaited_f32(x_words[...]) where item5 + 16*line5 < i_block
        x_seen[i_block,line5,item5] = x_seen_mine[i_block,line5,item5]
        x_seen_lines[i_block,line6] = x_seen[i_block,line6,0] + x_seen[i_block,line6,1] + ...
        x_seen_back[i_block] = x_seen_lines[i_block,0]
        x_lead[i_block,0] = x[0] + x_seen_back[i_block]
        ...
        x[4096*i_block + ... + 1] = x_tile[i_block, ...]

The blocks of a row are in windows, as many blocks in each as a group has items at most. A group publishes what its block adds
up, and each of its items waits for one block before it in the window; the last group of a window publishes what all of that
adds up, and each item of later ones waits for one window, or for several. So the input is read once, by one launch, and groups
wait twice, however many there are. Merrill & Garland (Single-pass Parallel Prefix Scan with Decoupled Look-back, NVIDIA
NVR-2016-002) look back as far as the first group that knows all that comes before it, whichever that is; where windows begin
does not depend on who is first, and so the order in which floats are added does not, either: results do not vary.

Who waits has published what others wait for, and groups begin in the order of their numbers, so that what the first one of
those under way waits for is there (program.calls, targets.ctext.calls). The words are cleared by a launch before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from polytc.program import program as pr
from polytc.program.calls.published import PUBLISHED, parts
from polytc.program.linear import normalise
from polytc.program.scalars import BOOL, I64
from polytc.program.sizes import Size
from polytc.rewrite.gpu.scan_text import Items, Ranges, ScanText, cell, cells, extents, number, plus

ROUNDS = 16
"""Windows that an item waits for at most, of typical sizes."""


@dataclass(frozen=True)
class Windows:
    """blocks: of a row; count: of windows; members: blocks of each; rounds: windows that an item waits for at most."""

    blocks: int
    count: int
    members: int
    rounds: int

    @property
    def several(self) -> bool:
        return self.count != 1

    @property
    def words(self) -> int:
        """Values of a row that are published, behind a place for the counter of groups."""
        return 1 + self.blocks + (self.count if self.several else 0)


def windows(blocks: int, items: int) -> Windows:
    """Of so many blocks of a row, for groups of so many items. Where sizes stay open, there may be several."""
    if isinstance(blocks, Size):
        return Windows(blocks, blocks // items + 1, items, blocks // items // items + 1)
    count = -(-blocks // items)
    return Windows(blocks, count, -(-blocks // count), -(-count // items))


class LookBack:
    """The statements that make what comes before a block. kept: the extents of what runs beside the scan; groups: the ranges of
    groups, of which the last one is over the blocks of a row."""

    def __init__(self, text: ScanText, kept: Sequence[int], groups: Ranges, found: Windows) -> None:
        self.text, self.groups, self.windows = text, groups, found
        self.row, self.group, self.block = cells(groups[:len(kept)]), cells(groups), cell(groups[-1])
        self.parts = parts(text.found.dtype)
        shape = (*kept, found.words, *((self.parts,) if self.parts > 1 else ()))
        self.words = text.tensor("words", shape, dtype=I64)
        ranges = tuple(pr.Range(text.names.index(text.found.along.index), 0, n) for n in shape)
        text.emit("clear", self.words, cells(ranges), number(0), ranges)

    def add(self, lines: Sequence[pr.Expr]) -> tuple[pr.Expr, Items]:
        """What comes before the block, and the item that knows. lines: of items, what each adds up."""
        members, first = number(self.windows.members), self.text.first_item()
        own = self._single("own", self.text.tree(lines), first)
        self._publish(_sum(number(1), self.block), own, first)
        if not self.windows.several:
            return self._waited("seen", number(1), self.block, self.windows.members, 1)
        window, member = (pr.Binary(op, self.block, members, I64) for op in ("//", "%"))
        begin = _sum(number(1), pr.Binary("*", members, window, I64))
        back, first = self._waited("seen", begin, member, self.windows.members, 1)
        last = pr.Binary("==", member, number(self.windows.members - 1), BOOL)
        begin = number(1 + self.windows.blocks)
        whole = self._single("whole", self.text.tree((back, self._single("own", self.text.tree(lines), first))), first)
        self._publish(_sum(begin, window), whole, first, (last,))
        far, again = self._waited("far", begin, window, self._items, self.windows.rounds)
        return self.text.tree((far, back)), again

    @property
    def _items(self) -> int:
        return self.text.items[0] * self.text.items[1]

    def _single(self, name: str, value: pr.Expr, first: Items) -> pr.Read:
        """A value of the group, which its first item finds."""
        target = self.text.tensor(name, extents(self.groups))
        self.text.emit(name, target, self.group, value, (*self.groups, *first))
        return self.text.read(target, *self.group)

    def _publish(self, place: pr.Expr, value: pr.Read, first: Items, where: tuple[pr.Expr, ...] = ()) -> None:
        for n in range(self.parts):
            word = pr.Call(PUBLISHED[n], (value,), I64)
            self.text.emit("publish", self.words, self._at(place, n), word, (*self.groups, *first), where=where)

    def _at(self, place: pr.Expr, part: int) -> tuple[pr.Expr, ...]:
        """Where a part of a value lies."""
        return (*self.row, place, *((number(part),) if self.parts > 1 else ()))

    def _waited(self, name: str, first: pr.Expr, upto: pr.Expr, count: int, rounds: int
                ) -> tuple[pr.Read, Items]:
        """What is published from a place on, so many values, put together in two steps by the first so many
        items, each of which waits for as many as there are rounds; and the item that knows it."""
        text, (w, h), dtype = self.text, self.text.items, self.text.found.dtype
        y, x = text.all_items()
        ranges, at = (*self.groups, y, x), (*self.group, cell(y), cell(x))
        mine, each = (text.tensor(n, extents(ranges)) for n in (f"{name}_mine", name))
        k = (pr.Range(text.names.index("k"), 0, rounds, "sequential"),) if rounds != 1 else ()
        digits = (*((r, w * h) for r in k), (y, w), (x, 1))
        number_ = plus(number(0), *digits)
        words = tuple(pr.Read(self.words, self._at(_sum(first, number_), n), I64) for n in range(self.parts))
        text.emit(f"{name}_init", mine, at, text.found.neutral, ranges)
        text.emit(f"{name}_mine", mine, at, pr.Call(f"awaited_{dtype}", words, dtype), (*ranges, *k), op=text.found.op,
                  where=(pr.Binary("<", number_, upto, BOOL),))
        text.emit(name, each, at, text.read(mine, *at), ranges)
        return self._put_together(name, each, min(w, count), -(-count // w))

    def _put_together(self, name: str, each: str, across: int, down: int) -> tuple[pr.Read, Items]:
        """The values of so many items of so many lines."""
        text = self.text
        y, x = text.all_items()
        lines, line = text.tensor(f"{name}_lines", extents((*self.groups, y))), (*self.group, cell(y))
        text.emit(f"{name}_lines", lines, line, text.tree([text.read(each, *line, number(u)) for u in range(across)]),
                  (*self.groups, replace(y, upper=down), replace(x, upper=1)))
        first = text.first_item()
        value = text.tree([text.read(lines, *self.group, number(u)) for u in range(down)])
        return self._single(f"{name}_back", value, first), first


def _sum(a: pr.Expr, b: pr.Expr) -> pr.Expr:
    return normalise(pr.Binary("+", a, b, I64))
