"""What to write instead: the notes of errors about expressions, where the likely intention shows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from polytc.errors import Span
from polytc.lang.definitions.expand import nodes
from polytc.lang.definitions.uses import in_place
from polytc.lang.elsewhere import CURES
from polytc.lang.parsing import syntax as sx
from polytc.lang.report import closest
from polytc.lang.typing.lowered import Lowered
from polytc.program import program as pr
from polytc.program.scalars import BOOL, COMPARISONS, INTRINSICS


def of_call(fn: str, known: Iterable[str], args: Sequence[sx.Expr] = ()) -> str:
    """For a function that there is not: subscripts in parentheses look like a call."""
    indices = [a.id for a in args if isinstance(a, sx.Name)]
    access = f"an element of a tensor is written `{fn}[{', '.join(indices)}]`" if indices and len(indices) == len(args) else ""
    return CURES.get(fn.lower()) or access or closest(fn, known) or "operators are written element by element, with indices"


def of_float_subscript(e: sx.Expr, s: sx.Statement, numbers: Mapping[str, object]) -> str:
    """For a subscript that is a float: a quotient, a number that is not whole, or a part of a complex number. numbers: what
    names of the text stand for."""
    if s.call_style and s.target in ("real", "imag") and e in s.subscripts:
        other = f"{'imag' if s.target == 'real' else 'real'}(Z[i])"
        return "a part is not written by itself: " + \
            (f"`Z[i] = c64(x[i], {other})`" if s.target == "real" else f"`Z[i] = c64({other}, x[i])`")
    for name in (n.id for n in nodes(e) if isinstance(n, sx.Name)):
        if isinstance(numbers.get(name), float):
            return f"`{name}` is {numbers[name]}: give a whole number, `{name}={int(float(str(numbers[name])))}`"
    return "divide integers by `//`, which rounds down" if _divides(e) else "cast it: `i64(...)`"


def _divides(e: sx.Expr) -> bool:
    return isinstance(e, sx.Binary) and (e.op == "/" or _divides(e.a) or _divides(e.b))


def of_loose_comparison(e: sx.Binary, source: str) -> str:
    """For `x & 1 == 0`, which is `x & (1 == 0)`, and for `x == 1 & y`."""
    a, b = _operand(e.a, source), _operand(e.b, source)
    if isinstance(e.b, sx.Binary) and e.b.op in COMPARISONS:
        x, y = _operand(e.b.a, source), _operand(e.b.b, source)
        return f"write `({a} {e.op} {x}) {e.b.op} {y}`; if the bit of a comparison is meant, `{a} {e.op} {b}`"
    if isinstance(e.a, sx.Binary) and e.a.op in COMPARISONS:
        x, y = _operand(e.a.a, source), _operand(e.a.b, source)
        return f"write `{x} {e.a.op} ({y} {e.op} {b})`; if the bit of a comparison is meant, `{a} {e.op} {b}`"
    return f"put parentheses around what belongs together: `{a} {e.op} {b}`"


def _operand(e: sx.Expr, source: str) -> str:
    """The text of an expression, in parentheses if it is to stand beside an operator of bits."""
    text = source[e.span.start:e.span.end]
    loose = isinstance(e, sx.Ternary | sx.ChainedComparison) or \
        isinstance(e, sx.Binary) and e.op in ("&&", "||", "&", "|", "^", *COMPARISONS)
    return f"({text})" if loose else text


def of_recurrence(s: sx.Statement, index: str, ends: str, source: str) -> str:
    """For an element that follows from another one of its own tensor."""
    text = re.split(r"\s*\bwhere\b", source[s.span.start:s.span.end])[0]
    return f"where an element follows from another one, go on in a loop: `for {index} in {ends} {{ {text} }}`"


_UPDATE = r"(?:[-+*%&|^]|//?|<<|>>|(?:arg)?m(?:in|ax))?=(?!=)"
"""What stands behind the left side of a statement."""


def of_early_read(read: sx.Access, s: sx.Statement, source: str) -> list[str]:
    """For a tensor without a writer before the statement `s` that reads it: an array changed in place, or a recurrence."""
    tensor, text = read.tensor, source[s.span.start:s.span.end] or f"{read.tensor}[...] = ..."
    if tensor != s.target and re.search(rf"(?<![\w.]){tensor}\s*(?:\[[^\]]*\])?\s*{_UPDATE}", source[s.span.end:]):
        return [f"a later statement writes it: move that before this one, or call `{tensor}` otherwise if it is an input"]
    if tensor != s.target:
        return [f"write `{tensor}` in a statement before this one, or call it otherwise if it is an input"]
    if _texts(read.subscripts, source) == _texts(s.subscripts, source):
        return [in_place(s, source)]
    plain = [e.id for e in s.subscripts if isinstance(e, sx.Name)]
    index = plain[0] if plain else "i"
    return [f"where an element follows from another one, begin `{tensor}` and go on in a loop: "
            f"`for {index} in 1:N {{ {text} }}`, with N a number or an extent, `A.shape[0]`"]


def _texts(subscripts: Iterable[sx.Expr], source: str) -> list[str]:
    return ["".join(source[e.span.start:e.span.end].split()) for e in subscripts]


def use(s: sx.Statement, name: str) -> Span:
    """Where a statement uses a name first, or all of it."""
    rest: list[sx.Expr] = [s.value]
    for c in s.clauses:
        rest += [c.lower, c.upper] if isinstance(c, sx.RangeClause) else [c.value]
    while rest:
        e = rest.pop(0)
        if isinstance(e, sx.Name) and e.id == name:
            return e.span
        rest = [*sx.operands(e), *rest]
    return s.span


def of_free_index(s: sx.Statement, free: Sequence[str], source: str, condition: bool) -> list[str]:
    """For indices on the right of `=` only: a sum, or an array with more dimensions."""
    if s.in_place is not None:
        text = source[s.span.start:s.span.end] if not s.loops else "..."
        return ["divide by the product: `P *= ...` with the same index, then `/= P`"] * (s.in_place == "/") + [
            f"one after another: `for {free[0]} in 0:N {{ {text} }}`, with N a number or an extent, `A.shape[0]`"]
    left = ",".join([*_texts(s.subscripts, source), *free])
    value = source[s.value.span.start:s.value.span.end]
    if condition:
        return [f"`{s.target} |= {value}` is true where any is, `&=` where all are; or use it on the left side: "
                f"`{s.target}[{left}] = {value}`"]
    return [f"write `+=` (or `max=`, ...) to reduce, or use it on the left side: `{s.target}[{left}] = {value}`"]


def of_range(index: str, s: Lowered, source: str) -> list[str]:
    """For an index without a range: where one is stated in memory, or half of it, say so."""
    limit = next((b for b in s.limits if b.index == index), None)
    if limit is not None:
        given = next((source[c.span.start:c.span.end] for c in s.source.clauses
                      if isinstance(c, sx.RangeClause) and c.index == index), f"{index} in ...")
        return [f"`{given}` reads memory, which is known at run time only: say beside it how far it may go at most, "
                f"`where {given}, {index} in 0:...`"]
    notes = [f"state it: `where {index} in 0:{_modulus(index, s) or _digits(index, s) or '...'}`"]
    if any(isinstance(e, pr.Index) and e.name == index for c, _ in s.conditions for e in pr.walk(c)):
        notes = [f"its conditions bound one end: state both, `where {index} in 0:...`"]
    if s.source.op is None and isinstance(s.value.expr, pr.Const) and s.value.dtype != BOOL:
        notes.append("what only begins an update is left out: `+=` and its like start from their identity by themselves")
    changes = s.source.op is not None or s.source.loops
    if changes and all(e.tensor == s.target for e in pr.walk(s.value.expr) if isinstance(e, pr.Read)):
        notes.append(in_place(s.source, source))
    return notes


def _modulus(index: str, s: Lowered) -> int | None:
    """What subscripts with the index wrap around at, `A[(i+1) % 8]`."""
    subscripts = (e for top in s.expressions for r in pr.walk(top) if isinstance(r, pr.Read) for e in r.subscripts)
    wraps = (x for e in subscripts for x in pr.walk(e))
    found = {int(x.b.value.real) for x in wraps if isinstance(x, pr.Binary) and x.op == "%" and isinstance(x.b, pr.Const)
             and index in pr.index_names(x.a)}
    return found.pop() if len(found) == 1 else None


def _digits(index: str, s: Lowered) -> int | None:
    """What another index is multiplied by in the subscript of a read where this one is added, `A[4*i + j]`."""
    subscripts = (e for top in s.expressions for r in pr.walk(top) if isinstance(r, pr.Read) for e in r.subscripts)
    sums = [(x.a, x.b) for e in subscripts for x in pr.walk(e) if isinstance(x, pr.Binary) and x.op == "+"]
    found = {int(y.b.value.real) for pair in sums for x, y in (pair, pair[::-1]) if x == pr.Index(index)
             and isinstance(y, pr.Binary) and y.op == "*" and isinstance(y.b, pr.Const)}
    found |= {int(y.a.value.real) for pair in sums for x, y in (pair, pair[::-1]) if x == pr.Index(index)
              and isinstance(y, pr.Binary) and y.op == "*" and isinstance(y.a, pr.Const)}
    return found.pop() if len(found) == 1 else None


def of_rank(tensor: str, shape: Sequence[int] | None, rank: int) -> str:
    """For a wrong number of subscripts."""
    form = f"`{tensor}[{','.join('ijklmnop'[:rank])}]`" if rank else f"`{tensor}`"
    return f"its shape is {tuple(shape)}: {form}" if shape is not None else f"write {form}"


def of_affine(e: sx.Expr, s: sx.Statement) -> list[str]:
    """For a subscript or a bound that is not affine: a division, or a name that has no value."""
    if isinstance(e, sx.Call) and any(map(_divides, e.args)):
        return ["divide integers by `//`, which rounds down: `i//2`"]
    if isinstance(e, sx.Binary) and e.op in ("*", "%", "//") and isinstance(e.b, sx.Name) and \
            e.b.id not in {x.id for x in s.subscripts if isinstance(x, sx.Name)} | {
                c.index for c in s.clauses if isinstance(c, sx.RangeClause)}:
        return [f"if `{e.b.id}` is a number, give it: `{e.b.id}=2` in the call, or scalars={{\"{e.b.id}\": 2}} to compile"]
    return []


def of_count(fn: str, given: int) -> str:
    """For a function with the wrong number of arguments."""
    if fn in ("max", "min"):
        return f"the {fn}imum over an index is an update, `M {fn}= A[i]`" if given < 2 else \
            f"`{fn}(a, b)` takes two: nest them for more, `{fn}(a, {fn}(b, c))`"
    if fn in ("log", "round") and given == 2:
        return "a logarithm to base b is `log(x) / log(b)`" if fn == "log" else "to two digits: `round(x * 100) / 100`"
    arity = INTRINSICS[fn].arity if fn in INTRINSICS else 1
    return f"it is called as `{fn}({', '.join('abc'[:arity])})`"

