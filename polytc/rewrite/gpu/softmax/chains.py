"""Finds the chains of two products with a softmax between them (rewrite.gpu.softmax.chain) that a program has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from polytc.program import program as pr
from polytc.program.linear import linear, normalise
from polytc.program.scalars import F32, F64, identity
from polytc.rewrite.gpu import tile_conditions
from polytc.rewrite.gpu.softmax.chain import WEIGHT, Chain, Sum, conjuncts, is_guard, is_linear, uncast, used, without_zeros
from polytc.schedule.facts.fusion_groups import reduced_indices
from polytc.schedule.facts.work_groups import is_cut


def chains(program: pr.Program) -> Iterator[Chain]:
    """The chains of a program, none of which has statements of another one."""
    taken: set[str] = set()
    for s in program.statements:
        if s.name in taken or s.op != "+" or is_cut(s):
            continue
        found = _from_scores(program, s)
        if found is not None and not taken & set(found.names):
            taken |= set(found.names)
            yield found


def _from_scores(program: pr.Program, s: pr.Statement) -> Chain | None:
    """The chain that begins with a product; None if there is none."""
    if s.target not in program.temporaries or program.tensor(s.target).dtype not in (F32, F64):
        return None
    operands = _operands(s)
    cell, summed = _cell(s.subscripts), reduced_indices(s)
    if operands is None or cell is None or len(summed) != 1:
        return None
    for first, second in (operands, operands[::-1]):
        mine, other = used(first), used(second)
        rows, keys = [i for i in cell if i in mine - other], [i for i in cell if i in other - mine]
        if {*cell} - mine - other or summed[0] not in mine & other or not rows or len(keys) != 1:
            continue
        row = max(rows, key=lambda i: (s.extents[i], i))
        found = _Walk(program, s, row, keys[0]).chain(first, second, summed[0])
        if found is not None:
            return found
    return None


def _uses(s: pr.Statement, tensor: str) -> bool:
    """Does a statement write or read a tensor?"""
    return s.target == tensor or any(r.tensor == tensor for r in pr.reads(s))


def _operands(s: pr.Statement) -> tuple[pr.Read, pr.Read] | None:
    """The two reads that an update multiplies."""
    value = s.value
    if not isinstance(value, pr.Binary) or value.op != "*":
        return None
    a, b = (e.a if isinstance(e, pr.Cast) and e.a.dtype.is_float else e for e in (value.a, value.b))
    linear_ = all(isinstance(e, pr.Read) and all(linear(x) is not None for x in e.subscripts) for e in (a, b))
    return (a, b) if linear_ and isinstance(a, pr.Read) and isinstance(b, pr.Read) and a != b else None


def _plain(e: pr.Expr) -> str | None:
    """The index that a subscript is."""
    form = linear(e)
    return form.index if form is not None else None


def _cell(subscripts: Sequence[pr.Expr]) -> list[str] | None:
    """The indices that subscripts are, each another one, numbers left out; None where one is something else."""
    forms = [linear(e) for e in subscripts]
    found = [f.index for f in forms if f is not None and f.terms]
    known = None not in forms and None not in found and len(set(found)) == len(found)
    return [i for i in found if i is not None] if known else None


def _covers(start: pr.Statement, s: pr.Statement) -> bool:
    """Does an assignment set all elements that an update adds to, and no others?"""
    if start.where:
        return False
    for a, b in zip(start.subscripts, s.subscripts, strict=True):
        one, two = _plain(a), _plain(b)
        if a != b if one is None or two is None else start.box[one] != s.box[two]:
            return False
    return True


def _is_plain(read: pr.Read, index: str) -> bool:
    """Does an index stand alone in one dimension of what is read, which is 0 beyond its ends?"""
    forms = [linear(e) for e in read.subscripts]
    found = [f for f in forms if f is not None and f.coefficient(index)]
    zero = read.default is None or read.default.value == 0
    return zero and len(found) == 1 and found[0].terms == ((index, 1),)


def _is_in_one(read: pr.Read, index: str) -> bool:
    """Does one dimension alone name an index? A tile of a diagonal would be a square."""
    return sum(index in used(e) for e in read.subscripts) == 1


@dataclass
class _Walk:
    """Statements one after another, and what is known of the tensors that follow from the scores.

    elements: the value of an element of a tensor of scores, over the indices of these; rows, results: tensors with an element
    for each row, and for each result of the second product: their subscripts in the indices of the scores.
    """

    program: pr.Program
    score: pr.Statement
    row: str
    key: str
    elements: dict[str, pr.Expr] = field(default_factory=dict)
    cells: dict[str, tuple[pr.Expr, ...]] = field(default_factory=dict)
    rows: dict[str, tuple[pr.Expr, ...]] = field(default_factory=dict)
    results: dict[str, tuple[pr.Expr, ...]] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    starts: dict[str, pr.Statement] = field(default_factory=dict)
    conditions: set[frozenset[pr.Expr]] = field(default_factory=set)
    partial: set[frozenset[pr.Expr]] = field(default_factory=set)
    maximum: tuple[str, pr.Expr] | None = None
    guards: set[str] = field(default_factory=set)
    safe: set[bool] = field(default_factory=set)
    sums: list[Sum] = field(default_factory=list)
    product: tuple[Sum, pr.Expr, pr.Read, pr.Range] | None = None
    tail: list[pr.Statement | Sum] = field(default_factory=list)

    @property
    def _of_row(self) -> dict[str, pr.Range]:
        return {r.index: r for r in self.score.ranges if r.index not in (self.key, *reduced_indices(self.score))}

    def chain(self, queries: pr.Read, keys: pr.Read, feature: str) -> Chain | None:
        """The chain; None if something does not fit before there is a second product, or uses what no memory holds then."""
        at = self.program.statements.index(self.score)
        start = next((s for s in reversed(self.program.statements[:at]) if _uses(s, self.score.target)), None)
        if start is None or not self._begins(start, self.score):
            return None
        s = self.score
        self.names += [start.name, s.name]
        self.partial |= {frozenset(map(normalise, s.where)), frozenset(self._canonical_start(start))}
        self.elements[s.target] = pr.Read(s.target, s.subscripts, self.program.tensor(s.target).dtype)
        self.cells[s.target] = s.subscripts
        left: list[pr.Statement] = []
        for x in self.program.statements[at + 1:]:
            if x.op is None and self._is_start(x):
                self.starts[x.target] = x
            elif self._touches(x) and (left or not self._takes(x)):
                left.append(x)
        return self._made(left, queries, keys, feature)

    def _made(self, left: list[pr.Statement], queries: pr.Read, keys: pr.Read, feature: str) -> Chain | None:
        if self.maximum is None or self.product is None or len(self.conditions) != 1 or len(self.safe) != 1:
            return None
        conditions = next(iter(self.conditions))
        if any(not c <= conditions for c in self.partial):
            return None
        used_later = {n for x in left for n in (x.target, *(r.tensor for r in pr.reads(x)))}
        if used_later & {*self.elements} or not self._alone_between():
            return None
        product, term, values, column = self.product
        if not all(_is_plain(r, i) for r, i in ((queries, feature), (keys, feature), (keys, self.key), (values, self.key))):
            return None
        if not _is_in_one(queries, self.row) or not _is_in_one(values, column.index):
            return None
        hides, value = self._split(self.maximum[1])
        return Chain(tuple(self.names), self.score, self.row, self.key, feature, queries, keys,
                     tuple(sorted(conditions, key=str)), hides, value, self.maximum[0], next(iter(self.safe)),
                     tuple(self.sums), product, term, values, column, tuple(self.tail), {**self.rows, **self.results})

    def _split(self, value: pr.Expr) -> tuple[tuple[pr.Expr, ...], pr.Expr]:
        """The conditions on rows and keys under which a value is not -inf, and the value where they hold."""
        if not isinstance(value, pr.Select) or value.b != pr.Const(float("-inf"), value.dtype):
            return (), value
        tests = conjuncts(value.cond)
        known = tuple(c for c in tests if self._compares(c))
        others = tuple(c for c in tests if c not in known)
        inner, rest = self._split(value.a)
        return (*known, *inner), replace(value, cond=pr.conjunction(others), a=rest) if others else rest

    def _compares(self, c: pr.Expr) -> bool:
        """Is a condition one on the key, and on the row and the batch?"""
        form = tile_conditions.form_of(c)
        known = {*self._of_row, self.key}
        return form is not None and abs(form.coefficient(self.key)) == 1 and {i for i, _ in form.terms} <= known

    def _alone_between(self) -> bool:
        """May all of the chain run where its last statement stands? Nothing that comes before writes what it reads, and it
        reads nothing that it writes, but what it has from itself."""
        mine = [s for s in self.program.statements if s.name in self.names]
        first, last = (self.program.statements.index(s) for s in (mine[0], mine[-1]))
        others = {s.target for s in self.program.statements[first:last] if s.name not in self.names}
        made, read = set[str](), set[str]()
        for s in mine:
            read |= {r.tensor for r in pr.reads(s)} - made
            made.add(s.target)
        return not others & (read | made) and not read & made

    # ---- statements

    def _touches(self, s: pr.Statement) -> bool:
        known = {*self.elements, *self.rows, *self.results}
        return s.target in known or any(r.tensor in known for r in pr.reads(s))

    def _is_start(self, s: pr.Statement) -> bool:
        """Does it set the beginning of a sum or maximum that follows?"""
        at = self.program.statements.index(s)
        following = next((x for x in self.program.statements[at + 1:] if _uses(x, s.target)), None)
        return following is not None and s.name not in self.names and self._begins(s, following)

    def _begins(self, start: pr.Statement, update: pr.Statement) -> bool:
        """Does an assignment set a whole target to what an update may begin with?"""
        if start.op is not None or update.op not in ("+", "max") or start.target != update.target or start.loops:
            return False
        dtype = self.program.tensor(start.target).dtype
        return start.value == pr.Const(identity(update.op, dtype), dtype)

    def _canonical_start(self, start: pr.Statement) -> Iterator[pr.Expr]:
        names = {i: e for a, e in zip(start.subscripts, self.score.subscripts, strict=True) if (i := _plain(a)) is not None}
        return (normalise(pr.substitute(c, names)) for c in start.where)

    def _takes(self, s: pr.Statement) -> bool:
        """Is a statement one of the chain? Then it is noted."""
        if s.loops or s.bounds or is_cut(s):
            return False
        names = self._indices(s)
        if names is None:
            return False
        cell = tuple(normalise(pr.substitute(e, names)) for e in s.subscripts)
        own = _cell(cell)
        if own is None:
            return False
        value = normalise(pr.map_expr(pr.substitute(s.value, names), self._inlined))
        where = frozenset(normalise(pr.substitute(c, names)) for c in s.where)
        kept = set(own)
        if s.op is None:
            taken = self._element(s, value, where, cell, kept)
        else:
            start, dtype = self.starts.get(s.target), self.program.tensor(s.target).dtype
            whole = start is not None and _covers(start, s) and dtype == self.program.tensor(self.score.target).dtype
            taken = whole and self._update(s, value, where, cell, kept)
            self.names += [self.starts[s.target].name] if taken else []
        self.names += [s.name] if taken else []
        return taken

    def _indices(self, s: pr.Statement) -> dict[str, pr.Expr] | None:
        """A statement's indices as those of the scores, if each is one of them, or a column of the second product."""
        known = {**self.cells, **self.rows, **self.results}
        found: dict[str, pr.Expr] = {}
        for tensor, cell in ((s.target, s.subscripts), *((r.tensor, r.subscripts) for r in pr.reads(s))):
            for a, b in zip(cell, known.get(tensor, ()), strict=False):
                index = _plain(a)
                if a != b if index is None else found.setdefault(index, b) != b:
                    return None
        ranges = self.score.by_index
        columns = {self.product[3].index: self.product[3]} if self.product is not None else {}
        for r in s.ranges:
            to = found.get(r.index)
            if to is None:
                found[r.index] = pr.Index(f"{r.index}'")
                continue
            name = _plain(to)
            like = ranges.get(str(name)) or columns.get(str(name))
            if like is not None and like.ends != r.ends:
                return None
        return found if len(set(found.values())) == len(found) else None

    def _inlined(self, e: pr.Expr) -> pr.Expr:
        return self.elements[e.tensor] if isinstance(e, pr.Read) and e.tensor in self.elements and e.default is None else e

    def _element(self, s: pr.Statement, value: pr.Expr, where: frozenset[pr.Expr], cell: tuple[pr.Expr, ...], kept: set[str]
                 ) -> bool:
        """An assignment."""
        rows, temporary = {*self._of_row}, s.target in self.program.temporaries
        fresh = s.target not in {*self.elements, *self.rows, *self.results, *self.starts}
        if not fresh or any(r.tensor == s.target for r in pr.reads(s)):
            return False
        if kept == {*rows, self.key} and used(value) <= kept:
            if not temporary or not self._alone(s):
                return False
            self.elements[s.target], self.cells[s.target] = value, cell
            self.partial.add(where)
            return True
        if where or {r.tensor for r in pr.walk(value) if isinstance(r, pr.Read)} & {*self.elements} or used(value) - kept:
            return False
        if kept == rows:
            self.rows[s.target] = cell
            if self.maximum is not None and is_guard(value, pr.Read(self.maximum[0], self.rows[self.maximum[0]], value.dtype)):
                self.guards.add(s.target)
        elif self.product is not None and kept == {*rows, self.product[3].index}:
            self.results[s.target] = cell
        else:
            return False
        self.tail.append(replace(s, subscripts=cell, value=value, ranges=self._ranges(kept)))
        return True

    def _alone(self, s: pr.Statement) -> bool:
        """Does a statement alone write its target?"""
        return sum(x.target == s.target for x in self.program.statements) == 1

    def _ranges(self, kept: set[str]) -> tuple[pr.Range, ...]:
        columns = (self.product[3],) if self.product is not None else ()
        return tuple(r for r in (*self.score.ranges, *columns) if r.index in kept)

    def _update(self, s: pr.Statement, value: pr.Expr, where: frozenset[pr.Expr], cell: tuple[pr.Expr, ...], kept: set[str]
                ) -> bool:
        """A maximum, a sum of weights, or the second product."""
        rows = {*self._of_row}
        named, columns = used(value), kept - rows
        if not rows <= kept or self.key in kept or self.key not in named or named - kept - {self.key}:
            return False
        if not all(map(self._compares, where)) or s.target in {*self.elements, *self.rows, *self.results}:
            return False
        if s.op == "max":
            taken = not columns and self.maximum is None and self._plain_value(value)
            if taken:
                self.maximum, self.rows[s.target] = (s.target, value), cell
        else:
            taken = self.maximum is not None and self._sum(s, value, columns, cell)
            self.safe |= {base in self.guards for e in pr.walk(value) if (base := self._base(e))} if taken else set()
        if taken:
            self.conditions.add(where)
        return taken

    def _sum(self, s: pr.Statement, value: pr.Expr, columns: set[str], cell: tuple[pr.Expr, ...]) -> bool:
        """A sum of weights, or the second product."""
        weighted = pr.map_expr(value, lambda e: pr.Index(WEIGHT, e.dtype) if self._base(e) else e)
        if not columns and is_linear(weighted, self.key, zeros=True):
            self.sums.append(Sum(s.target, uncast(weighted)))
            self.tail.append(self.sums[-1])
            self.rows[s.target] = cell
            return True
        if len(columns) != 1 or self.product is not None or not isinstance(weighted, pr.Binary) or weighted.op != "*":
            return False
        return self._second(s, weighted, columns.pop(), cell)

    def _second(self, s: pr.Statement, value: pr.Binary, column: str, cell: tuple[pr.Expr, ...]) -> bool:
        """The second product."""
        whole = [x.target for x in self.sums if x.value == pr.Index(WEIGHT, x.value.dtype)]

        def without(e: pr.Expr) -> pr.Expr:
            return without_zeros(e, whole)
        for weight, other in ((value.a, value.b), (value.b, value.a)):
            inner = other.a if isinstance(other, pr.Cast) and other.a.dtype.is_float else other
            factor = pr.map_expr(weight, without)
            if isinstance(inner, pr.Read) and is_linear(factor, self.key) and self.row not in used(inner) and all(
                    linear(x) is not None for x in inner.subscripts) and column in used(inner):
                r = next(r for r in s.ranges if f"{r.index}'" == column)
                self.tail.append(Sum(s.target, uncast(factor)))
                self.product = Sum(s.target, uncast(factor)), other, inner, replace(r, index=column)
                self.results[s.target] = cell
                return True
        return False

    # ---- expressions

    def _plain_value(self, value: pr.Expr) -> bool:
        """Does a value follow from one score, and from no row's?"""
        reads = [r for r in pr.walk(value) if isinstance(r, pr.Read)]
        return self.score.target in {r.tensor for r in reads} and not {r.tensor for r in reads} & {*self.rows}

    def _base(self, e: pr.Expr) -> str:
        """The maximum of the row, or that made safe, where an expression is the exponential of a value less it, else ''."""
        if self.maximum is None or not isinstance(e, pr.Call) or e.fn != "exp":
            return ""
        arg = e.args[0]
        if not isinstance(arg, pr.Binary) or arg.op != "-" or not isinstance(arg.b, pr.Read) or arg.a != self.maximum[1]:
            return ""
        return arg.b.tensor if arg.b.tensor in {self.maximum[0], *self.guards} else ""
