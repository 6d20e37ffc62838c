"""The public functions that run programs: text and arrays in, arrays out."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from types import NoneType
from typing import TYPE_CHECKING, Any, Unpack, overload

from polytc.arguments import Options, check_entry, check_schedule, check_target, check_text, with_options
from polytc.errors import PolytcError, shortened
from polytc.fixed import FixedOp
from polytc.op import Op
from polytc.options import check_algebra, check_checked, check_licence, check_threads, environment
from polytc.runtime.arrays import argument_error

if TYPE_CHECKING:
    from polytc.codegen.target import Target
    from polytc.schedule.user.recipe import Recipe

__all__ = ["FixedOp", "Op", "compile", "compiled", "evaluate", "run"]


@overload
def compile(text: str, target: str | Target = "cpu", *, constants: None = None, **options: Unpack[Options]) -> Op: ...


@overload
def compile(text: str, target: str | Target = "cpu", *, constants: Mapping[str, Any],
            **options: Unpack[Options]) -> FixedOp: ...


@with_options
def compile(text: str, target: str | Target = "cpu", *, constants: Mapping[str, Any] | None = None,
            **options: Unpack[Options]) -> Op | FixedOp:
    """A program as a callable.

    text: statements, a `def` or an `op`.  target: 'cpu', 'opencl', 'cuda', 'c', 'interp' or 'evaluate', for the
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


def compiled(function: Any = None, /, **options: Any) -> Any:
    """A decorator: the function becomes the op whose program is its docstring.

        @polytc.compiled
        def mm(A, B):
            "C[i,j] += A[i,k] * B[k,j]"

        @polytc.compiled(threads=1, fast=True)
        def softmax(X): ...

    The parameters of the function are the inputs of the program, in their order; its body does not run. options: see `compile`.
    Raises ArgumentError E401 where the parameters are not the inputs of the program, E410 where there is no docstring.
    """
    if function is None:
        return functools.partial(compiled, **options)
    if not callable(function) or not function.__doc__:
        raise argument_error("E410", "the program of @polytc.compiled is the docstring of the function",
                             'def double(A): "B[i] = 2*A[i]"')
    made = compile(inspect.cleandoc(function.__doc__), **options)
    wanted = tuple(inspect.signature(function).parameters)
    if wanted != made.inputs:
        takes = ", ".join(made.inputs)
        raise argument_error("E401", f"{function.__name__} has the parameters {', '.join(wanted) or 'none'}, its program the "
                             f"inputs {takes or 'none'}", f"def {function.__name__}({takes}): ...")
    made.name, made.__module__ = function.__name__, function.__module__
    return made


def run(text: str, /, *args: Any, target: str | Target = "cpu", threads: int | None = None,
        schedule: str | Recipe | None = None, entry: str | None = None, fast: bool = False, checked: bool | None = None,
        out: Any = None, **arrays: Any) -> Any:
    """Run a program on arrays, by position or by name; compiled once for each text and combination of shapes and dtypes.

        C = polytc.run("C[i,j] += A[i,k]*B[k,j]", A=A, B=B)

    schedule, entry, fast, checked: see `compile`. An input with the name of an option, such as out, is given by position.
    """
    plain = schedule is None and entry is None and fast is False and checked is None and type(threads) in _COUNTS
    key = (text, target, threads, environment()) if plain and type(text) is type(target) is str else None
    op = _CALLED.get(key)
    try:
        if op is None:
            op = _op(check_text(text), check_target(target), threads=check_threads(threads), algebra=check_algebra(None),
                     schedule=check_schedule(schedule), entry=check_entry(entry), fast=check_licence(None, fast).fast,
                     checked=check_checked(checked))
            if key is not None:
                if len(_CALLED) >= CALLED:
                    _CALLED.clear()
                _CALLED[key] = op
    except PolytcError as error:
        raise shortened(error)  # noqa: B904 -- the same one
    return op(*args, out=out, **arrays)


CALLED = 512
"""Ops that `run` finds without looking at its options again."""

_COUNTS = (NoneType, int)
_CALLED: dict[Any, Op] = {}


@functools.lru_cache(maxsize=512)
def _op(text: str, target: str | Target, **options: Unpack[Options]) -> Op:
    return Op(text, target, **options)


def evaluate(text: str, /, *args: Any, **arrays: Any) -> Any:
    """What the program means, computed slowly by the reference evaluator: the same arguments and results as `run`."""
    return _op(check_text(text), "evaluate", algebra="direct")(*args, **arrays)
