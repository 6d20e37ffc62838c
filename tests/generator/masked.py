"""Triangular domains whose accesses go through windows, `X[j//2]`, `X[j%4]`: vectors are masked there, and several lanes share
an element."""

from __future__ import annotations

from tests.generator.state import State, Tensor

EXTENTS = [9, 4, 3, 17, 8, 5, 33, 16, 7, 1, 31, 65, 2, 40]
FLOATS = ["f32", "f64", "f16", "f32", "bf16"]
INTEGERS = ["u8", "i32", "i8", "i64", "u16", "u32"]
WINDOWS = ["{j}//2", "({j}+1)//3", "{j}%4", "{j}//4", "({j}+1)//2", "{j}%2", "({j}+3)//4", "{j}//3", "({j}+2)%3", "{j}//2+{i}",
           "{j}%2+{i}", "{i}-{j}//2+{n}", "{n}-{j}//2", "2*({j}//2)", "{j}//2+{j}%2", "{j}//8", "{j}", "2*{j}"]


def masked(state: State) -> list[str]:
    """`T[i,j] += X[i,j//2] where j >= i`: a window read, or written, under a condition that tells vectors apart."""
    c, kind = state.c, state.c.of(["f", "f", "i"])
    rows, columns = c.of(EXTENTS), c.of(EXTENTS)
    space = {"i": rows, "j": columns}
    if c.likely(35):
        space["k"] = c.of([4, 9, 17, 2, 8])
    names = list(space)
    target = Tensor(state.fresh("T"), [], kind)
    reads = [_read(state, space, kind) for _ in range(c.of([1, 2, 1, 3]))]
    value = reads[0]
    for x in reads[1:]:
        value = f"{c.of(['{a} + {b}', 'max({a}, {b})', '({a} - {b})', '({b} > 0 ? {a} : 1)']).format(a=value, b=x)}"
    domain = _domain(c.of(["i", "k"]) if "k" in space else "i", "j", space, state)
    ranges = [f"{i} in 0:{n}" for i, n in space.items() if i not in domain[1]]
    where = ", ".join([*ranges, *domain[0]])
    left, box, several = _left(state, names, space)
    target.box = [(0, n) for n in box]
    state.tensors[target.name] = target
    subscripts = f"{target.name}[{','.join(left)}]" if left else target.name
    if not several and c.likely(40):
        fresh = "ijkl"[:len(box)]
        start = ", ".join(f"{i} in 0:{n}" for i, n in zip(fresh, box))
        zero = "0.0" if kind == "f" else "i64(0)"
        first = f"{target.name}[{','.join(fresh)}] = {zero} where {start}"
        return [first, f"{subscripts} = {value} where {where}"]
    return [f"{subscripts} {c.of(['+', 'max', 'min', '+'])}= {value} where {where}"]


def _domain(i: str, j: str, space: dict[str, int], state: State) -> tuple[list[str], set[str]]:
    """Clauses that make the domain a triangle, and the indices whose range they state."""
    c, n = state.c, space[j]
    k = c.of([0, 1, 2, 3, n // 2])
    return c.of([([f"{j} >= {i}"], set()), ([f"{j} <= {i}"], set()), ([f"{j} in {i}:{max(n, space[i])}"], {j}),
                 ([f"{j} > {i}"], set()), ([f"{j} in 0:{i}+1"], {j}), ([f"{j} >= {i}", f"{j} < {i}+{k + 1}"], set()),
                 ([f"{i} + {j} < {k + 2}"], set()), ([f"2*{j} >= {i}"], set()), ([f"{j} >= 2*{i}"], set()),
                 ([f"({j} < {i} || {j} > {i} + {k})"], set()), ([f"{j} != {i}"], set()), ([f"{j}//2 >= {i}"], set()),
                 ([f"{j} % 3 != {c.of([0, 1])}"], set()), ([f"({i} + {j}) % 2 == 0"], set()),
                 ([f"{j} in {i}:{i}+{k + 1}"], {j})])


def _read(state: State, space: dict[str, int], kind: str) -> str:
    """A read of a new input through windows, plain or guarded."""
    c, forms, shape = state.c, list[str](), list[int]()
    names = list(space)
    reach = {i: n + max(space.values()) + 5 for i, n in space.items()}
    for _ in range(c.of([1, 2, 1])):
        j = c.of(["j", "j", *names])
        i = c.of([x for x in names if x != j])
        high = reach[j]
        n = high if c.likely(50) else high // 2
        form = c.of(WINDOWS).format(i=i, j=j, n=n)
        forms.append(form)
        shape.append(min(2 * high + reach[i] + n, 260))
    guard = c.likely(25)
    shape = [n // c.of([1, 2, 4, 8]) + 1 if guard else n for n in shape]
    x = state.input(shape, kind, dtype=c.of(FLOATS if kind == "f" else INTEGERS))
    text = f"{x.name}[{','.join(forms)}]"
    return f"({text} else {c.of([0, 1])})" if guard else f"i32({text})" if x.dtype == "u64" else text


def _left(state: State, names: list[str], space: dict[str, int]) -> tuple[list[str], list[int], bool]:
    """Subscripts of the left side, the extents of what it writes, and whether several instances may meet in an element."""
    c = state.c
    if c.likely(35):  # a window is written
        kept = c.some([i for i in names if i != "j"], 2)
        width, form = c.of([(2, "j//2"), (4, "j//4"), (3, "(j+1)//3"), (0, "j%4"), (0, "j%2")])
        reach = max(space.values()) + space["j"]
        extent = (reach + 2) // width + 1 if width else 4
        left, box = [*kept, form], [*(space[i] for i in kept), extent]
        order = c.shuffled(list(range(len(left))))
        return [left[d] for d in order], [box[d] for d in order], True
    kept = names if c.likely(60) else c.some(names, 2)
    kept = c.shuffled(kept)
    return kept, [max(space[i], *space.values()) + space[i] for i in kept], len(kept) < len(names)
