"""Proof that every access of a Program stays in its tensor: of the statements as they were written, and of the initialisations,
copies, packed and staged tensors that rewrites add. The compiler asks for it after the last rewrite, for every program.

Most accesses stay inside over the whole box of their statement, which intervals tell in microseconds; isl decides the others,
with the conditions of the statement, its tested ranges, and the choices (`cond ? a : b`) around the access. What asks memory
needs no proof: gathers are clamped, scatters and guarded reads tested where they run.

Where sizes are open, the proof is for those at which the program as it was written stays inside: at others the front end, which
looks at the program of each call, refuses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

import islpy

from polytc.poly import isl
from polytc.program import program as pr
from polytc.program.affine import Affine, Atom, QuasiAffine, Quotient, add, affine, interval
from polytc.program.sizes import Undecided, representatives


@dataclass(frozen=True)
class OutOfBounds:
    """An access that is not proved to stay inside. statement: the one that has it; message: what it does; witness: an instance
    that leaves the tensor, or why there is no proof."""

    statement: pr.Statement
    message: str
    witness: str

    def __str__(self) -> str:
        return f"{self.statement.name} {self.message}: {self.witness}"


@dataclass(frozen=True)
class _Access:
    """One subscript of an access. does: 'reads' or 'writes'."""

    tensor: pr.Tensor
    axis: int
    subscript: pr.Expr
    does: str


def first_out_of_bounds(program: pr.Program, once: pr.Program | None, sizes: str = "") -> OutOfBounds | None:
    """The same as `out_of_bounds` for what runs in each call, and what runs once before."""
    found = out_of_bounds(program, sizes=sizes)
    return found if found is not None or once is None else out_of_bounds(once, sizes=sizes)


def out_of_bounds(program: pr.Program, operations: int = isl.BUDGET, sizes: str = "") -> OutOfBounds | None:
    """The first access that leaves its tensor, or that cannot be proved to stay inside with so many isl operations; None if all
    of them stay. sizes: what `sizes_inside` gave, '' for all."""
    for s in program.statements:
        if doubtful := _doubtful(program, s):
            found = _exactly(program, s, doubtful, operations, sizes)
            if found is not None:
                return found
    return None


def sizes_inside(program: pr.Program, operations: int = isl.BUDGET) -> str:
    """The open sizes at which all accesses of a program stay inside, as a set of isl; '' where no size is open, or where that
    takes more isl operations than these. Remainders by open sizes, which no set has, exclude none.

        C[i] = A[i] where i in 2:5, A of M   ->   [M] -> { : M >= 5 }
    """
    ctx = isl.new_context()

    def allowed() -> str:
        found = islpy.Set.read_from_str(ctx, f"{isl.parameters(program)}{{ : {isl.facts(program)} }}")
        for s in program.statements:
            doubtful = _doubtful(program, s)
            for a, known in _in_context(program, s) if doubtful else ():
                if a in doubtful and not _has_open_divisor(a):
                    found = found.subtract(_leaving(ctx, program, s, a, known).params())
        return str(found.coalesce())
    try:
        return isl.bounded(ctx, operations, allowed) if program.sizes else ""
    except isl.QuotaExceeded:
        return ""


def size_limits(program: pr.Program) -> tuple[QuasiAffine, ...]:
    """Forms of the open sizes, which are at least 1, that are at least 0 where all accesses of a program stay inside and its
    text is this program (`Program.same`). Of sets with holes it is the part with the typical sizes.

        C[i] = A[i] where i in 2:5, A of M   ->   M - 5
    """
    sets = [s for s in (sizes_inside(program), program.same() if program.same else "") if s]
    if not sets:
        return ()
    ctx = isl.new_context()
    known = islpy.Set.read_from_str(ctx, f"{isl.parameters(program)}{{ : {isl.facts(program)} }}")
    allowed = reduce(islpy.Set.intersect, (islpy.Set.read_from_str(ctx, s) for s in sets), known).coalesce()
    hull = allowed.simple_hull().to_set()
    part = hull if hull.is_subset(allowed) else _typical_part(program, allowed)
    names = {isl.name(n): n for n in program.sizes}
    return tuple(form for s in part.gist(known).get_basic_sets() for c in s.get_constraints() for form in _forms(c, names))


def _typical_part(program: pr.Program, allowed: islpy.Set) -> islpy.Set:
    """The piece of a set of sizes that has the typical ones."""
    facts = " and ".join(f"{isl.name(n)} = {v}" for n, v in representatives((program.tensors, program.statements)).items())
    at = islpy.Set.read_from_str(allowed.get_ctx(), f"{isl.parameters(program)}{{ : {facts or 'true'} }}")
    pieces = [p.to_set() for p in allowed.compute_divs().get_basic_sets()]
    return next((p for p in pieces if not p.intersect(at).is_empty()), pieces[0])


def _forms(c: islpy.Constraint, names: Mapping[str, str]) -> Iterator[QuasiAffine]:
    """What a constraint on sizes makes at least 0."""
    form = _form(c.get_aff(), names, 1)
    yield form
    if c.is_equality():
        yield add(Affine(0), form, -1)


def _form(e: islpy.Aff, names: Mapping[str, str], factor: int) -> Affine:
    """A number times an expression of isl, such that no fractions are left."""
    def times(value: islpy.Val) -> int:
        return int((value * factor).to_python())
    terms: list[tuple[Atom, int]] = [(names[e.get_dim_name(islpy.dim_type.param, k)], n)
             for k in range(e.dim(islpy.dim_type.param)) if (n := times(e.get_coefficient_val(islpy.dim_type.param, k)))]
    for k in range(e.dim(islpy.dim_type.div)):
        if n := times(e.get_coefficient_val(islpy.dim_type.div, k)):
            inner = e.get_div(k)
            divisor = inner.get_denominator_val().to_python()
            terms.append((Quotient(_form(inner, names, divisor), divisor), n))
    return Affine(times(e.get_constant_val()), tuple(terms))


def _accesses(program: pr.Program, s: pr.Statement) -> Iterator[_Access]:
    """What a statement accesses without a test at run time, axis by axis."""
    yield from _axes(program, s.target, s.subscripts, "writes")
    for r in pr.reads(s):
        if r.default is None:
            yield from _axes(program, r.tensor, r.subscripts, "reads")


def _axes(program: pr.Program, tensor: str, subscripts: tuple[pr.Expr, ...], does: str) -> Iterator[_Access]:
    t = program.tensor(tensor)
    return (_Access(t, axis, e, does) for axis, e in enumerate(subscripts))


def _doubtful(program: pr.Program, s: pr.Statement) -> list[_Access]:
    """The accesses whose boxes do not stay inside."""
    return [a for a in _accesses(program, s) if not _inside_box(s, a)]


def _inside_box(s: pr.Statement, a: _Access) -> bool:
    """Does the subscript stay inside for all points of the statement's box, or does memory decide it?"""
    lower, extent = a.tensor.lower[a.axis], a.tensor.shape[a.axis]
    try:
        form = affine(a.subscript)
        if form is None:
            return True
        first, last = interval(form, s.box)
        return lower <= first and last < lower + extent
    except Undecided:
        return False


def _has_open_divisor(a: _Access) -> bool:
    try:
        affine(a.subscript)
    except Undecided:
        return True
    return False


def _leaving(ctx: islpy.Context, program: pr.Program, s: pr.Statement, a: _Access, known: tuple[str, ...]) -> islpy.Set:
    """The instances at which an access leaves its tensor. known: what holds around it."""
    affine(a.subscript)  # raises Undecided where there is no set
    given = isl.parameters(program)
    facts = [f"{isl.number(n)} >= 0" for t in program.tensors for n in t.shape] if program.sizes else []
    facts += [isl.facts(program)] if program.sizes else []
    low, high = isl.number(a.tensor.lower[a.axis]), isl.number(a.tensor.lower[a.axis] + a.tensor.shape[a.axis])
    cells = [(test, isl.expr(x)) for test, x in isl.pieces(a.subscript)]
    outside = f"({' or '.join(f'({test} and ({cell} < {low} or {cell} >= {high}))' for test, cell in cells)})"
    conditions = " and ".join((outside, *known, *facts))
    domain = islpy.Set.read_from_str(ctx, f"{given}{{ {isl.domain(s)} }}")
    return domain.intersect(islpy.Set.read_from_str(ctx, f"{given}{{ {isl.instance(s)} : {conditions} }}"))


def _exactly(program: pr.Program, s: pr.Statement, doubtful: list[_Access], operations: int, sizes: str) -> OutOfBounds | None:
    """The same question for the instances that there are."""
    ctx = isl.new_context()

    def leaving(a: _Access, known: tuple[str, ...]) -> str | None:
        found = _leaving(ctx, program, s, a, known)
        found = found.intersect_params(islpy.Set.read_from_str(ctx, sizes)) if sizes else found
        return None if found.is_empty() else str(found.sample_point())

    for access, known in _in_context(program, s):
        if access not in doubtful:
            continue
        what = f"{access.does} dimension {access.axis} of {access.tensor.name} at {pr.format_expr(access.subscript)}"
        try:
            point = isl.bounded(ctx, operations, lambda: leaving(access, known))  # noqa: B023
        except isl.QuotaExceeded as e:
            return OutOfBounds(s, what, f"the proof that it stays inside needs {e}")
        if point is not None:
            low, extent = access.tensor.lower[access.axis], access.tensor.shape[access.axis]
            return OutOfBounds(s, what, f"{point} leaves {low}:{low + extent}")
    return None


def _in_context(program: pr.Program, s: pr.Statement) -> Iterator[tuple[_Access, tuple[str, ...]]]:
    """The accesses of a statement with what its tested ranges and the choices around them say, in isl's notation."""
    tested = tuple(t for c in pr.within(s.bounds) for t in _stated(c))
    for a in _axes(program, s.target, s.subscripts, "writes"):
        yield a, tested
    parts = [(e, tested) for e in (*s.subscripts, s.value)] + [(e, ()) for b in s.bounds for e in (b.lower, b.upper)]
    for e, around in parts:
        for r, known in _reads(e, around):
            for a in _axes(program, r.tensor, r.subscripts, "reads"):
                yield a, known


def _reads(e: pr.Expr, known: tuple[str, ...]) -> Iterator[tuple[pr.Read, tuple[str, ...]]]:
    """The unguarded reads of an expression with the conditions under which they run, as far as these are affine."""
    if isinstance(e, pr.Read) and e.default is None:
        yield e, known
    if isinstance(e, pr.Select):
        yield from _reads(e.cond, known)
        yield from _reads(e.a, (*known, *_stated(e.cond)))
        condition = isl.expr(e.cond)
        yield from _reads(e.b, known if condition is None else (*known, f"(not {condition})"))
        return
    for x in pr.children(e):
        yield from _reads(x, known)


def _stated(condition: pr.Expr) -> list[str]:
    """What holds where a condition does: its affine conjuncts."""
    if isinstance(condition, pr.Binary) and condition.op == "&&":
        return [*_stated(condition.a), *_stated(condition.b)]
    text = isl.expr(condition)
    return [] if text is None else [text]
