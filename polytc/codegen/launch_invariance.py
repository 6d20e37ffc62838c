"""What differs among the launches of a kernel that loops of the host repeat.

    for t on the host { T[i] = X[t, i];  Y[t, i] = T[i] }            each launch uses the same elements of T, in one way
    for t on the host { if t == 0: T[i] = X[i];  Y[t, i] = T[i] }    they differ: T must outlive a launch

Where they are the same, and no other kernel uses the buffer, nothing flows from one launch to the next: the first one finds
every element that it loads stored, by itself, and so do the others.
"""

from __future__ import annotations

from collections.abc import Iterator

from polytc.codegen import loops, traverse


def deciding_loops(kernel: loops.Kernel, buffer: str, changing: frozenset[str]) -> tuple[loops.For, ...]:
    """The loops of the host on which it depends what a kernel does with the elements of a buffer. changing: the buffers that
    are written; where these decide, all loops do."""
    if not kernel.host:
        return ()
    tests = tuple(_tests(kernel.body, buffer))
    if any(load.buffer.name in changing for e in tests for load, _ in traverse.loads(e)):
        return kernel.host
    names = frozenset(name for e in tests for name in traverse.variables(e))
    return tuple(s for s in kernel.host if s.var in names)


def _tests(s: loops.Stmt, buffer: str) -> Iterator[loops.Expr]:
    """What decides which elements of a buffer a statement uses, and whether."""
    if not any(_uses(x, buffer) for x in traverse.walk_stmt(s)):
        return
    if isinstance(s, loops.For):
        yield from (s.lower, s.upper)
    if isinstance(s, loops.If):
        yield s.cond
    if isinstance(s, loops.Store) and s.buffer.name == buffer:
        yield from s.indices
    for top in traverse.expressions(s):
        for e in traverse.walk_expr(top):
            if isinstance(e, loops.Load) and e.buffer.name == buffer:
                yield from e.indices
            elif isinstance(e, loops.Select) and (_loads(e.a, buffer) or _loads(e.b, buffer)):
                yield e.cond
    for child in traverse.children(s):
        yield from _tests(child, buffer)


def _uses(s: loops.Stmt, buffer: str) -> bool:
    return isinstance(s, loops.Store) and s.buffer.name == buffer or any(_loads(e, buffer) for e in traverse.expressions(s))


def _loads(e: loops.Expr, buffer: str) -> bool:
    return any(load.buffer.name == buffer for load, _ in traverse.loads(e))
