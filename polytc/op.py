"""Op: a program in text, compiled once for each combination of shapes, dtypes and scalar values that it is called with.

The front end and the compiler are imported by the methods that need them: a call that finds its code on disk needs neither.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

import numpy as np

from polytc import errors, lang, stored_calls
from polytc.arguments import (
    DTypes,
    OpenShapes,
    Options,
    Shapes,
    check_dtypes,
    check_entry,
    check_machine,
    check_names,
    check_schedule,
    check_shapes,
    check_text,
    given_outputs,
    in_order,
    named_target,
    open_shapes,
    usage,
    with_options,
)
from polytc.codegen.target import Timed
from polytc.converted import Converted, convert, run
from polytc.native import forks
from polytc.native.threads import default_threads
from polytc.options import check_checked, check_licence, check_threads, check_typical
from polytc.program.scalars import DTYPES, DType
from polytc.runtime.arrays import allocate, argument_error, as_input, dtype_of
from polytc.runtime.call_fast_path import no_fast_path, of_program
from polytc.runtime.libraries import library
from polytc.runtime.lru_cache import LRUCache
from polytc.shown import Shown
from polytc.stored_calls import Specialisation

if TYPE_CHECKING:
    from polytc import compiler
    from polytc.codegen.target import Executable, Target
    from polytc.decisions import Record
    from polytc.enqueued import Enqueued
    from polytc.explanation import Explanation
    from polytc.program.places import Place
    from polytc.program.program import Program
    from polytc.symbolic import OpenSizes

errors.register(E401="wrong, missing or unexpected argument", E405="shape is not the declared one",
                E406="element type is not the declared one", E409="scalar argument is not a number")


PLACES = 16
"""Programs of an Op that read arrays where they lie, at most."""

_Call: TypeAlias = tuple[dict[str, tuple[int, ...]], dict[str, DType], dict[str, complex]]
"""Shapes and types of arrays, and numbers, that an Op was called with."""


class Op(Shown):
    """A compiled program; call it on arrays, by position in the order of `inputs` or by name.

        mm = polytc.compile("C[i,j] += A[i,k]*B[k,j]")
        C = mm(A, B);  C = mm(B=B, A=A);  mm(A, B, out=C)

    inputs, outputs: names of the tensors, in order; inouts: of the inputs that a call writes in place, if they are writable and
    C-contiguous (see runtime/inplace.py). A program of several outputs gives a named tuple. `specialise` compiles ahead of the
    first call. Where shapes have names, or with `symbolic`, one kernel serves all sizes (see symbolic.py). Calls from several
    threads are safe.
    """

    @with_options
    def __init__(self, text: str, target: str | Target = "cpu", **options: Unpack[Options]) -> None:
        text, target = check_text(text), check_machine(target, options.get("machine"))
        shapes, attrs, scalars = options.get("shapes"), options.get("attrs"), options.get("scalars")
        symbolic, typical, entry = options.get("symbolic", False), options.get("typical"), options.get("entry")
        signature = stored_calls.signature(text, check_entry(entry))
        check_names(text, signature, attrs or {}, scalars or {}, entry)
        self.text, self.name, self.target, self._entry = text, signature.name, target, entry
        self.__doc__ = text
        self._fixed = dict(scalars or {})
        params = [p for p in signature.inputs if p.name not in self._fixed]
        self.inputs = tuple(p.name for p in params)
        self._defaults = {p.name: p.default for p in params if p.default is not None}
        self.outputs, self.inouts = signature.outputs, signature.inouts
        self._attrs, self._threads = dict(attrs or {}), check_threads(options.get("threads"))
        self._schedule = check_schedule(options.get("schedule"), options.get("fusion"), options.get("decisions"))
        self._checked = check_checked(options.get("checked"))
        self._licence = check_licence(options.get("algebra"), options.get("fast", False))
        named = open_shapes(shapes or {}, self.inputs)
        self._asked: Options = {"shapes": shapes, "symbolic": symbolic, "typical": typical}
        self._shapes = check_shapes({n: s for n, s in (shapes or {}).items() if n not in named}, self.inputs)
        self._dtypes = check_dtypes(options.get("dtypes") or {}, self.inputs)
        self._numbers = {p.name: DTYPES.get(p.dtype or "") for p in params if p.kind == "scalar" and p.name not in self._shapes}
        self._result: Any = namedtuple("Result", self.outputs, rename=True) if len(self.outputs) > 1 else None
        self._ready: LRUCache[tuple[Any, ...], Specialisation] = LRUCache(256)
        self._last: Specialisation | None = None
        self._latest: _Call | None = None
        self._lock = forks.Lock()
        self._lying: dict[tuple[Any, ...], Program | None] = {}
        self._with: LRUCache[tuple[Any, ...], Op] = LRUCache(64)
        self._queued: LRUCache[tuple[Any, ...], Enqueued] = LRUCache(64)
        self._open: OpenSizes | None = None
        self._open = self._sizes({**self._shapes, **named}, symbolic, typical or {}) if named or symbolic else None
        if self._open is not None:
            self._shapes = {n: s for n, s in self._shapes.items() if n not in self._open.dims}
            return
        check_typical(typical or {}, ())
        if all(n in self._shapes for n in self.inputs):
            self.specialise(self._shapes, self._dtypes)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy, or what another process reads, is made of text and options; its code comes from the cache."""
        return _again, (self.text, self.target, self._options())

    def _options(self) -> Options:
        """What this Op was made with, besides its text and target."""
        return {**self._asked, "dtypes": self._dtypes, "attrs": self._attrs, "scalars": self._fixed,
                "threads": self._threads, "schedule": self._schedule, "algebra": "direct" if self._licence.direct else "fast",
                "entry": self._entry, "fast": self._licence.fast, "checked": self._checked}

    def __repr__(self) -> str:
        called = named_target(self.target)
        return f"<polytc.Op {self.name}({', '.join(self.inputs)}) -> ({', '.join(self.outputs)}), target {called}>"

    def __call__(self, /, *args: Any, out: Any = None, **named: Any) -> Any:
        """Run on arrays. out: the array to write (a tuple or a dict by name for several outputs); an input called so is given
        by position.

        Raises ArgumentError E401-E409 where an argument does not fit, CompileError where the program does not fit the shapes.
        """
        inputs, last = self.inputs, self._last
        if named and not args and len(named) == len(inputs):
            try:  # noqa: SIM105 -- suppress() takes longer than the call
                args, named = tuple(map(named.__getitem__, inputs)), {}
            except KeyError:
                pass
        if last is not None and not named and len(args) == len(inputs):
            result = last.fast_path(args, out)
            if result is not None:
                return result
        try:
            return self._call(args, out, named)
        except errors.PolytcError as error:
            raise errors.shortened(error)  # noqa: B904 -- the same one

    def _call(self, args: tuple[Any, ...], out: Any, named: dict[str, Any]) -> Any:
        """A call that is not like the last one."""
        if named or len(args) != len(self.inputs):
            loose = self._loose(named)
            if loose:
                rest = {n: v for n, v in named.items() if n not in loose}
                return self._bound(loose)(*args, out=out, **rest)
            args = in_order(self.name, self.inputs, args, named, self.text, self._entry, self._defaults)
        key: list[Any] = []
        for a in args:
            if type(a) is not np.ndarray or not (a.flags.c_contiguous and a.flags.aligned):
                return self._call_converted(args, out)
            key += (a.shape, a.dtype)
        found = self._ready.get(tuple(key))
        if found is None:
            return self._call_converted(args, out)
        self._last = found
        result = found.fast_path(args, out)
        if result is not None:
            return result
        if found.order != self.inputs:
            args = tuple(args[self.inputs.index(n)] for n in found.order)
        return run(found, args, out, self)

    def specialise(self, shapes: Shapes, dtypes: DTypes | None = None,
                   scalars: Mapping[str, complex] | None = None) -> Specialisation:
        """Compile for these shapes now, or take it from the cache. dtypes: f32 where nothing is said."""
        fitting = {n: tuple(shapes[n]) for n in self.inputs if n in shapes}
        types = dict.fromkeys(fitting, DTYPES["f32"]) | check_dtypes(dtypes or {}, self.inputs)
        numbers = {**self._defaults, **(scalars or {})}
        missing = [n for n in self.inputs if n not in fitting and n not in numbers]
        if missing:
            raise argument_error("E401", f"the shape of {', '.join(missing)} is not given", usage(self.inputs))
        key: list[Any] = []
        for n in self.inputs:
            key += (fitting[n], types[n].numpy) if n in fitting else (repr(numbers[n]), type(numbers[n]))
        return self._specialise(tuple(key), fitting, types, numbers)

    def enqueue(self, queue: Any, *args: Any, out: Any = None, wait_for: Sequence[Any] = (), **named: Any) -> Any:
        """Enqueue a run on a queue of pyopencl, or a stream of CUDA, and return at once. Nothing is copied or waited for.

            event = op.enqueue(queue, A, B, out=C, wait_for=[copied])
            op.enqueue(torch.cuda.current_stream(), A, B, out=C)                 # compiled with target="cuda"

        args, named: inputs, as pyopencl arrays, or buffers where compile() was told their shapes; as tensors of torch on
        'cuda', arrays of cupy and the like. out: arrays for the outputs, as in a call; what is written in place may be left
        out. The event of pyopencl is complete when the run is; temporaries are shared, so that runs on several queues must
        wait for each other. Raises ArgumentError E401, E402, E407, E408.
        """
        from polytc import loading
        from polytc.enqueued import Enqueued, queue_of

        on = queue_of(self.target, queue)
        found = in_order(self.name, self.inputs, args, named, self.text, self._entry, self._defaults)
        given = dict(zip(self.inputs, found, strict=True))
        if self._numbers:
            raise argument_error("E409", f"{', '.join(self._numbers)}: enqueue() takes arrays only",
                                 "give numbers in compile(scalars=...)")
        f32, types = DTYPES["f32"], {}
        for n, a in given.items():
            known = (self._shapes[n], self._dtypes.get(n, f32)) if n in self._shapes else None
            types[n] = on.type_of(n, a, known)
        key = (*on.key, *types.values())
        with self._lock:
            made = self._queued.get(key) or self._queued.put(key, Enqueued.load(
                self.program({n: s for n, (s, _) in types.items()}, {n: t for n, (_, t) in types.items()}), on,
                lambda machine: loading.request(self._schedule, machine)))
        results = given_outputs(out, self.outputs) if out is not None else ()
        return made(on, given, dict(zip(self.outputs, results)), wait_for)

    def profile(self, *args: Any, **named: Any) -> list[tuple[str, float]]:
        """Run once on numpy arrays; each kernel's name and its seconds on the device, in order. E412 where none is."""
        given = in_order(self.name, self.inputs, args, named, self.text, self._entry, self._defaults)
        arrays = [as_input(n, a) for n, a in zip(self.inputs, given, strict=True)]
        found = self.specialise({n: a.shape for n, a in zip(self.inputs, arrays)},
                                {n: dtype_of(n, a.dtype) for n, a in zip(self.inputs, arrays)})
        if not isinstance(found.executable, Timed) or found.program is None or found.program.inouts:
            raise argument_error("E412", f"{self!r} has no kernels that a device times", "profile() is for target='opencl' and "
                                 "'cuda', fixed sizes and programs that write nothing in place")
        results = [allocate(n, *expected) for n, expected in zip(self.outputs, found.outputs)]
        by_name = dict(zip(self.inputs, arrays))
        return found.executable.timed([*(by_name[n] for n in found.order), *results])

    @property
    def decisions(self) -> Record:
        """What was decided for its newest specialisation; `str` of it is a text that `compile(decisions=)` takes."""
        from polytc.targets import registry

        return self._lowered(None, None, registry.running(self.target)).decisions

    def explain(self, shapes: Shapes | None = None, dtypes: DTypes | None = None, *, roofline: bool = True) -> Explanation:
        """Why its code is as it is, see `polytc.explain`; shapes: None for those of the newest specialisation."""
        from polytc.explanation import explain
        from polytc.targets import registry

        lowered = self._lowered(shapes, dtypes, registry.target("cpu" if self.target == "evaluate" else self.target))
        return explain(lowered, self._threads or default_threads(lowered.target.machine.cores), roofline)

    def _lowered(self, shapes: Shapes | None, dtypes: DTypes | None, to: Target) -> compiler.Lowered:
        """The stages of a specialisation, the newest if no shapes are given."""
        if shapes is not None:
            self.specialise(shapes, dtypes)
        if self._latest is None:
            raise argument_error("E401", "the shapes are not given", "call it first, or give shapes= to compile")
        return self.lower(self.program(*self._latest), to)

    def lower(self, program: Program, to: Target) -> compiler.Lowered:
        """The stages of such a program, with this Op's schedule."""
        from polytc import compiler, loading

        return compiler.lower_program(program, to, loading.request(self._schedule, to.machine))

    def _sizes(self, shapes: OpenShapes, symbolic: bool, typical: Mapping[str, int]) -> OpenSizes:
        """The sizes that stay open; with types and shapes of all inputs code is made now."""
        from polytc.symbolic import OpenSizes, declared

        if self.target == "evaluate":
            raise argument_error("E412", f"target {self.target!r} takes fixed sizes", "the others take open ones")
        found = OpenSizes(declared(self.text, self._entry, shapes, symbolic), typical, self._fixed)
        if set(found.dims) == {n for n in self.inputs if n not in self._numbers} and not self._numbers:
            general = found.general(lambda s: self.program(s, self._dtypes))
            if not general.checked:
                found.add(general, self.load)
        return found

    def _specialise(self, key: tuple[Any, ...], shapes: dict[str, tuple[int, ...]], dtypes: dict[str, DType],
                    scalars: dict[str, complex], program: Program | None = None) -> Specialisation:
        with self._lock:
            found = self._ready.get(key)
            if found is None:
                stored = self._stored_key(shapes, dtypes, scalars) if program is None else None
                types = [(shape, dtypes[n].numpy) for n, shape in shapes.items()]
                found = stored_calls.find(stored, self._threads, types, self._result)
                found = self._ready.put(key, found or self._compiled(shapes, dtypes, scalars, stored, program))
            self._latest = shapes, dtypes, scalars
        return found

    def _stored_key(self, shapes: Mapping[str, Sequence[int]], dtypes: Mapping[str, DType], scalars: Mapping[str, Any]
                    ) -> str | None:
        """Under which the code of a call is stored, if it is plain: of fixed sizes, for arrays as they are, none in place."""
        fixed = self._open is None and not scalars and tuple(shapes) == self.inputs
        if self.target != "cpu" or not isinstance(self._schedule, str | None) or self._checked or self.inouts or not fixed:
            return None
        options = {"entry": self._entry, "attrs": self._attrs, "scalars": self._fixed, "schedule": self._schedule,
                   "direct": self._licence.direct, "fast": self._licence.fast}
        return stored_calls.key(self.text, options, shapes, dtypes)

    def _compiled(self, shapes: dict[str, tuple[int, ...]], dtypes: dict[str, DType], scalars: dict[str, complex],
                  stored: str | None, program: Program | None) -> Specialisation:
        """What the compiler makes. stored: the key to store it under, if any; program: that reads arrays where they lie."""
        from polytc import loading

        if self._open is not None:
            self._open.sizes(shapes)
        program = program or self.program(shapes, dtypes, scalars)
        executable = loading.with_numbers(
            program, scalars, lambda s: self.program({**shapes, **s}, dtypes, scalars),
            lambda p, build: self._open.load(p, build, self.load) if self._open and not p.checked else self.load(p))
        outputs = tuple((t.shape, t.dtype.numpy) for t in map(program.tensor, program.outputs))
        straight = program.inputs == self.inputs
        if straight and not program.inouts and stored is not None:
            stored_calls.keep(stored, program, self.text, self._entry, self._schedule)
        call = of_program(executable, program, self._result, fixed=self._open is None) if straight else no_fast_path
        return Specialisation(executable, program.inputs, outputs, call, program)

    def program(self, shapes: dict[str, tuple[int, ...]], dtypes: dict[str, DType],
                scalars: Mapping[str, complex] | None = None) -> Program:
        """The checked program for these shapes and types of all arrays, and values of the scalars that are left."""
        from polytc.poly.proofs import Proofs
        from polytc.rewrite.index_checks import decides

        program = lang.build(self.text, shapes, dtypes, attrs=self._attrs, scalars={**self._fixed, **(scalars or {})},
                             entry=self._entry, prover=Proofs(), presume=self._checked)
        return replace(program.licensed(self._licence), checked=self._checked and decides(program))

    def written(self, shapes: OpenShapes | None = None, dtypes: DTypes | None = None) -> Program:
        """The checked program for shapes and types of the inputs, with this Op's where nothing is said."""
        types = {**self._dtypes, **check_dtypes(dtypes or {}, self.inputs)}
        known: dict[str, Any] = {**(self._asked["shapes"] or {}), **(shapes or {})}
        if open_shapes(known, self.inputs) or self._asked["symbolic"] and not shapes:
            from polytc.symbolic import OpenSizes, declared
            sizes = OpenSizes(declared(self.text, self._entry, known, self._asked["symbolic"]), self._asked["typical"] or {},
                              self._fixed)
            return sizes.general(lambda s: self.program(s, types))
        return self.program(check_shapes(known, self.inputs), types)

    def load(self, program: Program) -> Executable:
        """Such a program as code, with this Op's options. A schedule for all sizes is not that of the programs which some sizes
        have of their own: these get the automatic one."""
        from polytc import loading
        from polytc.options import REQUESTS

        schedule, given = self._schedule, self._schedule not in REQUESTS
        if given and self._open is not None and not program.sizes:
            schedule = None
        try:
            return loading.load(program, self.target, self._threads, schedule)
        except errors.CompileError as e:
            if not given or e.code != "E703" or self._open is None or not self._open.kernels:
                raise
            return loading.load(program, self.target, self._threads, None)

    def _loose(self, named: dict[str, Any]) -> dict[str, complex]:
        """The numbers among the arguments that are no inputs, but stand in a subscript or a range of bare statements."""
        extra = {n: v.item() if isinstance(v, np.generic) else v for n, v in named.items() if n not in self.inputs}
        if not extra:
            return {}
        free = lang.names(self.text, self._entry)[1] - self._fixed.keys()
        return {n: v for n, v in extra.items() if n in free and isinstance(v, (int, float, complex))}

    def _bound(self, scalars: dict[str, complex]) -> Op:
        """This program with values for more of its names."""
        key = tuple((n, type(v), repr(v)) for n, v in sorted(scalars.items()))
        with self._lock:
            options: Options = {**self._options(), "scalars": {**self._fixed, **scalars}}
            return self._with.get(key) or self._with.put(key, Op(self.text, self.target, **options))

    def _call_converted(self, args: tuple[Any, ...], out: Any) -> Any:
        """The general call: converts and checks every argument, compiles where needed."""
        named = dict(zip(self.inputs, args))
        for n in self._numbers:
            rank = getattr(named[n], "ndim", 0)
            if rank and isinstance(rank, int):
                raise lang.whole(self.text, self._entry, n, type(named[n]).__name__, rank)
        given = convert(named, out, self._numbers, self._shapes, self._dtypes, self._in_place)
        found = self._specialise(tuple(given.key), given.shapes, given.dtypes, given.scalars, given.program)
        result = run(found, tuple(given.arrays[n] for n in found.order), out, self, given.copied)
        turn = library(args) if out is None else None
        return result if turn is None else turn(result) if self._result is None else self._result(*map(turn, result))

    def _in_place(self, places: Mapping[str, Place], given: Converted) -> Program | None:
        """The program that reads arrays where they lie; None where they are copied, as all are behind so many such programs."""
        types = {n: (given.shapes[n], given.dtypes[n]) for n in given.shapes}
        key = (*places.items(), *types.items())
        if key not in self._lying and len(self._lying) < PLACES:
            from polytc.program.inputs.strides import read_in_place

            plain = self.target == "cpu" and self._schedule is None and not (self._checked or self._open or self.inouts)
            self._lying[key] = read_in_place(self.program(given.shapes, given.dtypes), places) if plain else None
        return self._lying.get(key)


def _again(text: str, target: str | Target, options: Options) -> Op:
    """A copied or unpickled Op."""
    return Op(text, target, **options)
