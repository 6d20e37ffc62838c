"""Operators of autoregressive models that carry a state from call to call, and rotary position embeddings."""

from __future__ import annotations

import math

import numpy as np

from polytc.graph.operators.binding import Apply, Binder, Known, Lowering, Ref, Site, Step, View
from polytc.graph.operators.index_packs import indices, ranges, spell
from polytc.program.scalars import F32, DType, promote

RULES = {"linear": "LinearAttention", "gated": "LinearAttentionGated", "delta": "LinearAttentionDelta",
         "gated_delta": "LinearAttentionGatedDelta"}


def linear_attention(site: Site) -> Lowering:
    """The recurrence as it is written, the state in f32 at least."""
    rule = site.attr("update_rule", "gated_delta")
    heads, groups = site.attr("q_num_heads"), site.attr("kv_num_heads")
    if rule not in RULES:
        raise site.misfit(f"the update rule {rule!r}; known are {', '.join(RULES)}")
    batch, places, features = site.shape(0)
    if not heads or not groups or heads % groups or features % heads or site.shape(2)[2] % groups:
        raise site.misfit(f"{heads} heads of queries and {groups} of keys do not fit")
    depth, width = features // heads, site.shape(2)[2] // groups
    steps: list[Step] = [View(0, (batch, places, groups, heads // groups, depth), "q"),
                         View(1, (batch, places, groups, depth), "k"), View(2, (batch, places, groups, width), "v")]
    inputs: list[Ref] = ["q", "k", "v"]
    spelling = {}
    if "gated" in rule:
        each = site.shape(4)[2] // groups
        steps.append(View(4, (batch, places, groups, each), "g"))
        inputs.append("g")
        spelling["g"] = "b, t, g, d" if each == depth else "b, t, g, 0"
    if "delta" in rule:
        inputs.append(5)
        spelling["b"] = "b, t, g" if site.shape(5)[2] == groups else "b, t, 0"
    kind = site.dtype(0)
    wide = promote(kind, F32)
    carried = site.dtype(3) if site.has(3) else kind
    if site.has(3):
        inputs.append(3)
    scale = site.attr("scale", 0.0) or 1 / math.sqrt(depth)
    start = {"more": "P" if site.has(3) else "", "start": f"{wide}({'P[b, g, d, m]' if site.has(3) else '0'})",
             "ranges": ranges("bgdm", (batch, groups, depth, width))}
    steps.append(Apply(f"state.{RULES[rule]}", tuple(inputs), ("o", "s"), attrs={"scale": scale}, spell={**spelling, **start}))
    steps += _narrowed("o", wide, kind, (batch, places, heads * width), 0)
    if len(site.node.outputs) > 1 and site.node.outputs[1]:
        steps += _narrowed("s", wide, carried, (batch, groups, depth, width), 1)
    return tuple(steps)


def _narrowed(name: str, computed: DType, kind: DType, shape: tuple[int, ...], output: int) -> list[Step]:
    """A local value as an output of the given type and shape."""
    if computed == kind:
        return [View(name, shape, output)]
    return [Apply(f"elementwise.Cast_{kind}", (name,), (f"{name}.out",)), View(f"{name}.out", shape, output)]


def causal_convolution(site: Site) -> Lowering:
    """A convolution of each channel with what came before, which the state has or which is zero."""
    batch, channels, length = site.shape(0)
    kernel = site.shape(1)[2]
    steps: list[Step] = []
    source: Ref = 0
    carried = kernel - 1 if site.has(3) else 0
    if carried:
        steps.append(Apply("movement.Assemble", (3, 0), ("x",), spell={
            "inputs": "P, X", "writes": f"Y[n, c, l] = P[n, c, l]; Y[n, c, l + {carried}] = X[n, c, l]"}))
        source = "x"
    attrs = {"stride": [1], "dilation": [1], "pad": [kernel - 1 - carried], "out": [length]}
    steps.append(Apply("convolution.ConvDepthwise", (source, 1), ("c",), attrs=attrs))
    last: Ref = "c"
    if site.has(2):
        steps.append(Apply("convolution.Bias", (last, 2), ("d",)))
        last = "d"
    activation = site.attr("activation", "none")
    if activation not in ("none", "silu", "swish"):
        raise site.misfit(f"the activation {activation!r}; 'none', 'silu' and 'swish' are known")
    steps.append(View(last, site.shape(0)) if activation == "none" else Apply("elementwise.Swish", (last,)))
    if len(site.node.outputs) > 1 and site.node.outputs[1]:
        steps.append(Apply("state.Tail", (source,), (1,), attrs={
            "size": kernel - 1, "start": length + carried - (kernel - 1)}) if kernel > 1 else
            Known(np.zeros((batch, channels, 0), site.dtype(0).numpy), 1))
    return tuple(steps)


def tensor_scatter(site: Site) -> Lowering:
    """Each place of the result looks where it would lie in the piece: writes become reads."""
    shape = site.shape(0)
    axis = site.axis(site.attr("axis", -2), len(shape))
    size, length = shape[axis], site.shape(1)[axis]
    if length > size or not axis:
        raise site.misfit(f"{length} places do not fit into {size} of axis {axis}")
    if site.has(2) and site.attr("mode", "linear") == "linear":
        site.within(2, (0, size - length + 1, f"axis {axis} of {site.node.inputs[0]!r}, of which {length} are written"))
    names = indices(len(shape))
    place = f"(({names[axis]} - I[{names[0]}]) % {size})" if site.has(2) else names[axis]
    read = [f"{place} % {length}" if a == axis else n for a, n in enumerate(names)]
    return Apply("state.TensorScatter", (0, 1, 2) if site.has(2) else (0, 1), attrs={"length": length}, spell={
        "more": "I" if site.has(2) else "", "y": spell(names), "u": spell(read), "place": place})


def rotary(site: Site) -> Lowering:
    """Pairs of features are neighbours (interleaved) or stand half of the turned features apart."""
    shape, packed = site.shape(0), site.rank(0) == 3
    heads = site.attr("num_heads", 0) if packed else shape[1]
    if packed and not heads:
        raise site.misfit("an input of rank 3 needs the attribute num_heads")
    size = shape[2] // heads if packed else shape[3]
    turned = site.attr("rotary_embedding_dim", 0) or size
    if site.has(3):
        site.within(3, site.along(1, 0, back=False))
    half = turned // 2
    steps: list[Step] = [View(0, (shape[0], shape[1], heads, size), "x")] if packed else []

    def at(feature: str) -> str:
        return spell(["b", "s", "h", feature] if packed else ["b", "h", "s", feature])

    first, second = ("2*d", "2*d + 1") if site.attr("interleaved", 0) else ("d", f"d + {half}")
    spelling = {"x1": at(first), "x2": at(second), "more": "P" if site.has(3) else "",
                "c": f"P[b, s] % {site.shape(1)[0]}, d" if site.has(3) else "b, s, d",
                "rest": f"Y[{at('e')}] = X[{at('e')}]  where e in {turned}:{size}" if turned < size else ""}
    inputs: tuple[Ref, ...] = ("x" if packed else 0, 1, 2, 3) if site.has(3) else ("x" if packed else 0, 1, 2)
    steps += [Apply("attention.Rotate", inputs, ("y",), attrs={"half": half}, spell=spelling), View("y", shape)]
    return tuple(steps)


ROWS: dict[str, Binder] = {"LinearAttention": linear_attention, "CausalConvWithState": causal_convolution,
                           "TensorScatter": tensor_scatter, "RotaryEmbedding": rotary}
