"""What callers give beside arrays: texts, targets, shapes, types and options, checked.

What only some of them need is imported where it is needed: a call that finds its code on disk does without the compiler.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, cast

import numpy as np

from polytc import errors, lang
from polytc.codegen.target import Loader, Target
from polytc.lang.report import closest
from polytc.options import check_request
from polytc.program.scalars import BF16, DTYPES, DType
from polytc.runtime.arrays import argument_error, dtype_of
from polytc.targets import registry

if TYPE_CHECKING:
    from polytc.decisions import Record
    from polytc.lang.definitions.parameters import Signature
    from polytc.machine import Machine
    from polytc.schedule.user.recipe import Recipe

Shapes = Mapping[str, Sequence[int]]
OpenShapes = Mapping[str, Sequence[int | str]]
DTypes = Mapping[str, Any]
F = TypeVar("F", bound=Callable[..., Any])


class LowerOptions(TypedDict, total=False):
    """What may be said of a program beside its text and its target; what is not said is None, or False. `compile` tells what
    each means."""

    shapes: OpenShapes | None
    typical: Mapping[str, int] | None
    dtypes: DTypes | None
    attrs: Mapping[str, Any] | None
    scalars: Mapping[str, complex] | None
    entry: str | None
    schedule: str | Recipe | None
    fusion: str | None
    decisions: str | Record | None
    machine: str | os.PathLike[str] | Machine | None
    algebra: str | None
    fast: bool
    checked: bool | None


class Options(LowerOptions, total=False):
    """And what may be said of its calls."""

    threads: int | None
    symbolic: bool


def with_options(function: F) -> F:
    """A function of `**options: Unpack[Options]` whose help() lists them, and that refuses other keywords, as one would that
    names each. Raises TypeError."""
    own = inspect.signature(function)
    *named, last = own.parameters.values()
    keys = {f"Unpack[{kind.__name__}]": kind for kind in (LowerOptions, Options)}[last.annotation].__annotations__
    listed = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, annotation=a.__forward_arg__,
                                default=False if a.__forward_arg__ == "bool" else None) for n, a in keys.items()]
    known = {*(p.name for p in named), *keys}

    @functools.wraps(function)
    def checked(*args: Any, **given: Any) -> Any:
        unknown = next((n for n in given if n not in known), None)
        if unknown is not None:
            name, near = function.__qualname__.removesuffix(".__init__"), closest(unknown, known)
            raise TypeError(f"{name}() got an unexpected keyword argument {unknown!r}{near and f': {near}'}")
        try:
            return function(*args, **given)
        except errors.PolytcError as error:
            raise errors.shortened(error)  # noqa: B904 -- the same one
    vars(checked)["__signature__"] = own.replace(parameters=[*named, *listed])
    return cast(F, checked)


def check_text(text: Any) -> str:
    """`text` if it is a string; E410 else."""
    if not isinstance(text, str):
        cure = "decode it: text.decode()" if isinstance(text, bytes) else \
            "@polytc.compiled makes an op of a function whose docstring is the program" if callable(text) else \
            "the text comes first: polytc.run(text, A, B)" if hasattr(text, "shape") else "for a file: Path(name).read_text()"
        raise argument_error("E410", f"a program is text, not {type(text).__name__}", cure)
    if re.fullmatch(r"\s*[\w./\\-]+\.\w+\s*", text):
        raise argument_error("E410", f"{text.strip()!r} is the name of a file, not a program",
                             "polytc.compile(Path(name).read_text())")
    return text.removeprefix("\ufeff")  # the mark that some editors put before a file's text


_TARGETS_ELSEWHERE = {**dict.fromkeys(("gpu", "nvidia", "rocm", "metal", "vulkan", "device", "sycl", "hip"), "opencl"),
                      **dict.fromkeys(("cpu", "llvm", "host", "x86", "native", "openmp", "x86_64", "arm"), "cpu"),
                      **dict.fromkeys(("numpy", "python", "reference"), "evaluate")}
"""What others call a target -> ours."""


def check_target(target: Any) -> str | Target:
    """`target` if it is the name of one, or a Target; E502 else."""
    if isinstance(target, str) and (target in registry.TARGETS or target == "evaluate"):
        return target
    known = [*registry.target_names(), "evaluate"]
    if not isinstance(target, str):
        return _check_target_object(target, known)
    kind, colon, device = target.partition(":")
    if kind not in known or colon and (kind != "opencl" or not device):
        other = _TARGETS_ELSEWHERE.get(kind.lower())
        near = f"write {other!r}" if other else closest(kind, known)
        raise errors.fail("E502", f"there is no target {target!r}", kind=errors.TargetError,
                          notes=[*[near] * bool(near), f"the targets are {', '.join(known)}",
                                 "opencl:1 or opencl:NAME chooses a device"])
    return target


def check_machine(target: Any, machine: Any) -> str | Target:
    """The target for a machine: a Machine, the name of one of machine.DEVICES, or the path of a record; without a machine the
    target as it is. Raises E410, E502, E540 and E541."""
    target = check_target(target)
    if machine is None:
        return target
    if target == "evaluate":
        raise errors.fail("E541", "'evaluate' makes no code, for any machine", kind=errors.TargetError,
                          notes=["leave out machine="])
    from polytc.machine import Machine, record_files

    if isinstance(machine, str | os.PathLike):
        machine = record_files.named(os.fspath(machine))
    if not isinstance(machine, Machine):
        raise argument_error("E410", f"machine= takes a Machine or a file, not a {type(machine).__name__}",
                             "polytc devices --measure --output FILE writes one")
    return registry.described(target, machine)


def _check_target_object(target: Any, known: Sequence[str]) -> Target:
    """A Target that can be told from others: what is compiled is kept by it."""
    from polytc.machine import Machine

    if isinstance(target, type) and issubclass(target, Loader):
        cure = f"{target.__name__} is a class: {target.__name__}() is a target"
    elif isinstance(target, Machine):
        cure = "a Machine is what a target is made for: machine=machine, or target=LLVMTarget(machine)"
    elif isinstance(target, Target):
        return target
    elif isinstance(target, Loader) and type(target).__hash__ is None:
        cure = "what is compiled is kept by its target, which must have a hash: a frozen dataclass has one"
    else:
        cure = f"a target is a name, or a Target such as polytc.compiler.target({known[0]!r}) gives"
    shown = repr(target) if len(repr(target)) < 60 else f"a {type(target).__name__}"
    raise errors.fail("E502", f"{shown} is no target", kind=errors.TargetError,
                      notes=[cure, f"the names of targets are {', '.join(known)}"])


def named_target(target: str | Target) -> str:
    """What a target is called."""
    return target if isinstance(target, str) else target.name


def open_shapes(shapes: OpenShapes, inputs: Sequence[str]) -> dict[str, tuple[int | str, ...]]:
    """The shapes in which names of sizes stand. Raises E401, E410."""
    _check_known(shapes, inputs, "shapes")
    found = {}
    for name, shape in shapes.items():
        extents = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
        if any(isinstance(e, str) for e in extents):
            if not all(e.isidentifier() if isinstance(e, str) else isinstance(e, (int, np.integer)) for e in extents):
                raise argument_error("E410", f"the shape of {name} must be numbers and names of sizes, not {shape!r}")
            found[name] = extents
    return found


def check_names(text: str, signature: Signature, attrs: Any, scalars: Any, entry: str | None = None) -> None:
    """Refuse attributes (E107) and scalars (E401) that the program does not have."""
    for option, given in (("attrs", attrs), ("scalars", scalars)):
        if not isinstance(given, Mapping):
            raise argument_error("E410", f"{option} is a dict of names and values, not {given!r}")
    unknown = [str(n) for n in attrs if n not in signature.attrs]
    if unknown:
        has = f"its attributes are: {', '.join(signature.attrs)}" if signature.attrs else "only an `op` has attributes"
        raise argument_error("E107", f"{signature.name} has no attribute {', '.join(unknown)}", has)
    if scalars:
        usable = lang.names(text, entry)[0]
        unknown = [str(n) for n in scalars if n not in usable]
        if unknown:
            raise argument_error("E401", f"scalars names {', '.join(unknown)}, which the program does not use",
                                 closest(unknown[0], usable) or f"its names are: {', '.join(sorted(usable)) or 'none'}")


def check_entry(entry: Any) -> str | None:
    """`entry` if it is a name or None; E410 else."""
    if entry is not None and not isinstance(entry, str):
        raise argument_error("E410", f"entry is the name of a definition, not {type(entry).__name__}")
    return entry


def check_schedule(schedule: Any, fusion: Any = None, decided: Any = None) -> str | Recipe | None:
    """`schedule` if it is text, a Recipe or None; `fusion` if that is given; with the record of decisions before it, if one
    is given. Raises E410, E709."""
    wanted = _schedule(schedule, fusion)
    if decided is None:
        return wanted
    from polytc import decisions

    record = check_record(decided)
    if wanted is not None and not isinstance(wanted, str):
        raise argument_error("E410", "what polytc.schedule() gives is for the program as written, which no decision changes",
                             "leave decisions= or schedule= away")
    return decisions.joined(record.source or str(record), wanted)


def check_record(decided: Any) -> Record:
    """The record that a text is, or a record. Raises E410, E709."""
    from polytc import decisions

    if not isinstance(decided, (str, decisions.Record)):
        raise argument_error("E410", f"decisions are text or what `op.decisions` gives, not {type(decided).__name__}",
                             "for a file: Path(name).read_text()")
    return decided if isinstance(decided, decisions.Record) else decisions.read(decided)


def _schedule(schedule: Any, fusion: Any) -> str | Recipe | None:
    if fusion is not None:
        from polytc.schedule.fusion.policies import POLICIES

        if schedule is not None or fusion not in POLICIES:
            raise argument_error("E410", f"fusion is one of {', '.join(POLICIES)}, without a schedule, not {fusion!r}")
        return str(fusion)
    if isinstance(schedule, str):
        check_request(schedule)
    if schedule is None or isinstance(schedule, str):
        return schedule
    from polytc.schedule.user.recipe import Recipe

    if not isinstance(schedule, Recipe):
        raise argument_error("E410", f"a schedule is text or what polytc.schedule() gives, not {type(schedule).__name__}",
                             "for a file: Path(name).read_text()")
    return schedule


def check_dtypes(dtypes: DTypes, inputs: Sequence[str]) -> dict[str, DType]:
    """Names of inputs -> scalar types; values may be ours ('f32', DType) or numpy's. Raises E401, E403, E410."""
    _check_known(dtypes, inputs, "dtypes")
    found = {}
    for name, dtype in dtypes.items():
        if isinstance(dtype, DType):
            found[name] = dtype
        elif isinstance(dtype, str) and dtype in DTYPES:
            found[name] = DTYPES[dtype]
        else:
            try:
                found[name] = dtype_of(name, np.dtype(dtype))
            except TypeError as error:
                near = closest(dtype, DTYPES) if isinstance(dtype, str) else ""
                raise argument_error("E410", f"{dtype!r} is not an element type", *[near] * bool(near),
                                     f"known: {', '.join(DTYPES)}") from error
    return found


def check_shapes(shapes: OpenShapes, inputs: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Names of inputs -> extents; a single number is a vector's. Raises E401, E410."""
    _check_known(shapes, inputs, "shapes")
    found = {}
    for name, shape in shapes.items():
        extents = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
        if not all(isinstance(e, (int, np.integer)) and not isinstance(e, bool) and e >= 0 for e in extents):
            raise _no_shape(name, shape)
        found[name] = tuple(int(e) for e in extents)
    return found


def _no_shape(name: str, shape: Any) -> errors.CompileError:
    """E410 for what is no shape: an array, or extents that are no numbers."""
    if hasattr(shape, "shape"):
        return argument_error("E410", f"the shape of {name} is a tuple of numbers, not an array",
                              f"shapes={{{name!r}: {name}.shape}}")
    extents = shape if isinstance(shape, (tuple, list)) else (shape,)
    open_ = any(e is None or isinstance(e, int) and e == -1 for e in extents)
    return argument_error("E410", f"the shape of {name} must be non-negative integers, not {shape!r}",
                          *["a size that stays open has a name: `(\"N\", 4)`"] * open_)


def _check_known(given: Mapping[str, Any], inputs: Sequence[str], option: str) -> None:
    if not isinstance(given, Mapping):
        example = "(4, 5)" if option == "shapes" else "'f32'"
        raise argument_error("E410", f"{option} is a dict of names and {option}, not a {type(given).__name__}",
                             f"{option}={{{', '.join(f'{n!r}: {example}' for n in inputs) or '...'}}}")
    unknown = [n for n in given if n not in inputs]
    if unknown:
        near = closest(str(unknown[0]), inputs)
        raise argument_error("E401", f"{option} names {', '.join(map(str, unknown))}, which is no input",
                             *[near] * bool(near), usage(inputs))


def check_number(name: str, value: Any, declared: DType | None) -> Any:
    """A scalar argument: a Python number, on whose value the program specialises, or an array of one element. Raises E409.

    A declared float, or a typed (numpy) number for an undeclared scalar, is data; integers may stand in subscripts.
    """
    if isinstance(value, (np.generic, np.ndarray)) and value.shape == ():
        if declared is None:
            return value
        value = value.item()
    if not isinstance(value, (bool, int, float, complex)):
        raise argument_error("E409", f"{name} is a scalar of the program; {type(value).__name__} is not a number")
    if isinstance(value, complex) and declared is not None and not declared.is_complex:
        raise argument_error("E409", f"{name} is declared {declared}; {value} is a complex number", f"declare `c128 {name}`")
    return np.asarray(value, declared.numpy) if declared is not None and declared.is_float else value


def check_declared(name: str, array: np.ndarray, shape: tuple[int, ...] | None, dtype: DType | None) -> np.ndarray:
    """The argument, if it is what was declared, as far as anything was; the bits of bf16 as such. Raises E405, E406."""
    if shape is not None and array.shape != shape:
        raise argument_error("E405", f"{name} has shape {array.shape}, declared is {shape}",
                             "leave shapes= away in compile() to specialise on each call's shapes")
    if dtype == BF16 and array.dtype == np.uint16:
        return array.view(BF16.numpy)
    if dtype is not None and array.dtype != dtype.numpy:
        raise argument_error("E406", f"{name} has elements of type {array.dtype}, declared is {dtype}",
                             f"convert it: {name}.astype(np.{dtype.numpy})")
    return array


def in_order(name: str, inputs: Sequence[str], args: Sequence[Any], named: Mapping[str, Any], text: str,
             entry: str | None, defaults: Mapping[str, Any]) -> tuple[Any, ...]:
    """The arguments of a call of an Op of that name, text and entry, in the order of its inputs; defaults: of those that may be
    left out. Raises E401."""
    if len(args) > len(inputs):
        raise argument_error("E401", f"{name} takes {len(inputs)} arrays, {len(args)} were given", usage(inputs))
    if len(args) == 1 != len(inputs) and isinstance(args[0], Mapping | list | tuple) and not named:
        star = "**" if isinstance(args[0], Mapping) else "*"
        raise argument_error("E401", f"{name} takes its arrays one by one, not in a {type(args[0]).__name__}",
                             f"write {star} before it: op({star}arrays)", usage(inputs))
    given = dict(zip(inputs, args))
    for n in named:
        if n in given:
            raise argument_error("E401", f"{n} is given twice, by position and by name", usage(inputs))
        if n not in inputs:
            if n in Options.__annotations__:
                raise argument_error("E401", f"{name} has no input {n}", f"{n}= is an option of polytc.compile(text, {n}=...)")
            raise lang.unknown(text, entry, name, n, inputs, getattr(named[n], "ndim", 0))
    given = {**defaults, **given, **named}
    missing = [n for n in inputs if n not in given]
    if missing:
        notes = ["out= is where the result goes; give an input called out by position"] * ("out" in missing)
        raise lang.missing(text, entry, missing, [usage(inputs), *notes])
    return tuple(given[n] for n in inputs)


def usage(inputs: Sequence[str]) -> str:
    """The note that tells what there is."""
    return f"the inputs are: {', '.join(inputs) or 'none'}"


def given_outputs(out: Any, names: Sequence[str]) -> list[Any]:
    """What `out=` gives for each of the outputs. Raises E401."""
    if isinstance(out, Mapping):
        given = [out[n] for n in names] if set(out) == set(names) else []
    else:
        given = list(out) if isinstance(out, tuple) else [out]
    if len(given) != len(names):
        raise argument_error("E401", f"out= must give an array for each of {', '.join(names)}")
    return given
