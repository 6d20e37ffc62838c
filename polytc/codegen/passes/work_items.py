"""What belongs to one work-item, in kernels whose work-items run several phases.

    block for b { alloc private acc[16, 4];  thread for item0 { acc[item0, :] = ... };  thread for item0 { ... acc[item0, :] } }

A private array outside of the thread loops has a dimension for each axis of items, in which each item uses its own coordinate:
so the Loop AST runs as it stands, one phase after the other. `drop_item_dimensions` drops these dimensions for targets in
whose language a private array is the item's own anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from polytc.codegen import loops, traverse
from polytc.codegen.passes import launch_grid

T = TypeVar("T")


def has_phases(kernel: loops.Kernel) -> bool:
    """Are there thread loops below the chain of block and thread loops at the top?"""
    return any(isinstance(x, loops.For) and x.kind == "thread" for x in traverse.walk_stmt(launch_grid.grid_loops(kernel)[1]))


def shared_item_variables(kernel: loops.Kernel) -> frozenset[str]:
    """The variables that several thread loops have in common (see passes.launch_grid): the number of the item, wherever they
    stand."""
    found = [x for x in traverse.walk_stmt(kernel.body) if isinstance(x, loops.For) and x.kind == "thread"]
    return frozenset(x.var for x in found if x.var == f"item{x.axis}" and x.lower == loops.const(0) and x.step == 1)


@dataclass(frozen=True)
class Access:
    """indices: of a load or a store; inside: the variables of the loops around that are several iterations; store: in a store,
    not in a bound or test."""

    indices: tuple[loops.Expr, ...]
    inside: frozenset[str]
    store: bool


def is_repeated(s: loops.For) -> bool:
    """Does a loop run for others than the first item?"""
    return s.kind != "thread" or s.lower != loops.const(0) or s.upper != loops.const(1)


def owned_dimensions(accesses: Sequence[Access], axes: frozenset[str]) -> tuple[int, ...]:
    """The dimensions whose coordinate is the number of the item on an axis, in all accesses; () unless they tell all axes.

    axes: the variables of the thread loops. Outside of the loops over an axis a group stores once, which its first item does.
    """
    told = {d: name for d in range(len(accesses[0].indices) if accesses else 0) if (name := _told(accesses, d)) in axes}
    return tuple(told) if set(told.values()) == axes else ()


def _told(accesses: Sequence[Access], d: int) -> str | None:
    """The variable that is the coordinate of dimension d in all accesses, or would be."""
    name = next((e.name for a in accesses if isinstance(e := a.indices[d], loops.Var)), None)
    first = loops.const(0)
    own = all(a.indices[d] == loops.Var(name) or (a.indices[d] == first and a.store and name not in a.inside)
              for a in accesses) if name is not None else False
    return name if own else None


def drop_item_dimensions(kernel: loops.Kernel) -> loops.Kernel:
    """The kernel whose private arrays outside of thread loops have no dimensions for the items."""
    dropped: dict[loops.Buffer, tuple[int, ...]] = {}
    for x in traverse.walk_stmt(kernel.body):
        if isinstance(x, loops.Alloc) and x.buffer.space == "private" and (axes := _axes(x)):
            dropped[x.buffer] = owned_dimensions(accesses(x.body, x.buffer), axes)
    if not any(dropped.values()):
        return kernel
    small = {b: replace(b, shape=_without(b.shape, gone)) for b, gone in dropped.items() if gone}

    def on_expr(e: loops.Expr) -> loops.Expr:
        if isinstance(e, loops.Load) and e.buffer in small:
            return replace(e, buffer=small[e.buffer], indices=_without(e.indices, dropped[e.buffer]))
        return e

    def on_stmt(s: loops.Stmt) -> loops.Stmt:
        match s:
            case loops.Store() if s.buffer in small:
                return replace(s, buffer=small[s.buffer], indices=_without(s.indices, dropped[s.buffer]))
            case loops.Alloc() if s.buffer in small:
                return replace(s, buffer=small[s.buffer])
            case _:
                return s
    return replace(kernel, body=traverse.map_stmt(kernel.body, on_stmt, lambda e: traverse.map_expr(e, on_expr)))


def _axes(s: loops.Alloc) -> frozenset[str]:
    """The variables of the thread loops inside."""
    return frozenset(x.var for x in traverse.walk_stmt(s.body) if isinstance(x, loops.For) and x.kind == "thread")


def _without(parts: tuple[T, ...], gone: tuple[int, ...]) -> tuple[T, ...]:
    return tuple(p for d, p in enumerate(parts) if d not in gone)


def accesses(s: loops.Stmt, b: loops.Buffer) -> list[Access]:
    """All loads and stores of a buffer."""
    return accesses_of(s, frozenset((b.name,))).get(b.name, [])


def accesses_of(s: loops.Stmt, names: frozenset[str]) -> dict[str, list[Access]]:
    """All loads and stores of the buffers of these names."""
    found: dict[str, list[Access]] = {}
    for name, indices, inside, store in traverse.accesses(
            s, names, frozenset[str](), lambda inside, x: inside | {x.var} if is_repeated(x) else inside):
        found.setdefault(name, []).append(Access(indices, inside, store))
    return found
