"""A graph whose sizes stay open: one walk with traced sizes gives a plan for all sizes that meet what it was decided by.

Sizes are the open extents of inputs above 1, and the elements of small inputs of integers that decide shapes, as the number of
tokens so far does in a decoder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polytc.errors import CompileError
from polytc.graph.ir import Graph
from polytc.graph.operators.binding import NeedsValue
from polytc.graph.part_options import Options
from polytc.graph.plan import Array, Plan
from polytc.graph.planning import layouts, size_samples
from polytc.graph.planning.operator_fusion import fuse
from polytc.graph.planning.shared_numbers import share_numbers
from polytc.graph.running import open_plans
from polytc.graph.running.open_plans import OpenPlan
from polytc.graph.specialisation import traced_values
from polytc.graph.specialisation.specialise import specialise
from polytc.native import forks
from polytc.program.sizes import Undecided
from polytc.program.traces.formulas import size_names
from polytc.program.traces.traced import Trace, tracing
from polytc.runtime.lru_cache import LRUCache

Types = Mapping[str, Array | None]
Arrays = Mapping[str, np.ndarray]
Found = tuple[OpenPlan, tuple[tuple[str, int], ...]]

MOST = 16
"""Plans of one graph that are kept: sets of conditions on sizes, of which models have a few."""

SUBJECTS = 64
"""What sizes are of that plans are kept for: ranks and types of inputs, extents of 1, and what is compiled in by value."""

ATTEMPTS = 3
"""Traces of one graph that may come to nothing, before its sizes are specialised one by one."""

LARGEST_VALUE = 8
"""Elements of an input whose values are sizes."""

FAILURES = (Undecided, CompileError, TypeError, ValueError, AttributeError, LookupError, ArithmeticError)
"""What a trace may end with where something needs numbers. The graph is specialised for these then."""


@dataclass
class _Plans:
    """The plans that sizes may have, the last used first. failed: traces that came to nothing."""

    plans: list[OpenPlan] = field(default_factory=list)
    failed: int = 0


class OpenGraph:
    """The plans of one graph for all sizes. Safe to use from several threads. derived: may inputs be sizes from which values
    that decide shapes are computed? values: the inputs that turned out to decide shapes, whose elements are sizes.
    failure: why the last trace that came to nothing did; '' if none did."""

    def __init__(self, graph: Graph, options: Options, derived: bool) -> None:
        self.graph, self.options, self.derived = graph, options, derived
        self.values: set[str] = set()
        self.failure = ""
        self._known: LRUCache[object, _Plans] = LRUCache(SUBJECTS)
        self._lock = forks.Lock()

    def find(self, types: Types, fixed: Arrays, arrays: Mapping[str, Any] | None) -> Found | None:
        """The plan for inputs of these types, with its sizes; None where there is none. fixed: inputs that are compiled in by
        value; arrays: all inputs, None where they are not known."""
        if self.options.kernels is None or self.options.checked:
            return None
        small = {n for n in fixed if _may_be_sizes(types[n])}  # to be compiled in by value, if they were no sizes
        fixed = {n: a for n, a in fixed.items() if n not in small}
        extents = {n: v for n, v in size_samples.sizes_of(self.graph.inputs, types).items() if v > 1}
        with self._lock:
            while True:
                before = len(self.values)
                try:
                    return self._find(types, extents, fixed, arrays, small)
                except NeedsValue:
                    if len(self.values) == before:
                        return None

    def _find(self, types: Types, extents: Mapping[str, int], fixed: Arrays, arrays: Mapping[str, Any] | None,
              small: set[str]) -> Found | None:
        own = self.values - fixed.keys() | small
        values = {n: np.asarray(arrays[n]) for n in sorted(own)} if arrays is not None else {}
        elements = {name: n for v, a in values.items() for name, n in zip(_places(v, a), a.reshape(-1).tolist())}
        sizes = {**extents, **elements}
        if len(values) < len(own):
            return None
        subject = (tuple(size_samples.types_at(self.graph.inputs, types, {n: n for n in extents}).items()),  # type: ignore
                   tuple((n, a.shape, a.tobytes()) for n, a in fixed.items()),
                   tuple((n, a.shape) for n, a in values.items()))
        known = self._known.get(subject) or self._known.put(subject, _Plans())
        found = next((p for p in known.plans if p.fits(sizes)), None)
        if found is None and known.failed < ATTEMPTS:
            found = self._traced(types, Trace(sizes, {n: 2 if n in extents else None for n in sizes}), extents, fixed, values)
            known.failed += found is None
        if found is None:
            return None
        if found is not next(iter(known.plans), None):
            known.plans[:] = [found, *(p for p in known.plans if p is not found)][:MOST]
        return found, found.used(sizes)

    def _traced(self, types: Types, trace: Trace, extents: Mapping[str, int], fixed: Arrays, values: Arrays) -> OpenPlan | None:
        """The plan for all sizes that meet the conditions which those of the trace meet; None where others do not have it.
        Raises NeedsValue, when `values` has grown."""
        o = self.options
        assert o.kernels is not None, "open sizes without kernels for them"
        open_types = size_samples.types_at(self.graph.inputs, types, {n: trace.size(n) for n in extents})
        given = {n: a.copy() for n, a in fixed.items()}
        given |= {v: traced_values.of_input(a, [trace.size(n) for n in _places(v, a)]) for v, a in values.items()}

        def by_value(name: str, inputs: frozenset[str]) -> bool:
            fresh = inputs - given.keys()
            small = all(_may_be_sizes(types[n]) for n in fresh)
            if not fresh or not small or not (self.derived or name in inputs):
                return False
            self.values |= fresh
            return True
        try:
            with tracing(trace):
                part = specialise(self.graph, open_types, given, by_value=by_value, strict=o.strict, guards=o.guards)
                if part.rest is not None or part.hosts or part.known or not part.plan.lasting:
                    self.failure = f"{next(iter(part.behind), 'an output')} needs values of a run"
                    return None
                plan = part.plan if o.machine is None else layouts.choose_at(part.plan, o.machine, trace.sizes)
                plan = share_numbers(fuse(plan)) if o.fusion else plan
                pinned = size_names(trace.pinned) & extents.keys()
                if not trace.sizes or pinned:
                    self.failure = f"the size {', '.join(sorted(pinned))} is needed as a number" if pinned else self.failure
                    return None  # no other extents have it
                points = size_samples.points(trace.sizes, o.typical, trace.met)
                # programs may be the same for others where the plan is one of few sizes
                points = points or size_samples.points(trace.sizes, o.typical, trace.admits)
                return open_plans.compiled(plan, trace, o.kernels, o.licence, points, self._tell(plan))
        except NeedsValue:
            raise
        except FAILURES as e:
            self.failure = str(e).partition("\n")[0]
            return None
        finally:
            trace.closed = True

    def _tell(self, plan: Plan) -> Callable[[int], None]:
        """What tells of the calls that are begun, by their numbers."""
        progress = self.options.progress
        return lambda k: progress(k, len(plan.calls), plan.calls[k].label) if progress is not None else None


def _places(name: str, array: np.ndarray) -> list[str]:
    """The names of the sizes that the elements of an input are."""
    return [f"{name}({k})" for k in range(array.size)]


def _may_be_sizes(t: Array | None) -> bool:
    return t is not None and t.dtype.name in ("i64", "i32") and int(np.prod(t.shape)) <= LARGEST_VALUE
