"""Nests of loops that are calls of declared intrinsics (program.intrinsics), as targets that write C find them.

    matrix for k in 0:8 { C[] = C[] + i32(A[8*k0 + k]) * i32(B[8*k0 + k]) }  ->  dot8 on C, A from 8*k0 on, B from 8*k0 on

What the schedule proved of the program is looked at once more in the loops, as copies may have moved operands elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from polytc import errors
from polytc.codegen import addresses, loops, traverse
from polytc.program.intrinsics import Call, Operand

errors.register(E527="an intrinsic does not fit the loops that were made for it")


@dataclass(frozen=True)
class Argument:
    """Of a call. operand: what it is there; buffer, indices: the element that the first iteration touches; strides: elements
    from one step of each of its dimensions to the next; offset: elements from the operand's first one to that."""

    operand: Operand
    buffer: loops.Buffer
    indices: tuple[loops.Expr, ...]
    strides: tuple[int, ...]
    offset: int

    @property
    def first(self) -> addresses.Address:
        """Where the operand begins in the buffer."""
        form = addresses.flatten(self.buffer, self.indices)
        assert form is not None, "intrinsic: an operand without an address"
        return form.plus(addresses.Address(-self.offset))


@dataclass(frozen=True)
class Nest:
    """call: what the loops are; store: their statement; arguments: of the call, the one that is written first."""

    call: Call
    store: loops.Store
    arguments: tuple[Argument, ...]


def nest_of(s: loops.For, kernel: loops.Kernel, language: str) -> Nest | None:
    """The call that a nest is in a language; None for other loops, and where the intrinsic has no text for the language. Raises
    TargetError E527 where the loops are no more what was declared."""
    calls = dict(kernel.intrinsics)
    if not calls or s.kind != "matrix":
        return None
    nest: list[loops.For] = []
    body: loops.Stmt = s
    while isinstance(body, loops.For) and body.kind == "matrix":
        nest.append(body)
        body = body.body
    call = calls.get(body.origin) if isinstance(body, loops.Store) else None
    if call is None or not isinstance(body, loops.Store) or call.intrinsic.in_language(language) is None:
        return None
    if tuple(map(_trips, nest)) != call.extents:
        raise _refuse(call, f"the loops run {', '.join(f'{x.lower}:{x.upper}' for x in nest)}")
    touched = [(body.buffer, body.indices), *_loads(body)]
    if len(touched) != len(call.operands):
        raise _refuse(call, f"{body.origin} reads {len(touched) - 1} operands where it has been rewritten")
    found = tuple(_argument(call, o, *t, nest, language) for o, t in zip(call.operands, touched, strict=True))
    _check_names(call, found)
    return Nest(call, body, found)


def _check_names(call: Call, found: tuple[Argument, ...]) -> None:
    """Raises E527 where an operand that is read twice is in two places: the text has one pointer to it."""
    by_name: dict[str, Argument] = {}
    for a in found:
        b = by_name.setdefault(a.operand.name, a)
        apart = a.first.plus(b.first.times(-1)) if a.buffer == b.buffer else None
        if apart is None or apart.terms or apart.constant or a.strides != b.strides:
            raise _refuse(call, f"{a.operand.name} is read in two places of {b.buffer.name} and {a.buffer.name}")


def check_alone(s: loops.Store, kernel: loops.Kernel, language: str) -> None:
    """Raises TargetError E527 for a store that should be part of a call."""
    call = dict(kernel.intrinsics).get(s.origin) if kernel.intrinsics else None
    if call is not None and call.intrinsic.in_language(language) is not None:
        raise _refuse(call, f"{s.origin} stands in other loops")


def _trips(s: loops.For) -> int:
    known = isinstance(s.lower, loops.Const) and isinstance(s.upper, loops.Const) and s.step == 1
    return int(s.upper.value) - int(s.lower.value) if known else -1  # type: ignore[union-attr]


def _loads(s: loops.Store) -> Iterator[tuple[loops.Buffer, tuple[loops.Expr, ...]]]:
    """What a store reads besides the element that it updates, in order."""
    def visit(e: loops.Expr) -> Iterator[tuple[loops.Buffer, tuple[loops.Expr, ...]]]:
        if isinstance(e, loops.Load):
            if (e.buffer, e.indices) != (s.buffer, s.indices):
                yield e.buffer, e.indices
            return
        for x in traverse.operands(e):
            yield from visit(x)
    yield from visit(s.value)


def _argument(call: Call, o: Operand, buffer: loops.Buffer, indices: tuple[loops.Expr, ...], nest: list[loops.For],
              language: str) -> Argument:
    """An operand of the loops as one of the call."""
    form = addresses.flatten(buffer, indices)
    moves = [form.coefficient(x.var) if form is not None else 0 for x in nest]
    if form is None or any(form.at({x.var: 0}).mentions(x.var) for x in nest) or form.lanes:
        raise _refuse(call, f"{buffer.name} is read by other formulas of the loops than sums")
    strides = [_stride(o, d, moves) for d in range(len(o.rows))]
    told = [sum(row[n] * stride for row, stride in zip(o.rows, strides, strict=True)) for n in range(len(nest))]
    if told != moves:
        raise _refuse(call, f"the loops move through {buffer.name} by {moves} elements, through {o.name} by {told}")
    for d, stride in enumerate(strides):
        if language in call.intrinsic.untold(o.name, d) and stride != prod(o.shape[d + 1:]) and any(o.rows[d]):
            raise _refuse(call, f"elements of {buffer.name} are {stride} apart where those of {o.name} are "
                          f"{prod(o.shape[d + 1:])}")
    if o.whole and buffer.shape != o.whole:
        raise _refuse(call, f"{buffer.name} keeps fewer elements than {o.name} has: the loops do not touch all of them")
    offset = sum(n * stride for n, stride in zip(o.offsets, strides, strict=True))
    if o.rows:
        _check_alignment(call, buffer, form.plus(addresses.Address(-offset)), nest)
    first = {x.var: x.lower for x in nest}
    return Argument(o, buffer, tuple(traverse.map_expr(i, lambda e: first.get(e.name, e) if isinstance(e, loops.Var) else e)
                                     for i in indices), tuple(strides), offset)


def _check_alignment(call: Call, buffer: loops.Buffer, form: addresses.Address, nest: list[loops.For]) -> None:
    """Raises E527 where an operand may begin between two multiples of what the intrinsic asks for."""
    asked, size = call.intrinsic.alignment, buffer.dtype.bytes
    at = form.at({x.var: int(x.lower.value) for x in nest if isinstance(x.lower, loops.Const)})
    if asked > size and (buffer.space == "private" or at.constant * size % asked or any(c * size % asked for _, c in at.terms)):
        raise _refuse(call, f"{buffer.name} may begin between two multiples of {asked} bytes there")


def _stride(o: Operand, d: int, moves: list[int]) -> int:
    """What a step of a dimension moves by, told by a loop that moves through it alone."""
    for n, c in enumerate(o.rows[d]):
        if c and not any(row[n] for e, row in enumerate(o.rows) if e != d) and moves[n] % c == 0:
            return moves[n] // c
    return prod(o.shape[d + 1:])


def _refuse(call: Call, why: str) -> errors.CompileError:
    return errors.fail("E527", f"the loops for {call.intrinsic.name} have changed: {why}", kind=errors.TargetError,
                       notes=["tensorize last, behind `cache` and `accumulate`"])
