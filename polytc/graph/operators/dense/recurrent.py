"""RNN, GRU and LSTM: the products of all inputs at once, then a `for` over time with the products of the state.

Each direction is a program of its own; the results are put beside each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from polytc.graph.operators.binding import Apply, Binder, Known, Lowering, Ref, Site, Step, View
from polytc.graph.operators.index_packs import ranges, spell

Activation: TypeAlias = Callable[[str], str]
"""The text of an argument -> the text of the function's value."""

_ACTIVATIONS: dict[str, tuple[str, float | None, float | None]] = {
    "relu": ("max({x}, 0)", None, None), "tanh": ("tanh({x})", None, None), "sigmoid": ("sigmoid({x})", None, None),
    "affine": ("({a} * {x} + {b})", 1.0, 0.0), "leakyrelu": ("({x} < 0 ? {a} * {x} : {x})", 0.01, None),
    "thresholdedrelu": ("({x} > {a} ? {x} : 0)", 1.0, None), "scaledtanh": ("({a} * tanh({b} * {x}))", 1.0, 1.0),
    "hardsigmoid": ("max(0, min(1, {a} * {x} + {b}))", 0.2, 0.5), "elu": ("({x} < 0 ? {a} * (exp({x}) - 1) : {x})", 1.0, None),
    "softsign": ("({x} / (1 + abs({x})))", None, None),
    "softplus": ("(max({x}, 0) + log1p(exp(-abs({x}))))", None, None)}
"""Text, and defaults of alpha and beta where the function has them."""


PANELS = (64, 32, 16)
"""Widths of a panel of gates, the best first: up to eight vectors of 8 numbers, so that one row of a tile is a panel wide."""


@dataclass(frozen=True)
class _Layer:
    """A node's extents. count: of the cell's gates; batch_first: the attribute layout is 1."""

    site: Site
    count: int
    steps: int
    batch: int
    hidden: int
    directions: tuple[bool, ...]
    batch_first: bool

    @property
    def panel(self) -> int:
        """Gates that lie beside each other in the state's weights: those of a panel for one element of the state, then for the
        next, so that the products read memory in its order. 0: the weights are not known now, or no panels divide the gates."""
        known = self.site.value(2) is not None
        return next((p for p in PANELS if known and self.hidden % p == 0), 0)

    def gate(self, tensor: str, gate: int) -> str:
        """How the element of a gate that belongs to the element k of the state is read."""
        first, p = gate * self.hidden, self.panel
        if p:
            return f"{tensor}[b, k // {p} + {first // p}, k % {p}]"
        return f"{tensor}[b, k + {first}]" if first else f"{tensor}[b, k]"

    def gates(self, names: tuple[str, str, str, str], d: int, first: int, count: int) -> dict[str, str]:
        """The spelling of `count` gates of direction d from the gate `first` on. names: of their indices, their ranges, their
        places in Z and in R."""
        n, p = self.hidden, self.panel
        if p:
            at, panels = first * n // p, count * n // p
            texts = ("b, p, i", f"p in 0:{panels}, i in 0:{p}", f"t, b, {p}*p + i + {first * n}", f"p + {at}, k, i")
        else:
            place = f"j + {first * n}" if first else "j"
            texts = ("b, j", f"j in 0:{count * n}", f"t, b, {place}", f"{d}, {place}, k")
            if self.site.value(2) is not None:
                texts = (*texts[:3], f"k, {place}")
        return dict(zip(names, texts, strict=True))

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of the result Y."""
        d = len(self.directions)
        return (self.batch, self.steps, d, self.hidden) if self.batch_first else (self.steps, d, self.batch, self.hidden)


def _layer(site: Site, gates: int) -> _Layer:
    batch_first = bool(site.attr("layout", 0))
    x, w, r = site.shape(0), site.shape(1), site.shape(2)
    if len(x) != 3 or len(w) != 3 or len(r) != 3:
        raise site.misfit("the input and both weights need three axes")
    hidden = r[2]
    words = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
    direction = site.attr("direction", "forward")
    if direction not in words:
        raise site.misfit(f"the direction {direction!r} is unknown")
    directions = words[direction]
    d = len(directions)
    if w != (d, gates * hidden, x[2]) or r != (d, gates * hidden, hidden) or site.attr("hidden_size", hidden) != hidden:
        raise site.misfit(f"weights of {d} directions, {gates} gates and {hidden} hidden values do not have these shapes")
    if site.has(3) and site.shape(3) != (d, 2 * gates * hidden):
        raise site.misfit(f"the bias needs the shape {[d, 2 * gates * hidden]}")
    steps, batch = (x[1], x[0]) if batch_first else (x[0], x[1])
    if site.has(4) and site.shape(4) != (batch,):
        raise site.misfit(f"sequence_lens needs the shape {[batch]}")
    state = (batch, d, hidden) if batch_first else (d, batch, hidden)
    for i, name, shape in ((5, "initial_h", state), (6, "initial_c", state), (7, "P", (d, 3 * hidden))):
        if site.has(i) and site.shape(i) != shape:
            raise site.misfit(f"{name} needs the shape {list(shape)}")
    return _Layer(site, gates, steps, batch, hidden, directions, batch_first)


def _activations(layer: _Layer, defaults: Sequence[str]) -> list[list[Activation]]:
    """For each direction the functions of the cell. Numbers belong, in order, to the functions that have some."""
    site = layer.site
    names = [str(n).lower() for n in site.attr("activations") or list(defaults) * len(layer.directions)]
    if len(names) != len(defaults) * len(layer.directions) or not set(names) <= set(_ACTIVATIONS):
        raise site.misfit(f"the activations {names}; {len(defaults)} known ones are needed for each direction")
    alphas, betas = list(site.attr("activation_alpha") or []), list(site.attr("activation_beta") or [])
    found = []
    for i, name in enumerate(names):
        clip = site.attr("clip") if i % len(defaults) < 2 else None  # not the cell's output, as in ONNX Runtime
        text, alpha, beta = _ACTIVATIONS[name]
        a = alphas.pop(0) if alpha is not None and alphas else alpha
        b = betas.pop(0) if beta is not None and betas else beta
        found.append(_activation(text, a, b, clip))
    return [found[i:i + len(defaults)] for i in range(0, len(found), len(defaults))]


def _activation(text: str, alpha: float | None, beta: float | None, clip: float | None) -> Activation:
    def apply(x: str) -> str:
        limited = f"({x})" if clip is None else f"min(max({x}, {-float(clip)}), {float(clip)})"
        return text.format(x=limited, a=f"({alpha})", b=f"({beta})")
    return apply


# ---- one direction

@dataclass(frozen=True)
class _Cell:
    """What a direction of a cell is made of. sources, names: tensors besides Z and R, as the program calls them; state: those
    of the start; parts: texts for the cell's .ein operator."""

    entry: str
    sources: tuple[Ref, ...]
    names: tuple[str, ...]
    state: tuple[str, ...]
    parts: dict[str, str]
    attrs: dict[str, Any]


def _products(layer: _Layer, d: int, separate: int = 0) -> tuple[list[Step], Ref]:
    """Z: the input's products and the biases, apart from the state's bias of the last `separate` gates."""
    site, (weights, bias) = layer.site, (layer.site.value(1), layer.site.value(3))
    x = "b, t, i" if layer.batch_first else "t, b, i"
    w: Ref = 1 if weights is None else np.ascontiguousarray(weights[d].T)
    product = Apply("recurrent.Products", (0, w), (f"x{d}",), spell={"x": x, "w": f"{d}, j, i" if weights is None else "i, j"})
    if not site.has(3):
        return [product], f"x{d}"
    n, apart = layer.count * layer.hidden, separate * layer.hidden
    if bias is not None:
        total = bias[d, :n] + np.concatenate([bias[d, n:2 * n - apart], np.zeros(apart, bias.dtype)])
        return [product, Apply("elementwise.Add", (f"x{d}", total), (f"z{d}",))], f"z{d}"
    return [product, Apply("recurrent.GateBias", (3,), (f"b{d}",), attrs={"d": d, "n": n, "m": n - apart}),
            Apply("elementwise.Add", (f"x{d}", f"b{d}"), (f"z{d}",))], f"z{d}"


def _weights(layer: _Layer, d: int) -> Ref:
    """The state's weights, stored as they are read where they are known: in panels, or transposed."""
    r, p = layer.site.value(2), layer.panel
    if r is None:
        return 2
    if not p:
        return np.ascontiguousarray(r[d].T)
    return np.ascontiguousarray(r[d].reshape(-1, p, layer.hidden).transpose(0, 2, 1))


def _direction(layer: _Layer, d: int, cell: _Cell, z: Ref) -> Step:
    """The loop over time of one direction, from the last step on if it is reversed."""
    site = layer.site
    places = layer.gates(("g", "box", "z", "r"), d, 0, 2 if cell.entry == "GRU" else layer.count)
    if cell.entry == "GRU":
        places |= layer.gates(("q", "own", "zq", "rq"), d, 2, 1)
    at = f"b, {d}, k" if layer.batch_first else f"{d}, b, k"
    box = ranges(["b", "k"], [layer.batch, layer.hidden])
    start, sources, names = [], list(cell.sources), list(cell.names)
    for number, name in zip((5, 6), cell.state):
        if site.has(number):
            start.append(f"{name}[b, k] = {name}0[{at}] where {box}")
            sources.append(number)
            names.append(f"{name}0")
        else:
            start.append(f"{name}[b, k] = {site.dtype(0)}(0) where {box}")
    parts = {"seen": "H[b, k]", **cell.parts}
    if _masked(layer):
        sources.append(4)
        names.append("L")
        parts |= {key: f"t < L[b] ? {parts[key]} : {name}[b, k]" for key, name in (("new", "H"), ("cell", "C")) if key in parts}
        parts["seen"] = "t < L[b] ? H[b, k] : 0"
    last = layer.steps - 1
    time = f"for t in {last}:-1:-1" if layer.directions[d] else f"for t in 0:{layer.steps}"
    outputs = (f"y{d}", *(f"{name.lower()}{d}" for name in cell.state))
    spelling = {**places, **parts, "inputs": spell(names), "start": "; ".join(start), "time": time}
    return Apply(f"recurrent.{cell.entry}", (z, _weights(layer, d), *sources), outputs, attrs=cell.attrs, spell=spelling)


def _masked(layer: _Layer) -> bool:
    """May some sequence end before the last step?"""
    lengths = layer.site.value(4)
    return layer.site.has(4) and (lengths is None or bool((lengths < layer.steps).any()))


# ---- results

def _gathered(layer: _Layer, states: Sequence[str]) -> list[Step]:
    """Y, and the last state of each kind, from those of the directions."""
    site, count, (b, k) = layer.site, len(layer.directions), (layer.batch, layer.hidden)
    steps: list[Step] = []
    if site.wants(0):
        read, written = ["t", "b", "k"], (["b", "t", "{d}", "k"] if layer.batch_first else ["t", "{d}", "b", "k"])
        if count == 1 and (not layer.batch_first or b == 1 or layer.steps == 1):
            steps.append(View("y0", layer.shape, 0))
        elif count == 1:
            steps.append(Apply("movement.Permute", ("y0",), (0,), spell={
                "x": spell(read), "y": spell(w.format(d=0) for w in written)}))
        else:
            steps.append(_beside("y", count, written, read, 0))
    for i, name in enumerate(states, 1):
        if site.wants(i):
            shape = (b, count, k) if layer.batch_first else (count, b, k)
            if count == 1:
                steps.append(View(f"{name}0", shape, i))
            else:
                steps.append(_beside(name, count, ["b", "{d}", "k"] if layer.batch_first else ["{d}", "b", "k"], ["b", "k"], i))
    return steps


def _beside(name: str, count: int, written: Sequence[str], read: Sequence[str], output: int) -> Step:
    writes = [f"Y[{spell(w.format(d=d) for w in written)}] = X{d}[{spell(read)}]" for d in range(count)]
    return Apply("movement.Assemble", tuple(f"{name}{d}" for d in range(count)), (output,),
                 spell={"inputs": spell(f"X{d}" for d in range(count)), "writes": "; ".join(writes)})


# ---- rows

def rnn(site: Site) -> Lowering:
    layer = _layer(site, 1)
    steps: list[Step] = []
    for d, (f,) in enumerate(_activations(layer, ["tanh"])):
        products, z = _products(layer, d)
        steps += [*products, _direction(layer, d, _Cell("RNN", (), (), ("H",), {"new": f(layer.gate("G", 0))}, {}), z)]
    return (*steps, *_gathered(layer, ["h"]))


def gru(site: Site) -> Lowering:
    """Gates in the order update, reset, candidate."""
    layer = _layer(site, 3)
    linear, n = bool(site.attr("linear_before_reset", 0)), layer.hidden
    steps: list[Step] = []
    for d, (f, g) in enumerate(_activations(layer, ["sigmoid", "tanh"])):
        products, z = _products(layer, d, separate=int(linear))
        gates = layer.gate("G", 0), layer.gate("G", 1)
        if linear:
            gates = f"(Z[t, b, k] + {gates[0]})", f"(Z[t, b, k + {n}] + {gates[1]})"
        update, reset = map(f, gates)
        own = "Q[b, k]" if linear else layer.gate("Q", 0)
        parts = {"reset": reset, "last": layer.gate("G", 2), "new": f"(1 - {update}) * {g(own)} + {update} * H[b, k]"}
        sources: tuple[Ref, ...] = ()
        if linear:
            steps += _state_bias(layer, d)
            sources = (f"s{d}",)
        cell = _Cell("GRULinear" if linear else "GRU", sources, (), ("H",), parts, {"n": n} if linear else {})
        steps += [*products, _direction(layer, d, cell, z)]
    return (*steps, *_gathered(layer, ["h"]))


def _state_bias(layer: _Layer, d: int) -> list[Step]:
    """The state's bias of the last gate."""
    site, n = layer.site, layer.hidden
    if not site.has(3):
        return [Known(np.zeros(n, site.dtype(0).numpy), f"s{d}")]
    return [Apply("recurrent.StateBias", (3,), (f"s{d}",), attrs={"d": d, "n": n, "o": 5 * n})]


def lstm(site: Site) -> Lowering:
    """Gates in the order input, output, forget, cell; P: weights of the cell in the first three."""
    layer = _layer(site, 4)
    n = layer.hidden
    steps: list[Step] = []
    for d, (f, g, h) in enumerate(_activations(layer, ["sigmoid", "tanh", "tanh"])):
        products, z = _products(layer, d)

        def gate(number: int, peeps: bool = True, d: int = d) -> str:
            own = layer.gate("G", number)
            return f"{own} + P[{d}, k + {number * n}] * C[b, k]" if peeps and site.has(7) else own

        enter, leave = f(gate(0)), f(gate(1))
        forget = f"(1 - {enter})" if site.attr("input_forget", 0) else f(gate(2))
        parts = {"cell": f"{forget} * C[b, k] + {enter} * {g(gate(3, peeps=False))}", "new": f"{leave} * {h('C[b, k]')}"}
        peepholes: tuple[tuple[Ref, ...], tuple[str, ...]] = ((7,), ("P",)) if site.has(7) else ((), ())
        steps += [*products, _direction(layer, d, _Cell("LSTM", *peepholes, ("H", "C"), parts, {}), z)]
    return (*steps, *_gathered(layer, ["h", "c"]))


ROWS: dict[str, Binder] = {"RNN": rnn, "GRU": gru, "LSTM": lstm}
