"""Loops around products of tiles (targets.llvm.amx.products), and where these find their operands and results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from polytc.codegen import addresses, loops
from polytc.targets.llvm import ir
from polytc.targets.llvm.amx.cells import WORD, Chunk, Place
from polytc.targets.llvm.expressions import pointer
from polytc.targets.llvm.function_state import Body

Nest: TypeAlias = Sequence[tuple[str, range]]
"""Variables of loops and their values, innermost last."""


def iterate(body: Body, nest: Nest, held: list[ir.Value], inside: Callable[[list[ir.Value]], list[ir.Value]]) -> list[ir.Value]:
    """What is held after all iterations of a nest. inside: an iteration."""
    if not nest:
        return inside(held)
    (var, steps), inner = nest[0], nest[1:]
    fn = body.fn
    saved = body.values.get(var)
    body.scopes.append({})
    if len(steps) == 1:
        body.values[var] = ir.constant(steps.start, "i64")
        held = iterate(body, inner, held, inside)
    else:
        before, loop, end = fn.block, fn.fresh("tiles"), fn.fresh("done")
        fn.do(f"br label %{loop}")
        fn.start(loop)
        at, start = ir.Value("i64", f"%{fn.fresh('k')}"), len(fn.lines)
        passed = [ir.Value(x.type, f"%{fn.fresh('t')}") for x in held]
        for _ in (at, *passed):
            fn.do("")  # the phis, whose second sources are known after the step
        body.values[var] = at
        new = iterate(body, inner, passed, inside)
        after = fn.binary("add nsw", at, ir.constant(steps.step, "i64"))
        for n, (value, initial, update) in enumerate([(at, ir.constant(steps.start, "i64"), after),
                                                      *zip(passed, held, new, strict=True)]):
            sources = f"[ {initial.ref}, %{before} ], [ {update.ref}, %{fn.block} ]"
            fn.lines[start + n] = f"  {value.ref} = phi {value.type} {sources}"
        fn.do(f"br {fn.compare('icmp slt', after, ir.constant(steps.stop, 'i64'))}, label %{loop}, label %{end}")
        fn.start(end)
        held = new
    body.scopes.pop()
    if saved is not None:
        body.values[var] = saved
    else:
        del body.values[var]
    return held


def results_of(body: Body, chunk: Chunk) -> tuple[ir.Value, int]:
    """Where the accumulators of a chunk begin, and bytes from one row to the next."""
    return pointer(body, chunk.cell.store.buffer, addresses.Address(chunk.cell.place)), chunk.place_step * WORD


def words_at(body: Body, place: Place, *moved: tuple[loops.Expr, int]) -> ir.Value:
    """Where words lie. moved: more terms of their address."""
    buffer, form = place
    return pointer(body, buffer, replace(form, terms=(*form.terms, *moved), lanes=()))
