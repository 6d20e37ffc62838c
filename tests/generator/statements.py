"""Statements as text, each sound in the state it is written in as far as can be said without a prover."""

from __future__ import annotations

from dataclasses import dataclass

from tests.generator import subscripts
from tests.generator.definitions import call
from tests.generator.expressions import Context, expression
from tests.generator.state import POINTS, Space, State, Tensor, extent, size

UPDATES = {"f": ["+", "max", "min", "+", "*"], "i": ["+", "max", "min", "*", "&", "|", "^", "-"], "b": ["|", "&", "^"]}


@dataclass
class Draft:
    """A statement while it is written. space: its indices, those of the loops included; own: its own ones; left: subscripts;
    moving: dimension -> (loop, offset) where the left side is a loop's index plus a number; ranges: what must be stated."""

    state: State
    space: Space
    own: list[str]
    left: list[str]
    ranges: dict[str, str]
    moving: dict[int, tuple[str, int]]

    def index(self, low: int, high: int) -> str:
        """A new index."""
        name = next(n for n in "ijklmpqrsvw" if n not in self.space)
        self.space[name] = (low, high)
        self.own.append(name)
        return name


def statement(state: State) -> list[str]:
    """Lines of one statement, with what must stand before it."""
    c = state.c
    known = state.writable()
    if state.loops:
        which = ["old", "old", "old", "old", "new", "scatter", "rows", "old", "old", "call", "tuple"]
    else:
        which = ["new", "new", "new", "new", "new", "old", "rows", "tuple", "scatter", "call", "radix"]
    kind = c.of([k for k in which if k != "rows" or state.dynamic])
    if kind in ("old", "scatter") and known:
        return [existing(state, c.of(known), kind == "scatter")]
    if kind == "tuple":
        return [tuple_reduction(state)]
    if kind == "call" and (sources := [t for t in state.readable() if t.box]):
        t = c.of(sources)
        return call(state, t, lambda: existing(state, t) if t in state.writable() else new(state))
    if kind == "radix":
        return [new(state, radix=True)]
    return [new(state, rows=kind == "rows")]


def draft(state: State) -> Draft:
    return Draft(state, dict(state.loops), [], [], {}, {})


def new(state: State, radix: bool = False, rows: bool = False) -> str:
    """A statement that writes a fresh tensor, all of it."""
    c, d = state.c, draft(state)
    kind = c.of(["f", "f", "f", "f", "i", "i", "b"])
    update = rows or c.likely(45)
    box: list[tuple[int, int]] = []
    for _ in range(c.of([1, 2, 1, 2, 3, 0, 3, 4])):
        if d.state.loops and c.likely(40):
            name = c.of(list(state.loops))
            if name not in d.left:
                d.left.append(name)
                box.append(state.loops[name])
                continue
        low = c.of([0, 0, 0, 0, 0, 0, 1, 2, -1])
        n = min(extent(c), max(1, POINTS // size(d.space)))
        if n * size(d.space) > POINTS:
            break
        i = d.index(low, low + n)
        text, low = _bent(d, i, low, n, radix, update)
        d.left.append(text)
        box.append((low, low + n * (2 if "2*" in text else 1)))
    t = Tensor(state.fresh("T"), box, kind, pending=bool(state.loops) and not update)
    line = finish(d, t, update=c.of(UPDATES[kind]) if update else None, rows=rows)
    state.tensors[t.name] = t
    return line


def _bent(d: Draft, i: str, low: int, n: int, radix: bool, update: bool) -> tuple[str, int]:
    """A left subscript of index i, and the smallest coordinate that it reaches; all coordinates up to n more are reached."""
    c = d.state.c
    if radix and low == 0:
        j = d.index(0, 2)
        d.ranges[j] = "0:2"
        return f"2*{i}+{j}", 0
    match c.of(["i", "i", "i", "i", "i", "i", "i+k", "i-k", "k-i"]):
        case "i+k":
            return f"{i}+2", low + 2
        case "i-k":
            return f"{i}-1", low - 1
        case "k-i":
            return f"{2 * low + n - 1}-{i}" if 2 * low + n >= 1 else i, low
    return i, low


def existing(state: State, t: Tensor, scatter: bool = False) -> str:
    """A statement that writes a part of a tensor that has been written."""
    c, d = state.c, draft(state)
    update = c.likely(40)
    for axis, (low, high) in enumerate(t.box):
        moving = [(i, k) for i, (a, b) in state.loops.items() for k in (0, -1, 1, 2) if low <= a + k and b + k <= high]
        if moving and c.likely(55):
            i, k = c.of(moving)
            d.moving[axis] = (i, k)
            d.left.append(i if k == 0 else f"{i}{k:+}")
        elif c.likely(8):
            d.left.append(str(c.between(low, high - 1)))
        elif scatter:
            free = [x for x in d.own if d.space[x][0] >= 0] or [d.index(0, c.of([3, 5, 1, 9, 20]))]
            reach = c.of([0, 0, 1])
            source = state.input([d.space[free[0]][1]], "i", ("index", low - reach, high + reach), c.of(["i64", "i32"]))
            d.left.append(f"{source.name}[{free[0]}]")
            d.ranges[free[0]] = f"0:{d.space[free[0]][1]}"
            update = update or c.likely(60)
        else:
            d.left.append(_part(d, low, high))
    line = finish(d, t, update=c.of(UPDATES[t.kind]) if update else None, scatter=scatter)
    t.pending = False
    return line


def _part(d: Draft, low: int, high: int) -> str:
    """An index that runs over a part of [low, high), which may depend on other indices."""
    c = d.state.c
    if c.likely(30) and high - low > 1:
        low, high = low + c.below(2), high - c.below(2)
        high = max(high, low + 1)
    others = [i for i, (a, b) in d.space.items() if a < high and b > low]
    i = d.index(low, high)
    d.ranges[i] = f"{low}:{high}"
    if others and c.likely(45):
        j = c.of(others)
        a, b = d.space[j]
        forms = [f"{low}:{j}+1"] * (low < b <= high) + [f"{low}:{j}"] * (low < b - 1 <= high)
        forms += [f"{j}:{high}"] * (low <= a < high) + [f"{j}+1:{high}"] * (low <= a + 1 and b < high)
        forms += [f"max({low},{j}-1):min({high},{j}+2)"] * (low < b + 1 and a - 1 < high)
        if forms:
            d.ranges[i] = c.of(forms)
    elif c.likely(6) and high - low > 2:
        d.ranges[i] = f"{low}:{high}:2"
    return i


def finish(d: Draft, t: Tensor, update: str | None, rows: bool = False, scatter: bool = False) -> str:
    """The right side and the clauses."""
    state, c = d.state, d.state.c
    fresh = t.name not in state.tensors
    bounded: set[tuple[str, str]] = set()
    clauses = []
    reduced = []
    if update is not None:
        for _ in range(c.of([1, 1, 0, 2])):
            n = extent(c)
            if n * size(d.space) <= POINTS:
                reduced.append(d.index(0, n))
    if rows:
        _rows(d, reduced)
    named = _let(d)
    x = Context(state, d.space, t.name, t.kind, _own(d, t, update, reduced, scatter, fresh), bounded)
    state.skips = update is not None
    value = expression(x, t.kind, c.of([1, 2, 0, 2, 3]))
    state.skips = False
    loose = [i for i in reduced if not _mentions(value, i) or (rows and i == reduced[0])]
    if loose:
        more = subscripts.read_new(state, t.kind, d.space, loose, bounded)
        value = f"({value}) {c.of({'f': ['+', '*'], 'i': ['+', '*', '-'], 'b': ['&&', '||']}[t.kind])} {more}"
    if named is not None and _mentions(value, named[0]):
        clauses.append(f"{named[0]} = {named[1]}")
    stated = {i for name, i in bounded if _mentions(value, name)}
    clauses += [clause for i in d.own if (clause := _range(d, i, stated)) is not None]
    clauses += _conditions(d, fresh, update, scatter)
    declared = t.dtype if t.inout else None
    value = f"{declared}({value})" if declared is not None and declared != "bool" else value
    op = "=" if update is None else f"{update}={'!' if c.likely(4) and not t.inout and not scatter else ''}"
    left = t.name + (f"[{','.join(d.left)}]" if d.left else "")
    where = f" where {', '.join(c.shuffled(clauses) if named is None else clauses)}" if clauses else ""
    return f"{_accumulator(state, t, update)}{left} {op} {value}{where}"


def _mentions(text: str, name: str) -> bool:
    return name in "".join(ch if ch.isalnum() or ch == "_" else " " for ch in text).split()


def _accumulator(state: State, t: Tensor, update: str | None) -> str:
    if update in (None, "-", "&", "|", "^") or t.kind != "f" or not state.c.likely(5):
        return ""
    return "acc(f64) "


def _let(d: Draft) -> tuple[str, str] | None:
    """A name for a subscript: joins the space."""
    plain = [i for i in d.own if i not in d.ranges]
    if not plain or not d.state.c.likely(6):
        return None
    i = d.state.c.of(plain)
    low, high = d.space[i]
    d.ranges[i] = f"{low}:{high}"
    k = d.state.c.of([1, 2])
    d.space["z"] = (k * low + 1, k * (high - 1) + 2)
    return "z", f"{k}*{i} + 1" if k > 1 else f"{i} + 1"


def _rows(d: Draft, reduced: list[str]) -> None:
    """Gives the first reduced index a range that memory decides."""
    c = d.state.c
    if not reduced:
        reduced.append(d.index(0, c.of([5, 9, 1, 30])))
    p = reduced[0]
    plain = [i for i in d.own if i not in reduced and i not in d.ranges and d.space[i][0] >= 0]
    i = c.of([*plain, *(j for j, (a, _) in d.state.loops.items() if a >= 0)] or ["0"])
    length = d.space[i][1] + 1 if i in d.space else 2
    r = d.state.input([length], "i", ("rows", d.space[p][1]), c.of(["i64", "i32"]))
    d.ranges[p] = f"{r.name}[{i}]:{r.name}[{i}+1]"
    if i in plain:
        d.ranges[i] = f"{d.space[i][0]}:{d.space[i][1]}"


def _own(d: Draft, t: Tensor, update: str | None, reduced: list[str], scatter: bool, fresh: bool):  # type: ignore[no-untyped-def]
    """What makes a read of the statement's own target that no other instance writes."""
    if fresh or scatter:
        return None
    same = not reduced

    def make() -> str | None:
        c = d.state.c
        if d.moving and c.likely(60):
            axis = c.of(list(d.moving))
            i, k = d.moving[axis]
            shift = k + c.of([-1, 1, -2])
            a, b = d.space[i]
            parts, guard = [], not (t.box[axis][0] <= a + shift and b - 1 + shift < t.box[axis][1])
            for n, (low, high) in enumerate(t.box):
                if n == axis:
                    parts.append(i if shift == 0 else f"{i}{shift:+}")
                    continue
                f = subscripts.fitting(d.state, d.space, low, high)
                parts.append(f.text if f is not None else d.left[n])
            return subscripts.guarded(d.state, t, parts, d.space) if guard else f"{t.name}[{','.join(parts)}]"
        if same and (d.own or d.state.loops):
            return t.name + (f"[{','.join(d.left)}]" if d.left else "")
        return None

    return make


def _range(d: Draft, i: str, bounded: set[str]) -> str | None:
    """The clause of an index, None where it follows from a read."""
    low, high = d.space[i]
    if i in d.ranges:
        return f"{i} in {d.ranges[i]}"
    if i in bounded and d.state.c.likely(70):
        return None
    upper = f"<{high}>" if d.state.whole and d.state.c.likely(25) else str(high)
    return f"{i} in {low}:{upper}"


def _conditions(d: Draft, fresh: bool, update: str | None, scatter: bool) -> list[str]:
    """Clauses that narrow the domain; what is not written then has been written before."""
    c = d.state.c
    if (fresh and update is None) or not d.own or not c.likely(30):
        return []
    i = c.of(d.own)
    low, high = d.space[i]
    j = c.of([n for n in d.space if n != i and n != "z"] or [i])
    k = c.between(low, high)
    match c.of(["<=", "<", ">=", "+", "%", "!=", "||", "value", "2", "chain", "pieces", "product"]):
        case "product":
            return [c.of([f"{i}*{i} + {j}*{j} <= {k * k + 2}", f"{i}*{j} < {k + 1}", f"{i}*{j} % 3 != 1", f"({i} & {j}) == 0",
                          f"({i}*{i} > {k} || {j} < 2)"])]
        case "pieces":
            return [c.of([f"abs({i}-{j}) <= {c.of([2, 1, 4])}", f"{i} <= min({j}+1,{k})", f"max({i},{j}) >= {k}",
                          f"{i} < ({j} > {k} ? {j} : {k})"]) if j != i else f"min({i},{k}) < {k}"]
        case "chain":
            return [f"{low} <= {i} < {k + 1} != {j}" if j != i else f"{low} <= {i} <= {k}"]
        case "+":
            return [f"{i} + {j} < {k + 3}"]
        case "%":
            return [f"{i} % {c.of([2, 3])} == {c.of([0, 1])}"]
        case "||":
            return [f"({i} < {j} || {i} > {k})"]
        case "2":
            return [f"2*{i} >= {j}"]
        case "value":
            known = [t.name for t in d.state.readable("i") if len(t.box) == 1 and t.box[0][0] <= low and high <= t.box[0][1]]
            return [f"{c.of(known)}[{i}] > 0"] if d.state.dynamic and known else []
        case op:
            return [f"{i} {op} {j if j != i else k}"]


def tuple_reduction(state: State) -> str:
    """`(M[i], J[i]) argmax= (X[i,j], j)`."""
    c, d = state.c, draft(state)
    state.smooth, smooth = False, state.smooth
    box = []
    for _ in range(c.of([1, 0, 2])):
        n = extent(c)
        d.left.append(d.index(0, n))
        box.append((0, n))
    reduced = [d.index(0, extent(c, large=False)) for _ in range(c.of([1, 1, 2]))]
    kind, bounded = c.of(["i", "f"]) if not smooth else "i", set[tuple[str, str]]()
    value = subscripts.read_new(state, kind, d.space, d.own[:4], bounded)
    x = Context(state, d.space, bounded=bounded)
    if c.likely(30):
        value = f"{value} + {expression(x, kind, 1)}"
    others = [(c.of(reduced), "i")] + [(expression(x, k, 1), k) for k in c.some(["f", "i"], 1)]
    names = [state.fresh("T") for _ in range(1 + len(others))]
    state.smooth = smooth
    values = ", ".join([value, *(e for e, _ in others)])
    stated = {i for name, i in bounded if _mentions(values, name)}
    subs = f"[{','.join(d.left)}]" if d.left else ""
    for name, k in zip(names, [kind, *(k for _, k in others)]):
        state.tensors[name] = Tensor(name, list(box), k, pending=bool(state.loops))
    clauses = [clause for i in d.own if (clause := _range(d, i, stated)) is not None]
    return (f"({', '.join(n + subs for n in names)}) {c.of(['argmax', 'argmin'])}={'!' * bool(state.loops)} ({values})"
            + (f" where {', '.join(clauses)}" if clauses else ""))
