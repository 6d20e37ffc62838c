"""What a reader should see once: index expressions and loads that a statement or several of them repeat.

    T[(x + 16*y) / 66] = A[(x + 16*y) % 66] * w[k];   U[(x + 16*y) / 66] = w[k]
    ->  item = x + 16*y;  item_div_66 = item / 66;  w_value = w[k];  T[item_div_66] = A[item % 66] * w_value;  ...
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping

from polytc.codegen import intervals, loops, traverse

_WORDS = {"//": "div", "%": "mod"}
LONGEST = 40
"""Characters of a name that says what it stands for."""


def of_block(block: loops.Block, variables: intervals.Env, known: Collection[loops.Expr], lanes: Collection[int]
             ) -> dict[int, list[loops.Expr]]:
    """What several statements of a block use, by the number of the first of them, smaller ones first. variables: those that
    have values there, and these; known: what has been computed before; lanes: the widths of vectors that there are."""
    indices = [Counter(_indices(s)) for s in block.stmts]
    loads = [dict.fromkeys(_loads(s, variables)) for s in block.stmts]
    plain = not any(isinstance(x, loops.Barrier) for s in block.stmts for x in traverse.walk_stmt(s))
    stored = {x.buffer for s in block.stmts for x in traverse.walk_stmt(s) if isinstance(x, loops.Store)}
    first: dict[loops.Expr, int] = {}
    for k, held in enumerate(indices):
        for e in held:
            if any(e in later for later in indices[k + 1:]) and not _is_shift(e):
                first.setdefault(e, k)
    for k, found in enumerate(loads if plain else ()):
        for load in found:
            if load.lanes in lanes and load.buffer not in stored and any(load in x for x in loads[k + 1:]):
                first.setdefault(load, k)
    made: dict[int, list[loops.Expr]] = {}
    for e in sorted(first, key=_size):
        if e not in known and traverse.variables(e) <= frozenset(variables):
            made.setdefault(first[e], []).append(e)
    return made


def positions(kernel: loops.Kernel, least: int) -> list[loops.Expr]:
    """Where the item of a group is: sums of the numbers of both, `8*i_group + i_item`, that the kernel has so often at least;
    the most frequent first."""
    kinds = {s.var: s.kind for s in traverse.walk_stmt(kernel.body) if isinstance(s, loops.For)}
    found: Counter[loops.Expr] = Counter()
    for s in traverse.walk_stmt(kernel.body):
        for top in traverse.expressions(s):
            for e in traverse.walk_expr(top):
                if e.lanes == 1 and isinstance(e, loops.Binary) and e.op == "+" and intervals.is_index(e):
                    parts = [_scaled(e.a), _scaled(e.b)]
                    found[e] += sorted(kinds.get(v, "") for v in parts) == ["block", "thread"]
    return [e for e, n in found.most_common() if n >= least]


def _scaled(e: loops.Expr) -> str:
    """The variable of `v` or `v * number`; '' for others."""
    if isinstance(e, loops.Binary) and e.op == "*" and isinstance(e.b, loops.Const):
        e = e.a
    return e.name if isinstance(e, loops.Var) else ""


def of_store(s: loops.Store, known: Collection[loops.Expr]) -> list[loops.Expr]:
    """The index expressions that one statement repeats, smaller ones first, and then the places in memory of a scatter."""
    repeated = sorted((e for e, n in Counter(_indices(s)).items() if n > 1 and e not in known), key=_size)
    found = [e for i in s.indices for e, conditional in traverse.loads(i) if not conditional and not s.atomic]
    uses = Counter(e for top in traverse.expressions(s) for e, _ in traverse.loads(top)) if found else Counter[loops.Load]()
    return repeated + [e for e in dict.fromkeys(found) if uses[e] > 1 and e not in known and _is_plain(e, s.buffer)]


def _is_plain(e: loops.Load, stored: loops.Buffer) -> bool:
    """Is a number loaded from memory that a statement does not store to, from where no memory tells?"""
    own = e.buffer == stored or e.buffer.space == "private"
    return e.lanes == 1 and not own and not any(isinstance(x, loops.Load) for i in e.indices for x in traverse.walk_expr(i))


def _size(e: loops.Expr) -> int:
    return sum(1 for _ in traverse.walk_expr(e))


def _indices(s: loops.Stmt) -> Iterator[loops.Expr]:
    """All quotients and remainders of a statement, and sums that they are of."""
    for x in traverse.walk_stmt(s):
        for top in traverse.expressions(x):
            for e in traverse.walk_expr(top):
                if e.lanes == 1 and isinstance(e, loops.Binary) and e.op in _WORDS and intervals.is_index(e):
                    yield e
                    yield from _sums(e.a)


def _sums(e: loops.Expr) -> Iterator[loops.Expr]:
    """A sum, and what it is without its last, constant term."""
    if isinstance(e, loops.Binary) and e.op in ("+", "-"):
        yield e
        if isinstance(e.b, loops.Const):
            yield from _sums(e.a)


def _is_shift(e: loops.Expr) -> bool:
    return isinstance(e, loops.Binary) and isinstance(e.b, loops.Const) and e.op in ("+", "-")


def _loads(s: loops.Stmt, variables: intervals.Env, conditional: bool = False) -> Iterator[loops.Load]:
    """What a store surely loads from memory, and what it or one under a condition may load from local memory: elements that
    there are in any case."""
    match s:
        case loops.If(orelse=None, then=loops.Block(stmts)):
            for x in stmts:
                yield from _loads(x, variables, conditional=True)
        case loops.If(orelse=None):
            yield from _loads(s.then, variables, conditional=True)
        case loops.Store():
            for e, chosen in traverse.loads(s.value):
                gathers = any(isinstance(x, loops.Load) for i in e.indices for x in traverse.walk_expr(i))
                may_not = (chosen or conditional) and not (e.buffer.space == "local" and _exists(e, variables))
                if e.buffer.space != "private" and not gathers and not may_not:
                    yield e


def _exists(e: loops.Load, variables: intervals.Env) -> bool:
    """Does a load stay in its tensor wherever it is made?"""
    places = [intervals.interval(i, variables) for i in e.indices]
    return all(isinstance(n, int) and x.low >= 0 and x.high < n for x, n in zip(places, e.buffer.shape, strict=True))


def title(e: loops.Expr, known: Mapping[loops.Expr, str], spell: Callable[[str], str]) -> str:
    """A name that says what is computed, as far as one does."""
    if isinstance(e, loops.Load):
        return f"{e.buffer.name}_value"
    told = _told(e, known, spell)
    return told if told and len(told) <= LONGEST else "at"


def _told(e: loops.Expr, known: Mapping[loops.Expr, str], spell: Callable[[str], str]) -> str:
    if e in known:
        return known[e]
    match e:
        case loops.Var():
            return spell(e.name)
        case loops.Binary(b=loops.Const() as divisor) if e.op in _WORDS:
            inner = _told(e.a, known, spell)
            return inner and f"{inner}_{_WORDS[e.op]}_{divisor.value}"
        case loops.Binary() if not _is_shift(e) and all(v.startswith("item") for v in traverse.variables(e)):
            return "item"
    return ""
