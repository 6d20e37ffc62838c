"""einsum: numpy's notation as polytc text. Each pairwise contraction becomes one statement of one program."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polytc import errors
from polytc.lang.scalars import DType
from polytc.op import Op, check_target, check_threads
from polytc.runtime.arrays import argument_error, as_input, as_output, dtype_of

errors.register(E411="einsum subscripts are not valid")

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Term:
    """One factor: the tensor's name, a label for each axis, and the extents of the axes."""

    name: str
    labels: tuple[str, ...]
    shape: tuple[int, ...]


def einsum(*operands: Any, out: Any = None, dtype: Any = None, target: str = "cpu", threads: int | None = None) -> Any:
    """numpy.einsum: Einstein's summation convention on the operands, compiled.

        polytc.einsum("bij,bjk->bik", A, B)     polytc.einsum("ii", A)     polytc.einsum("...ij->...ji", A)
        polytc.einsum(A, [0, 1], B, [1, 2], [0, 2])

    Subscripts, implicit output, ellipsis, repeated labels and broadcasting of extents of 1 mean what they mean in numpy.
    dtype: type to compute in; else the operands' types are promoted as numpy does.
    Raises ArgumentError E411 (also a ValueError) where the subscripts do not fit the operands.
    """
    spec, values = _split(operands)
    arrays = [as_input(f"operand {k}", v) for k, v in enumerate(values)]
    element = np.result_type(*arrays) if dtype is None else np.dtype(dtype)
    shapes = tuple(a.shape for a in arrays)
    if any(0 in s for s in shapes):
        return _empty(spec, shapes, element, out)
    op = _op(text_of(spec, shapes, dtype_of("the result", element)), check_target(target), check_threads(threads))
    # A program's inputs come in the order in which its statements read them.
    result = op(*[arrays[int(name[1:])] for name in op.inputs], out=out)
    return result[()] if out is None and result.ndim == 0 else result


def _empty(spec: str, shapes: tuple[tuple[int, ...], ...], dtype: np.dtype, out: Any) -> Any:
    """The result where an operand has no elements: sums of nothing, which no program expresses (its ranges are not empty)."""
    terms, labels = parse(spec, shapes)
    extents = _extents(spec, terms)
    shape = tuple(extents[x] for x in labels)
    if out is None:
        return np.zeros(shape, dtype)[()]
    as_output("the result", out, shape, dtype)[...] = 0
    return out


@functools.lru_cache(maxsize=512)
def _op(text: str, target: str, threads: int | None) -> Op:
    return Op(text, target=target, threads=threads)


@functools.lru_cache(maxsize=2048)
def text_of(spec: str, shapes: tuple[tuple[int, ...], ...], dtype: DType) -> str:
    """The einsum as a polytc program: inputs X0, X1, ...; output Y. Raises ArgumentError E411."""
    terms, result = parse(spec, shapes)
    extents = _extents(spec, terms)
    lines: list[str] = []
    temporaries = (f"T{k}" for k in range(len(terms)))
    for pair in _order(terms, result, extents):
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
    """Which factors to multiply first: greedily the pair whose result is smallest against what it replaces, then the pair that
    takes the fewest operations; products of two factors or fewer are one step."""
    steps: list[tuple[int, ...]] = []
    labels = [frozenset(t.labels) for t in terms]
    while len(labels) > 2:
        costs = {(i, j): _cost(labels, result, (i, j), extents) for j in range(len(labels)) for i in range(j)}
        i, j = min(costs, key=lambda pair: costs[pair])
        labels = [x for k, x in enumerate(labels) if k not in (i, j)] + [_kept(labels, result, (i, j))]
        steps.append((i, j))
    return [*steps, tuple(range(len(labels)))]


def _kept(labels: list[frozenset[str]], result: tuple[str, ...], pair: tuple[int, int]) -> frozenset[str]:
    """Labels of the product of a pair that something still needs."""
    rest = frozenset(result).union(*(x for k, x in enumerate(labels) if k not in pair))
    return (labels[pair[0]] | labels[pair[1]]) & rest


def _cost(labels: list[frozenset[str]], result: tuple[str, ...], pair: tuple[int, int], extents: dict[str, int]
          ) -> tuple[int, int]:
    a, b = labels[pair[0]], labels[pair[1]]
    growth = _size(_kept(labels, result, pair), extents) - _size(a, extents) - _size(b, extents)
    return growth, _size(a | b, extents)


def _size(labels: frozenset[str], extents: dict[str, int]) -> int:
    return math.prod(extents[x] for x in labels)


def _refuse(spec: str, reason: str) -> Exception:
    return argument_error("E411", f"einsum {spec!r}: {reason}")


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
        return "".join("..." if x is Ellipsis else _LETTERS[x] for x in sublist)
    except (TypeError, IndexError) as error:
        raise argument_error("E411", f"einsum: {sublist!r} is not a list of axis numbers below 52") from error
