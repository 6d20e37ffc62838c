"""Kernels of a model for all sizes: the programs of its plans for several sizes, as programs in which the sizes are formulas.

    plans for batch 16, 976, 19:   Y[16, 64] = X[16, 32] ...,   Y[976, 64] = X[976, 32] ...,   ...
    ->  one kernel Y[n0, 64] = X[n0, 32] ..., n0 the first extent of X

Each program has sizes of its own, extents of its arrays, so that products of the model's sizes (batch * length) are sizes too,
and equal layers share kernels. The formulas are guesses (program.generalise): a kernel is used for a program of given sizes
where both agree. Programs that no kernel agrees with are compiled for their sizes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from polytc.errors import CompileError
from polytc.graph.plan import Call, Plan
from polytc.graph.running.executables import Compile
from polytc.native import forks
from polytc.program import generalise
from polytc.program.affine import affine
from polytc.program.canonical import canonical
from polytc.program.generalise import NotGeneral
from polytc.program.names import fresh
from polytc.program.program import Program, reads
from polytc.program.sizes import Undecided, names
from polytc.program.traces.traced import Trace
from polytc.program.traces.values import at
from polytc.rewrite import long_sums
from polytc.rewrite.tidy.coalesce import coalesce
from polytc.runtime import packages
from polytc.runtime.lru_cache import LRUCache
from polytc.runtime.sized import sized, terms

LARGEST = 1 << 30
"""Elements of an array beyond which code is made for its sizes: some targets count in 32 bits."""

SETTLED = 1024
"""Programs without open sizes whose code is kept for further plans."""


Place: TypeAlias = tuple[int, int]
"""The number of an argument, and a dimension of it."""


@dataclass
class _Kernel:
    """A program for all sizes. places: of each size, the extents that it is the product of. code: None until it is needed;
    refused: why there can be none."""

    program: Program
    places: Mapping[str, tuple[Place, ...]]
    code: Future[Any] | None = None
    refused: str = ""

    def sizes(self, program: Program) -> dict[str, int]:
        """The sizes for a program of given sizes."""
        return {n: math.prod(_extent(program, p) for p in places) for n, places in self.places.items()}

    def serves(self, program: Program) -> bool:
        """Is it the same program for some sizes?"""
        known = set(self.program.constants) <= set(program.constants)
        return known and generalise.agrees(replace(self.program, constants=program.constants), program, self.sizes(program))


@dataclass
class OpenKernels:
    """The kernels of a model for all sizes. Safe to use from several threads. start: compiles a program.

    fixed: labels of the programs that were compiled for given sizes, with the reason."""

    start: Compile
    fixed: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._known: dict[object, list[_Kernel]] = {}
        self._learning: dict[object, forks.Lock] = {}
        self._learned: set[object] = set()
        self._reasons: dict[object, str] = {}
        self._same: set[str] = set()
        self._settled: LRUCache[Program, Future[Any]] = LRUCache(SETTLED)
        self._lock = forks.Lock()

    @property
    def kernels(self) -> int:
        """How many kernels for all sizes have been compiled."""
        return sum(k.code is not None for known in self._known.values() for k in known)

    def learn(self, subject: object, plans: Callable[[], Sequence[Plan]]) -> None:
        """Know the programs of these plans, which one graph has for several sizes, for all sizes; those of the first one decide
        for which code is fast. Once for each subject: whoever comes meanwhile waits."""
        with self._lock:
            turn = self._learning.setdefault(subject, forks.Lock())
        with turn:
            if subject not in self._learned:
                self._learn_plans(plans())
                self._learned.add(subject)

    def _learn_plans(self, plans: Sequence[Plan]) -> None:
        if not plans:
            return
        others = [{c.outputs: c for c in plan.calls} for plan in plans[1:]]
        for call in plans[0].calls:
            found = [known.get(call.outputs) for known in others]
            calls = [call, *(c for c in found if c is not None and c.inputs == call.inputs)]
            if len(calls) == len(plans):
                programs = [_with_constants(c, plan) for c, plan in zip(calls, plans, strict=True)]
                self._learn_best(programs)
            else:
                self._reasons[_kind(call.program)] = "other sizes make other programs"

    def _learn_best(self, programs: Sequence[Program]) -> None:
        """Know a program with as few indices as it can have, batch * length for both; if that has no formula, as it is."""
        short = [_shortened(p) for p in programs]
        if short == list(programs) or not self._learn(short):
            self._learn(programs)

    def _learn(self, programs: Sequence[Program]) -> bool:
        """Know the programs for all sizes; False if that is not possible."""
        kind = _kind(programs[0])
        with self._lock:
            known = self._known.setdefault(kind, [])
            if any(_kind(p) != kind for p in programs):
                self._reasons[kind] = "other sizes make other programs"
                return False
            if not any(all(k.serves(p) for p in programs) for k in known):
                try:
                    found = _general(programs)
                except (NotGeneral, Undecided) as e:
                    self._reasons[kind] = str(e)
                    return False
                known += found
                self._same |= set() if found else {canonical(replace(programs[0], constants=()))}
            return True

    def compile(self, program: Program) -> Future[Any]:
        """As executables.Compile: by a kernel for all sizes, if there is one that agrees."""
        forms = tuple(dict.fromkeys((_shortened(program), program)))
        for form in forms if all(t.size <= LARGEST for t in program.tensors) else ():
            with self._lock:
                known = tuple(self._known.get(_kind(form), ()))
            for kernel in known:
                code = self._begun(kernel) if not kernel.refused and kernel.serves(form) else None
                if code is not None and _short(form, code, kernel.sizes(form)):
                    return _at(code, kernel.sizes(form))
        with self._lock:
            if self._learned and self._same.isdisjoint(canonical(replace(p, constants=())) for p in forms):
                self.fixed[program.name] = self._reason(program)
        return self.start(program)

    def traced(self, program: Program, points: Sequence[Mapping[str, int]], trace: Trace
               ) -> tuple[Future[Any], dict[str, int]] | None:
        """A kernel for all sizes that is a program of traced sizes wherever the guards of the trace are met, with its sizes as
        formulas; None where there is none. points: some such sizes, those that it should be fast for first."""
        forms = (_shortened(program), program)
        for attempt in range(2):
            for form in forms:
                with self._lock:
                    known = tuple(self._known.get(_kind(form), ()))
                for kernel in known:
                    with trace.tentative() as keep:
                        code = self._begun(kernel) if not kernel.refused and kernel.serves(form) else None
                        sizes = kernel.sizes(form)
                        if code is not None and all(n >= 1 for n in sizes.values()) and _short(form, code, sizes):
                            keep()
                            return code, sizes
            if attempt or not points:
                return None
            self._learn_best([at(program, point) for point in points])
        return None

    def settled(self, program: Program) -> Future[Any]:
        """The code of a program in which no size is open, the same for equal programs."""
        found = self._settled.get(program)
        return self._settled.put(program, self.start(program)) if found is None else found

    def leave(self, program: Program, *, alone: bool) -> None:
        """Note that a program has no kernel for all sizes. alone: is its plan one of no other sizes?"""
        with self._lock:
            self.fixed[program.name] = "other sizes make other programs" if alone else self._reason(program)

    def _reason(self, program: Program) -> str:
        kind = _kind(program)
        refused = [k.refused for k in self._known.get(kind, ()) if k.refused]
        return self._reasons.get(kind) or next(iter(refused), "no kernel agrees with it")

    def _begun(self, kernel: _Kernel) -> Future[Any] | None:
        """The kernel's code, to be waited for; None if there can be none. Threads that ask at the same time get the same code,
        which `start` makes once."""
        if kernel.code is None:
            try:
                kernel.code = self.start(kernel.program)
            except (CompileError, Undecided) as e:
                kernel.refused = str(e)
        return kernel.code


def _kind(p: Program) -> object:
    """What programs have in common that differ in sizes only."""
    return p.name, len(p.statements), tuple((t.dtype, len(t.shape)) for t in map(p.tensor, p.arrays))


def _shortened(p: Program) -> Program:
    """The program without indices that always go together; what it is called with is the same memory."""
    return p if p.sequential or p.dynamic else coalesce(p)


def _with_constants(call: Call, plan: Plan) -> Program:
    fixed = tuple(own for own, value in zip(call.program.inputs, call.inputs) if plan.base(value) in plan.constants)
    return replace(call.program, constants=fixed)


def _general(programs: Sequence[Program]) -> list[_Kernel]:
    """The kernel that is the programs; none if they are all the same. Raises NotGeneral."""
    first = programs[0]
    taken = {i for s in first.statements for i in s.indices} | {t.name for t in first.tensors}
    points: list[dict[str, int]] = [{} for _ in programs]
    places: dict[str, tuple[Place, ...]] = {}

    def new(where: tuple[Place, ...], numbers: tuple[int, ...]) -> None:
        name = fresh(f"n{len(places)}", taken)
        taken.add(name)
        places[name] = where
        for point, n in zip(points, numbers, strict=True):
            point[name] = n
    extents = {(k, d): tuple(_extent(p, (k, d)) for p in programs)
               for k, name in enumerate(first.arrays) for d in range(len(first.tensor(name).shape))}
    for place, numbers in extents.items():
        if len(set(numbers)) > 1 and not _follows(numbers, points):
            new((place,), numbers)
    if not places:
        return []
    while True:
        try:
            merged = generalise.fitted([replace(p, constants=()) for p in programs], points)
            break
        except NotGeneral as e:
            product = _product(e.numbers, extents)
            if product is None or product in places.values():
                raise
            new(product, e.numbers)
    if _multiplies(merged):
        raise NotGeneral("a subscript multiplies an index by a size")
    everywhere = set(first.constants).intersection(*(p.constants for p in programs))
    constant = tuple(n for n in first.constants if n in everywhere and not names(merged.tensor(n).shape))
    return [_Kernel(replace(merged, constants=constant), places)]


def _multiplies(program: Program) -> bool:
    """Does a subscript multiply an index by a size, as where two axes were made one? Sets of isl have no such products."""
    subscripts = [e for s in program.statements for e in (*s.subscripts, *(x for r in reads(s) for x in r.subscripts))]
    forms = (affine(e) for e in subscripts)
    return any(names(n for _, n in form.terms) for form in forms if form is not None)


def _extent(program: Program, place: Place) -> int:
    return program.tensor(program.arrays[place[0]]).shape[place[1]]


def _product(numbers: tuple[int, ...], extents: Mapping[Place, tuple[int, ...]]) -> tuple[Place, ...] | None:
    """Two or three extents whose product has these values; the number of elements of a mean is one."""
    open_ = [p for p, values in extents.items() if len(set(values)) > 1 and len(values) == len(numbers)]
    for count in (2, 3):
        for places in itertools.combinations(open_, count):
            if all(math.prod(v) == n for *v, n in zip(*(extents[p] for p in places), numbers)):
                return places
    return None


def _follows(extents: tuple[int, ...], points: Sequence[Mapping[str, int]]) -> bool:
    """Is an extent a formula of the sizes so far?"""
    try:
        generalise.formula(extents, points)
    except NotGeneral:
        return False
    return True


def _short(program: Program, code: Future[Any], sizes: Mapping[str, int]) -> bool:
    """Does no accumulator of the code add up too many terms for these sizes (rewrite.long_sums)? Waits for the code only where
    that is not clear from the program."""
    sums = (math.prod(r.extent for r in long_sums.summed(program, s)) for s in program.statements)
    return all(n <= long_sums.LIMIT for n in sums) or terms(packages.binary(code.result()).options, sizes) <= long_sums.LIMIT


def _at(code: Future[Any], sizes: Mapping[str, int]) -> Future[Any]:
    """The code for these sizes, as soon as it is there."""
    ready: Future[Any] = Future()

    def finish(done: Future[Any]) -> None:
        try:
            executable = done.result()
            ready.set_result(sized(executable, packages.binary(executable).options, sizes))
        except BaseException as error:
            ready.set_exception(error)
    code.add_done_callback(finish)
    return ready

