"""What `op=!` starts again: the elements that its left side tells while its indices and those of the loops are where they may
be under the conditions that concern them alone. An element of these that no instance meets starts again, too.

    for i in 0:4 { s +=! v[k] where k < i; y[i] = s }   ->   for i in 0:4 { s = 0; s += v[k] where k < i; y[i] = s }
"""

from __future__ import annotations

from dataclasses import replace

from polytc.lang import program as pr
from polytc.lang import ranges, scalars
from polytc.lang.affine import affine, indices, interval
from polytc.lang.check import Placed
from polytc.lang.coverage import image
from polytc.lang.domain import Domain, condition_indices, tighten
from polytc.lang.scalars import DType


def restarted(s: Placed) -> Placed:
    """The statement without its reduced indices: each instance of what is left sets an element to the identity."""
    around = s.lowered.indices[:len(s.lowered.loops)]
    used = frozenset(around).union(*(indices(f) for f in s.forms))
    box = {i: b for i, b in s.domain.box.items() if i in used}
    for b in s.lowered.bounds:  # the domain may have fewer iterations: those in which no instance runs are gone
        low, high = affine(b.lower), affine(b.upper)
        if b.index in around and low is not None and high is not None:
            box[b.index] = (interval(low, box)[0], interval(high, box)[1] - 1)
    stated = (*(c for b in s.lowered.bounds for c in ranges.conditions(b)), *(c for c, _ in s.lowered.conditions))
    return replace(s, domain=tighten(Domain(box, tuple(c for c in stated if condition_indices(c) <= used))))


def box(s: Placed) -> ranges.Hull | None:
    """The elements that start again, if they are a box that does not depend on loops."""
    own = restarted(s)
    around = frozenset(s.lowered.indices[:len(s.lowered.loops)])
    if own.domain.connected(frozenset().union(*(indices(f) for f in s.forms)))[0] & around:
        return None
    found = image(own.forms, own.domain)
    return None if found is None or (found.parts and not found.mask().all()) else found.hull


def reset(s: Placed, dtype: DType) -> pr.Statement:
    """`target[...] = identity`, in each iteration of the loops around it."""
    assert s.lowered.op is not None
    own = restarted(s)
    subscripts = tuple(e if affine(e) is not None else pr.Index(f.index or "")
                       for e, f in zip(s.lowered.subscripts, s.forms, strict=True))
    value = pr.Const(scalars.identity(s.lowered.op, dtype), dtype)
    bounds = tuple(pr.Range(i, low, high + 1) for i, (low, high) in own.domain.box.items())
    return pr.Statement(f"{s.lowered.name}_init", s.lowered.target, subscripts, None, value, bounds, own.domain.conditions,
                        s.lowered.source.span, s.lowered.loops)
