"""Many copies of a long statement become a loop again, which is as fast and a fraction of the code.

    alloc private f32 T[12,8]
        unroll for r in 0:12 { T[r, ramp(0, 1, 8)] = X[r, ramp(0, 1, 8)] }
        unroll for r in 0:12 { Y[r, ramp(0, 1, 8)] = erf(T[r, ramp(0, 1, 8)]) }                 with X[12,8], Y[12,8]
    ->  alloc private f32 T[12,8]
            unroll for r in 0:12 { T[r, ramp(0, 1, 8)] = X[r, ramp(0, 1, 8)] }
            alloc private f32 T_whole[12,8]
                unroll for r2 in 0:12 { T_whole[r2, ramp(0, 1, 8)] = T[r2, ramp(0, 1, 8)] }
                rolled for r in 0:12 { Y[r, ramp(0, 1, 8)] = erf(T_whole[r, ramp(0, 1, 8)]) }

What a register tile becomes at its end (requantisation, an activation function) runs once for each tile, and its vectors
overlap in the processor whether they are copies or iterations. The tile itself stays in registers, which no variable can
choose among: a copy in memory is what the loop reads. targets.llvm puts the loop into a function of its own, as LLVM loads
the constants of a loop in front of all loops around, into registers that the tile then lacks; OpenCL C cannot say that. Of
several loops the innermost is the one that leaves the longest part of the statement unchanged. What a matrix unit made lies
in memory already: a plain loop over some of the copies at a time is as fast as all of them. Guarantees: the same statements
run, in the same order where one could see another's store.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from math import prod

from polytc.codegen import loops, traverse
from polytc.codegen.passes import simplify, unrolling
from polytc.codegen.passes.analyses import work_estimate
from polytc.machine import Machine
from polytc.program.names import claim

MOST = 256
"""Operations of all copies up to which they stay: a few thousand bytes of code."""
FUNCTION = 24
"""Operations that a function such as exp stands for."""
ROWS = 8
"""Copies of the outermost loop that stay together where a matrix unit made what they read; single ones take a tenth longer."""
PLAIN = frozenset(("min", "max", "abs", "fma", "muladd", "sqrt", "floor", "ceil", "round", "trunc", "clamp", "word"))
"""Functions that are an instruction or two."""


def reroll_kernel(kernel: loops.Kernel, machine: Machine) -> loops.Kernel:
    """The kernel of a processor with loops in place of the copies of long statements."""
    if machine.kind != "cpu" or machine.max_work_group:
        return kernel
    taken = traverse.buffer_names(kernel) | {s.var for s in traverse.walk_stmt(kernel.body) if isinstance(s, loops.For)}

    def rerolled(s: loops.For) -> loops.Stmt:
        found = _nest(s)
        if found is None:
            return s
        made = _of_matrix_unit(kernel, found.registers, machine)
        if not made:
            return found.loop(taken)
        return _by_rows(s, claim(f"{s.var}_first", taken)) if made == found.registers.keys() else s
    return replace(kernel, body=unrolling.map_nests(kernel.body, rerolled))


@dataclass(frozen=True)
class _Nest:
    """Copies of stores. around: their loops, outermost first."""

    around: tuple[loops.For, ...]
    stores: tuple[loops.Store, ...]

    @property
    def loads(self) -> list[loops.Load]:
        parts = (x for s in self.stores for e in (*s.indices, s.value) for x in traverse.walk_expr(e))
        return [x for x in parts if isinstance(x, loops.Load)]

    @property
    def registers(self) -> dict[loops.Buffer, None]:
        """The register tiles that they read."""
        return dict.fromkeys(x.buffer for x in self.loads if x.buffer.space == "private")

    def loop(self, taken: set[str]) -> loops.Stmt:
        """The loops that stand for the copies, behind copies in memory of the register tiles that they read."""
        tiles = {b: replace(b, name=claim(f"{b.name}_whole", taken)) for b in self.registers}

        def moved(e: loops.Expr) -> loops.Expr:
            return replace(e, buffer=tiles[e.buffer]) if isinstance(e, loops.Load) and e.buffer in tiles else e
        body = loops.block(*(replace(s, value=traverse.map_expr(s.value, moved)) for s in self.stores))
        rolled = unrolling.nested(tuple(replace(f, kind="rolled") for f in self._order()), body)
        stmt = loops.block(*self._copies(tiles, taken), rolled)
        for b in tiles.values():
            stmt = loops.Alloc(b, stmt)
        return stmt

    def _copies(self, tiles: dict[loops.Buffer, loops.Buffer], taken: set[str]) -> list[loops.Stmt]:
        """Stores of each vector of the tiles, in copies as they are written out."""
        read = dict.fromkeys(x for x in self.loads if x.buffer in tiles)
        renamed = {f.var: claim(f.var, taken) for f in self.around}

        def variable(e: loops.Expr) -> loops.Expr:
            return replace(e, name=renamed[e.name]) if isinstance(e, loops.Var) and e.name in renamed else e
        around = tuple(replace(f, var=renamed[f.var]) for f in self.around)
        found = []
        for x in read:
            indices = tuple(traverse.map_expr(i, variable) for i in x.indices)
            used = set().union(*map(traverse.variables, indices))
            found.append(unrolling.nested(tuple(f for f in around if f.var in used),
                                          loops.Store(tiles[x.buffer], indices, replace(x, indices=indices))))
        return found

    def _order(self) -> tuple[loops.For, ...]:
        """The loops, the one last that leaves most of the stores unchanged; as they are where one store may see another's."""
        stored = {s.buffer for s in self.stores}
        if len(self.stores) > 1 or any(x.buffer in stored for x in self.loads):
            return self.around
        last = max(self.around, key=lambda f: sum(_unchanged(s.value, f.var) for s in self.stores))
        return (*(f for f in self.around if f is not last), last)


def _by_rows(s: loops.For, first: str) -> loops.Stmt:
    """A loop over ROWS of the copies at a time, and the copies that are left. first: the name of its variable."""
    values = unrolling.values(s)
    whole = len(values) // ROWS * ROWS
    if whole <= ROWS or values.step != 1:
        return s
    at = loops.binary("+", loops.Var(first, s.lower.dtype), loops.Var(s.var, s.lower.dtype))
    body = simplify.substitute(s.body, {s.var: at})
    end = loops.const(values.start + whole)
    some = loops.For(first, s.lower, end, ROWS, replace(s, lower=loops.const(0), upper=loops.const(ROWS), body=body))
    return some if whole == len(values) else loops.block(some, replace(s, lower=end))


def _of_matrix_unit(kernel: loops.Kernel, tiles: Collection[loops.Buffer], machine: Machine) -> set[loops.Buffer]:
    """Those of the register tiles that a matrix unit adds up."""
    return {s.buffer for s in traverse.walk_stmt(kernel.body) if isinstance(s, loops.Store) and s.buffer in tiles
            and any(isinstance(e, loops.Call) and machine.multiplies_tiles(e.fn) for e in traverse.walk_expr(s.value))}


def _nest(s: loops.Stmt) -> _Nest | None:
    """The nest of copies that a loop begins, if these are long and change no registers."""
    around = list[loops.For]()
    while isinstance(s, loops.For) and s.kind == "unroll":
        around.append(s)
        s = s.body
    stores = s.stmts if isinstance(s, loops.Block) else (s,)
    if not all(isinstance(x, loops.Store) and x.buffer.space != "private" for x in stores):
        return None
    found = _Nest(tuple(around), tuple(x for x in stores if isinstance(x, loops.Store)))
    certain = {x for s in found.stores for e in (*s.indices, s.value) for x in _happen(e)}
    if any(x.buffer.space == "private" and x not in certain for x in found.loads):
        return None  # its place may be outside of the tile where it is not chosen
    copies = prod(len(unrolling.values(f)) for f in around)
    return found if copies * sum(_operations(x.value) for x in found.stores) > MOST else None


def _happen(e: loops.Expr) -> Iterator[loops.Load]:
    """The loads of a value that are performed whatever its conditions are."""
    if isinstance(e, loops.Load):
        yield e
    chosen = isinstance(e, loops.Select) or isinstance(e, loops.Binary) and e.op in ("&&", "||")
    for o in traverse.operands(e)[:1 if chosen else None]:
        yield from _happen(o)


def _operations(e: loops.Expr) -> int:
    """Instructions of a value, about, but for addresses."""
    functions = sum(isinstance(x, loops.Call) and x.fn not in PLAIN for x in traverse.walk_expr(e))
    return work_estimate.of_value(e) + (FUNCTION - 1) * functions


def _unchanged(e: loops.Expr, var: str) -> int:
    """Operations of the parts of a value that a variable does not change."""
    if var not in traverse.variables(e):
        return _operations(e)
    return 0 if isinstance(e, loops.Load) else sum(_unchanged(x, var) for x in traverse.operands(e))
