"""Complex tensors are real ones with one more axis, the last, of extent 2: the real part, then the imaginary part.

    Y[i] = A[i] + 2*X[i]                                        with c64 A[9], c64 X[9]
    ->  Y[i,part] = A[i,part] + 2.0*X[i,part] where part in 0:2

    Y[i] = A[i]*X[i]                                            with c64 A[9], c64 X[9]
    ->  Y[i,0] = A[i,0]*X[i,0] - A[i,1]*X[i,1]
    Y[i,1] = A[i,0]*X[i,1] + A[i,1]*X[i,0]

This is how numpy lays them out, so that the caller's arrays are taken as they are, and nothing behind this step knows complex
numbers. A statement whose parts are made alike stays one; others become one for each part, and what they share is stored before
where it is long. On CPUs, sums are one statement, so that memory is walked once:

    s += A[i]*X[i]                                              with c64 A[9], c64 X[9]
    ->  s[part] += part == 0 ? A[i,0]*X[i,0] - A[i,1]*X[i,1] : A[i,0]*X[i,1] + A[i,1]*X[i,0] where part in 0:2

Sums of products of which one factor is used often are sums of products of real matrices
(`complex_numbers.matrix`); products that are reduced are made in a loop (`complex_numbers.products`).
"""

from __future__ import annotations

from dataclasses import replace

from polytc.program import program as pr
from polytc.program.names import Names
from polytc.program.scalars import BOOL, I64
from polytc.program.type_promotion import fold
from polytc.rewrite.complex_numbers import both_parts, matrix, products
from polytc.rewrite.complex_numbers.parts import both, real, uniform
from polytc.rewrite.step import Decision
from polytc.schedule.facts.fusion_groups import reduced_indices

LONGEST = 120
"""Operations and operands in one part of a value at most; of more, the larger operand is stored by a statement of its own."""

_COSTS = {"/": 40, "exp": 6, "sqrt": 40, "abs": 14}
"""How often, about, an operand stands in both parts of what is made of it, for operations where that is not twice."""


def as_real(program: pr.Program, *, vectors: bool = False) -> pr.Program:
    """The program without complex numbers; the same one if it has none. vectors: sums make both parts in one statement, whose
    copies for the two parts share what vectors read (see schedule.facts.strides.along_rows)."""
    if not is_complex(program):
        return program
    return _Lowering(program, vectors).run()


def apply(program: pr.Program, decision: Decision) -> pr.Program:
    """The step."""
    return as_real(program, vectors=decision.machine.kind == "cpu")


def is_complex(program: pr.Program) -> bool:
    """Are there complex numbers in it?"""
    return any(t.dtype.is_complex for t in program.tensors) or any(
        e.dtype.is_complex for s in program.statements for top in (s.value, *s.subscripts) for e in pr.walk(top))


class _Lowering:
    """One program. vectors: see as_real; part: the name of the index that counts parts."""

    def __init__(self, program: pr.Program, vectors: bool) -> None:
        self.vectors = vectors and not program.precise
        self.program, self.names = program, Names.of(program)
        self.tensors = [as_pairs(t) for t in program.tensors]
        self.whole = {t.name: t for t in program.tensors}
        self.part, self.row = self.names.index("part"), self.names.index("row")

    def run(self) -> pr.Program:
        statements = tuple(x for s in self.program.statements for x in self.statement(s))
        return replace(self.program, tensors=tuple(self.tensors), statements=statements)

    def statement(self, s: pr.Statement) -> list[pr.Statement]:
        """What stands in place of a statement."""
        dtype = self.whole[s.target].dtype
        if s.op == "*" and dtype.is_complex:
            s = products.in_order(s, dtype, self.names)
        before, value = self.shortened(s)
        s = replace(s, value=value, subscripts=tuple(map(real, s.subscripts)),
                    bounds=tuple(replace(b, lower=real(b.lower), upper=real(b.upper)) for b in s.bounds))
        if not dtype.is_complex:
            s = replace(s, value=fold(real(s.value)))
            return [*before, s if self.program.precise else both_parts.summed(s, self.whole, self.part)]
        if self.touches_itself(s):
            if self.of_itself_alone(s):
                return [*before, *self.in_place(s)]
            made, copy = self.through(s)
            return [*before, *self.in_parts(made), *self.in_parts(copy)]
        return [*before, *self.in_parts(s)]

    def in_parts(self, s: pr.Statement) -> list[pr.Statement]:
        """One statement for both parts, or one for each."""
        product = matrix.product(s, self.whole, vectors=self.vectors) if not self.program.precise else None
        if product is not None:
            made, tensor = matrix.statements(s, product, self.names, self.part, self.row)
            self.tensors.append(tensor)
            return made
        alike = uniform(s.value, pr.Index(self.part))
        if alike is not None:
            return [self.of_parts(s, alike)]
        if self.is_vector_sum(s):
            re, im = both(s.value)
            first = pr.Binary("==", pr.Index(self.part), pr.Const(0, I64), BOOL)
            return [self.of_parts(s, pr.Select(first, fold(re), fold(im), re.dtype))]
        values = enumerate(zip(("re", "im"), both(s.value), strict=True))
        return [replace(s, name=self.names.label(f"{s.name}_{word}"), subscripts=(*s.subscripts, pr.Const(n, I64)),
                        value=fold(value)) for n, (word, value) in values]

    def of_parts(self, s: pr.Statement, value: pr.Expr) -> pr.Statement:
        """The statement for both parts, whose number stands in the value."""
        place = max((n + 1 for n, i in enumerate(s.indices) if any(i in pr.index_names(e) for e in s.subscripts)), default=0)
        place = max(place, s.depth)
        ranges = (*s.ranges[:place], pr.Range(self.part, 0, 2), *s.ranges[place:])
        return replace(s, subscripts=(*s.subscripts, pr.Index(self.part)), value=value, ranges=ranges)

    def is_vector_sum(self, s: pr.Statement) -> bool:
        """Is it a sum whose parts are made together?"""
        plain = s.op == "+" and not s.loops and not s.bounds and not pr.scatters(s)
        return self.vectors and plain and bool(reduced_indices(s))

    def touches_itself(self, s: pr.Statement) -> bool:
        """Would the second part be made of the first part that has been written already?"""
        alike = uniform(s.value, pr.Index(self.part))
        reads = [e for e in pr.walk(both(s.value)[1] if alike is None else alike)
                 if isinstance(e, pr.Read) and e.tensor == s.target]
        return any(e.subscripts[-1] == pr.Const(0, I64) for e in reads)

    def of_itself_alone(self, s: pr.Statement) -> bool:
        """Is each element made of no other element of its tensor, and once?"""
        plain = {e.name for e in s.subscripts if isinstance(e, pr.Index)}
        once = s.op is None and plain >= {r.index for r in s.ranges[s.depth:]}
        return once and all(e.subscripts == s.subscripts for e in pr.reads(s) if e.tensor == s.target)

    def in_place(self, s: pr.Statement) -> list[pr.Statement]:
        """One statement for each part of what is made of itself: the first part waits until the second is made."""
        re, im = both(s.value)
        dtype, over = self.whole[s.target].dtype.part, s.ranges[s.depth:]
        waits = pr.Tensor(self.names.label(f"{s.target}_re"), dtype, tuple(r.extent for r in over),
                          tuple(r.lower for r in over))
        self.tensors.append(waits)
        at = tuple(pr.Index(r.index) for r in over)
        return [replace(s, name=self.names.label(f"{s.name}_value"), target=waits.name, subscripts=at, value=fold(re)),
                replace(s, name=self.names.label(f"{s.name}_im"), subscripts=(*s.subscripts, pr.Const(1, I64)), value=fold(im)),
                replace(s, name=self.names.label(f"{s.name}_re"), subscripts=(*s.subscripts, pr.Const(0, I64)),
                        value=pr.Read(waits.name, at, dtype))]

    # ---- values that are stored before

    def through(self, s: pr.Statement) -> tuple[pr.Statement, pr.Statement]:
        """The value of a statement in a tensor of its own, and the statement that takes it from there."""
        made, read = self.stored(s, s.value, s.ranges[s.depth:], f"{s.target}_value")
        return made, replace(s, value=read)

    def stored(self, s: pr.Statement, value: pr.Expr, over: tuple[pr.Range, ...], name: str) -> tuple[pr.Statement, pr.Read]:
        """A statement that stores part of the value of another, over some of its ranges, and the read of that."""
        tensor = pr.Tensor(self.names.label(name), value.dtype, tuple(r.extent for r in over), tuple(r.lower for r in over))
        self.tensors.append(as_pairs(tensor))
        self.whole[tensor.name] = tensor
        at = tuple(pr.Index(r.index) for r in over)
        made = replace(s, name=self.names.label(f"{s.name}_value"), target=tensor.name, subscripts=at, op=None, value=value)
        return made, pr.Read(tensor.name, at, tensor.dtype)

    def shortened(self, s: pr.Statement) -> tuple[list[pr.Statement], pr.Expr]:
        """Statements that store long operands, and the value that reads them."""
        found = list[pr.Statement]()
        known = dict[pr.Expr, pr.Expr]()

        def store(e: pr.Expr) -> pr.Expr:
            if not isinstance(e, pr.Const | pr.Read) and e not in known:
                made, known[e] = self.stored(s, e, s.ranges[s.depth:], f"{s.target}_value")
                found.extend(self.in_parts(made))
            return known.get(e, e)

        def visit(e: pr.Expr) -> pr.Expr:
            if isinstance(e, pr.Read) or not any(x.dtype.is_complex for x in pr.walk(e)):
                return e
            e = pr.rebuild(e, tuple(map(visit, pr.children(e))))
            while length(e) > LONGEST:
                operands = pr.children(e)
                longest = max((x for x in operands if x.dtype.is_complex and not isinstance(x, pr.Const | pr.Read)), key=length,
                              default=None)
                if longest is None:
                    return e
                e = pr.rebuild(e, tuple(store(x) if x == longest else x for x in operands))
            return e
        return found, visit(s.value)


def as_pairs(t: pr.Tensor) -> pr.Tensor:
    """A complex tensor as a real one."""
    return replace(t, dtype=t.dtype.part, shape=(*t.shape, 2), lower=(*t.lower, 0)) if t.dtype.is_complex else t


def length(e: pr.Expr) -> int:
    """How many operations and operands there are, about, in one part of a complex expression."""
    if isinstance(e, pr.Read) or not e.dtype.is_complex and not any(c.dtype.is_complex for c in pr.children(e)):
        return 1
    match e:
        case pr.Cast() if not e.a.dtype.is_complex:
            return sum(1 for _ in pr.walk(e.a))
        case pr.Binary(op="*") if not (_known(e.a) or _known(e.b)):
            return 2 * (length(e.a) + length(e.b))
        case pr.Binary(op="/") if not _known(e.b):
            return length(e.a) * 4 + _COSTS["/"] * length(e.b)
        case pr.Call():
            return _COSTS.get(e.fn, 1) * length(e.args[0])
    return 1 + sum(map(length, pr.children(e)))


def _known(e: pr.Expr) -> bool:
    """Is it a real number, or a number?"""
    return isinstance(e, pr.Const) or isinstance(e, pr.Cast) and not e.a.dtype.is_complex
