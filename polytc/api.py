"""The public functions: text in, arrays or printed stages out."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Unpack, overload

from polytc import compiler, lang, loading
from polytc.arguments import (
    DTypes,
    LowerOptions,
    OpenShapes,
    Options,
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
from polytc.contraction import einsum
from polytc.decisions import Alternative, Record
from polytc.errors import TargetError
from polytc.explanation import Explanation
from polytc.explanation import explain as explained
from polytc.fixed import FixedOp
from polytc.machine import Machine
from polytc.native.threads import default_threads
from polytc.op import Op
from polytc.options import check_algebra, check_checked, check_licence, check_threads
from polytc.poly.proofs import Proofs
from polytc.program.program import Program
from polytc.rewrite.index_checks import check_indices
from polytc.rewrite.record import check as check_steps
from polytc.runtime.arrays import argument_error
from polytc.schedule.user import recipe
from polytc.schedule.user.recipe import Recipe
from polytc.symbolic import OpenSizes, declared
from polytc.targets import registry
from polytc.targets.opencl.driver import conformance
from polytc.targets.opencl.driver import devices as opencl

__all__ = ["FixedOp", "Op", "Recipe", "alternatives", "build", "compile", "devices", "einsum", "evaluate", "explain", "lower",
           "run", "schedule"]


@overload
def compile(text: str, target: str | Target = "cpu", *, constants: None = None, **options: Unpack[Options]) -> Op: ...


@overload
def compile(text: str, target: str | Target = "cpu", *, constants: Mapping[str, Any],
            **options: Unpack[Options]) -> FixedOp: ...


@with_options
def compile(text: str, target: str | Target = "cpu", *, constants: Mapping[str, Any] | None = None,
            **options: Unpack[Options]) -> Op | FixedOp:
    """A program as a callable.

    text: statements, a `def` or an `op`.  target: 'cpu', 'opencl', 'c', 'interp' or 'evaluate', for the
    device that is here; or a Target such as OpenCLTarget(machine), whose code is for that machine.
    shapes, dtypes: of the inputs, by name; when all shapes are given, code is made now, else at the first call.
    attrs: values of an op's attributes.  scalars: values of scalar arguments, which are then no arguments any more.
    threads: how many may work on one call, at most 1024; None is all of the machine's.
    schedule: what `polytc.schedule` gave, completed where it says nothing; or the YAML of a schedule, taken as it is; 'isl' for
    isl's own scheduler; 'program' for the order of the text; None for the automatic one.
    fusion: 'min', 'smart' or 'max', how many statements the automatic schedule puts into common loops; None is what its
    estimate says (see docs/schedules.md).
    decisions: what `op.decisions` or `polytc emit --stage decisions` gave, perhaps edited: what is decided of rewrites, fusion,
    tiles and threads. polytc decides what it is silent about; a schedule takes the place of what it says of schedules.
    machine: what code is made for, in place of what is known of the device that is here: a Machine, the path of a record that
    `polytc devices --measure` wrote, or the name of one of polytc.machine.DEVICES. Its costs decide, see docs/machines.md.
    algebra: 'direct' keeps the products that are written; 'fast', the default, may take an algorithm with fewer of them where
    that is faster, whose rounding errors are larger (Winograd's convolutions, see docs/accuracy.md). `precise` programs and
    POLYTC_ALGEBRA=direct forbid it too.
    fast: float operations may be reassociated, and divisions be products with reciprocals, as in a `fast def`.
    entry: which definition of the text, where that is not clear: its bare statements, or the one that no other one calls.
    constants: arrays for some inputs, which are then no arguments any more; what follows from them alone, such as packed or
    transformed weights, is computed once. The result is a FixedOp.
    A name in a shape, `shapes={"A": ("M", "K")}`, is a size that stays open: one kernel serves all sizes. symbolic: the sizes
    that a `def` names in its signature stay open. typical: values of sizes for which that kernel should be fast, by name; else
    those of the first call, or some hundreds.
    checked: an index in memory (a gather, a scatter) that leaves its tensor raises IndexOutOfBounds, an IndexError that names
    tensor, index and element, when the run is over; else it is clamped, or not written. None is what POLYTC_CHECK_INDICES says.
    Raises CompileError with every diagnostic of the program.
    """
    if constants is None:
        return Op(text, target, **options)
    if options.get("symbolic"):
        raise argument_error("E412", "constants= takes fixed sizes", "pass all arrays in each call")
    options["shapes"] = None
    return FixedOp(Op(text, target, **options), constants)


def run(text: str, /, *args: Any, target: str | Target = "cpu", threads: int | None = None,
        schedule: str | Recipe | None = None, entry: str | None = None, fast: bool = False, checked: bool | None = None,
        out: Any = None, **arrays: Any) -> Any:
    """Run a program on arrays, by position or by name; compiled once for each text and combination of shapes and dtypes.

        C = polytc.run("C[i,j] += A[i,k]*B[k,j]", A=A, B=B)

    schedule, entry, fast, checked: see `compile`. An input with the name of an option, such as out, is given by position.
    """
    op = _op(check_text(text), check_target(target), threads=check_threads(threads), algebra=check_algebra(None),
             schedule=check_schedule(schedule), entry=check_entry(entry), fast=check_licence(None, fast).fast,
             checked=check_checked(checked))
    return op(*args, out=out, **arrays)


@functools.lru_cache(maxsize=512)
def _op(text: str, target: str | Target, **options: Unpack[Options]) -> Op:
    return Op(text, target, **options)


def evaluate(text: str, /, *args: Any, **arrays: Any) -> Any:
    """What the program means, computed slowly by the reference evaluator: the same arguments and results as `run`."""
    return _op(check_text(text), "evaluate", algebra="direct")(*args, **arrays)


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
    program = build(text, options.get("shapes"), options.get("dtypes"), options.get("attrs"), options.get("scalars"),
                    options.get("entry"), check_checked(options.get("checked")))
    return program.licensed(check_licence(options.get("algebra"), options.get("fast", False)))


def schedule(program: str | Op | Program, shapes: OpenShapes | None = None, dtypes: DTypes | None = None,
             attrs: Mapping[str, Any] | None = None, scalars: Mapping[str, int | float] | None = None, *,
             exact: bool = False, entry: str | None = None) -> Recipe:
    """The schedule of a program, to be changed step by step: tile, fuse, parallel, ... See docs/schedules.md.

    program: text, an Op, or what `build` gave.  shapes, dtypes: of the inputs; f32 where nothing is said. With names of sizes
    in shapes it is the schedule for all sizes.
    exact: compile what the schedule says and nothing more; else it is completed where it says nothing (Recipe.complete).
    It begins with program order: each statement in loops of its own, those of a `for` in its loop. Raises CompileError.
    """
    if isinstance(program, Program):
        built = program
    elif isinstance(program, Op):
        built = program.written(shapes, dtypes)
    else:
        built = build(program, shapes, dtypes, attrs, scalars, entry)
    return replace(recipe.start(built, exact), machine_of=_machine)


def _machine(target: str | Target) -> Machine:
    """What recipes are completed for."""
    return registry.here(check_target(target)).machine


@with_options
def explain(text: str, target: str | Target = "cpu", *, threads: int | None = None, roofline: bool = True,
            **options: Unpack[LowerOptions]) -> Explanation:
    """Why the code is as it is: for each loop what keeps it from running in parallel, for each statement how it uses vectors,
    for each pair of statements what keeps them apart, with the dependence and two instances; operations, bytes, what stays in
    which cache, and the roofline for so many threads. Prints as text; `.save("page.html")` writes a page. For the options see
    `compile`."""
    open_ = [n for n, s in (options.get("shapes") or {}).items() if any(isinstance(d, str) for d in s)]
    if open_:
        raise argument_error("E412", f"explain counts with numbers, and the shape of {open_[0]} has names",
                             "give the sizes that you want to know about")
    lowered = lower(text, target, **options)
    return explained(lowered, check_threads(threads) or default_threads(lowered.target.machine.cores), roofline)


def build(text: str, shapes: OpenShapes | None = None, dtypes: DTypes | None = None, attrs: Mapping[str, Any] | None = None,
          scalars: Mapping[str, int | float] | None = None, entry: str | None = None, checked: bool = False) -> Program:
    """The program for given shapes, found to be right: the first stage of `lower`, without the others. With names of sizes in
    shapes it is the program for all sizes. checked: with an output for each gather and scatter, as in `lower`."""
    if check_checked(checked):
        return check_indices(build(text, shapes, dtypes, attrs, scalars, entry))[0]
    text = check_text(text)
    signature = lang.signature(text, check_entry(entry))
    check_names(text, signature, attrs or {}, scalars or {}, entry)
    names = [p.name for p in signature.inputs]
    types = check_dtypes(dtypes or {}, names)

    def fixed(known: Mapping[str, tuple[int, ...]]) -> Program:
        return lang.build(text, known, types, attrs=dict(attrs or {}), scalars=dict(scalars or {}), entry=entry,
                          prover=Proofs())

    if open_shapes(shapes or {}, names):
        return OpenSizes(declared(text, entry, shapes or {}, False), {}, scalars or {}).general(fixed)
    return fixed(check_shapes(shapes or {}, names))


def devices() -> list[dict[str, object]]:
    """Where code can run: a row for the CPU, then one for each OpenCL device, or one that says why there is none.

    Each row has 'target', 'name' and 'status' ('works', or what is wrong), and what else is known about the device.
    """
    machine = registry.target("cpu").machine
    caches = ", ".join(f"L{level} {cache.bytes >> 10} KiB" for level, cache in enumerate(machine.caches, 1))
    cpu = {"target": "cpu", "name": machine.cpu or "unknown", "threads": machine.cores,
           "vector registers": f"{machine.vector_registers} of {machine.vector_bytes * 8} bits", "data caches": caches,
           "status": "works"}
    try:
        return [cpu, *({"target": "opencl", **row} for row in opencl.describe(conformance.faults))]
    except TargetError as error:
        return [cpu, {"target": "opencl", "name": "none", "status": str(error)}]
