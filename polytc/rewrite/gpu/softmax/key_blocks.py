"""How a chain of two products with a softmax between them is divided: what a line of a record of decisions says."""

from __future__ import annotations

from dataclasses import dataclass

ITEMS, MATRIX = WAYS = ("items", "matrix")

@dataclass(frozen=True)
class KeyBlocks:
    """A chain whose first product is `statement` runs as one kernel. items: of a group across keys and columns, and down rows;
    elements: keys, rows and columns of an item; steps: features, and keys, that are copied at once. by: who multiplies, ITEMS,
    or warps on a matrix unit (MATRIX), of whose items each has pairs of neighbours, as rewrite.gpu.matrix_tiles says."""

    statement: str
    items: tuple[int, ...]
    elements: tuple[int, ...]
    steps: tuple[int, ...]
    by: str = ITEMS

    @property
    def is_matrix(self) -> bool:
        """Do warps multiply?"""
        return self.by == MATRIX

    @property
    def rows(self) -> int:
        """Of a group."""
        return self.items[1] * self.elements[1]

    @property
    def keys(self) -> int:
        """Of a block."""
        return self.items[0] * self.elements[0]

    @property
    def columns(self) -> int:
        """Of a group."""
        return self.items[0] * self.elements[2]
