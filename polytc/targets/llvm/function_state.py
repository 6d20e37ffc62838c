"""The state of writing one function's body: what its loops, blocks and conditions have made known so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from polytc.codegen import addresses, intervals, loops
from polytc.machine import Machine
from polytc.targets.llvm import ir
from polytc.targets.llvm.straight_arrays import Rows
from polytc.targets.llvm.walks import Walk


@dataclass
class Body:
    """flags: of float operations. values: the loop variables; numbers: those whose copies are being written. bounds: what they
    lie between. pointers: the buffers. scopes: addresses already computed, innermost block last. mask: lanes in which loads
    are allowed, None for all; there: conditions on scalars without which loads are allowed in no lane.
    loaded: values read since the last branch or store to their buffer, by buffer and address; block: where `loaded` holds.
    pairs: buffers whose rows of two elements may be read whole. rows: what private arrays that are no memory hold, by their
    names (straight_arrays). walks: the loops around whose places are counted, by
    variable, outermost first.
    """

    fn: ir.Function
    machine: Machine
    flags: str
    values: dict[str, ir.Value] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    bounds: dict[str, intervals.Interval] = field(default_factory=dict)
    pointers: dict[str, ir.Value] = field(default_factory=dict)
    scopes: list[dict[object, ir.Value]] = field(default_factory=lambda: [{}])
    mask: ir.Value | None = None
    there: frozenset[loops.Expr] = frozenset()
    loaded: dict[str, dict[tuple[addresses.Address, int, int | loops.Expr | None], ir.Value]] = field(default_factory=dict)
    block: str = ""
    pairs: frozenset[str] = frozenset()
    rows: dict[str, Rows] = field(default_factory=dict)
    walks: dict[str, Walk] = field(default_factory=dict)

    def between(self, lower: loops.Expr, upper: loops.Expr) -> intervals.Interval:
        """What the variable of a loop lies between."""
        return intervals.Interval(intervals.interval(lower, self.bounds).low, intervals.interval(upper, self.bounds).high - 1)

    def shared(self, key: object, make: Callable[[], ir.Value]) -> ir.Value:
        """What an enclosing scope has computed already, or a new value that this scope keeps."""
        for scope in self.scopes:
            if key in scope:
                return scope[key]
        self.scopes[-1][key] = value = make()
        return value
