"""Places whose coordinates are the digits of one number are that number.

    X[g // 512, g % 512, item]                          with X[8,512,1024]
    ->  X[1024*g + item]                                with X[4194304]

so that nobody divides to multiply again. Only where all accesses of a buffer of global memory can be written in one dimension.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from polytc.codegen import linear_forms, loops, traverse
from polytc.codegen.linear_forms import Terms

_Access = tuple[loops.Buffer, tuple[loops.Expr, ...]]


def joined(kernel: loops.Kernel) -> loops.Kernel:
    """The kernel, whose buffers have one dimension where that joins digits somewhere."""
    flat: dict[loops.Buffer, dict[tuple[loops.Expr, ...], loops.Expr]] = {}
    left, useful = set[loops.Buffer](), set[loops.Buffer]()
    for buffer, indices in _accesses(kernel.body):
        if len(buffer.shape) < 2 or buffer.space != "global" or not all(isinstance(n, int) for n in buffer.strides):
            continue
        found = _place(buffer, indices)
        if found is None:
            left.add(buffer)
        else:
            flat.setdefault(buffer, {})[indices] = found[0]
            useful |= {buffer} if found[1] else set()
    made = {b: replace(b, shape=(b.size,)) for b in useful - left}
    if not made:
        return kernel

    def on_expr(e: loops.Expr) -> loops.Expr:
        return replace(e, buffer=made[e.buffer], indices=(flat[e.buffer][e.indices],)) if isinstance(
            e, loops.Load) and e.buffer in made else e

    def on_stmt(s: loops.Stmt) -> loops.Stmt:
        return replace(s, buffer=made[s.buffer], indices=(flat[s.buffer][s.indices],)) if isinstance(
            s, loops.Store) and s.buffer in made else s
    return replace(kernel, args=tuple(made.get(b, b) for b in kernel.args),
                   body=traverse.map_stmt(kernel.body, on_stmt, lambda e: traverse.map_expr(e, on_expr)))


def _accesses(body: loops.Stmt) -> Iterator[_Access]:
    for s in traverse.walk_stmt(body):
        if isinstance(s, loops.Store):
            yield s.buffer, s.indices
        for top in traverse.expressions(s):
            yield from ((e.buffer, e.indices) for e in traverse.walk_expr(top) if isinstance(e, loops.Load))


def _place(buffer: loops.Buffer, indices: tuple[loops.Expr, ...]) -> tuple[loops.Expr, bool] | None:
    """The index in one dimension, and whether digits were joined; None for lanes that are no vector along memory, and for
    indices that depend on memory."""
    *others, last = indices
    ramp = last if isinstance(last, loops.Ramp) and last.active is None else None
    scalars = [*others, ramp.base if ramp is not None else last]
    if any(e.lanes > 1 or traverse.loads(e) for e in scalars):
        return None
    total: Terms = {}
    for e, stride in zip(scalars, buffer.strides, strict=True):
        for atom, c in linear_forms.linear(e).items():
            total[atom] = total.get(atom, 0) + c * int(stride)
    terms, found = _without_digits(total)
    place = linear_forms.build(terms)
    return (replace(ramp, base=place) if ramp is not None else place), found


def _without_digits(terms: Terms) -> tuple[Terms, bool]:
    """c*n*(u // n) + c*(u % n) is c*u."""
    for a, c in terms.items():
        if not isinstance(a, loops.Binary) or a.op != "//" or not isinstance(a.b, loops.Const):
            continue
        rest = loops.Binary("%", a.a, a.b, a.dtype)
        if rest in terms and c == int(a.b.value) * terms[rest]:
            kept = {x: n for x, n in terms.items() if x not in (a, rest)}
            for x, n in linear_forms.linear(a.a).items():
                kept[x] = kept.get(x, 0) + n * terms[rest]
            return _without_digits({x: n for x, n in kept.items() if n})[0], True
    return terms, False
