"""Statements of a Program -> stores of the Loop AST: subscripts to indices, guards to selects, gathers to clamped loads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from polytc.codegen import loops, traverse
from polytc.poly import isl
from polytc.poly.storage_folding import Fold
from polytc.program import program as pr
from polytc.program.affine import Affine, Atom, Quotient, Remainder, affine
from polytc.program.calls import matrix_rows, published, words
from polytc.program.scalars import BOOL, I32, I64, INTRINSICS, identity
from polytc.program.sizes import Size


@dataclass(frozen=True)
class Lowering:
    """The buffers of a program, and the translation of its statements. buffers: tensor name -> buffer; folds: of temporaries
    that lie in rings, by name."""

    program: pr.Program
    buffers: dict[str, loops.Buffer]
    folds: dict[str, Fold] = field(default_factory=dict)

    @staticmethod
    def of(program: pr.Program, folds: Sequence[Fold] = ()) -> Lowering:
        folded = {f.tensor: f for f in folds}

        def shape(t: pr.Tensor) -> tuple[int, ...]:
            f = folded.get(t.name)
            return t.shape if f is None else (*t.shape[:f.dimension], f.places, *t.shape[f.dimension + 1:])
        return Lowering(program, {t.name: loops.Buffer(t.name, t.dtype, shape(t)) for t in program.tensors}, folded)

    def module(self, bodies: tuple[loops.Stmt, ...], asked: tuple[loops.Asked, ...] = ()) -> loops.Module:
        """The module whose kernels have these bodies. asked: what is to be fetched ahead."""
        p = self.program
        marked = tuple((s.name, s.intrinsic) for s in p.statements if s.intrinsic is not None)
        kernels = tuple(replace(kernel(f"k{n}", body), precise=p.precise, fast=p.fast, intrinsics=marked, ahead=asked)
                        for n, body in enumerate(bodies))
        return loops.Module(p.name, tuple(self.buffers[n] for n in p.arrays), p.outputs,
                            tuple(self.buffers[n] for n in p.temporaries), kernels, once=p.once)

    def statement(self, s: pr.Statement, values: dict[str, loops.Expr]) -> loops.Stmt:
        """One instance; values: the statement's indices as expressions over loop variables."""
        if s.atomic:
            return self._atomic(s, values)
        buffer = self.buffers[s.target]
        indices = self._indices(s.target, s.subscripts, values)
        value = self.expr(s.value, values)
        old = loops.Load(buffer, indices, buffer.dtype)
        inside = self._scatter_inside(s, values)
        if inside is not None:
            neutral = loops.Const(identity(s.op, buffer.dtype), buffer.dtype) if s.op is not None else old
            value = loops.Select(inside, value, neutral, buffer.dtype)
        return loops.Store(buffer, indices, combine(s.op, old, value) if s.op is not None else value, s.name)

    def _atomic(self, s: pr.Statement, values: dict[str, loops.Expr]) -> loops.Stmt:
        """An atomic update, where it stays in its tensor: an item that has nothing to add must not keep others waiting."""
        assert s.op is not None, "lower: an atomic assignment"
        buffer, tensor = self.buffers[s.target], self.program.tensor(s.target)
        indices, tests = list[loops.Expr](), list[loops.Expr]()
        for sub, lower, extent in zip(s.subscripts, tensor.lower, tensor.shape, strict=True):
            place = _unwidened(self.expr(sub, values))
            if affine(sub) is None:
                tests += _within(place, int(lower), int(extent))
                large = place.dtype.bits + (place.dtype.kind == "u") > I32.bits
                place = loops.Cast(place, I32) if large and lower + extent < 1 << 31 else place
            place = _as_index(place)
            indices.append(loops.binary("-", place, size(lower)) if isinstance(lower, Size) or lower else place)
        old = loops.Load(buffer, tuple(indices), buffer.dtype)
        value = combine(s.op, old, self.expr(s.value, values))
        store = loops.Store(buffer, old.indices, value, s.name, atomic=True)
        return loops.If(conjunction(tests), store) if tests else store

    def _scatter_inside(self, s: pr.Statement, values: dict[str, loops.Expr]) -> loops.Expr | None:
        """Does a scatter stay in its tensor? None for other statements. Where it does not, a clamped place keeps its value:
        that needs no branch, so that other indices may become vectors."""
        asked = self._indices(s.target, s.subscripts, values, clamped=False)
        extents = self.program.tensor(s.target).shape
        tests = [t for sub, i, n in zip(s.subscripts, asked, extents, strict=True) if affine(sub) is None
                 for t in (loops.binary(">=", i, loops.const(0)), loops.binary("<", i, size(n)))]
        return conjunction(tests) if tests else None

    def _indices(self, tensor: str, subscripts: tuple[pr.Expr, ...], values: dict[str, loops.Expr], clamped: bool = True
                 ) -> tuple[loops.Expr, ...]:
        """Subscripts relative to the tensor's first element; a gathered one is clamped into bounds, if `clamped`."""
        t, fold = self.program.tensor(tensor), self.folds.get(tensor)
        result = []
        for d, (sub, lower, extent) in enumerate(zip(subscripts, t.lower, t.shape, strict=True)):
            index = _as_index(self.expr(sub, values))
            if isinstance(lower, Size) or lower:
                index = loops.binary("-", index, size(lower))
            if clamped and affine(sub) is None:
                index = loops.Call("max", (loops.Call("min", (index, size(extent - 1)), I64), loops.const(0)), I64)
            if clamped and fold is not None and fold.dimension == d:
                index = loops.binary("%", index, loops.const(fold.places))
            result.append(index)
        return tuple(result)

    def expr(self, e: pr.Expr, values: dict[str, loops.Expr]) -> loops.Expr:
        """An expression of the program over loop variables."""
        match e:
            case pr.Const(value=Size() as n):
                return loops.Cast(size(n), e.dtype) if e.dtype != I64 else size(n)
            case pr.Const():
                return loops.Const(e.value, e.dtype)
            case pr.Index():
                return values[e.name]
            case pr.Read():
                return self._read(e, values)
            case pr.Unary():
                return loops.Unary(e.op, self.expr(e.a, values), e.dtype)
            case pr.Binary():
                return loops.Binary(e.op, self.expr(e.a, values), self.expr(e.b, values), e.dtype)
            case pr.Call():
                known = (words.is_word_call, published.is_published_call, matrix_rows.is_rows_call)
                assert e.fn in INTRINSICS or any(is_known(e.fn) for is_known in known), f"lower: unknown intrinsic {e.fn}"
                return loops.Call(e.fn, tuple(self.expr(a, values) for a in e.args), e.dtype)
            case pr.Cast():
                a = self.expr(e.a, values)
                return a if a.dtype == e.dtype else loops.Cast(a, e.dtype)
            case pr.Select():
                return loops.Select(self.expr(e.cond, values), self.expr(e.a, values), self.expr(e.b, values), e.dtype)

    def _read(self, r: pr.Read, values: dict[str, loops.Expr]) -> loops.Expr:
        indices = self._indices(r.tensor, r.subscripts, values)
        load = loops.Load(self.buffers[r.tensor], indices, r.dtype)
        if r.default is None:
            return load
        asked = self._indices(r.tensor, r.subscripts, values, clamped=False)
        tests = [t for i, n in zip(asked, self.program.tensor(r.tensor).shape, strict=True)
                 for t in (loops.binary(">=", i, loops.const(0)), loops.binary("<", i, size(n)))]
        return loops.Select(conjunction(tests), load, loops.Const(r.default.value, r.dtype), r.dtype)


def _unwidened(e: loops.Expr) -> loops.Expr:
    """A number before it was made i64, where that has not changed it."""
    kept = isinstance(e, loops.Cast) and e.dtype == I64 and e.a.dtype.is_int and e.a.dtype.bits <= I32.bits
    return e.a if kept and isinstance(e, loops.Cast) else e


def _within(place: loops.Expr, lower: int, extent: int) -> list[loops.Expr]:
    """Whether a number lies in lower..lower+extent-1: in its own type, where that has both ends."""
    ends = (int(identity(op, place.dtype)) for op in ("max", "min"))
    least, most = next(ends), next(ends)
    if not least <= lower <= lower + extent <= most:
        place, least, most = _as_index(place), -(1 << 63), (1 << 63) - 1
    return [loops.binary(op, place, loops.Const(n, place.dtype))
            for op, n, needed in ((">=", lower, least < lower), ("<", lower + extent, lower + extent <= most)) if needed]


def size(n: int, spelled: bool = False) -> loops.Expr:
    """A number, or a formula of sizes over their variables. spelled: it has the names of the variables already."""
    return _formula(n.form, spelled) if isinstance(n, Size) else loops.const(n)


def size_variable(name: str, spelled: bool = False) -> loops.Var:
    """The variable of an open size."""
    return loops.Var(name if spelled else isl.name(name), least=1)


def _formula(form: Affine | Atom, spelled: bool) -> loops.Expr:
    match form:
        case str():
            return size_variable(form, spelled)
        case Quotient() | Remainder():
            whole = _formula(form.a, spelled)
            return loops.binary("//" if isinstance(form, Quotient) else "%", whole, loops.const(form.divisor))
    assert isinstance(form, Affine), "lower: a formula of sizes has no pieces"
    parts = [(_formula(atom, spelled), c) for atom, c in form.terms]
    terms = [part if c == 1 else loops.binary("*", part, loops.const(c)) for part, c in parts]
    result = terms[0] if terms else loops.const(form.constant)
    for term in terms[1:]:
        result = loops.binary("+", result, term)
    return loops.binary("+", result, loops.const(form.constant)) if form.constant and terms else result


def conjuncts(e: loops.Expr) -> tuple[loops.Expr, ...]:
    """The conditions that all have to hold, in their order; of `conjunction`, what it was made of."""
    match e:
        case loops.Binary(op="&&"):
            return (*conjuncts(e.a), *conjuncts(e.b))
        case loops.Broadcast(a=loops.Binary(op="&&") as both):
            return tuple(loops.Broadcast(c, e.lanes, e.dtype) for c in conjuncts(both))
        case _:
            return (e,)


def conjunction(tests: Sequence[loops.Expr]) -> loops.Expr:
    """All tests at once; true if there is none."""
    result: loops.Expr = loops.Const(True, BOOL)
    for n, t in enumerate(tests):
        result = t if n == 0 else loops.binary("&&", result, t)
    return result


def combine(op: str, a: loops.Expr, b: loops.Expr) -> loops.Expr:
    """`a op b` for a reduction operator."""
    if op in ("min", "max"):
        return loops.Call(op, (a, b), a.dtype, a.lanes)
    return loops.Binary(op, a, b, a.dtype, a.lanes)


def _as_index(e: loops.Expr) -> loops.Expr:
    return e if e.dtype == I64 else loops.Cast(e, I64)


def kernel(name: str, body: loops.Stmt) -> loops.Kernel:
    """A kernel around a body, its arguments in order of first use."""
    used: dict[str, loops.Buffer] = {}
    written: dict[str, None] = {}
    for s in traverse.walk_stmt(body):
        if isinstance(s, loops.Store) and s.buffer.space == "global":
            used[s.buffer.name] = s.buffer
            written[s.buffer.name] = None
        for e in traverse.expressions(s):
            used.update({x.buffer.name: x.buffer for x, _ in traverse.loads(e) if x.buffer.space == "global"})
    return loops.Kernel(name, tuple(used[n] for n in sorted(used)), tuple(sorted(written)), body)


def rebuilt(k: loops.Kernel, body: loops.Stmt) -> loops.Kernel:
    """The kernel with another body, and the arguments of that."""
    made = kernel(k.name, body)
    return replace(k, args=made.args, writes=made.writes, body=body)
