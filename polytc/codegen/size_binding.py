"""Sizes that are not fixed get their values: the last step before a target sees a module.

    sizes M, K;  A[M, K];  k0(A, C): for i in 0:M { ... A[i, j] ... }
    ->  k0(A, C, sizes[2]): for M in sizes[0]:sizes[0] + 1 { for K in ... { for i in 0:M { ... A[K*i + j] ... } } }

so that targets need to know nothing of them: a size is the variable of a loop of one iteration, around each kernel; buffers
with such extents have one dimension; scratch of such extents comes from the caller too, as arguments before the sizes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from polytc.codegen import linear_forms, loops, traverse
from polytc.codegen.lower import rebuilt, size
from polytc.codegen.passes import simplify
from polytc.program.names import fresh
from polytc.program.scalars import I64
from polytc.program.sizes import Size

UNKNOWN = 0
"""The extent of a buffer of one dimension that has as many elements as the sizes say."""


@dataclass(frozen=True)
class Bound:
    """A module whose sizes have values. workspace: the scratch that the caller provides, before the sizes."""

    module: loops.Module
    workspace: tuple[loops.Buffer, ...]


def flatten(module: loops.Module) -> loops.Module:
    """The module with one index for each access to a buffer of open extents; its sizes stay variables."""
    return replace(module, kernels=tuple(_kernel(k, None, None) for k in module.kernels))


def bind(module: loops.Module) -> Bound:
    """The module with the values of its sizes as its last argument, i64[number of sizes]; kernels multiply the products."""
    taken = {b.name for b in (*module.args, *module.scratch)}
    values = loops.Buffer(fresh("sizes", taken), I64, (len(module.sizes) - len(module.products),))
    workspace = tuple(b for b in module.scratch if is_open(b))
    kernels = tuple(_kernel(k, module, values) for k in module.kernels)
    args = (*(_flat(b) for b in (*module.args, *workspace)), values)
    scratch = tuple(b for b in module.scratch if not is_open(b))
    return Bound(loops.Module(module.name, args, module.outputs, scratch, kernels), workspace)


def is_open(b: loops.Buffer) -> bool:
    """Has a buffer an extent that is not fixed?"""
    return any(isinstance(n, Size) for n in b.shape)


def _flat(b: loops.Buffer) -> loops.Buffer:
    return replace(b, shape=(UNKNOWN,)) if is_open(b) else b


def _kernel(k: loops.Kernel, module: loops.Module | None, values: loops.Buffer | None) -> loops.Kernel:
    def on_load(e: loops.Expr) -> loops.Expr:
        return replace(e, buffer=_flat(e.buffer), indices=_index(e.buffer, e.indices)) if isinstance(e, loops.Load) else e

    def on_store(s: loops.Stmt) -> loops.Stmt:
        return replace(s, buffer=_flat(s.buffer), indices=_index(s.buffer, s.indices)) if isinstance(s, loops.Store) else s

    body = traverse.map_stmt(k.body, on_store, lambda e: traverse.map_expr(e, on_load))
    if module is None or values is None:
        return rebuilt(k, body)
    own = len(module.sizes) - len(module.products)
    numbers: list[loops.Expr] = [loops.Load(values, (loops.const(n),), I64) for n in range(own)]
    numbers += [loops.binary("*", size(a), size(b)) for _, (a, b) in module.products]
    for name, number in reversed(list(zip(module.sizes, numbers, strict=True))):
        body = _valued(name, number, body)
    return rebuilt(k, body)


def _valued(name: str, value: loops.Expr, body: loops.Stmt) -> loops.Stmt:
    """What a variable of this value is known in. The maximum changes nothing: it shows targets that a size is natural."""
    number = loops.Call("max", (value, loops.const(1)), I64)
    return loops.For(name, number, loops.binary("+", number, loops.const(1)), 1, body)


def _index(b: loops.Buffer, indices: tuple[loops.Expr, ...]) -> tuple[loops.Expr, ...]:
    """Where an element of an open buffer lies: one index."""
    if not is_open(b):
        return indices
    total: loops.Expr = loops.const(0)
    stride: loops.Expr = loops.const(1)
    for index, extent in zip(reversed(indices), reversed(b.shape), strict=True):
        total = _sum(_product(index, stride), total)
        stride = _product(stride, size(extent))
    return (total,)


def _sum(a: loops.Expr, b: loops.Expr) -> loops.Expr:
    """a + b; a ramp and a scalar are a ramp."""
    if isinstance(a, loops.Ramp) and b.lanes == 1:
        return replace(a, base=_sum(a.base, b))
    if isinstance(b, loops.Ramp) and a.lanes == 1:
        return _sum(b, a)
    if a.lanes == b.lanes == 1:
        return simplify.expr(loops.binary("+", a, b), {})
    lanes = max(a.lanes, b.lanes)
    return loops.binary("+", _wide(a, lanes), _wide(b, lanes))


def _product(a: loops.Expr, b: loops.Expr) -> loops.Expr:
    """a * b, where b is a scalar; a sum is multiplied term by term, so that what accesses share shows."""
    if isinstance(b, loops.Const):
        if isinstance(a, loops.Ramp):
            return replace(a, base=_product(a.base, b), stride=a.stride * int(b.value))
        if a.lanes == 1:
            return simplify.expr(loops.binary("*", a, b), {})
    if a.lanes > 1:
        return loops.binary("*", a, _wide(b, a.lanes))
    total: loops.Expr = loops.const(0)
    for atom, c in linear_forms.linear(a).items():
        term = b if atom == loops.const(1) else loops.binary("*", atom, b)
        total = loops.binary("+", total, loops.binary("*", term, loops.const(c)))
    return simplify.expr(total, {})


def _wide(e: loops.Expr, lanes: int) -> loops.Expr:
    if e.lanes == lanes:
        return e
    return replace(e, lanes=lanes) if isinstance(e, loops.Const) else loops.Broadcast(e, lanes, e.dtype)
