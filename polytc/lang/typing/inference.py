"""Types of the tensors that no declaration tells: the least ones that the values written to them have.

A tensor has the promotion of the types of all of its writers, all at once. What its values are made of may be itself, as in
`P[t] = 3*P[t-1] + A[t]`: tensors that depend on each other are solved together, after all that they depend on. So the order of
statements that do not concern each other, and names, change no type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from polytc.lang.parsing import syntax as sx
from polytc.lang.report import Report
from polytc.lang.typing.declare import Declarations
from polytc.lang.typing.expressions import Expressions, Failed
from polytc.lang.typing.lowered import Scope
from polytc.program import scalars
from polytc.program.scalars import I64, UNKNOWN, DType
from polytc.program.type_promotion import Value, joined


def infer(body: Sequence[sx.Statement], d: Declarations, functions: frozenset[str]) -> dict[str, DType]:
    """The types of all tensors that `body` writes. What is wrong with a value is not said here; it is then ignored."""
    writers: dict[str, list[sx.Statement]] = {}
    for s in body:
        writers.setdefault(s.target, []).append(s)
    known = dict(d.dtypes)
    equations = _Equations({n: w for n, w in writers.items() if n not in known}, d, functions)
    for group in equations.groups():
        known |= equations.solved(group, known)
    return {n: known[n] for n in writers}


class _Equations:
    """For each tensor of open type its writers, whose values tell it."""

    def __init__(self, writers: Mapping[str, Sequence[sx.Statement]], d: Declarations, functions: frozenset[str]) -> None:
        self.writers, self.d, self.functions = writers, d, functions
        self.needs = {id(s): _names(s) & writers.keys() for s in chain(*writers.values())}

    def groups(self) -> list[frozenset[str]]:
        """Tensors that depend on each other, after all that they depend on."""
        reach = {n: frozenset[str]() for n in self.writers}
        for n in self.writers:
            rest = [n]
            while rest:
                new = {m for s in self.writers[rest.pop()] for m in self.needs[id(s)]} - reach[n]
                reach[n] |= new
                rest += new
        found = (frozenset(m for m in reach[n] if n in reach[m]) | {n} for n in self.writers)
        return sorted(dict.fromkeys(found), key=lambda group: len(reach[min(group)] | group))

    def solved(self, group: frozenset[str], known: Mapping[str, DType]) -> dict[str, DType]:
        """The types of a group: from the writers that need none of them, round by round; where that does not go on, from
        what the others say of it. Numbers, which are weak, wait for all writers, as in `P[0] = 0.0; P[t] = P[t-1] + A[t]`.
        Types that do not come to rest only widen from then on."""
        types: dict[str, DType] = {}
        seen: list[dict[str, DType]] = []
        while True:
            open_ = group - types.keys()
            told = self.told({**known, **types}, group, open_)
            new = types | {n: v.dtype for n, v in told.items() if not v.weak_type or not self.waiting(n, open_)}
            if new in seen:
                new = {n: scalars.promote(t, types.get(n, t)) for n, t in new.items()}
            if new != types:
                seen.append(types)
                types = new
            elif types.keys() == group:
                return types
            else:
                types = types | self.first(open_, {**known, **types})

    def waiting(self, tensor: str, without: frozenset[str]) -> bool:
        """Does a writer of the tensor read something of `without`?"""
        return any(self.needs[id(s)] & without for s in self.writers[tensor])

    def first(self, left: frozenset[str], known: Mapping[str, DType]) -> dict[str, DType]:
        """Types of some tensors at least, from all that their values are made of but themselves: types of arrays rather than
        of numbers, and those of numbers rather than i64, which is the type of one that its own values alone tell."""
        told = {n: v for n, v in self.told(known, left, frozenset()).items() if v.dtype != UNKNOWN}
        strong = {n: v.dtype for n, v in told.items() if not v.weak_type}
        return strong or {n: v.dtype for n, v in told.items()} or dict.fromkeys(left, I64)

    def told(self, known: Mapping[str, DType], tensors: Iterable[str], without: frozenset[str]) -> dict[str, Value]:
        """What the writers of some tensors say that read nothing of `without`."""
        found = {n: [self.value(s, known) for s in self.writers[n] if not self.needs[id(s)] & without] for n in tensors}
        return {n: joined(values) for n, all_of in found.items() if (values := [v for v in all_of if v is not None])}

    def value(self, s: sx.Statement, known: Mapping[str, DType]) -> Value | None:
        """What a statement writes; None where something is wrong with it."""
        dtypes = {n: known.get(n, UNKNOWN) for n in self.d.ranks}
        scope = Scope(self.d.numbers, self.d.ranks, self.d.shapes, dtypes, self.functions, frozenset(), self.d.typed)
        try:
            return Expressions(s, scope, Report(""), typing=True).value(s.value, whole=True)
        except Failed:
            return None


def _names(s: sx.Statement) -> set[str]:
    """The names that the value of a statement is made of."""
    rest = [s.value, *(c.value for c in s.clauses if isinstance(c, sx.LetClause))]
    found = set[str]()
    while rest:
        e = rest.pop()
        found |= {e.id} if isinstance(e, sx.Name) else {e.tensor} if isinstance(e, sx.Access) else \
            {e.fn} if isinstance(e, sx.Call) else set()
        rest += sx.operands(e)
    return found
