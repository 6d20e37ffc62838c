"""Calls of definitions on whole tensors: of the text, and of those that need not be defined."""

from __future__ import annotations

from collections.abc import Callable

from tests.generator.state import State, Tensor

DEFINITIONS = {
    "Scale": "op Scale<a>(X[*i]) -> Y[*i] { Y[*i] = a * X[*i] + 1 }",
    "Rows": "op Rows(X[*i, j]) -> S[*i] { S[*i] += X[*i, j] }",
    "Back": "op Back(X[*i, j]) -> Y[*i, j] { Y[*i, j] = X[*i, X.shape[-1] - 1 - j] }",
    "Add": "op Add(A[*i?], B[*i?]) -> Y[*i] { Y[*i] = A[*i] + B[*i] }",
    "Running": "def Running(X) -> (P) { for t in 0:X.shape[0] { P[t] = max((P[t-1] else 0), X[t]) } }",
    "Spread": "op Spread(X[*i, j]) -> Y[*i, j] { M[*i] max= X[*i, j]; Y[*i, j] = X[*i, j] - M[*i] }",
    "Pad": "op Pad<p=[1]>(X[*i]) -> Y[*i] { Y[*i] = (X[*(i - p)] else 0) where *i in 0:*(p + 3) }",
    "Moments": "def Moments(X, k) -> (S, M) { S += X[i]; M max= X[i] + k }",
    "Nudge": "def Nudge(inout {type}[K] X, i32 k) { for t in 1:K { X[t] = max(X[t], X[t-1] - k) } }",
}

Shape = list[int]


def call(state: State, t: Tensor, otherwise: Callable[[], str]) -> list[str]:
    """A call on a tensor. otherwise: makes the line where there is none."""
    c = state.c
    shape = [b - a for a, b in t.box]
    if t.kind == "b":
        return [otherwise()]
    ready = ["relu", "transpose", "matmul"] + (
        ["softmax", "gelu", "l2norm", "silu", "log_softmax"] if state.smooth and not state.loops else [])
    which = c.of([*DEFINITIONS, *ready] if t.kind == "f" else [*DEFINITIONS, "relu"])
    if not _suits(which, t, state):
        which = "Scale"
    if which in DEFINITIONS:
        state.definitions[which] = DEFINITIONS[which].replace("{type}", t.dtype or "f32")
    if which == "Nudge":
        return [f"Nudge({t.name}, {c.of([1, 0, 2])})"]
    attributes = f"<a={c.of([2, 1, 3])}>" if which == "Scale" else f"<p=[{c.of([1, 0, 2])}]>" if which == "Pad" else ""
    argument, more = t.name, ""
    if which == "Add":
        more = f", {state.input([n if c.likely(60) else 1 for n in shape[c.below(len(shape)):]], t.kind).name}"
    elif which == "matmul":
        more = f", {state.input([shape[1], c.of([3, 1, 5])], 'f').name}"
    elif which == "Moments":
        more = f", {c.of([1, 2, 0])}"
    elif which == "Scale" and c.likely(20):
        argument = f"relu({argument})"
    results = _results(which, shape, state, more)
    names = [state.fresh("T") for _ in results]
    for name, extents in zip(names, results, strict=True):
        state.tensors[name] = Tensor(name, [(0, n) for n in extents], t.kind, pending=bool(state.loops))
    left = names[0] if len(names) == 1 else f"({', '.join(names)})"
    return [f"{left} = {which}{attributes}({argument}{more})"]


def _suits(which: str, t: Tensor, state: State) -> bool:
    """May the definition be called on the tensor?"""
    rank = len(t.box)
    if which == "Running":
        return rank == 1 and not state.whole
    if which in ("Moments", "Pad"):
        return rank == 1
    if which == "Nudge":  # its type must be known
        return rank == 1 and t.inout and t.dtype != "bool"
    if which == "transpose":
        return rank >= 2
    return which != "matmul" or rank == 2


def _results(which: str, shape: Shape, state: State, more: str) -> list[Shape]:
    match which:
        case "Rows":
            return [shape[:-1]]
        case "Moments":
            return [[], []]
        case "Pad":
            return [[3]]  # at least
        case "transpose":
            return [[*shape[:-2], shape[-1], shape[-2]]]
        case "matmul":
            return [[shape[0], state.tensors[more.removeprefix(", ")].shape[1]]]
    return [shape]
