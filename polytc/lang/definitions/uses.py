"""Where a program uses a name, and what was meant by one that a call does not know: for messages about arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from polytc.errors import ArgumentError, CompileError, Span, fail
from polytc.lang.definitions import prelude
from polytc.lang.definitions.expand import nodes
from polytc.lang.definitions.signatures import accesses, bare_inputs, choose, expressions, targets, writers, written
from polytc.lang.elsewhere import CURES, NAMES
from polytc.lang.parsing import syntax as sx
from polytc.lang.report import closest
from polytc.program.scalars import FUNCTIONS
from polytc.program.typenames import CONSTANTS


def place(text: str, entry: str | None, name: str) -> Span | None:
    """Where a program declares a name, or first uses it."""
    f = choose(text, entry)
    declared = [p.span for p in f.params if p.name == name]
    reads = [span for s in writers(f) for n, _, span in accesses(s) if n == name]
    plain = [n.span for s in writers(f) for e in expressions(s) for n in nodes(e) if isinstance(n, sx.Name) and n.id == name]
    return next(iter((*declared, *sorted((*reads, *plain), key=lambda span: span.start))), None)


def missing(text: str, entry: str | None, names: Sequence[str], notes: Sequence[str]) -> CompileError:
    """E401 for inputs that a call does not give, at the first use of the first one: it may be a misspelt name."""
    f = choose(text, entry)
    name = names[0]
    meant = closest(name, [n for n in (*written(f), *bare_inputs(f), *CONSTANTS) if n != name]) if f.kind == "bare" else ""
    why = f"nothing writes `{name}`, so it is an input{'; ' if meant else ''}{meant}" if f.kind == "bare" else ""
    at = place(text, entry, name)
    comment = "a comment begins with `#`" if at is not None and re.search(r"(//|--)[ \t]*$", text[:at.start]) else ""
    return fail("E401", f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} missing", at,
                [n for n in (NAMES.get(name, ""), why, comment, *notes) if n], source=text, kind=ArgumentError)


def unknown(text: str, entry: str | None, called: str, name: str, inputs: Sequence[str], rank: Any) -> CompileError:
    """E401 for an argument of a name that is no input. rank: dimensions of what is given, 0 for a number."""
    f = choose(text, entry)
    at = place(text, entry, name)
    rank = rank if isinstance(rank, int) else 0
    used = f"indices name the elements of an array: `{name}[{','.join('ijklmnop'[:rank])}]`"
    first = next((s for s in writers(f) if name in {n for n, _ in targets(s)}), None)
    updated = f.kind == "bare" and isinstance(first, sx.Statement) and not first.components and (first.op or first.in_place)
    note = in_place(first, text) if updated and isinstance(first, sx.Statement) else \
        "out= takes the array that the result goes to" if first is not None else used if at is not None and rank else \
        closest(name, inputs)
    return fail("E401", f"{called} has no input {name}", at,
                [*[note] * bool(note), f"the inputs are: {', '.join(inputs) or 'none'}"],
                source=text, kind=ArgumentError)


def whole(text: str, entry: str | None, name: str, kind: str, rank: int) -> CompileError:
    """E409 for an array where the program uses a bare name, which is a number: numpy's way of writing; E102 where a function
    that there is not gets it."""
    f = choose(text, entry)
    indices = ",".join("ijklmnop"[:rank])
    called = next((n for s in writers(f) for e in expressions(s) for n in nodes(e) if isinstance(n, sx.Call)
                   and n.fn not in FUNCTIONS and name in {a.id for a in n.args if isinstance(a, sx.Name)}), None)
    if called is not None:
        note = CURES.get(called.fn.lower()) or closest(called.fn, (*prelude.NAMES, *FUNCTIONS))
        return fail("E102", f"there is no definition `{called.fn}`", called.span, [note] * bool(note), source=text,
                    kind=ArgumentError)
    extremum = next((n.fn for s in writers(f) for e in expressions(s) for n in nodes(e) if isinstance(n, sx.Call)
                     and n.fn in ("min", "max") and [a.id for a in n.args if isinstance(a, sx.Name)] == [name]), None)
    if extremum is not None:
        update = f"M {extremum}= {name}[{indices}]"
        return fail("E103", f"`{extremum}` takes two numbers", place(text, entry, name), [
            f"the {extremum}imum of an array is an update: `{update}`"], source=text, kind=ArgumentError)
    return fail("E409", f"{name} is a scalar of the program; {kind} is not a number", place(text, entry, name),
                [f"indices name the elements of an array: `{name}[{indices}]`, on the left side too"], source=text,
                kind=ArgumentError)


def in_place(s: sx.Statement, source: str) -> str:
    """For an array of the caller that a statement changes in place."""
    letters = iter("MNKLPQRSTUVWXYZ")
    sizes: dict[sx.Expr, str] = {}

    def declared(tensor: str, subscripts: Sequence[sx.Expr]) -> str:
        keys = [replace(e, span=s.span) if isinstance(e, sx.Name) else e for e in subscripts]
        dims = [sizes[e] if e in sizes else sizes.setdefault(e, next(letters, "M")) for e in keys]
        return f"{'i64' if tensor in places else 'f32'}[{','.join(dims)}] {tensor}"
    found = [e for x in (*s.subscripts, s.value) for e in nodes(x) if isinstance(e, sx.Access)]
    places = {n.tensor for x in (s.subscripts, *(e.subscripts for e in found)) for e in x for n in nodes(e)
              if isinstance(n, sx.Access)}
    own = f"inout {declared(s.target, s.subscripts)}"
    reads = {e.tensor: e for e in found if e.tensor != s.target}
    text = source[s.span.start:s.span.end] or "..."
    for loop, c in zip(reversed(s.loops), reversed(s.clauses[:len(s.loops)]), strict=True):
        if isinstance(c, sx.RangeClause):
            text = f"for {loop.index} in {':'.join(source[e.span.start:e.span.end] for e in (c.lower, c.upper))} {{ {text} }}"
    params = ", ".join([own, *(declared(n, e.subscripts) for n, e in reads.items()), *_scalars(s, found)])
    return f"an array of the caller that is changed in place is an argument: `def f({params}) -> ({s.target}) {{ {text} }}`"


def _scalars(s: sx.Statement, accesses: Sequence[sx.Access]) -> list[str]:
    """The parameters for what a statement uses as a number: neither an index of it, nor defined in it."""
    indices = {n.id for x in (s.subscripts, *(e.subscripts for e in accesses)) for e in x for n in nodes(e)
               if isinstance(n, sx.Name)}
    indices |= {c.index if isinstance(c, sx.RangeClause) else c.name for c in s.clauses if not isinstance(c, sx.Condition)}
    found = dict.fromkeys(n.id for n in nodes(s.value) if isinstance(n, sx.Name))
    return [f"f32 {name}" for name in found if name not in indices and name not in CONSTANTS]
