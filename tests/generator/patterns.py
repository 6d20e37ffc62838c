"""Computations that compilers know well, at sizes where tiles, packed operands, vectors, threads and tiled time loops occur."""

from __future__ import annotations

from math import prod

from tests.generator.masked import masked
from tests.generator.state import State, Tensor

EXTENTS = [16, 5, 17, 3, 1, 32, 33, 8, 48, 64, 7, 100]
INTEGERS = ["i32", "i64", "i8", "u8", "i16"]


def pattern(state: State) -> list[str]:
    """The lines of one. What it writes has bounds that start at 0."""
    state.large = True
    made = [contraction, contraction, contraction, window, window, rows, scan, recurrence, stencil, elimination, masked,
            masked]
    return state.c.of(made)(state)


def _most(state: State) -> int:
    """Points of a statement."""
    return state.c.of([20_000, 20_000, 4_000, 150_000])


def _operand(state: State, kind: str, shape: list[int]) -> str:
    """A tensor of a shape whose values are small: an input, or what was clamped."""
    box = [(0, n) for n in shape]
    known = [t.name for t in state.readable(kind) if t.box == box and (t.name in state.inputs or t.name in state.tame)]
    if known and state.c.likely(50):
        return state.c.of(known)
    return state.input(shape, kind, dtype=state.c.of(INTEGERS) if kind == "i" else None).name


def _made(state: State, shape: list[int], kind: str, tame: bool = False) -> str:
    t = Tensor(state.fresh("T"), [(0, n) for n in shape], kind)
    state.tensors[t.name] = t
    if tame:
        state.tame.add(t.name)
    return t.name


def _subscripted(name: str, indices: list[str]) -> str:
    return f"{name}[{','.join(indices)}]" if indices else name


def _kind(state: State) -> str:
    return state.c.of(["f", "f", "f", "i"])


def contraction(state: State) -> list[str]:
    """C[m,n] += A[m,k] * B[k,n] with any number of indices of each sort, in any order, and what often follows."""
    c, kind, most = state.c, _kind(state), _most(state)
    extents: dict[str, int] = {}
    sorts: dict[str, list[str]] = {}
    for sort, counts in (("m", [1, 1, 2, 0]), ("n", [1, 1, 2, 0]), ("k", [1, 1, 2]), ("b", [0, 0, 1, 2])):
        sorts[sort] = [f"{sort}{d}" for d in range(c.of(counts))]
        for index in sorts[sort]:
            extents[index] = max(1, min(c.of(EXTENTS), most // prod(extents.values())))

    def access(*which: str, order: bool = True) -> tuple[list[str], list[int]]:
        indices = [i for sort in which for i in sorts[sort]]
        indices = c.shuffled(indices) if order else indices
        return indices, [extents[i] for i in indices]

    (left, a), (right, b) = access("b", "m", "k"), access("b", "k", "n")
    out, shape = access("b", "m", "n", order=c.likely(30))
    first, second = (_subscripted(_operand(state, kind, x), i) for x, i in ((a, left), (b, right)))
    op = c.of(["+", "+", "+", "+", "max", "min"])
    if kind == "i":
        first, second = f"i32({first})", f"i32({second})"
    value = f"{first} {'*' if op == '+' else '+'} {second}"
    clauses = []
    if sorts["m"] and c.likely(15):
        clauses = [f"{sorts['m'][0]} {c.of(['>=', '<=', '<'])} {c.of([*sorts['k'], *sorts['n']])}"]
    where = f" where {', '.join(clauses)}" if clauses else ""
    acc = "acc(f64) " if kind == "f" and op == "+" and c.likely(6) else ""
    target = _made(state, shape, kind)
    lines = [f"{acc}{_subscripted(target, out)} {op}= {value}{where}"]
    return lines + _epilogue(state, target, out, shape, kind)


def _epilogue(state: State, target: str, out: list[str], shape: list[int], kind: str) -> list[str]:
    """A bias and what makes the values small again."""
    c = state.c
    if not c.likely(60):
        return []
    bias = ""
    if out and c.likely(60):
        d = c.below(len(out))
        bias = f" + {_operand(state, kind, [shape[d]])}[{out[d]}]"
    last = target if c.likely(30) else _made(state, shape, kind)
    state.tame.add(last)
    small = "tanh({})" if state.smooth and kind == "f" and c.likely(50) else "clamp({}, -3, 3)"
    return [f"{_subscripted(last, out)} = {small.format(_subscripted(target, out) + bias)}"]


def window(state: State) -> list[str]:
    """Convolutions, plain, padded, strided, dilated, depthwise, in groups, transposed, and pools."""
    c, kind = state.c, _kind(state)
    dims = c.of([2, 1, 2])
    style = c.of(["conv", "conv", "pool", "depthwise", "transposed", "groups"])
    stride, dilation, taps = c.of([1, 1, 2, 3]), c.of([1, 1, 2]), c.of([3, 1, 2, 3, 4])
    pad = c.of([0, 1, 1, 2])
    span = dilation * (taps - 1) + 1
    n = max(c.of([8, 12, 17, 5] if dims == 2 else [33, 12, 70, 8]), span)
    channels, filters = c.of([1, 3, 4, 8, 16]), c.of([1, 5, 8, 16, 17])
    h, r = ["h", "w"][:dims], ["r", "s"][:dims]
    if style == "transposed":
        x, w = _operand(state, kind, [channels] + [n] * dims), _operand(state, kind, [channels, filters] + [taps] * dims)
        places = [f"{stride}*{a}+{dilation}*{b}" for a, b in zip(h, r)]
        target = _made(state, [filters] + [stride * (n - 1) + span] * dims, kind)
        return [f"{target}[m,{','.join(places)}] += {_subscripted(x, ['c', *h])} * {_subscripted(w, ['c', 'm', *r])}"]
    out = (n + 2 * pad - span) // stride + 1
    places = [f"{stride}*{a}+{dilation}*{b}" + (f"-{pad}" if pad else "") for a, b in zip(h, r)]
    ranges = [f"{a} in 0:{out}" for a in h] if pad else []
    if style == "pool":
        x = _operand(state, kind, [channels] + [n] * dims)
        target = _made(state, [channels] + [out] * dims, kind, tame=True)
        read = f"({_subscripted(x, ['c', *places])} else identity)" if pad else _subscripted(x, ["c", *places])
        ranges = [f"{a} in 0:{out}" for a in h] + [f"{b} in 0:{taps}" for b in r]
        return [f"{_subscripted(target, ['c', *h])} {c.of(['max', 'min', '+'])}= {read} where {', '.join(ranges)}"]
    group = 2 if style == "groups" and channels % 2 == 0 and filters % 2 == 0 else 1
    x = _operand(state, kind, [channels] + [n] * dims)
    if style == "depthwise":
        w, target = _operand(state, kind, [channels] + [taps] * dims), _made(state, [channels] + [out] * dims, kind)
        left, taken, weight = ["c", *h], ["c", *places], ["c", *r]
    else:
        w = _operand(state, kind, [filters, channels // group] + [taps] * dims)
        target = _made(state, [filters] + [out] * dims, kind)
        of = "c" if group == 1 else f"m//{filters // group}*{channels // group}+c"
        left, taken, weight = ["m", *h], [of, *places], ["m", "c", *r]
    read = f"({_subscripted(x, taken)} else 0)" if pad else _subscripted(x, taken)
    where = f" where {', '.join(ranges)}" if ranges else ""
    lines = [f"{_subscripted(target, left)} += {read} * {_subscripted(w, weight)}{where}"]
    shape = [channels if style == "depthwise" else filters] + [out] * dims
    return lines + _epilogue(state, target, left, shape, kind)


def rows(state: State) -> list[str]:
    """Softmax, layernorm and their kin: reductions of rows, and what uses them."""
    c = state.c
    n, m = c.of(EXTENTS), c.of(EXTENTS)
    x = _operand(state, "f", [n, m])
    i = c.of(["i", "j"])  # rows or columns
    at, one = f"{x}[i,j]", [n if i == "i" else m]
    if not state.smooth:
        top, total = _made(state, one, "f", tame=True), _made(state, one, "f")
        last = _made(state, [n, m], "f")
        state.tame.add(last)
        return [f"{top}[{i}] {c.of(['max', 'min'])}= {at}", f"{total}[{i}] += {at} - {top}[{i}]",
                f"{last}[i,j] = clamp({at} - {top}[{i}] + {total}[{i}], -3, 3)"]
    if c.likely(50):
        top, e, total, y = (_made(state, s, "f") for s in (one, [n, m], one, [n, m]))
        state.tame.add(y)
        return [f"{top}[{i}] max= {at}", f"{e}[i,j] = exp({at} - {top}[{i}])", f"{total}[{i}] += {e}[i,j]",
                f"{y}[i,j] = {e}[i,j] / {total}[{i}]"]
    mean, var, y = (_made(state, s, "f") for s in (one, one, [n, m]))
    state.tame.add(y)
    k = m if i == "i" else n
    return [f"{mean}[{i}] += {at} / {k}", f"{var}[{i}] += ({at} - {mean}[{i}]) * ({at} - {mean}[{i}]) / {k}",
            f"{y}[i,j] = ({at} - {mean}[{i}]) * rsqrt({var}[{i}] + 0.1)"]


def scan(state: State) -> list[str]:
    """P[i] += X[k] where k <= i, and other domains that move along."""
    c, kind = state.c, _kind(state)
    n, around = c.of([16, 5, 33, 100, 70]), c.of([[], [], [3], [17]])
    x = _operand(state, kind, [*around, n])
    target = _made(state, [*around, n], kind)
    op = c.of(["+", "+", "max", "min", *(["*"] if kind == "i" else [])])
    domain = c.of(["k <= i", "k < i", "k >= i", "k <= i, k > i-4", "k <= i, (i-k) % 2 == 0"])
    first = "a," if around else ""
    limits = "" if op in ("max", "min") else f"i in 0:{n}, "
    return [f"{target}[{first}i] {op}= {x}[{first}k] where {limits or f'i in 0:{n}, '}{domain}"]


def recurrence(state: State) -> list[str]:
    """for t { P[t] = f(P[t-1], X[t]) }, alone or for many rows."""
    c, kind = state.c, _kind(state)
    n, around = c.of([16, 5, 40, 300, 1000]), c.of([[], [], [3], [17], [33]])
    x = _operand(state, kind, [n, *around])
    tail = ",j" if around else ""
    back = c.likely(30)
    previous = "t+1" if back else "t-1"
    forms = ["max({p}, {x})", "min({p}, {x} + 1)", "clamp({p} + {x}, -3, 3)"]
    forms += ["{p} + {x}"] if n <= 300 or kind == "i" else []
    forms += ["3 * {p} + {x}", "{p} * {x}", "{p} + {q} + {x}"] if kind == "i" else []
    forms += ["0.5 * {p} + {x}", "0.9 * {p} - 0.1 * {x}"] if state.smooth and kind == "f" else []
    form = c.of(forms)
    loop = f"for t in {n - 1}:-1:-1 {{" if back else f"for t in 0:{n} {{"
    if c.likely(30):  # one cell that goes along
        s, target = _made(state, around, kind), _made(state, [n, *around], kind)
        cell = f"{s}[j]" if around else s
        where = f" where j in 0:{around[0]}" if around else ""
        state.tame |= {s, target} if "clamp" in form or form[0] == "m" else set()
        body = form.format(p=cell, q="1", x=f"{x}[t{tail}]")
        return [f"{cell} = {kind == 'i' and 'i64(0)' or '0.0'}{where}", loop, f"    {cell} = {body}{where}",
                f"    {target}[t{tail}] = {cell}{where}", "}"]
    target = _made(state, [n, *around], kind, tame="clamp" in form or form[0] == "m")
    where = f" where j in 0:{around[0]}" if around else ""
    body = form.format(p=f"({target}[{previous}{tail}] else 0)", q=f"({target}[t{'+2' if back else '-2'}{tail}] else 0)",
                       x=f"{x}[t{tail}]")
    return [loop, f"    {target}[t{tail}] = {body}{where}", "}"]


def stencil(state: State) -> list[str]:
    """Time loops over one or two dimensions, with two tensors in turn or in place."""
    c, kind = state.c, _kind(state)
    dims, steps = c.of([1, 2, 1]), c.of([3, 5, 8, 2])
    n = c.of([20, 40, 9, 70] if dims == 1 else [9, 14, 22])
    x = _operand(state, kind, [n] * dims)
    a = _made(state, [n] * dims, kind, tame=True)
    indices = ["i", "j"][:dims]
    inside = ", ".join(f"{i} in 1:{n - 1}" for i in indices)

    def at(name: str, d: int, by: int) -> str:
        return f"{name}[{','.join(i if e != d or by == 0 else f'{i}{by:+}' for e, i in enumerate(indices))}]"

    near = [at(a, d, by) for d in range(dims) for by in (-1, 1)]
    middle = at(a, 0, 0)
    sums = f"{' + '.join([*near, middle])}"
    value = f"{0.3 / dims} * ({sums})" if state.smooth and kind == "f" else c.of([f"clamp({sums}, -3, 3)", " ".join(
        ["max("] * len(near)) + middle + "".join(f", {x})" for x in near) + " - 1"])
    start = f"{a}[{','.join(indices)}] = {x}[{','.join(indices)}]" if kind == "f" else \
        f"{a}[{','.join(indices)}] = i64({x}[{','.join(indices)}])"
    if c.likely(40):  # in place, one cell after another
        loops = [f"{'    ' * (d + 1)}for {i} in 1:{n - 1} {{" for d, i in enumerate(indices)]
        ends = [f"{'    ' * (d + 1)}}}" for d in reversed(range(dims))]
        return [start, f"for t in 0:{steps} {{", *loops, f"{'    ' * (dims + 1)}{middle} = {value}", *ends, "}"]
    b = _made(state, [n] * dims, kind, tame=True)
    state.tensors[b].box = [(1, n - 1)] * dims
    if c.likely(50):
        back = f"    {a}[{','.join(indices)}] = {b}[{','.join(indices)}] where {inside}"
    else:
        back = "    " + value.replace(a, b).join([f"{a}[{','.join(indices)}] = ", " where " + ", ".join(
            f"{i} in 2:{n - 2}" for i in indices)]) if n >= 6 else \
            f"    {a}[{','.join(indices)}] = {b}[{','.join(indices)}] where {inside}"
    return [start, f"for t in 0:{steps} {{", f"    {b}[{','.join(indices)}] = {value} where {inside}", back, "}"]


def elimination(state: State) -> list[str]:
    """Triangular nests that work in place: factorisations, substitution, shortest paths, intervals."""
    c = state.c
    kind = c.of(["i", "f"])
    n = c.of([12, 5, 20, 9, 30])
    x = _operand(state, kind, [n, n])
    a = _made(state, [n, n], kind, tame=kind == "f")
    start = f"{a}[i,j] = {x}[i,j]" if kind == "f" else f"{a}[i,j] = i32({x}[i,j])"
    small = (lambda e: e) if kind == "i" else (lambda e: f"clamp({e}, -3, 3)")
    match c.of(["lu", "floyd", "syrk", "substitution", "intervals"]):
        case "lu":
            update = f"    {a}[i,j] -= {a}[i,k] * {a}[k,j] where i in k+1:{n}, j in k+1:{n}" if kind == "i" else \
                f"    {a}[i,j] = {small(f'{a}[i,j] - {a}[i,k] * {a}[k,j]')} where i in k+1:{n}, j in k+1:{n}"
            column = f"    {a}[i,k] = {small(f'{a}[i,k] + {a}[k,k]')} where i in k+1:{n}"
            return [start, f"for k in 0:{n} {{", column, update, "}"]
        case "floyd":
            return [start, f"for k in 0:{n} {{", f"    for i in 0:{n} {{",
                    f"        {a}[i,j] = min({a}[i,j], {a}[i,k] + {a}[k,j]) where j in 0:{n}, i != k, j != k", "    }", "}"]
        case "syrk":
            return [start, f"for k in 0:{n} {{", f"    {a}[k,k] = {small(f'{a}[k,k] + 1')}",
                    f"    {a}[i,j] = {small(f'{a}[i,j] - {a}[i,k] * {a}[j,k]')} where i in k+1:{n}, j in k+1:i+1", "}"]
        case "substitution":
            y = _operand(state, kind, [n])
            v = _made(state, [n], kind)
            return [start, f"for i in 0:{n} {{", f"    {v}[i] = {y}[i]" if kind == "f" else f"    {v}[i] = i32({y}[i])",
                    f"    {v}[i] -= {small(f'{a}[i,j] * {v}[j]')} where j in 0:i",
                    f"    {v}[i] = {small(f'{v}[i]')}", "}"]
        case _:
            return [start, f"for i in {n - 1}:-1:-1 {{", f"    for j in i+1:{n} {{",
                    f"        {a}[i,j] = max({a}[i,j], ({a}[i,j-1] else 0))",
                    f"        {a}[i,j] = max({a}[i,j], ({a}[i+1,j] else 0))",
                    f"        {a}[i,j] max= {a}[i,k] + {a}[k+1,j] where k in i+1:j" if kind == "i" else
                    f"        {a}[i,j] max= min({a}[i,k] + {a}[k+1,j], 9) where k in i+1:j", "    }", "}"]
