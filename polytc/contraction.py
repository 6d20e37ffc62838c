"""einsum: numpy's notation as polytc text. Each pairwise contraction becomes one statement of one program."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polytc import errors
from polytc.arguments import check_target
from polytc.codegen.target import Target
from polytc.errors import ArgumentError
from polytc.op import Op
from polytc.options import check_threads
from polytc.program.scalars import DType, from_numpy
from polytc.runtime.arrays import argument_error, as_array, as_input, as_output, dtype_of, is_masked

errors.register(E411="einsum subscripts are not valid")

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Term:
    """One factor: the tensor's name, a label for each axis, and the extents of the axes."""

    name: str
    labels: tuple[str, ...]
    shape: tuple[int, ...]


class EinsumTypeError(ArgumentError, TypeError):
    """An argument of einsum has the wrong type, where numpy raises TypeError."""


class EinsumPathError(ArgumentError, RuntimeError):
    """A given path does not contract the operands to one, where numpy raises RuntimeError."""


def einsum(*operands: Any, out: Any = None, dtype: Any = None, order: str = "K", casting: str = "safe",
           optimize: Any = False, target: str | Target = "cpu", threads: int | None = None) -> Any:
    """numpy.einsum: Einstein's summation convention on the operands, compiled.

        polytc.einsum("bij,bjk->bik", A, B)     polytc.einsum("ii", A)     polytc.einsum("...ij->...ji", A)
        polytc.einsum(A, [0, 1], B, [1, 2], [0, 2])

    Subscripts, implicit output, ellipsis, repeated labels and broadcasting of extents of 1 mean what they mean in numpy.
    dtype: type to compute in; else the operands' types are promoted as numpy does.  casting: what may be converted to it, and
    from it to `out`.  out: any numpy array of the result's shape; a contiguous one apart from the operands is written directly.
    order: 'F' and 'C' lay out the result in memory; 'A' is 'F' if all operands are; 'K' is 'C' here.  optimize: a path as
    numpy.einsum_path gives it is followed; anything else leaves the order of the products to opt_einsum, and lets `out` have
    any type, as numpy does then.
    target, threads: see `compile`.
    One operand without a sum gives a view of it, as in numpy.
    Raises ArgumentError E411 (also a ValueError, TypeError or RuntimeError, as numpy does) where the arguments do not fit.
    """
    plain = dtype is None is out and order == "K" and casting == "safe" and optimize is False and threads is None
    key = _key(operands) if plain and target == "cpu" else None
    ready = _CALLED.get(key)
    if ready is not None:
        found = ready[0](*[operands[k] for k in ready[1]])
        return found if found.shape else found[()]
    spec, values = _split(operands)
    order, steps = _options(spec, order, casting, optimize, len(values))
    arrays, element = _operands(values, dtype, casting)
    shapes = tuple(a.shape for a in arrays)
    terms, result = parse(spec, shapes)
    extents = _extents(spec, terms)
    if out is None and len(terms) == 1 and element == arrays[0].dtype:
        view = _as_view(terms[0], result, arrays[0])
        if view is not None and (order in "KA" or (view.flags.c_contiguous if order == "C" else view.flags.f_contiguous)):
            return view
    fortran = order == "F" or (order == "A" and all(a.flags.f_contiguous for a in arrays))
    shape = tuple(extents[x] for x in result)
    narrowing = "unsafe" if optimize else casting  # what numpy does with a result that it did not compute in `out`
    direct = _target(out, shape, element, narrowing, arrays)
    arrays = [as_array(f"operand {k}", a) for k, a in enumerate(arrays)]
    if any(0 in s for s in shapes):
        found = np.zeros(shape, element)
    else:
        turned = fortran and direct is None
        text = text_of(spec, shapes, dtype_of("the result", element), steps, turned)
        op = _op(text, check_target(target), check_threads(threads))
        # A program's inputs come in the order in which its statements read them.
        found = op(*[arrays[int(name[1:])] for name in op.inputs], out=direct)
        if key is not None and all(a is b for a, b in zip(arrays, operands[1:], strict=True)):
            if len(_CALLED) >= CALLED:
                _CALLED.clear()
            _CALLED[key] = op, [int(name[1:]) + 1 for name in op.inputs]
        found = found.T if turned else found
    if out is None:
        return found[()] if found.ndim == 0 else found
    if found is not direct:
        np.copyto(out, found, casting=narrowing)  # type: ignore[arg-type]
    return out


CALLED = 512
"""Contractions that a call finds again by its subscripts, and the shapes and types of its operands."""

_CALLED: dict[Any, tuple[Op, list[int]]] = {}


def _key(operands: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Under which a call of subscripts and arrays of numpy is found again; None for others."""
    key: list[Any] = [operands[0] if operands else None]
    for a in operands[1:]:
        if type(a) is not np.ndarray:
            return None
        key += (a.shape, a.dtype)
    return tuple(key) if type(key[0]) is str else None


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """numpy.tensordot, by `einsum`: axes is how many of the last of `a` meet the first of `b`, or a pair of lists of axes."""
    a, b = np.asarray(a), np.asarray(b)
    left, right = (range(a.ndim - axes, a.ndim), range(axes)) if isinstance(axes, int) else map(np.atleast_1d, axes)
    met = {int(x) % b.ndim: int(y) % a.ndim for x, y in zip(right, left, strict=True)}
    second = [met.get(k, a.ndim + k) for k in range(b.ndim)]
    kept = [k for k in range(a.ndim) if k not in met.values()] + [x for x in second if x >= a.ndim]
    return einsum(a, list(range(a.ndim)), b, second, kept)


def transpose(a: Any, axes: Sequence[int] | None = None) -> Any:
    """numpy.transpose: a view with its axes in another order. Beside `einsum` and `tensordot`, all that opt_einsum asks of a
    backend: `opt_einsum.contract(..., backend="polytc")`."""
    return np.asarray(a).transpose(axes)


def _options(spec: str, order: Any, casting: Any, optimize: Any, count: int
             ) -> tuple[str, tuple[tuple[int, ...], ...] | None]:
    """(the order as a capital, the path that is given)."""
    if not isinstance(order, str) or order.upper() not in ("C", "F", "A", "K"):
        raise _refuse(spec, f"order is {order!r}, not one of 'C', 'F', 'A', 'K'")
    if casting not in ("no", "equiv", "safe", "same_kind", "unsafe"):
        raise _refuse(spec, f"casting is {casting!r}, not one of 'no', 'equiv', 'safe', 'same_kind', 'unsafe'")
    if not isinstance(optimize, (list, tuple)) or not optimize or optimize[0] != "einsum_path":
        return order.upper(), None
    steps = tuple(tuple(int(k) for k in step) for step in optimize[1:])
    left = count
    for step in steps:
        if not step or len(set(step)) < len(step) or not all(0 <= k < left for k in step):
            raise _refuse(spec, f"the path contracts {step} of {left} operands", EinsumPathError)
        left += 1 - len(step)
    if left != 1:
        raise _refuse(spec, f"the path leaves {left} operands", EinsumPathError)
    return order.upper(), steps


def _operands(values: Sequence[Any], dtype: Any, casting: Any) -> tuple[list[np.ndarray], np.dtype]:
    """The operands as arrays, not yet contiguous, and the type to compute in."""
    try:
        wanted = None if dtype is None else np.dtype(dtype)
    except TypeError as error:
        raise _wrong_type(f"dtype: {error}") from error
    arrays: list[np.ndarray] = []
    for k, value in enumerate(values):
        name = f"operand {k}"
        array = value if isinstance(value, np.ndarray) and not is_masked(value) else \
            np.asarray(value) if isinstance(value, (list, tuple)) else as_input(name, value)
        if wanted is not None and not np.can_cast(array.dtype, wanted, casting):
            raise _wrong_type(f"{name} has elements of type {array.dtype}, which casting={casting!r} does not make {wanted}")
        known = from_numpy(array.dtype) is not None
        array = array if known or wanted is None else array.astype(wanted)  # objects and the like are numpy's to convert
        narrowed = wanted is not None and wanted.kind != "c" and array.dtype.kind == "c"
        arrays.append(array.real if narrowed else array)  # casting='unsafe' has allowed it
        dtype_of(name, arrays[-1].dtype)
    return arrays, np.result_type(*arrays) if wanted is None else wanted


def _target(out: Any, shape: tuple[int, ...], element: np.dtype, casting: Any, arrays: Sequence[np.ndarray]) -> Any:
    """`out` if the program may write it directly, else None."""
    if out is None:
        return None
    if not isinstance(out, np.ndarray):
        if not hasattr(out, "__dlpack__"):
            raise _wrong_type(f"out is a {type(out).__name__}, not an array")
        return as_output("the result", out, shape, element)
    if out.shape != shape:
        raise argument_error("E411", f"einsum: out has shape {out.shape}, the result has {shape}")
    if not out.flags.writeable:
        raise argument_error("E411", "einsum: out is read-only")
    if not np.can_cast(element, out.dtype, casting):
        raise _wrong_type(f"out has elements of type {out.dtype}, which casting={casting!r} does not make of {element}")
    straight = out.dtype == element and out.flags.c_contiguous and out.flags.aligned
    return out if straight and not any(np.may_share_memory(out, a) for a in arrays) else None


def _as_view(term: Term, result: tuple[str, ...], array: np.ndarray) -> np.ndarray | None:
    """The operand with its axes in the order of the result, diagonals for repeated labels; None where there is a sum."""
    labels = list(term.labels)
    if set(labels) != set(result) or any(array.shape[labels.index(x)] != n for x, n in zip(labels, array.shape)):
        return None
    view = array.view()
    for x in result:
        while labels.count(x) > 1:
            first = labels.index(x)
            second = labels.index(x, first + 1)
            view = view.diagonal(0, first, second)
            if array.flags.writeable:
                view.flags.writeable = True
            del labels[second], labels[first]
            labels.append(x)
    return view.transpose([labels.index(x) for x in result])


@functools.lru_cache(maxsize=512)
def _op(text: str, target: str | Target, threads: int | None) -> Op:
    return Op(text, target, threads=threads)


@functools.lru_cache(maxsize=2048)
def text_of(spec: str, shapes: tuple[tuple[int, ...], ...], dtype: DType, steps: tuple[tuple[int, ...], ...] | None = None,
            turned: bool = False) -> str:
    """The einsum as a polytc program: inputs X0, X1, ...; output Y. Raises ArgumentError E411.

    steps: which factors to multiply, one product after another; None: see `_order`. turned: Y has its axes in reverse.
    """
    terms, result = parse(spec, shapes)
    result = result[::-1] if turned else result
    extents = _extents(spec, terms)
    lines: list[str] = []
    temporaries = (f"T{k}" for k in range(len(terms)))
    for pair in steps or _order(terms, result, extents):
        factors = [terms[k] for k in pair]
        terms = [t for k, t in enumerate(terms) if k not in pair]
        wanted = {label for t in terms for label in t.labels} | set(result)
        kept = result if not terms else tuple(x for x in extents if x in wanted and any(x in f.labels for f in factors))
        target = "Y" if not terms else next(temporaries)
        # Only the inputs need the cast: a temporary has the type already.
        lines.append(_statement(target, kept, factors, dtype))
        seen = {x: max((n for f in factors for y, n in zip(f.labels, f.shape) if y == x), default=1) for x in kept}
        terms.append(Term(target, kept, tuple(seen[x] for x in kept)))
    return "\n".join([*lines, "-> (Y)"])


def _statement(target: str, kept: tuple[str, ...], factors: Sequence[Term], dtype: DType) -> str:
    sizes: dict[str, int] = {}
    for f in factors:
        for x, n in zip(f.labels, f.shape):
            # An extent of 1 broadcasts against another one; 0 is another one too.
            sizes[x] = n if sizes.get(x, 1) == 1 else sizes[x]
    reads = []
    for f in factors:
        subscripts = ", ".join("0" if n == 1 != sizes[x] else x for x, n in zip(f.labels, f.shape))
        read = f"{f.name}[{subscripts}]"
        reads.append(f"{dtype}({read})" if f.name.startswith("X") else read)
    ranges = ", ".join(f"{x} in 0:{n}" for x, n in sizes.items())
    reduced = any(x not in kept for x in sizes)
    boolean = dtype.kind == "b"
    assign = "=" if not reduced else "|=" if boolean else "+="
    value = (" && " if boolean else " * ").join(reads)
    return f"{target}[{', '.join(kept)}] {assign} {value}" + (f" where {ranges}" if ranges else "")


def parse(spec: str, shapes: Sequence[tuple[int, ...]]) -> tuple[list[Term], tuple[str, ...]]:
    """The factors and the labels of the result; labels are `i_a` for letter a, `e0`, `e1`, ... for the axes of an ellipsis."""
    left, arrow, right = spec.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(shapes):
        raise _refuse(spec, f"it names {len(parts)} operands, {len(shapes)} were given")
    widest = max((len(s) - len(p.replace("...", "")) for p, s in zip(parts, shapes) if "..." in p), default=0)
    terms = [Term(f"X{k}", _labels(spec, p, len(s), widest), tuple(s)) for k, (p, s) in enumerate(zip(parts, shapes))]
    ellipsis = tuple(f"e{k}" for k in range(widest))
    seen = [x for t in terms for x in t.labels]
    if not arrow:
        once = sorted((x for x in set(seen) if seen.count(x) == 1 and x not in ellipsis), key=lambda x: _LETTERS.index(x[2]))
        return terms, ellipsis + tuple(once)
    if ellipsis and "..." not in right:
        raise _refuse(spec, "the output has no '...', the operands have axes for it")
    result = _labels(spec, right, widest + len(right.replace("...", "")) if "..." in right else len(right), widest)
    for x in result:
        if result.count(x) > 1:
            raise _refuse(spec, f"the output names {x[2:]!r} twice")
        if x not in seen:
            raise _refuse(spec, f"the output names {x[2:]!r}, which no operand has")
    return terms, result


def _labels(spec: str, part: str, rank: int, widest: int) -> tuple[str, ...]:
    """A label for each axis of one operand; the axes of an ellipsis are aligned right."""
    before, dots, after = part.partition("...")
    for letter in before + after:
        if letter not in _LETTERS:
            raise _refuse(spec, f"{letter!r} is not a letter")
    named = len(before) + len(after)
    if rank < named or (rank > named and not dots):
        raise _refuse(spec, f"{part!r} names {named} axes, the operand has {rank}")
    middle = tuple(f"e{k}" for k in range(widest - (rank - named), widest)) if dots else ()
    return (*(f"i_{c}" for c in before), *middle, *(f"i_{c}" for c in after))


def _extents(spec: str, terms: Sequence[Term]) -> dict[str, int]:
    """Extent of every label, those of 1 broadcast; in order of first appearance."""
    found: dict[str, int] = {}
    for t in terms:
        for x, n in zip(t.labels, t.shape):
            known = found.setdefault(x, n)
            if known == 1:
                found[x] = n
            elif n not in (1, known):
                label = repr(x[2:]) if x[1] == "_" else "an axis of ..."
                raise _refuse(spec, f"{label} is {known} in one place and {n} in another")
    return found


def _order(terms: Sequence[Term], result: tuple[str, ...], extents: dict[str, int]) -> list[tuple[int, ...]]:
    """Which factors to multiply first, for the fewest operations: opt_einsum's choice, exhaustive up to a handful of operands
    (Smith & Gray, opt_einsum, Journal of Open Source Software 3(26), 2018); products of two factors or fewer are one step."""
    if len(terms) < 3:
        return [tuple(range(len(terms)))]
    from opt_einsum.paths import auto  # few calls have so many operands

    path: list[tuple[int, ...]] = auto([frozenset(t.labels) for t in terms], frozenset(result), extents)
    return path


def _refuse(spec: str, reason: str, kind: type[ArgumentError] = ArgumentError) -> Exception:
    return errors.fail("E411", f"einsum {spec!r}: {reason}", kind=kind)


def _wrong_type(reason: str) -> Exception:
    return errors.fail("E411", f"einsum: {reason}", kind=EinsumTypeError)


def _split(operands: tuple[Any, ...]) -> tuple[str, list[Any]]:
    """The subscripts as a string, and the arrays, from either of numpy's two calling forms."""
    if operands and isinstance(operands[0], str):
        if len(operands) == 1:
            raise argument_error("E411", "einsum needs at least one operand")
        return operands[0], list(operands[1:])
    pairs, rest = list(operands), []
    if len(pairs) % 2:
        rest = [pairs.pop()]
    if not pairs:
        raise argument_error("E411", "einsum needs subscripts and at least one operand")
    parts = [_sublist(s) for s in pairs[1::2]]
    return ",".join(parts) + "".join(f"->{_sublist(s)}" for s in rest), pairs[0::2]


def _sublist(sublist: Any) -> str:
    try:
        numbers = [x if x is Ellipsis else operator.index(x) for x in sublist]
    except TypeError as error:
        raise _wrong_type(f"{sublist!r} is not a list of axis numbers below 52") from error
    if any(x is not Ellipsis and not 0 <= x < len(_LETTERS) for x in numbers):
        raise argument_error("E411", f"einsum: {sublist!r} has axis numbers outside of 0 to 51")
    return "".join("..." if x is Ellipsis else _LETTERS[x] for x in numbers)
