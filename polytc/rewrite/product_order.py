"""Sums of products of three and more factors are made two factors at a time.

    Y[i,l] += A[i,j]*B[j,k]*C[k,l]                      with A[64,64], B[64,64], C[64,64]
    ->  Y_product[i,k] += A[i,j]*B[j,k];  Y[i,l] += Y_product[i,k]*C[k,l]

64**4 terms become 2 * 64**3. An index is summed over as soon as no other factor and no result names it; in which order the
factors meet is opt_einsum's choice (Smith & Gray, opt_einsum, Journal of Open Source Software 3(26), 2018), by the number of
products and the size of what lies between. What is made of two factors is stored, and read by the next product.

A rewrite from Program to Program. docs/accuracy.md has its bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from polytc.machine import Machine, estimates
from polytc.program import program as pr
from polytc.program.generalise import numeric
from polytc.program.names import Names, initialisation
from polytc.program.scalars import DType
from polytc.rewrite.step import Decision, Option, Reasons

LARGEST = 1 << 27
"""Elements of what lies between two products at most."""
GAIN = 0.9
"""Of the time as written, at most, for a sum to be taken apart."""


@dataclass(frozen=True)
class Pairs:
    """A sum is made of products of two. pairs: the factors are numbered from 0 in the order of the text, products go on from
    there: of three factors `0.1 2.3` multiplies the first two, then the third and that product."""

    statement: str
    pairs: tuple[str, ...]


@dataclass(frozen=True)
class _Factor:
    """Part of a product. indices: that it names; place: of the first factor in it, in the text."""

    value: pr.Expr
    indices: frozenset[str]
    place: int


@dataclass(frozen=True)
class _Product:
    """Two parts that are multiplied, by their numbers. kept: indices of what that gives; summed: those that are summed over."""

    first: int
    second: int
    kept: frozenset[str]
    summed: frozenset[str]


def decide(program: pr.Program, machine: Machine) -> Decision:
    """The statements whose factors are multiplied two at a time, where that takes less time. Of open sizes the typical ones
    decide."""
    typical, chosen, why = numeric(program), list[Pairs](), Reasons()
    for s in typical.statements:
        factors = _factors(typical, s)
        pairs = _ordered(s, factors)
        if pairs is None:
            continue
        before, after = _seconds(typical, s, factors, None, machine), _seconds(typical, s, factors, pairs, machine)
        told = f"{len(factors)} factors, two at a time: {after / before:.2g} of the time"
        if after < GAIN * before:
            why.acts(s.name, told)
            chosen.append(Pairs(s.name, _spelled(pairs)))
        else:
            why.declines(s.name, told)
    return Decision(machine, tuple(chosen), tuple(why.rows))


def multiply_pairs(program: pr.Program, decision: Decision) -> pr.Program:
    """The program with the factors of the chosen statements multiplied in the chosen order."""
    names, chosen, typical = Names.of(program), {c.statement: c for c in decision.choices}, numeric(program)
    tensors, statements = list(program.tensors), list[pr.Statement]()
    for s, fixed in zip(program.statements, typical.statements, strict=True):
        pairs = _read(chosen[s.name].pairs) if s.name in chosen else None
        if pairs is None:
            statements.append(s)
            continue
        parts = list(_factors(program, s))
        *inner, last = _products(fixed, parts, pairs)
        for p in inner:
            value = _value(parts, p, s.value.dtype)
            stored = dict.fromkeys(pr.index_names(value))  # as the factors are
            over = tuple(s.by_index[i] for i in stored if i in p.kept)
            made = pr.Tensor(names.label(f"{s.target}_product"), s.value.dtype, tuple(r.extent for r in over),
                             tuple(r.lower for r in over))
            tensors.append(made)
            cell = tuple(pr.Index(r.index) for r in over)
            statements += _statements(s, p, replace(s, target=made.name, subscripts=cell, value=value), names)
            place = min(parts[n].place for n in (p.first, p.second))
            parts.append(_Factor(pr.Read(made.name, cell, made.dtype), p.kept, place))
        statements.append(replace(s, value=_value(parts, last, s.value.dtype),
                                  ranges=tuple(r for r in s.ranges if r.index in last.kept | last.summed)))
    return replace(program, tensors=tuple(tensors), statements=tuple(statements))


def fits(program: pr.Program, machine: Machine, choice: Pairs) -> str:
    """Why a statement's factors cannot be multiplied so; '' if they can."""
    typical = numeric(program)
    factors, pairs = _factors(typical, typical.statement(choice.statement)), _read(choice.pairs)
    if len(factors) < 3:
        return f"{choice.statement} is no sum of products of three factors or more"
    if pairs is None or not _complete(pairs, len(factors)):
        return f"`{' '.join(choice.pairs)}` does not multiply {len(factors)} factors, each once, and what that gives"
    return ""


def options(program: pr.Program, machine: Machine) -> list[list[Option]]:
    """For each such sum: as written, and in opt_einsum's order."""
    typical, found = numeric(program), []
    for s in typical.statements:
        factors = _factors(typical, s)
        pairs = _ordered(s, factors)
        if pairs is not None:
            found.append([Option((), _seconds(typical, s, factors, None, machine)),
                          Option((Pairs(s.name, _spelled(pairs)),), _seconds(typical, s, factors, pairs, machine))])
    return found


# ---- what is multiplied

def _factors(program: pr.Program, s: pr.Statement) -> tuple[_Factor, ...]:
    """The factors of a statement that sums products over a box; fewer than three where it is none."""
    if s.op != "+" or s.where or s.bounds or s.value.dtype.kind == "b" or any(r.tensor == s.target for r in pr.reads(s)):
        return ()
    return tuple(_Factor(e, frozenset(pr.index_names(e)), n) for n, e in enumerate(pr.factors(s.value)))


def _ordered(s: pr.Statement, factors: Sequence[_Factor]) -> list[tuple[int, int]] | None:
    """The order in which factors are multiplied with the fewest products; None where there is nothing to order."""
    if len(factors) < 3 or _result(s) >= set(s.indices):
        return None
    from opt_einsum import contract_path, get_symbol  # few programs have such sums

    symbol = {r.index: get_symbol(n) for n, r in enumerate(s.ranges)}
    terms = ["".join(symbol[i] for i in sorted(f.indices)) for f in factors]
    named = frozenset[str]().union(*(f.indices for f in factors))
    result = "".join(symbol[r.index] for r in s.ranges if r.index in _result(s) & named)
    shapes = [tuple(s.extents[i] for i in sorted(f.indices)) for f in factors]
    path, _ = contract_path(f"{','.join(terms)}->{result}", *shapes, shapes=True, optimize="auto", memory_limit=LARGEST)
    if any(len(step) != 2 for step in path):
        return None
    left, pairs = list(range(len(factors))), list[tuple[int, int]]()
    for step in path:
        first, second = sorted(left[n] for n in step)
        left = [n for n in left if n not in (first, second)] + [len(factors) + len(pairs)]
        pairs.append((first, second))
    return pairs


def _products(s: pr.Statement, factors: Sequence[_Factor], pairs: Sequence[tuple[int, int]]) -> list[_Product]:
    """What each product keeps, and what it sums over: the last one also what no factor names, which counts its terms."""
    nameless = frozenset(s.indices).difference(_result(s), *(f.indices for f in factors))
    parts, left, found = [f.indices for f in factors], set(range(len(factors))), list[_Product]()
    for first, second in pairs:
        left -= {first, second}
        own = parts[first] | parts[second]
        kept = own & _result(s).union(*(parts[n] for n in left)) if left else _result(s)
        found.append(_Product(first, second, kept, own - kept if left else own - kept | nameless))
        left.add(len(parts))
        parts.append(kept)
    return found


def _complete(pairs: Sequence[tuple[int, int]], count: int) -> bool:
    left = set(range(count))
    for number, (first, second) in enumerate(pairs):
        if first == second or not {first, second} <= left:
            return False
        left = left - {first, second} | {count + number}
    return len(left) == 1


def _seconds(program: pr.Program, s: pr.Statement, factors: Sequence[_Factor], pairs: Sequence[tuple[int, int]] | None,
             machine: Machine) -> float:
    """The time of all products on one core: at the speed of vectors, and of memory for what is read and what lies between."""
    lanes = max(1, machine.vector_bytes // s.value.dtype.bytes)
    read = sum(t.size * t.dtype.bytes for t in map(program.tensor, {r.tensor for r in pr.reads(s)}))
    if pairs is None:
        cycles = s.points * (len(factors) - 1) / lanes
        return estimates.arithmetic(machine, cycles).seconds + estimates.streamed(machine, read).seconds
    *inner, last = _products(s, factors, pairs)
    cycles = sum(_count(s, p.kept | p.summed) for p in (*inner, last)) / lanes
    between = 3 * s.value.dtype.bytes * sum(_count(s, p.kept) for p in inner)  # begun, added to, read
    return (estimates.arithmetic(machine, cycles).seconds + estimates.streamed(machine, read + between).seconds
            + estimates.regions(machine, len(inner)).seconds)


def _result(s: pr.Statement) -> frozenset[str]:
    """The indices that a result has."""
    return frozenset(i for sub in s.subscripts for i in pr.index_names(sub))


def _count(s: pr.Statement, indices: frozenset[str]) -> int:
    return prod(n for i, n in s.extents.items() if i in indices)


# ---- the rewrite

def _statements(s: pr.Statement, p: _Product, product: pr.Statement, names: Names) -> list[pr.Statement]:
    """What computes a product that lies between. product: it, for all that `s` is for."""
    kept, whole = (tuple(r for r in s.ranges if r.index in over) for over in (p.kept, p.kept | p.summed))
    name, dtype = names.label(f"{s.name}_product"), product.value.dtype
    if not p.summed:
        return [replace(product, name=name, op=None, ranges=whole)]
    zero = pr.Const(0.0 if dtype.is_float else 0, dtype)
    return [replace(product, name=names.label(initialisation(name)), op=None, value=zero, ranges=kept),
            replace(product, name=name, ranges=whole)]


def _value(parts: Sequence[_Factor], p: _Product, dtype: DType) -> pr.Expr:
    """Both, in the order of the text."""
    first, second = sorted((parts[p.first], parts[p.second]), key=lambda part: part.place)
    return pr.Binary("*", first.value, second.value, dtype)


def _spelled(pairs: Sequence[tuple[int, int]]) -> tuple[str, ...]:
    return tuple(f"{a}.{b}" for a, b in pairs)


def _read(pairs: Sequence[str]) -> list[tuple[int, int]] | None:
    """What `_spelled` wrote; None for other text."""
    found = [p.partition(".") for p in pairs]
    return [(int(a), int(b)) for a, _, b in found] if all(a.isdecimal() and b.isdecimal() for a, _, b in found) else None
