"""Arrays of the Loop AST, which is all of it that runs of compiled code know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from polytc.program.node import node
from polytc.program.scalars import DType

if TYPE_CHECKING:
    from polytc.codegen.loops import Expr, Load

Space: TypeAlias = Literal["global", "local", "private"]


class Node:
    """Room for what is found out about a tree once: the hash of `node`, its loads, its variables and whether equal trees are
    the same in all (`traverse`), and its normal form (`passes.simplify`)."""

    __slots__ = ("_exact", "_hash", "_loads", "_normal", "_variables")
    _exact: bool
    _hash: int
    _loads: tuple[tuple[Load, bool], ...]
    _normal: Expr
    _variables: frozenset[str]


@node
class Buffer(Node):
    """An array. shape: extents, row-major, first coordinate 0; () is one element.

    space: 'global' is given by the caller (an argument of the kernel), 'local' is shared by a work-group or is scratch of a
    core's cache, 'private' belongs to one iteration and should live in registers.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    space: Space = "global"

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements to step in each dimension. Raises Undecided where that is a product of two open sizes."""
        out = [1] * bool(self.shape)
        for extent in reversed(self.shape[1:]):
            out.append(out[-1] * extent)
        return tuple(reversed(out))

    @property
    def size(self) -> int:
        n = 1
        for extent in self.shape:
            n *= extent
        return n
