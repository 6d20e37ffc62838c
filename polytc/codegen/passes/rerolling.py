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
several loops the innermost is the one that leaves the longest part of the statement unchanged. What a matrix unit adds up lies
in memory, and so does all that copies touch that read no register tile (results that are made zero, or finished, apart from
their sums): a plain loop over some of the copies at a time is as fast as all of them. Blocks that are transposed in registers
(passes.register_transpose) stay copies: no loop made them, beside which the way through memory would cost nothing. Guarantees:
the same statements run, in the same order where one could see another's store.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from polytc.codegen import loops, traverse
from polytc.codegen.passes import unrolling
from polytc.codegen.passes.analyses import work_estimate
from polytc.machine import Machine
from polytc.program.names import claim

MOST = 256
"""Operations of all copies up to which they stay: a few thousand bytes of code."""
FUNCTION = 24
"""Operations that a function such as exp stands for."""
ROWS = 8
"""Copies of the outermost loop that stay together where a matrix unit made what they read; single ones take a tenth longer."""
TOGETHER = 16
"""Copies that stay together where they read no registers: enough for the processor to overlap."""
PLAIN = frozenset(("min", "max", "abs", "fma", "muladd", "sqrt", "floor", "ceil", "round", "trunc", "clamp", "word"))
"""Functions that are an instruction or two."""


def reroll_kernel(kernel: loops.Kernel, machine: Machine) -> loops.Kernel:
    """The kernel of a processor with loops in place of the copies of long statements."""
    if machine.kind != "cpu" or machine.max_work_group:
        return kernel
    taken = traverse.buffer_names(kernel) | {s.var for s in traverse.walk_stmt(kernel.body) if isinstance(s, loops.For)}

    of_unit = _of_matrix_unit(kernel, machine)
    transposed = _transposed(kernel)

    def rerolled(s: loops.For) -> loops.Stmt:
        found = _nest(s)
        if found is None:
            return s
        tiles = found.registers.keys() | found.filled
        if not tiles:
            return _in_loops(s, taken)
        if tiles <= of_unit:
            return _by_rows(s, taken)
        if found.filled or tiles & (of_unit | transposed) or found.operations <= MOST:
            return s
        return found.loop(taken)
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

    @property
    def filled(self) -> set[loops.Buffer]:
        """The register tiles that they store to."""
        return {s.buffer for s in self.stores if s.buffer.space == "private"}

    @property
    def operations(self) -> int:
        """Of all copies, about."""
        return prod(len(unrolling.values(f)) for f in self.around) * sum(_operations(x.value) for x in self.stores)

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


def _by_rows(s: loops.For, taken: set[str]) -> loops.Stmt:
    """A loop over ROWS of the copies at a time, or a few less if these divide them, and the copies that are left."""
    values = unrolling.values(s)
    if len(values) <= ROWS or unrolling.stores(s) <= TOGETHER:
        return s
    some = next((n for n in range(ROWS, ROWS // 2, -1) if len(values) % n == 0), ROWS)
    left = len(values) % some
    end = loops.const(values[len(values) - left - 1] + s.step)
    rows = _strips(replace(s, upper=end), some, claim(f"{s.var}_first", taken))
    return loops.block(rows, replace(s, lower=end)) if left else rows


def _strips(s: loops.For, many: int, first: str) -> loops.For:
    """A loop over copies, so many of them in each iteration. first: the name of its variable."""
    at = loops.binary("+", loops.Var(first, s.lower.dtype), loops.Var(s.var, s.lower.dtype))
    some = replace(s, lower=loops.const(0), upper=loops.const(many * s.step), body=traverse.substitute(s.body, {s.var: at}))
    return loops.For(first, s.lower, s.upper, many * s.step, some)


def _in_loops(s: loops.Stmt, taken: set[str]) -> loops.Stmt:
    """Loops over so many copies that TOGETHER of them at most stay in a row, and over equally many in each iteration."""
    if not isinstance(s, loops.For) or s.kind != "unroll" or unrolling.stores(s) <= TOGETHER:
        return s
    values, inside = unrolling.values(s), unrolling.stores(s.body)
    some = next(n for n in range(max(1, TOGETHER // inside), 0, -1) if len(values) % n == 0)
    if some == 1:
        return replace(s, kind="sequential", body=_in_loops(s.body, taken))
    return _strips(s, some, claim(f"{s.var}_first", taken))


def _of_matrix_unit(kernel: loops.Kernel, machine: Machine) -> frozenset[loops.Buffer]:
    """The register tiles that a matrix unit adds up."""
    return frozenset(s.buffer for s in traverse.walk_stmt(kernel.body) if isinstance(s, loops.Store)
                     and s.buffer.space == "private"
                     and any(isinstance(e, loops.Call) and machine.multiplies_tiles(e.fn) for e in traverse.walk_expr(s.value)))


def _transposed(kernel: loops.Kernel) -> frozenset[loops.Buffer]:
    """The register tiles that shuffles make. exp of 16 x 16 numbers takes 4% longer in a loop."""
    return frozenset(s.buffer for s in traverse.walk_stmt(kernel.body) if isinstance(s, loops.Store)
                     and s.buffer.space == "private" and isinstance(s.value, loops.Shuffle))


def _nest(s: loops.Stmt) -> _Nest | None:
    """The nest of copies that a loop begins, if these store results, or something but numbers to registers."""
    around = list[loops.For]()
    while isinstance(s, loops.For) and s.kind == "unroll":
        around.append(s)
        s = s.body
    stores = s.stmts if isinstance(s, loops.Block) else (s,)
    if not all(isinstance(x, loops.Store) and not (x.buffer.space == "private" and _is_number(x.value)) for x in stores):
        return None
    found = _Nest(tuple(around), tuple(x for x in stores if isinstance(x, loops.Store)))
    if found.filled and found.registers:
        return None
    certain = {x for s in found.stores for e in (*s.indices, s.value) for x in _happen(e)}
    if any(x.buffer.space == "private" and x not in certain for x in found.loads):
        return None  # its place may be outside of the tile where it is not chosen
    return found


def _is_number(e: loops.Expr) -> bool:
    return isinstance(traverse.repeated(e), loops.Const)


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
