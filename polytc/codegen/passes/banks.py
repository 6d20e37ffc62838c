"""Local arrays whose columns neighbouring work-items walk: rows get one more element.

    alloc local T[32, 32];  thread0 for x { ... = T[x, y] }   ->   alloc local T[32, 33]

so that the items' words lie in different banks of local memory, which serves a bank's words one after another (Ruetsch &
Micikevicius, Optimizing Matrix Transpose in CUDA, 2009). Guarantees: every access finds the element it found before; the local
arrays of a kernel that gets longer rows fit local memory.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from polytc.codegen import loops, traverse
from polytc.codegen.passes import items, simplify
from polytc.machine import Machine

BANKS = 32
"""Banks of local memory, each of words of four bytes."""
CONFLICTS = 4
"""Items whose words are in one bank, from which on longer rows are worth their memory."""


def pad_kernel(kernel: loops.Kernel, machine: Machine) -> loops.Kernel:
    """The kernel with longer rows where items meet in a bank."""
    own = [s.buffer for s in traverse.walk_stmt(kernel.body) if isinstance(s, loops.Alloc) and s.buffer.space == "local"]
    fastest = next((v for v in items.shared(kernel) if v == "item0"), None)
    if machine.kind != "gpu" or fastest is None or not own:
        return kernel
    used = items.accesses_of(kernel.body, frozenset(b.name for b in own))
    room = machine.local_bytes - sum(b.size * b.dtype.bytes for b in own)
    longer: dict[loops.Buffer, loops.Buffer] = {}
    for b in own:
        more = replace(b, shape=(*b.shape[:-1], b.shape[-1] + 1)) if len(b.shape) > 1 else b
        cost = (more.size - b.size) * b.dtype.bytes
        if cost <= room and _conflicts(more, used.get(b.name, []), fastest) < _conflicts(b, used.get(b.name, []), fastest):
            longer[b] = more
            room -= cost
    return replace(kernel, body=_renamed(kernel.body, longer)) if longer else kernel


def _conflicts(b: loops.Buffer, accesses: list[items.Access], fastest: str) -> int:
    """How many items meet in one bank at most, in the accesses of one item to single words; 1 below CONFLICTS."""
    worst = 1
    for a in accesses:
        if any(i.lanes > 1 for i in a.indices):
            return 1                                                  # vectors want their alignment
        steps = zip(a.indices, b.strides, strict=True)
        step = sum(simplify.linear(i).get(loops.Var(fastest), 0) * stride for i, stride in steps)
        words = abs(step) * b.dtype.bytes // 4
        worst = max(worst, gcd(words, BANKS)) if words else worst
    return worst if worst >= CONFLICTS else 1


def _renamed(body: loops.Stmt, longer: dict[loops.Buffer, loops.Buffer]) -> loops.Stmt:
    def on_expr(e: loops.Expr) -> loops.Expr:
        return replace(e, buffer=longer[e.buffer]) if isinstance(e, loops.Load) and e.buffer in longer else e

    def on_stmt(s: loops.Stmt) -> loops.Stmt:
        return replace(s, buffer=longer[s.buffer]) if isinstance(s, loops.Store | loops.Alloc) and s.buffer in longer else s
    return traverse.map_stmt(body, on_stmt, lambda e: traverse.map_expr(e, on_expr))
