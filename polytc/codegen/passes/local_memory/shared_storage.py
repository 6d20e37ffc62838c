"""Arrays in local memory whose lives are apart share storage.

    block0 for b in 0:9 {                               with X[9,64], Y[9,64] on gpu
        alloc local f32 T[64]
        alloc local f32 U[64]
        alloc local f32 V[64]
        thread0 for item0 in 0:64 { T[item0] = X[b,item0] }
        thread0 for item0 in 0:64 { U[item0] = T[63 - item0] }
        thread0 for item0 in 0:64 { V[item0] = U[63 - item0] }
        thread0 for item0 in 0:64 { Y[b,item0] = V[63 - item0] }
    }
    ->  block0 for b in 0:9 {
            alloc local f32 T[64]
            alloc local f32 U[64]
            thread0 for item0 in 0:64 { T[item0] = X[b,item0] }
            thread0 for item0 in 0:64 { U[item0] = T[63 - item0] }
            thread0 for item0 in 0:64 { T[item0] = U[63 - item0] }
            thread0 for item0 in 0:64 { Y[b,item0] = T[63 - item0] }
        }

Steps are the statements of a group, outside of all loops but those over groups. The one that uses an array last comes before
the one that uses the next array of its storage first; that all items are through with the one by then, barriers see to, as they
are put where stores to one array follow loads of it (passes.barriers). Arrays of one type share; where their shapes differ they
become rows of one dimension. Guarantees: every load finds the value it found before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from polytc.codegen import loops, matrix_products, traverse
from polytc.codegen.passes import launch_grid
from polytc.machine import Machine
from polytc.schedule.facts import storage_classes
from polytc.schedule.facts.storage_classes import Life


@dataclass(frozen=True)
class Steps:
    """What a group does. arrays: allocated outside of the steps, in order; guards: conditions around all steps; body: these."""

    arrays: tuple[loops.Buffer, ...]
    guards: tuple[loops.Expr, ...]
    body: tuple[loops.Stmt, ...]

    def lives(self, buffers: Iterable[loops.Buffer]) -> tuple[Life, ...]:
        """From the first to the last step that uses each."""
        wanted, used = {b.name: b for b in buffers}, dict[str, list[int]]()
        for n, s in enumerate(self.body):
            for name in traverse.accesses(s, frozenset(wanted), None, lambda _, x: None) if wanted else ():
                used.setdefault(name[0], []).append(n)
        return tuple(Life(name, min(at), max(at), wanted[name].size * wanted[name].dtype.bytes, wanted[name].dtype)
                     for name, at in used.items())


def steps(kernel: loops.Kernel) -> Steps:
    """What a group of a kernel does, one after another."""
    _, s = launch_grid.grid_loops(kernel)
    arrays, guards = list[loops.Buffer](), list[loops.Expr]()
    while isinstance(s, loops.Alloc) or isinstance(s, loops.If) and s.orelse is None:
        if isinstance(s, loops.Alloc):
            arrays.append(s.buffer)
            s = s.body
        else:
            guards.append(s.cond)
            s = s.then
    body = tuple(_flat(s, arrays))
    return Steps(tuple(arrays), tuple(guards), body)


def _flat(s: loops.Stmt, arrays: list[loops.Buffer]) -> list[loops.Stmt]:
    """The statements one after another, and what is allocated around some of them."""
    match s:
        case loops.Alloc():
            arrays.append(s.buffer)
            return _flat(s.body, arrays)
        case loops.Block():
            return [x for part in s.stmts for x in _flat(part, arrays)]
    return [s]


def needed(kernel: loops.Kernel, more: Sequence[loops.Buffer] = (), inside: Sequence[loops.Buffer] = ()) -> int:
    """Bytes of local memory that a kernel needs, if some arrays were local, too. more: outside of all steps; inside: of
    loops."""
    found, may = steps(kernel), _may_share(kernel)
    outside = [*(b for b in found.arrays if b.space == "local"), *more]
    own = [x.buffer for s in found.body for x in traverse.walk_stmt(s) if isinstance(x, loops.Alloc)]
    shared = [b for b in outside if may and _plain(kernel, b.name)]
    apart = [*(b for b in outside if b not in shared), *(b for b in own if b.space == "local"), *inside]
    return storage_classes.needed(found.lives(shared)) + sum(b.size * b.dtype.bytes for b in apart)


def _may_share(kernel: loops.Kernel) -> bool:
    """Operands of a matrix unit have types and places of their own; so have arrays of kernels whose items are no groups."""
    chain, _ = launch_grid.grid_loops(kernel)
    return all(s.kind == "block" for s in chain) and not any(True for _ in matrix_products.products(kernel.body))


def share_kernel(kernel: loops.Kernel, machine: Machine) -> loops.Kernel:
    """The kernel of a device with as few arrays in local memory as lives need."""
    found = steps(kernel) if machine.max_work_group and _may_share(kernel) else None
    local = [b for b in found.arrays if b.space == "local" and _plain(kernel, b.name)] if found is not None else []
    groups = [c for c in storage_classes.classes(found.lives(local)) if len(c) > 1] if found is not None and local else []
    if found is None or not groups:
        return kernel
    known, taken = {b.name: b for b in local}, dict[str, loops.Buffer]()
    for members in groups:
        buffers = [known[x.name] for x in members]
        same = len({b.shape for b in buffers}) == 1
        store = buffers[0] if same else replace(buffers[0], shape=(max(b.size for b in buffers),))
        taken |= {b.name: store for b in buffers}
    body = loops.block(*(_moved(s, taken) for s in found.body))
    for cond in reversed(found.guards):
        body = loops.If(cond, body, None)
    kept = dict.fromkeys(taken.get(b.name, b) for b in found.arrays)
    for b in reversed(kept):
        body = loops.Alloc(b, body)
    chain, _ = launch_grid.grid_loops(kernel)
    for s in reversed(chain):
        body = replace(s, body=body)
    shares = tuple(loops.Shared(taken[c[0].name].name, tuple(_sharing(found.body, x.name) for x in c)) for c in groups)
    return replace(kernel, body=body, shares=(*kernel.shares, *shares))


def _plain(kernel: loops.Kernel, name: str) -> bool:
    """Is an array stored to and loaded from by stores alone, not by conditions and bounds, and at places that are one number
    or one ramp of them?"""
    for s in traverse.walk_stmt(kernel.body):
        stores = isinstance(s, loops.Store)
        places = [s.indices] if isinstance(s, loops.Store) and s.buffer.name == name else []
        loaded = [e.indices for top in traverse.expressions(s) for e, _ in traverse.loads(top) if e.buffer.name == name]
        if loaded and not stores or any(i.lanes > 1 and not isinstance(i, loops.Ramp) for p in (*places, *loaded) for i in p):
            return False
        if any(sum(i.lanes > 1 for i in p) > 1 for p in (*places, *loaded)):
            return False
    return True


def _sharing(body: Sequence[loops.Stmt], name: str) -> loops.Sharing:
    """An array with the statements of the program that use it."""
    stores = [x for s in body for x in traverse.walk_stmt(s) if isinstance(x, loops.Store)]
    loads = frozenset(x.origin for x in stores for top in traverse.expressions(x) for e, _ in traverse.loads(top)
                      if e.buffer.name == name)
    return loops.Sharing(name, frozenset(x.origin for x in stores if x.buffer.name == name), loads)


def _moved(s: loops.Stmt, taken: Mapping[str, loops.Buffer]) -> loops.Stmt:
    """The statement with what arrays share in their place."""
    def at(b: loops.Buffer, indices: tuple[loops.Expr, ...]) -> tuple[loops.Buffer, tuple[loops.Expr, ...]]:
        store = taken[b.name]
        return store, indices if store.shape == b.shape else (_place(b, indices),)

    def on_expr(e: loops.Expr) -> loops.Expr:
        if not isinstance(e, loops.Load) or e.buffer.name not in taken or e.buffer.space != "local":
            return e
        store, indices = at(e.buffer, e.indices)
        return replace(e, buffer=store, indices=indices)

    def on_stmt(x: loops.Stmt) -> loops.Stmt:
        if not isinstance(x, loops.Store) or x.buffer.name not in taken or x.buffer.space != "local":
            return x
        store, indices = at(x.buffer, x.indices)
        return replace(x, buffer=store, indices=indices)
    return traverse.map_stmt(s, on_stmt, lambda e: traverse.map_expr(e, on_expr))


def _place(b: loops.Buffer, indices: tuple[loops.Expr, ...]) -> loops.Expr:
    """The number of an element, row by row; of a vector of them a ramp."""
    total: loops.Expr | None = None
    ramp: loops.Ramp | None = None
    stride = 1
    for i, extent in reversed(list(zip(indices, b.shape, strict=True))):
        if isinstance(i, loops.Ramp):
            ramp = replace(i, stride=i.stride * stride)
            i = i.base
        term = i if stride == 1 else loops.binary("*", i, loops.const(stride))
        total = term if total is None else loops.binary("+", term, total)
        stride *= int(extent)
    base = total if total is not None else loops.const(0)
    return base if ramp is None else replace(ramp, base=base)
