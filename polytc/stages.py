"""The public functions that look into the compiler: text in, stages, schedules and explanations out, all of which print."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

from polytc import compiler, lang, loading
from polytc.arguments import (
    DTypes,
    LowerOptions,
    OpenShapes,
    check_dtypes,
    check_entry,
    check_machine,
    check_names,
    check_record,
    check_schedule,
    check_shapes,
    check_target,
    check_text,
    open_shapes,
    with_options,
)
from polytc.codegen.target import Target
from polytc.decisions import Alternative, Record
from polytc.errors import TargetError
from polytc.explanation import Explanation
from polytc.explanation import explain as explained
from polytc.machine import Machine
from polytc.native.threads import default_threads
from polytc.op import Op
from polytc.options import check_checked, check_licence, check_threads, check_typical
from polytc.poly.proofs import Proofs
from polytc.poly.same_program import Presumed
from polytc.program.intrinsics import Intrinsic
from polytc.program.program import Program
from polytc.program.sizes import Undecided
from polytc.rewrite.pipeline import as_written
from polytc.rewrite.record import check as check_steps
from polytc.rewrite.unwritten_elements import check_memory
from polytc.runtime.arrays import argument_error
from polytc.schedule.user import recipe
from polytc.schedule.user.changes.tensorization import semantics
from polytc.schedule.user.recipe import Recipe
from polytc.symbolic import OpenSizes, declared
from polytc.targets import registry
from polytc.targets.ctext.reserved import KEYWORDS
from polytc.targets.cuda import devices as cuda
from polytc.targets.opencl.driver import conformance
from polytc.targets.opencl.driver import devices as opencl

__all__ = ["Recipe", "alternatives", "build", "devices", "explain", "intrinsic", "lower", "schedule"]


@with_options
def lower(text: str, target: str | Target = "cpu", **options: Unpack[LowerOptions]) -> compiler.Lowered:
    """Every stage of the compilation, without any device: program, scop, dependences, schedule, loops, source; all print.

    dtypes: f32 where nothing is said. checked: each gather and scatter adds an output, see docs/language.md. For the others see
    `compile`. Raises CompileError.
    """
    target = check_machine(target, options.get("machine"))
    program = _licensed(text, options)
    wanted = check_schedule(options.get("schedule"), options.get("fusion"), options.get("decisions"))
    if isinstance(wanted, Recipe):
        wanted = loading.request(wanted, registry.target(target).machine)
    return compiler.lower_program(program, target, wanted)


@with_options
def alternatives(text: str, target: str | Target = "cpu", so_far: str | Record | None = None,
                 **options: Unpack[LowerOptions]) -> Iterator[Alternative]:
    """The ways to take the first decision that a record leaves open, one after another as they are asked for; nothing if it
    leaves none. No stage behind that decision runs.

        way = next(polytc.alternatives(text, shapes=shapes))
        op = polytc.compile(text, shapes=shapes, decisions=way.record)

    so_far: a record of decisions, see `compile`; None for one that is empty. An alternative has the `entries` of the decision,
    its estimated `cost`, None where a rule decides, and the `record` with them, which is complete when there are no
    alternatives to it. polytc's own decision comes first, the others in the order of their estimates. For the options see
    `compile`; a schedule takes the place of decisions, and has none. Raises CompileError.
    """
    target = check_machine(target, options.get("machine"))
    for name in ("schedule", "fusion", "decisions"):
        if options.get(name) is not None:
            raise argument_error("E410", f"`{name}` decides what alternatives are asked about", "so_far= takes a record")
    record = check_record(so_far) if so_far is not None else Record()
    check_steps(record, registry.target(target).machine)
    return compiler.alternatives(_licensed(text, options), target, record)


def _licensed(text: str, options: LowerOptions) -> Program:
    """The program of a text, with what the options allow."""
    program = _request(text, options.get("shapes"), options.get("dtypes"), options.get("attrs"), options.get("scalars"),
                       options.get("entry"), options.get("checked"), options.get("typical")).program()
    return program.licensed(check_licence(options.get("algebra"), options.get("fast", False)))


def schedule(program: str | Op | Program, shapes: OpenShapes | None = None, dtypes: DTypes | None = None,
             attrs: Mapping[str, Any] | None = None, scalars: Mapping[str, complex] | None = None, *,
             exact: bool = False, entry: str | None = None, typical: Mapping[str, int] | None = None) -> Recipe:
    """The schedule of a program, to be changed step by step: tile, fuse, parallel, ... See docs/schedules.md.

    program: text, an Op, or what `build` gave.  shapes, dtypes: of the inputs; f32 where nothing is said. With names of sizes
    in shapes it is the schedule for all sizes, completed for the typical ones.
    exact: compile what the schedule says and nothing more; else it is completed where it says nothing (Recipe.complete).
    It begins with program order: each statement in loops of its own, those of a `for` in its loop. Raises CompileError.
    """
    if isinstance(program, Program):
        built = program
    elif isinstance(program, Op):
        built = program.written(shapes, dtypes)
    else:
        built = build(program, shapes, dtypes, attrs, scalars, entry, typical=typical)
    try:
        plain = as_written(built)
    except Undecided as e:
        raise compiler.cannot_stay_open(built, "in a schedule", e) from None
    return replace(recipe.start(plain, exact), machine_of=_machine)


def _machine(target: str | Target) -> Machine:
    """What recipes are completed for."""
    return registry.here(check_target(target)).machine


def intrinsic(name: str, text: str, shapes: Mapping[str, Sequence[int]], dtypes: DTypes | None = None, *, c: str = "",
              opencl: str = "", cuda: str = "", head: Mapping[str, str] | None = None, alignment: int = 1) -> Intrinsic:
    """What a piece of C does, for `schedule(...).tensorize`.

        dot8 = polytc.intrinsic("dot8", "C += i32(A[k]) * i32(B[k])", {"A": (8,), "B": (8,)}, {"A": "i8", "B": "i8"},
                                c="{C} = dot8({A}, {B}, {C});", head={"c": "static int dot8(...) {...}"})

    text: the program, one update or assignment over a box, which is what targets without a text of their language run;
    shapes, dtypes: of what it reads; f32 where nothing is said. c, opencl, cuda: the text in C99, OpenCL C, CUDA C (and HIP).
    `{A}` is a pointer to the first element of an operand, of one without dimensions the element itself; `{A.0}` the elements
    from one step of its first dimension to the next: an operand of which a text has none lies there row by row.
    `{A.space}` is what the type of a pointer to it begins with in OpenCL C. head: what the text needs before the kernels, by
    language. alignment: bytes that operands in memory begin at a multiple of. Raises E711 for other programs, E410, and what
    `build` raises.
    """
    code = {language: given for language, given in (("c", c), ("opencl", opencl), ("cuda", cuda)) if given}
    heads = {} if head is None else head
    strings = isinstance(heads, Mapping) and all(isinstance(x, str) for x in (
        name, text, c, opencl, cuda, *heads, *heads.values()))
    if not strings or not name.isidentifier() or name in KEYWORDS or not code or set(heads) - set(code) or isinstance(
            alignment, bool) or not isinstance(alignment, int) or alignment not in (1, 2, 4, 8, 16, 32, 64):
        raise argument_error("E410", "an intrinsic has a name that is no word of C, a text for some language, heads for these, "
                             "and an alignment of 1 to 64 bytes",
                             "polytc.intrinsic('dot8', 'C += A[k]*B[k]', {'A': (8,), 'B': (8,)}, c='...')")
    inputs = tuple(p.name for p in lang.signature(text).inputs)
    types = check_dtypes(dtypes or {}, inputs)
    made = Intrinsic(name, text, tuple(check_shapes(shapes, inputs).items()), tuple((n, str(t)) for n, t in types.items()),
                     tuple(code.items()), tuple(heads.items()), alignment)
    semantics(made)
    return made


@with_options
def explain(text: str, target: str | Target = "cpu", *, threads: int | None = None, roofline: bool = True,
            **options: Unpack[LowerOptions]) -> Explanation:
    """Why the code is as it is: for each loop what keeps it from running in parallel, for each statement how it uses vectors,
    for each pair of statements what keeps them apart, with the dependence and two instances; operations, bytes, what stays in
    which cache, and the roofline for so many threads. Prints as text; `.save("page.html")` writes a page. For the options see
    `compile`."""
    lowered = lower(text, target, **options)
    return explained(lowered, check_threads(threads) or default_threads(lowered.target.machine.cores), roofline)


def build(text: str, shapes: OpenShapes | None = None, dtypes: DTypes | None = None, attrs: Mapping[str, Any] | None = None,
          scalars: Mapping[str, complex] | None = None, entry: str | None = None, checked: bool = False,
          typical: Mapping[str, int] | None = None) -> Program:
    """The program for given shapes, found to be right: the first stage of `lower`, without the others. With names of sizes in
    shapes it is the program for all sizes. checked: with an output for each gather and scatter, as in `lower`. typical: values
    of open sizes for which what follows should be fast."""
    request = _request(text, shapes, dtypes, attrs, scalars, entry, checked, typical)
    program = request.program()
    return replace(program, same=request.same) if program.sizes else program


def _request(text: str, shapes: OpenShapes | None, dtypes: DTypes | None, attrs: Mapping[str, Any] | None,
             scalars: Mapping[str, complex] | None, entry: str | None, checked: bool | None, typical: Mapping[str, int] | None
             ) -> _Request:
    """What `build` is asked for."""
    checked, text = check_checked(checked), check_text(text)
    signature = lang.signature(text, check_entry(entry))
    check_names(text, signature, attrs or {}, scalars or {}, entry)
    names = tuple(p.name for p in signature.inputs)
    return _Request(text, dict(shapes or {}), check_dtypes(dtypes or {}, names), dict(attrs or {}), dict(scalars or {}), entry,
                    checked, dict(typical or {}), names)


@dataclass(frozen=True)
class _Request:
    """The arguments of `build`. inputs: names of those of the program."""

    text: str
    shapes: OpenShapes
    dtypes: DTypes
    attrs: Mapping[str, Any]
    scalars: Mapping[str, complex]
    entry: str | None
    checked: bool
    typical: Mapping[str, int]
    inputs: tuple[str, ...]

    def program(self) -> Program:
        """The program; that of all sizes where some are open."""
        if open_shapes(self.shapes, self.inputs):
            program = self._open_sizes().general(self._proved)
        else:
            check_typical(self.typical, ())
            program = self._proved(check_shapes(self.shapes, self.inputs))
        return check_memory(program)[0] if self.checked else program

    def same(self) -> str:
        """The sizes at which the text is the program of all sizes."""
        return self._open_sizes().same(self._proved, lambda known: self._fixed(known, Presumed()))

    def _open_sizes(self) -> OpenSizes:
        return OpenSizes(declared(self.text, self.entry, self.shapes, False), self.typical, self.scalars)

    def _proved(self, known: Mapping[str, tuple[int, ...]]) -> Program:
        return self._fixed(known, Proofs())

    def _fixed(self, known: Mapping[str, tuple[int, ...]], prover: Proofs) -> Program:
        return lang.build(self.text, known, self.dtypes, attrs=dict(self.attrs), scalars=dict(self.scalars), entry=self.entry,
                          prover=prover, presume=self.checked)


def devices() -> list[dict[str, object]]:
    """Where code can run: a row for the CPU, one for each OpenCL device, or one that says why there is none, and one for the
    CUDA device, if there is one.

    Each row has 'target', 'name' and 'status' ('works', or what is wrong), and what else is known about the device.
    """
    machine = registry.target("cpu").machine
    caches = ", ".join(f"L{level} {cache.bytes >> 10} KiB" for level, cache in enumerate(machine.caches, 1))
    cpu = {"target": "cpu", "name": machine.cpu or "unknown", "threads": machine.cores,
           "vector registers": f"{machine.vector_registers} of {machine.vector_bytes * 8} bits", "data caches": caches,
           "status": "works"}
    try:
        found = [{"target": "opencl", **row} for row in opencl.describe(conformance.faults)]
    except TargetError as error:
        found = [{"target": "opencl", "name": "none", "status": str(error)}]
    return [cpu, *found, *({"target": "cuda", **row} for row in cuda.describe())]
