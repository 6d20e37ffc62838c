"""What a program takes and gives, before any shape is known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from polytc import errors
from polytc.errors import Span
from polytc.lang.definitions import calls
from polytc.lang.definitions.expand import clause_expressions, nodes
from polytc.lang.definitions.parameters import Param, Signature
from polytc.lang.parsing import syntax as sx
from polytc.lang.report import closest
from polytc.program import scalars
from polytc.program.typenames import CONSTANTS, dtype_of

errors.register(E108="which definition is meant")

Writer: TypeAlias = sx.Statement | sx.CallStatement


def signature(text: str, entry: str | None = None) -> Signature:
    """The signature of the program `text`, or of its definition `entry`.

    In bare statements a name that is neither subscripted nor an index (`alpha` in `Y[i] = alpha*X[i]`) is a scalar.
    """
    f = choose(text, entry)
    if f.kind == "bare":
        inputs = [Param(n, "tensor", None, r) for n, r in bare_inputs(f).items()]
        found = {p.name for p in inputs}
        inputs += [Param(n, "scalar") for n in _loose_names(f) if n not in found]
        order = _appearance(f)
        inputs.sort(key=lambda p: order.index(p.name))
    else:
        inputs = [_param(f, p) for p in f.params]
    inouts = tuple(p.name for p in f.params if p.inout)
    outputs = implied_outputs(f) if f.kind == "bare" else inouts
    outputs = outputs if f.outputs is None else tuple(p.name for p in f.outputs)
    return Signature(f.name, tuple(inputs), outputs, tuple(a.name for a in f.attributes), inouts)


def dimensions(text: str, entry: str | None = None) -> dict[str, tuple[sx.Expr, ...]]:
    """The dimensions that a `def` declares of its inputs, by name; nothing for other programs."""
    f = choose(text, entry)
    return {p.name: p.dims for p in f.params if p.dims is not None} if f.kind == "def" else {}


def choose(text: str, entry: str | None) -> sx.Function:
    """The definition `entry` of `text`, or its bare statements, or the only one that no other calls (E108)."""
    functions = calls.resolve(text)
    named = {f.name: f for f in functions}
    if entry is not None and entry in named:
        return named[entry]
    if entry is not None:
        raise errors.fail("E108", f"there is no definition `{entry}`", None,
                          [closest(entry, named) or f"defined: {', '.join(named)}"], source=text)
    if functions[-1].kind == "bare":
        return functions[-1]
    candidates = calls.roots(functions)
    if len(candidates) > 1:
        raise errors.fail("E108", "there are several definitions", candidates[1].span,
                          [f"choose with entry=...: {', '.join(f.name for f in candidates)}"], source=text)
    return candidates[0]


def statements(f: sx.Function) -> tuple[sx.Statement, ...]:
    """The statements of a function without calls and other constructs."""
    return tuple(s for s in f.body if isinstance(s, sx.Statement))


def writers(f: sx.Function) -> tuple[Writer, ...]:
    """The statements and calls of a function."""
    return tuple(s for s in f.body if isinstance(s, sx.Statement | sx.CallStatement))


def targets(s: Writer) -> tuple[tuple[str, Span], ...]:
    """What a statement or call writes, with its places."""
    return ((s.target, s.target_span),) if isinstance(s, sx.Statement) else (*s.targets, *s.written)


def written(f: sx.Function) -> dict[str, Span]:
    """What a function writes, with the first place of each."""
    return {t: span for s in reversed(writers(f)) for t, span in reversed(targets(s))}


def expressions(s: Writer) -> Iterator[sx.Expr]:
    """All expressions of a statement, left side first; the numbers among the arguments of a call."""
    if isinstance(s, sx.CallStatement):
        yield from s.numbers
        return
    yield from s.subscripts
    yield s.value
    for c in s.clauses:
        yield from clause_expressions(c)


def accesses(s: Writer) -> Iterator[tuple[str, int | None, Span]]:
    """(tensor, rank, place) of everything with subscripts in a statement, and of the tensors that a call gets; rank None where
    packs leave it open."""
    if isinstance(s, sx.CallStatement):
        yield from ((a.id, rank, a.span) for a, rank in s.tensors)
    called = isinstance(s, sx.Statement) and s.call_style
    for e in expressions(s):
        for n in nodes(e):
            if isinstance(n, sx.Access):
                yield n.tensor, _count(n.subscripts), n.span
            elif isinstance(n, sx.Call) and called and n.fn not in scalars.FUNCTIONS and dtype_of(n.fn) is None:
                yield n.fn, len(n.args), n.span
            elif isinstance(n, sx.Extent):
                yield n.tensor, None, n.span


def read(s: Writer) -> frozenset[str]:
    """The names that a statement reads as tensors, or may."""
    loose = {n.id for e in expressions(s) for n in nodes(e) if isinstance(n, sx.Name)}
    return frozenset({n for n, _, _ in accesses(s)} | loose)


def bare_inputs(f: sx.Function) -> dict[str, int | None]:
    """Tensors that bare statements read and never write, with their ranks."""
    own = written(f)
    found: dict[str, int | None] = {}
    for s in writers(f):
        for name, rank, _ in accesses(s):
            if name not in own and (name not in found or found[name] is None):
                found[name] = rank
    return found


def implied_outputs(f: sx.Function) -> tuple[str, ...]:
    """Tensors that no statement reads behind their last writer, in the order of their first writers."""
    body = writers(f)
    last = {t: k for k, s in enumerate(body) for t, _ in targets(s)}
    later: set[str] = set()
    for k, s in enumerate(body):
        own = {t for t, _ in targets(s)}
        later |= {n for n in read(s) if n in last and n not in own and k > last[n]}
    return tuple(dict.fromkeys(t for s in body for t, _ in targets(s) if t not in later))


def _count(dims: tuple[sx.Expr, ...]) -> int | None:
    return None if any(isinstance(d, sx.Pack) and not d.single for d in dims) else len(dims)


def _param(f: sx.Function, p: sx.Param) -> Param:
    return Param(p.name, "scalar" if calls.is_number(f, p) else "tensor", p.dtype, calls.rank(p), p.default)


def _loose_names(f: sx.Function) -> list[str]:
    """Names that are used as values and never as an index."""
    tensors = set(written(f)) | set(bare_inputs(f))
    found: dict[str, None] = {}
    indices: set[str] = set()
    for s in writers(f):
        if isinstance(s, sx.CallStatement):
            found |= {n.id: None for e in s.numbers for n in nodes(e) if isinstance(n, sx.Name)}
            continue
        for c in s.clauses:
            if isinstance(c, (sx.RangeClause, sx.LetClause)):
                indices.add(c.index if isinstance(c, sx.RangeClause) else c.name)
            indices |= {n.id for e in clause_expressions(c) for n in nodes(e) if isinstance(n, sx.Name)}
        for e in expressions(s):
            for n in nodes(e):
                if isinstance(n, sx.Access) or (isinstance(n, sx.Call) and n.fn in tensors):
                    dims = n.subscripts if isinstance(n, sx.Access) else n.args
                    indices |= {x.id for d in dims for x in nodes(d) if isinstance(x, sx.Name)}
        indices |= {x.id for d in s.subscripts for x in nodes(d) if isinstance(x, sx.Name)}
        found |= {n.id: None for n in nodes(s.value) if isinstance(n, sx.Name)}
    return [n for n in found if n not in indices and n not in tensors and n not in CONSTANTS]


def names(text: str, entry: str | None = None) -> tuple[frozenset[str], frozenset[str]]:
    """(names that `scalars` may give a value to, those of them that a call may give one to although they are no inputs).

    The first: whatever is used as a number or an index, and the parameters. The second, in bare statements only: what no range
    and no definition of a `where` clause binds.
    """
    f = choose(text, entry)
    tensors = set(written(f)) | set(bare_inputs(f))
    bound = {c.index if isinstance(c, sx.RangeClause) else c.name for s in statements(f) for c in s.clauses
             if isinstance(c, (sx.RangeClause, sx.LetClause))}
    used = {n.id for s in writers(f) for e in expressions(s) for n in nodes(e) if isinstance(n, sx.Name)}
    used |= {n.id for s in f.body if isinstance(s, sx.Assumption) for n in nodes(s.value) if isinstance(n, sx.Name)}
    sizes = {n.id for p in (*f.params, *(f.outputs or ())) for d in p.dims or () for n in nodes(d) if isinstance(n, sx.Name)}
    free = used - tensors - bound - set(CONSTANTS)
    return frozenset(used | sizes | {p.name for p in f.params}), frozenset(free) if f.kind == "bare" else frozenset()


def _appearance(f: sx.Function) -> list[str]:
    order: list[str] = []
    for s in writers(f):
        first = s.call.args if isinstance(s, sx.CallStatement) else (s.value,)
        for e in (*first, *expressions(s)):
            for n in nodes(e):
                name = n.tensor if isinstance(n, (sx.Access, sx.Extent)) else n.fn if isinstance(n, sx.Call) else \
                    n.id if isinstance(n, sx.Name) else None
                if name is not None:
                    order.append(name)
    return order
