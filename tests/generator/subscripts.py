"""Reads of tensors with quasi-affine subscripts that stay in bounds, are guarded, or are gathers."""

from __future__ import annotations

from tests.generator.state import Form, Space, State, Tensor


def form(state: State, space: Space) -> Form:
    """A subscript over the indices of the space."""
    c = state.c
    if not space:
        k = c.below(3)
        return Form(str(k), k, k)
    i = c.of(list(space))
    low, high = space[i][0], space[i][1] - 1
    match c.of(["i", "i", "i", "i", "i", "i", "i", "i", "i+k", "i-k", "i+j", "2i", "2i+j", "k-i", "i//2", "i%3", "k", "i-j",
                "pieces"]):
        case "pieces":
            return pieces(state, space, i)
        case "i+k":
            k = c.between(1, 3)
            return Form(f"{i}+{k}", low + k, high + k)
        case "i-k":
            k = c.between(1, 2)
            return Form(f"{i}-{k}", low - k, high - k)
        case "2i":
            return Form(f"2*{i}", 2 * low, 2 * high)
        case "k-i":
            return Form(f"{low + high}-{i}" if low + high >= 0 else f"-{i}-{-low - high}", low, high)
        case "i//2":
            return Form(f"{i}//2", low // 2, high // 2)
        case "i%3":
            return Form(f"{i}%3", 0 if high - low >= 2 else min(x % 3 for x in range(low, high + 1)),
                        2 if high - low >= 2 else max(x % 3 for x in range(low, high + 1)))
        case "k":
            k = c.below(3)
            return Form(str(k), k, k)
        case "i+j" | "2i+j" | "i-j" as which:
            j = c.of(list(space))
            if j != i:
                a, b = space[j][0], space[j][1] - 1
                if which == "i-j":
                    return Form(f"{i}-{j}", low - b, high - a)
                factor = 2 if which == "2i+j" else 1
                return Form(f"{'2*' if factor == 2 else ''}{i}+{j}", factor * low + a, factor * high + b)
    return Form(i, low, high)


def pieces(state: State, space: Space, i: str) -> Form:
    """A subscript that has pieces."""
    c = state.c
    low, high = space[i][0], space[i][1] - 1
    j, k = c.of([x for x in space if x != i] or [i]), c.between(-2, 2)
    at, shift = c.between(low, high), f"{i}{k:+}" if k else i
    a, b = space[j][0], space[j][1] - 1
    match c.of(["clamp", "min", "max", "abs", "?", "clamp+j", "min j", "max j", "? j", "%"]):
        case "min":
            return Form(f"min({shift},{at})", min(low + k, at), min(high + k, at))
        case "max":
            return Form(f"max({shift},{at})", max(low + k, at), max(high + k, at))
        case "abs":
            return Form(f"abs({i}-{at})" if at >= 0 else f"abs({i}+{-at})", 0, max(at - low, high - at))
        case "?":
            op = c.of(["<", "<=", "!=", ">", "=="])
            return Form(f"({i} {op} {at} ? {shift} : {at})", min(low + k, at), max(high + k, at))
        case "? j":
            return Form(f"({i} {c.of(['<', '>='])} {j} && {j} != {at} ? {i} : {j})", min(low, a), max(high, b))
        case "clamp+j" if j != i:
            return Form(f"clamp({shift}+{j},{low},{high})", low, high)
        case "min j":
            return Form(f"min({i},{j})", min(low, a), min(high, b))
        case "max j":
            return Form(f"max({i},{j})", max(low, a), max(high, b))
        case "%":
            n = high - low + 1
            return Form(f"({shift}{n - low:+})%{n}", 0, n - 1)
    return Form(f"clamp({shift},{low},{high})", low, high)


def fitting(state: State, space: Space, low: int, high: int) -> Form | None:
    """A subscript within [low, high)."""
    for _ in range(3):
        f = form(state, space)
        if low <= f.low and f.high < high:
            return f
    return None


def default(state: State, kind: str) -> str:
    """What stands behind `else`."""
    if state.skips and state.c.likely(15):
        return "identity"
    return {"f": state.c.of(["0", "1", "2"]), "i": state.c.of(["0", "1", "2"]), "b": "false"}[kind]


def guarded(state: State, t: Tensor, subscripts: list[str], space: Space) -> str:
    """A read that may leave its tensor, with a number or another read in its place."""
    others = [x for x in state.readable(t.kind) if x.name != t.name and "u64" not in (x.dtype, t.dtype)]
    other = read(state, state.c.of(others), space) if others and state.c.likely(20) else default(state, t.kind)
    text = f"{t.name}[{','.join(subscripts)}]"
    if other != "identity" and not any("[" in e for e in subscripts) and state.c.likely(25):
        return branch(state, t, subscripts, text, other)
    return f"({text} else {other})"


def branch(state: State, t: Tensor, subscripts: list[str], read: str, other: str) -> str:
    """A choice that reads a tensor where its condition says that this is in bounds."""
    tests = [f"{e} {op} {end}" for e, (low, high) in zip(subscripts, t.box, strict=True)
             for op, end in ((">=", low), ("<", high)) if any(c.isalpha() for c in e)]
    if not tests:
        return f"({read} else {other})"
    match state.c.of(["?", "!", "||"]):
        case "?":
            return f"({' && '.join(tests)} ? {read} : {other})"
        case "!":
            return f"(!({' && '.join(tests)}) ? {other} : {read})"
        case _:
            turned = [x.replace(">=", "<") if ">=" in x else x.replace("<", ">=") for x in tests]
            return f"({' || '.join(turned)} ? {other} : {read})"


def gather(state: State, space: Space, low: int, high: int) -> str:
    """A subscript that memory gives, in [low, high)."""
    where = form(state, space)
    if where.low < 0:
        return str(low)
    known = [t for t in state.tensors.values() if t.values == ("index", low, high) and t.box[0][1] > where.high]
    if known and state.c.likely(50):
        t = known[0]
    else:
        t = state.input([where.high + 1], "i", ("index", low, high), state.c.of(["i64", "i32"]))
    return f"{t.name}[{where.text}]"


def read(state: State, t: Tensor, space: Space) -> str:
    """A read of a tensor that is there."""
    if not t.box:
        return t.name
    guard, parts = False, []
    for low, high in t.box:
        f = fitting(state, space, low, high)
        if f is None and state.c.likely(60):
            guard = True
            f = form(state, space)
        if f is None:
            k = state.c.between(low, high - 1)
            f = Form(str(k), k, k)
        parts.append(gather(state, space, low, high) if state.c.likely(3) else f.text)
    guard = guard or state.c.likely(4)
    return guarded(state, t, parts, space) if guard else f"{t.name}[{','.join(parts)}]"


def read_new(state: State, kind: str, space: Space, must: list[str], bounded: set[tuple[str, str]]
             ) -> str:
    """A read of a new input, whose shape is made to fit. must: indices that occur alone; bounded: gets the indices whose whole
    range follows from this read, with the input's name."""
    c = state.c
    forms = [Form(i, space[i][0], space[i][1] - 1) for i in must]
    forms += [form(state, space) for _ in range(c.of([0, 1, 0, 2]) if must else c.of([1, 2, 1, 3]))]
    forms = c.shuffled(forms[:4])
    forms = [f if f.low >= 0 else Form(f"{f.text}+{-f.low}", 0, f.high - f.low) for f in forms]
    cells = 1
    for f in forms:
        cells *= f.high + 1
    if cells > 20000:
        forms = forms[:1]
    t = state.input([f.high + 1 for f in forms], kind)
    bounded |= {(t.name, f.text) for f in forms if f.low == 0 and space.get(f.text, (1, 1)) == (0, f.high + 1)}
    text = f"{t.name}[{','.join(f.text for f in forms)}]"
    return f"i64({text})" if t.dtype == "u64" and state.c.likely(80) else text
