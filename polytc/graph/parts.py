"""A graph that runs in parts: compiled code, then what only a run can tell, then the rest, specialised for what was found.

Each part keeps code for the types and values it met, the most recent ones. A graph that asks nothing of a run is one part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from polytc import errors, garbage
from polytc.disk import weights
from polytc.disk.mapped import changed, release
from polytc.errors import CompileError, ModelError, fail
from polytc.graph.hosts import Host, Repeat, Work
from polytc.graph.ir import Graph, makers, sources
from polytc.graph.open_graph import OpenGraph
from polytc.graph.operators.binding import NeedsValue
from polytc.graph.part_options import Options
from polytc.graph.plan import Array, Plan, type_of
from polytc.graph.planning import batch_tiles, size_samples
from polytc.graph.planning.operator_fusion import fuse
from polytc.graph.planning.preparation import prepared
from polytc.graph.running import building
from polytc.graph.running.executables import compiler_for
from polytc.graph.running.instance import Instance
from polytc.graph.running.loop_operators import loop_work
from polytc.graph.running.open_plans import OpenPlan
from polytc.graph.running.rebinding import Rebinding
from polytc.graph.running.run_fast_path import RunFastPath, fast_path
from polytc.graph.specialisation.part import Part
from polytc.graph.specialisation.specialise import specialise
from polytc.machine import Machine
from polytc.runtime.lru_cache import LRUCache

errors.register(E614="model file that was written to")

INSTANCES = 16
"""Sets of types and values that the body of a loop is compiled for."""

REBINDINGS = 16
"""Plans for all sizes of which further instances are made of one that is there."""

LARGEST_DERIVED = 8
"""Elements of each input that a value which decides shapes may be computed from, if that is to be done while specialising."""


@dataclass(frozen=True)
class Ready:
    """A part with its code. instance: None if there is nothing to compile. works: of its hosts; inner: the bodies that they
    repeat. rest: what follows."""

    part: Part
    instance: Instance | None
    works: tuple[Work, ...]
    inner: tuple[PartitionedModel, ...]
    rest: PartitionedModel | None

    @property
    def plan(self) -> Plan:
        """As it is compiled: fused, if it is to be."""
        return self.instance.plan if self.instance is not None else self.part.plan

    @cached_property
    def fast_path(self) -> RunFastPath | None:
        """The fast path of its code."""
        return fast_path(self.instance) if self.instance is not None else None

    def chain(self) -> Iterator[Ready]:
        """This part and those that followed it last."""
        yield self
        known = self.rest.known.items() if self.rest is not None else []
        if known:
            yield from known[-1][1].chain()


class PartitionedModel:
    """A graph for any inputs. Not to be used by two threads at once."""

    def __init__(self, graph: Graph, options: Options, late: frozenset[str] = frozenset(), *, derived: bool = True,
                 most: int | None = None, opened: OpenGraph | None = None) -> None:
        """late: inputs that are compiled in by value; others are added when they turn out to decide shapes. derived: may inputs
        be compiled in from which such values are computed? most: how many sets of types and values are compiled; what comes
        after runs on the language's evaluator, so that a loop whose shapes change does not compile without end. opened: the
        plans for all sizes of another model of the graph."""
        self.graph, self.options = graph, options
        self.known: LRUCache[object, Ready] = LRUCache(options.kept)
        self._recent: LRUCache[object, Ready] = LRUCache(options.kept)
        self._rebindings: LRUCache[OpenPlan, Rebinding] = LRUCache(REBINDINGS)
        self._last: RunFastPath | None = None
        self._inputs = [v.name for v in graph.inputs]
        self._fixed = set(late)
        self._derived = derived
        self._left = most
        self.opened = OpenGraph(graph, options, derived) if opened is None else opened

    def ready(self, values: Mapping[str, Any]) -> Ready:
        """Code for these inputs."""
        arrays = [values[n] for n in self._inputs]
        key = self._key(arrays, values)
        found = self._recent.get(key)
        if found is not None:
            return found
        fixed = len(self._by_contents)
        found = self.prepare({n: type_of(a) for n, a in zip(self._inputs, arrays, strict=True)}, values)
        return self._recent.put(key, found) if fixed == len(self._by_contents) else found

    @property
    def _by_contents(self) -> set[str]:
        """The inputs whose contents decide which code runs."""
        return self._fixed | self.opened.values

    def _key(self, arrays: Sequence[Any], values: Mapping[str, Any]) -> object:
        return (*[(a.dtype, a.shape) if type(a) is np.ndarray else None for a in arrays],
                *[np.asarray(values[n]).tobytes() for n in sorted(self._by_contents)])

    @garbage.seldom_collected()
    def prepare(self, types: Mapping[str, Array | None], values: Mapping[str, Any] | None = None) -> Ready:
        """Code for inputs of these types. values: the inputs themselves; those that decide shapes are compiled in. Without them
        such a graph raises NeedsValue."""
        while True:
            fixed = {n: np.asarray(values[n]) for n in sorted(self._fixed)} if values is not None else {}
            key = (tuple(types.items()), tuple((a.shape, a.tobytes()) for a in fixed.values()))
            found = self.known.get(key)
            if found is not None:
                return found
            self._check_files()
            try:
                opened = self.opened.find(types, fixed, values)
                if opened is not None:
                    return self.known.get(opened) or self.known.put(opened, self._ready_at(*opened))
                part = specialise(self.graph, types, {n: a.copy() for n, a in fixed.items()}, by_value=self._by_value(types),
                                  strict=self.options.strict, guards=self.options.guards,
                                  checked=self.options.checked)
                part = replace(part, plan=replace(part.plan, constants=weights.to_file(part.plan.constants, misaligned=True)))
                for read in self.graph.constants.values():
                    release(read)
                self._learn(types, fixed)
                machine = None if self._open(types) else self.options.machine  # kernels for all sizes agree on one layout
                return self.known.put(key, self._ready(part, machine))
            except NeedsValue as need:
                if values is None:
                    raise
                self._fixed |= self._sources(need.name, types)

    def _ready_at(self, plan: OpenPlan, sizes: Sequence[tuple[str, int]]) -> Ready:
        """A plan for all sizes with its code for some."""
        known = self._rebindings.get(plan)
        made = plan.instance(sizes, known)
        again = plan.rebinding(made) if known is None else None
        if again is not None:
            self._rebindings.put(plan, again)
        return Ready(Part(plan.plan), made, (), (), None)

    def _check_files(self) -> None:
        """Raises ModelError E614 if the weights are no longer what they were when the model was loaded."""
        written = changed(self.graph.constants.values())
        if written is not None:
            raise fail("E614", f"{written} was written to after the model was loaded", kind=ModelError,
                       notes=["weights are read from the file when they are needed; load the model again"])

    def _open(self, types: Mapping[str, Array | None]) -> bool:
        """Do kernels for all sizes serve these?"""
        sizes = size_samples.sizes_of(self.graph.inputs, types)
        return self.options.kernels is not None and any(n > 1 for n in sizes.values())

    def _learn(self, types: Mapping[str, Array | None], fixed: Mapping[str, np.ndarray]) -> None:
        """Where sizes stay open, know the programs of this graph for sizes around these."""
        o, inputs = self.options, self.graph.inputs
        if o.kernels is None or not self._open(types):
            return

        def plan(at: Mapping[str, int]) -> Plan:
            part = specialise(self.graph, size_samples.types_at(inputs, types, at), dict(fixed), by_value=self._by_value(types),
                              strict=o.strict, guards=o.guards, checked=o.checked)
            made = fuse(part.plan) if o.fusion else part.plan
            return replace(made, calls=tuple(replace(c, program=c.program.licensed(o.licence)) for c in made.calls))
        values = tuple((n, a.tobytes()) for n, a in fixed.items())
        nodes = tuple((n.op, n.inputs, n.outputs) for n in self.graph.nodes)
        o.kernels.learn((nodes, size_samples.pattern(inputs, types), values),
                        lambda: size_samples.plans(size_samples.sizes_of(inputs, types), o.typical, plan))

    def _by_value(self, types: Mapping[str, Array | None]) -> Callable[[str, frozenset[str]], bool]:
        """Is it good to compile in the inputs that a value follows from?"""
        return lambda name, _: bool(self._sources(name, types))

    def _sources(self, name: str, types: Mapping[str, Array | None]) -> set[str]:
        """The inputs to compile in so that `name` is known; empty if it is better to compute `name` in a run first."""
        if name in types:
            return {name} - self._fixed
        found = sources(makers(self.graph), name) & {*self._inputs} if self._derived else set()
        given = [types[n] for n in found]
        small = all(t is not None and np.prod(t.shape) <= LARGEST_DERIVED for t in given)
        return found - self._fixed if small else set()

    def _ready(self, part: Part, machine: Machine | None) -> Ready:
        """machine: whose vectors decide on layouts, see Options."""
        o = self.options
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                o = replace(o, compile=compiler_for("evaluate", None))
        plan = prepared(part.plan, machine, bands=o.kernels is None, fusion=o.fusion)
        if machine is not None and machine.kind == "cpu" and self._left is None and not part.hosts:  # bodies of loops run whole
            plan = batch_tiles.tile(plan, machine)
        made = building.build(plan, o.compile, o.licence, o.progress) if plan.lasting else None
        pairs = [self._work(h) for h in part.hosts]
        rest = PartitionedModel(part.rest, o, part.late, derived=False) if part.rest is not None else None
        if rest is not None and part.ahead is not None and not part.late:
            with suppress(NeedsValue):
                rest.prepare(part.ahead)
        return Ready(part, made, tuple(w for w, _ in pairs), tuple(b for _, b in pairs if b is not None), rest)

    def _work(self, host: Host) -> tuple[Work, PartitionedModel | None]:
        """What runs a host, and the body that it repeats."""
        if not isinstance(host.work, Repeat):
            return host.work, None
        body = PartitionedModel(host.work.body, self.options, derived=False, most=INSTANCES)
        return loop_work(host.work, body.call, body.compiled), body

    # ---- running

    def run(self, values: Mapping[str, Any], wanted: Sequence[str] | None = None) -> list[Any]:
        """The wanted outputs (all for None), in memory of their own. values: of all inputs."""
        names = self._names() if wanted is None else wanted
        ready = self.ready(values)
        if whole(ready) and ready.instance is not None:
            self._last = ready.fast_path if not self._by_contents else None
            return ready.instance.run(values, names)
        self._last = None
        return _run(ready, dict(values), names)

    def call(self, arrays: Sequence[Any]) -> list[Any]:
        """All outputs. arrays: the inputs, in order."""
        found = self._last(arrays) if self._last is not None else None
        return self.run(dict(zip(self._inputs, arrays, strict=True))) if found is None else found

    def compiled(self, arrays: Sequence[Any]) -> Instance | None:
        """The code for such inputs, in order, if there is nothing else to do with them."""
        ready = self.ready(dict(zip(self._inputs, arrays, strict=True)))
        return ready.instance if whole(ready) and not self._by_contents and ready.plan.inputs == tuple(self._inputs) else None

    def try_fast_path(self, values: Mapping[str, Any]) -> list[Any] | None:
        """All outputs, as `run` gives them; None, with nothing done, where the inputs are not of the types of some earlier run,
        or not arrays that code can use as they are."""
        if len(values) != len(self._inputs):
            return None
        try:
            arrays = [values[n] for n in self._inputs]
        except KeyError:
            return None
        found = self._last(arrays) if self._last is not None else None
        if found is not None or not all(type(a) is np.ndarray for a in arrays):
            return found
        ready = self._recent.get(self._key(arrays, values))
        if ready is None or whole(ready):
            return None
        return _run(ready, dict(values), self._names())

    def through(self, values: Mapping[str, Any]) -> Iterator[tuple[Instance, Mapping[str, Any]]]:
        """The compiled parts that run on these inputs, each with the values of its inputs."""
        yield from ((part.instance, before) for part, before in _parts(self.ready(values), dict(values), self._names())
                    if part.instance is not None)

    def _names(self) -> list[str]:
        return [v.name for v in self.graph.outputs]

    # ---- looking

    def parts(self) -> Iterator[tuple[int, Ready]]:
        """All that is ready, with the depth at which it lies: what follows a part, and what it repeats, lie one deeper."""
        for _, ready in self.known.items():
            yield 0, ready
            for below in (*ready.inner, *([ready.rest] if ready.rest is not None else ())):
                yield from ((depth + 1, each) for depth, each in below.parts())


def whole(ready: Ready) -> bool:
    """Is there nothing but compiled code?"""
    return ready.rest is None and not ready.works and not ready.part.known


def _run(ready: Ready, values: dict[str, Any], names: Sequence[str]) -> list[Any]:
    """The named values after a part and all that follows it. values: those before; they will change."""
    own: set[str] = set()
    for part, _ in _parts(ready, values, names):
        own.update(part.plan.outputs if part.instance is not None else ())
    return list(_owned(values, names, own))


def _parts(ready: Ready, values: dict[str, Any], names: Sequence[str]) -> Iterator[tuple[Ready, dict[str, Any]]]:
    """Run a part and all that follows it; each with the values before it. values: become those that are needed afterwards."""
    while True:
        values |= ready.part.known
        before = dict(values)
        _part(ready, values)
        yield ready, before
        if ready.rest is None:
            return
        needed = {*names, *(v.name for v in ready.rest.graph.inputs)}
        for name in values.keys() - needed:
            del values[name]
        ready = ready.rest.ready(values)


def _part(ready: Ready, values: dict[str, Any]) -> None:
    """Run a part: its results join the values."""
    if ready.instance is not None:
        plan = ready.instance.plan
        found = ready.fast_path([values[n] for n in plan.inputs]) if ready.fast_path is not None else None
        values.update(zip(plan.outputs, ready.instance.run(values, plan.outputs) if found is None else found, strict=True))
    for host, work in zip(ready.part.hosts, ready.works, strict=True):
        results = _worked(host, work, [values[n] if n else None for n in host.inputs])
        values.update((n, v) for n, v in zip(host.outputs, results) if n)


def _owned(values: Mapping[str, Any], names: Sequence[str], own: set[str]) -> Iterator[Any]:
    """The named values; `own` are those in memory that nobody else has."""
    given: set[str] = set()
    for name in names:
        value = values[name]
        yield value if name in own and name not in given or not isinstance(value, np.ndarray) else value.copy()
        given.add(name)


def _worked(host: Host, work: Work, values: Sequence[Any]) -> Sequence[Any]:
    """At least as many results as the node has outputs; those at the end may be left out."""
    try:
        found = work(*values)
    except CompileError:
        raise
    except Exception as error:  # numpy and onnx's evaluator raise all sorts of things for values that do not fit
        raise fail("E609", f"{host.label} cannot be evaluated: {error}", kind=ModelError) from error
    if len(found) < len(host.outputs):
        raise fail("E609", f"{host.label} has {len(host.outputs)} outputs, the operator gives {len(found)}", kind=ModelError)
    return found
