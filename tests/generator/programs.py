"""Whole programs: statements and `for` blocks, bare or as a `def`, with what they are to be called with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from tests.c_here import COMPILERS
from tests.generator import gpus
from tests.generator.case import LAYOUTS, Case, Input
from tests.generator.choices import Choices
from tests.generator.patterns import pattern
from tests.generator.state import ITERATIONS, SIZES, State, Tensor, extent, size
from tests.generator.statements import statement


def case(c: Choices, language: bool = False) -> Case:
    """A random program with its inputs, its target and its schedule. language: few other than the CPU and the automatic one,
    for the sake of many programs."""
    state = State(c, smooth=c.likely(30), whole=c.likely(50), dynamic=c.likely(15))
    state.special = not state.smooth and c.likely(8)
    if state.whole and c.likely(50):
        kind = c.of(["f", "f", "i"])
        for _ in range(c.of([1, 2])):
            made = state.input([extent(c) for _ in range(c.of([1, 2, 2, 3]))], kind)
            made.inout = True
    lines: list[str] = []
    for _ in range(c.of([1, 2, 1, 3, 2])):
        lines += block(state, 0) if c.likely(35) else pattern(state) if c.likely(15) else statement(state)
    text = _definition(state, lines) if state.whole else _bare(state, lines)
    inputs = tuple(Input(t.name, t.shape, t.dtype or "f32", t.values, state.smooth)
                   for t in (state.tensors[n] for n in state.inputs) if re.search(rf"\b{t.name}\b", text))
    target = c.of(["cpu"] * 20 + ["interp"] * 3 + ["opencl"] if language else
                  ["cpu", "cpu", "interp", "opencl", "cpu", "gpu", "cc", "arm"])
    if target == "interp" and state.large or target == "cc" and not COMPILERS:
        target = "cpu"
    if target == "arm":
        target = c.of([*gpus.ARM]) if gpus.ARM else "cpu"
    if target == "gpu":
        target = c.of([*gpus.ALL])
    if (target == "opencl" or target in gpus.TARGETS) and "~" in text:
        # Intel's compiler gets the largest of several ~x wrong: docs/opencl.md
        target = "interp"
    schedule = c.of(["automatic"] * 20 + ["program"] * 2 + ["isl", "user"] if language else
                    ["automatic", "automatic", "program", "isl", "user", "user"])
    called = schedule != "user" and target in ("cpu", "cpu", "interp", "opencl") and c.likely(40)
    if called:
        inputs = tuple(replace(x, layout=c.of(LAYOUTS)) if x.shape and c.likely(50) else x for x in inputs)
    used = {n: v for n, v in state.scalars.items() if re.search(rf"\b{n}\b", text)}
    made = Case(text, inputs, tuple(used.items()), c.below(1000), target, schedule, c.of([1, 2]), state.smooth,
                tuple(c.below(1000) for _ in range(40)) if schedule == "user" else (), called=called,
                out=called and c.likely(40))
    if schedule != "user" and c.likely(40):
        chosen = _open(state, made)
        return made.at({n: c.of(SIZES) for n in chosen}) if c.likely(25) else replace(made, open=chosen)
    fixed = called and target == "cpu" and not any(t.inout for t in state.tensors.values()) and c.likely(35)
    return replace(made, constants=tuple(c.some([x.name for x in inputs], 2))) if fixed else made


def _open(state: State, made: Case) -> tuple[str, ...]:
    """Up to two sizes to leave open: those that a `def` names, or any extents of inputs."""
    extents = {n for x in made.inputs for n in x.shape if n > 1}
    named = sorted(n for n in extents if not state.whole or re.search(rf"\bN{n}\b", made.text))
    return tuple(f"N{n}" for n in state.c.some(named, 2))


def block(state: State, depth: int) -> list[str]:
    """A `for` with what is in it, and the statements before it that write what it updates."""
    c, before = state.c, list[str]()
    if not state.loops and not state.writable():
        before = _start(state)
    axes = [(a, b) for t in state.writable() for a, b in t.box if b - a <= 30]
    low, high = c.of(axes) if axes and c.likely(80) else (0, c.of([3, 1, 2, 5, 8]))
    if high - low > 2:
        low, high = low + c.below(2), high - c.below(2)
    if size(state.loops) * (high - low) > ITERATIONS:
        high = low + max(1, ITERATIONS // size(state.loops))
    index = "tuxy"[depth]
    bounds = [f"{low}:{high}", f"{low}:{high}", f"{high - 1}:{low - 1}:-1", f"{low}:{high}:2", f"{high - 1}:{low - 1}:-2"]
    for i, (a, b) in state.loops.items():
        bounds += [f"{low}:{i}+1"] * (low < b <= high) + [f"{i}:{high}"] * (low <= a < high)
        bounds += [f"{i}+1:{high}"] * (low <= a and b < high)
    chosen = c.of(bounds)
    state.loops[index] = (low, high)
    inside: list[str] = []
    for _ in range(c.of([1, 2, 1, 2, 3])):
        inside += block(state, depth + 1) if depth < 2 and c.likely(30) else statement(state)
    del state.loops[index]
    if chosen not in bounds[:3]:  # not all of what it writes is written
        for name in [n for n, t in state.tensors.items() if t.pending]:
            if re.search(rf"\b{name}\[[^=]*\b{index}\b[^=]*\] =", " ".join(inside)):
                state.tensors[name].values = ("partial",)
    if not state.loops:
        for t in state.tensors.values():
            t.pending = t.values == ("partial",)
    return [*before, f"for {index} in {chosen} {{", *("    " + line for line in inside), "}"]


def _start(state: State) -> list[str]:
    """A tensor that a block may update."""
    c = state.c
    shape = [extent(c, large=False) for _ in range(c.of([1, 2, 2, 3]))]
    kind = c.of(["f", "f", "f", "i", "b"])
    x = state.input(shape, kind)
    if state.whole and c.likely(30):
        x.inout = True
        return []
    t = Tensor(state.fresh("T"), [(0, n) for n in shape], kind)
    state.tensors[t.name] = t
    subs = ",".join("ijk"[:len(shape)])
    return [f"{t.name}[{subs}] = {x.name}[{subs}]"]


def _written(state: State, lines: list[str]) -> Iterator[Tensor]:
    for t in state.tensors.values():
        if t.name not in state.inputs and t.values != ("partial",):
            yield t


def _bare(state: State, lines: list[str]) -> str:
    c = state.c
    text = re.sub(r"<(\d+)>", r"\1", "\n".join([*state.definitions.values(), *lines]))
    names = [t.name for t in _written(state, lines)]
    if names and c.likely(50):
        text += f"\n-> ({', '.join([names[-1], *c.some(names[:-1], 3)])})"
    return text


def _definition(state: State, lines: list[str]) -> str:
    c = state.c
    body = "\n".join("    " + line for line in lines)
    used = [state.tensors[n] for n in state.inputs if re.search(rf"\b{n}\b", body)]
    extents = {n for t in used for n in t.shape}
    body = re.sub(r"<(\d+)>", lambda m: f"N{m[1]}" if int(m[1]) in extents else m[1], body)
    named = {int(n) for n in re.findall(r"\bN(\d+)\b", body)} | ({*c.some(sorted(extents), 2)} if extents else set())
    params = []
    for t in used:
        dims = ",".join(f"N{n}" if n in named else str(n) for n in t.shape)
        params.append(f"{'inout ' if t.inout else ''}{t.dtype}[{dims}] {t.name}")
    params += [f"{'i32' if isinstance(v, int) else c.of(['f32', 'f64'])} {n}" for n, v in state.scalars.items()
               if re.search(rf"\b{n}\b", body)]
    names = [t.name for t in _written(state, lines)]
    outs = [names[-1], *c.some(names[:-1], 3)] if names else []
    arrow = f" -> ({', '.join(outs)})" if outs else ""
    mark = "precise " if c.likely(7) else ""
    if named and c.likely(10):
        n = c.of(sorted(named))
        body = f"    assume N{n} >= {c.of([1, n])} && N{n} < {2 * n}\n{body}"
    text = "\n".join([*state.definitions.values(), f"{mark}def f({', '.join(params)}){arrow} {{", body, "}"])
    return _comprehension(text) if not state.definitions and c.likely(8) else text


def _comprehension(text: str) -> str:
    """The program in Tensor Comprehensions' notation."""
    head, brace, body = text.partition("{")
    for ours, theirs in (("f32", "float"), ("f64", "double"), ("f16", "half"), ("i32", "int"), ("i64", "int64")):
        head = re.sub(rf"\b{ours}\b", theirs, head)
    return (head + brace + body).replace("[", "(").replace("]", ")")
