"""What `op=!` starts again: the elements that its left side tells while its indices and those of the loops run through their
ranges under the conditions that concern them alone. An element of these that no instance meets starts again, too: conditions
that name a reduced index narrow nothing.

    for i in 0:4 { s +=! v[k] where k < i; y[i] = s }   ->   for i in 0:4 { s = 0; s += v[k] where k < i; y[i] = s }
"""

from __future__ import annotations

from dataclasses import replace

from polytc.lang.soundness.check import Placed
from polytc.lang.soundness.coverage import image
from polytc.lang.typing import ranges
from polytc.lang.typing.lowered import Lowered
from polytc.program import program as pr
from polytc.program import scalars
from polytc.program.affine import affine, indices
from polytc.program.domain import Domain, condition_indices, tighten
from polytc.program.names import initialisation
from polytc.program.scalars import DType


def restarts(s: Lowered) -> bool:
    """Does the statement start again what it updates? Tuple reductions in loops do, with and without `!`."""
    return s.op is not None and (s.source.reset or bool(s.loops and s.source.components))


def restarted(s: Placed) -> Placed:
    """The statement without its reduced indices: each instance of what is left sets an element to the identity."""
    around = s.lowered.indices[:len(s.lowered.loops)]
    used = frozenset(around).union(*(indices(f) for f in s.forms))
    box = {i: s.ranges[i] for i in s.domain.box if i in used}
    stated = (*(c for b in s.lowered.bounds for c in ranges.conditions(b)), *(c for c, _ in s.lowered.conditions))
    return replace(s, domain=tighten(Domain(box, tuple(c for c in stated if condition_indices(c) <= used))))


def limits(s: Placed) -> tuple[pr.Bound, ...]:
    """The ranges in memory that decide where the left side, or an iteration, is: what lies outside of them keeps its value."""
    used = frozenset(restarted(s).domain.box)
    return tuple(b for b in s.lowered.limits if {b.index} | condition_indices(b.lower) | condition_indices(b.upper) <= used)


def box(s: Placed) -> ranges.Hull | None:
    """The elements that start again, if they are a box that depends on neither loops nor memory."""
    if limits(s):
        return None
    own = restarted(s)
    around = frozenset(s.lowered.indices[:len(s.lowered.loops)])
    if own.domain.connected(frozenset().union(*(indices(f) for f in s.forms)))[0] & around:
        return None
    found = image(own.forms, own.domain)
    return None if found is None or (found.parts and not found.mask().all()) else found.hull


def reset(s: Placed, dtype: DType) -> pr.Statement:
    """`target[...] = identity`, in each iteration of the loops around it. What memory leaves out must have a value."""
    assert s.lowered.op is not None
    own = restarted(s)
    subscripts = tuple(e if affine(e) is not None else pr.Index(f.index or "")
                       for e, f in zip(s.lowered.subscripts, s.forms, strict=True))
    value = pr.Const(scalars.identity(s.lowered.op, dtype), dtype)
    bounds = tuple(pr.Range(i, low, high + 1) for i, (low, high) in own.domain.box.items())
    found = pr.Statement(initialisation(s.lowered.name), s.lowered.target, subscripts, None, value, bounds,
                         own.domain.conditions, s.lowered.source.span, s.lowered.loops)
    return within_limits(found, s)


def within_limits(x: pr.Statement, s: Placed) -> pr.Statement:
    """An assignment that `s` starts with, where memory has its iterations; elsewhere the elements keep their values."""
    inside = pr.within(limits(s))
    if not inside:
        return x
    old = pr.Read(x.target, x.subscripts, x.value.dtype)
    return replace(x, value=pr.Select(pr.conjunction(inside), x.value, old, x.value.dtype))
