"""Attention with all its variants: groups of heads, caches, masks, windows, soft caps."""

from __future__ import annotations

import math
from dataclasses import dataclass

from polytc.graph.operators.binding import Apply, Binder, Lowering, Ref, Site, Step, View
from polytc.graph.operators.elements.elementwise import TYPES
from polytc.graph.operators.index_packs import spell
from polytc.program.scalars import F32, DType, promote

_SCORE = "b, g, r, i, j"


@dataclass(frozen=True)
class _Sizes:
    """packed: heads are part of the last axis. batch; groups: heads of keys; share: heads of queries that use one of them;
    queries; past, new: keys from the cache and of this call; depth: features of a key; width: features of a value."""

    packed: bool
    batch: int
    groups: int
    share: int
    queries: int
    past: int
    new: int
    depth: int
    width: int

    @property
    def keys(self) -> int:
        return self.past + self.new

    @property
    def heads(self) -> int:
        return self.groups * self.share

    @property
    def scores(self) -> tuple[int, ...]:
        return self.batch, self.heads, self.queries, self.keys

    def order(self, *names: str) -> str:
        """Indices b, heads, position, feature as they lie in memory: heads behind the position where they are packed."""
        b, *heads, at, feature = names
        return spell([b, at, *heads, feature] if self.packed else [b, *heads, at, feature])


def _sizes(site: Site) -> _Sizes:
    q, k, v = site.shape(0), site.shape(1), site.shape(2)
    if not len(q) == len(k) == len(v) or len(q) not in (3, 4):
        raise site.misfit("queries, keys and values must all have rank 3, or rank 4")
    past = site.shape(4)[2] if site.has(4) else 0
    if len(q) == 4:
        heads, groups = q[1], k[1]
        sizes = _Sizes(False, q[0], groups, heads // groups, q[2], past, k[2], q[3], v[3])
    else:
        heads, groups = site.attr("q_num_heads"), site.attr("kv_num_heads")
        if not heads or not groups:
            raise site.misfit("inputs of rank 3 need the attributes q_num_heads and kv_num_heads")
        sizes = _Sizes(True, q[0], groups, heads // groups, q[1], past, k[1], q[2] // heads, v[2] // groups)
    if heads % groups:
        raise site.misfit(f"{heads} heads of queries do not divide over {groups} heads of keys")
    return sizes


def attention(site: Site) -> Lowering:
    """Scores, softmax and the weighted sum of the values are three operators, so that each may join its neighbours."""
    z = _sizes(site)
    steps: list[Step] = [View(0, (z.batch, z.queries, z.groups, z.share, z.depth) if z.packed else
                              (z.batch, z.groups, z.share, z.queries, z.depth), "q")]
    keys, k_order = _cached(site, z, steps, 1, 4, z.depth)
    values, v_order = _cached(site, z, steps, 2, 5, z.width)
    kind = site.dtype(0)
    wide = promote(kind, F32)
    steps.append(Apply("attention.Scores", ("q", keys), ("s",), spell={
        "q": z.order("b", "g", "r", "i", "d"), "k": k_order, "wide": wide.name if wide != kind else ""}))
    masked = _logits(site, z, steps, wide)
    steps.append(Apply(f"attention.Probabilities{'Masked' if masked else ''}", ("l",), ("p",),
                       spell={"type": wide.name if _precision(site, wide) != wide else ""}))
    if _asked(site, 3) and site.attr("qk_matmul_output_mode", 0) == 3:
        _output(z, steps, "p", wide, kind)
    narrowed = {"type": kind.name} if wide != kind else {}
    steps.append(Apply(f"attention.Values{'Narrowed' if narrowed else ''}", ("p", values), ("o",), spell={
        "y": z.order("b", "g", "r", "i", "d"), "v": v_order, **narrowed}))
    steps.append(View("o", (z.batch, z.queries, z.heads * z.width) if z.packed else
                      (z.batch, z.heads, z.queries, z.width)))
    return tuple(steps)


def _asked(site: Site, output: int) -> bool:
    return len(site.node.outputs) > output and bool(site.node.outputs[output])


def _cached(site: Site, z: _Sizes, steps: list[Step], new: int, past: int, depth: int) -> tuple[Ref, str]:
    """The keys (new = 1) or values (2) of past and present with their indices; also as an output where that is asked for."""
    source: Ref = new
    order = z.order("b", "g", "j", "d")
    if z.packed:
        steps.append(View(new, (z.batch, z.new, z.groups, depth), f"n{new}"))
        source = f"n{new}"
    plain = (z.batch, z.groups, z.keys, depth)
    if z.past:
        steps.append(Apply("attention.Append", (past, source), (f"c{new}",), attrs={"past": z.past}, spell={"n": order}))
        if _asked(site, new):
            steps.append(View(f"c{new}", plain, new))
        return f"c{new}", "b, g, j, d"
    if _asked(site, new):
        steps.append(Apply("movement.Permute", (source,), (new,), spell={"x": order, "y": "b, g, j, d"}))
    return source, order


def _precision(site: Site, wide: DType) -> DType:
    """The type in which softmax is computed: at least f32."""
    asked = TYPES.get(site.attr("softmax_precision", 0))
    return wide if asked is None else promote(wide, asked)


def _logits(site: Site, z: _Sizes, steps: list[Step], wide: DType) -> bool:
    """Scores 's' to logits 'l', and what of them is an output. Returns whether a query may be without any key."""
    scale = site.attr("scale")
    scale = 1 / math.sqrt(z.depth) if scale is None else scale
    kind, precision = site.dtype(0), _precision(site, wide)
    value = f"{scale!r} * S[{_SCORE}]"
    mode = site.attr("qk_matmul_output_mode", 0) if _asked(site, 3) else -1
    if mode == 0:
        _emit(z, steps, wide, kind, value)
    cap = site.attr("softcap", 0.0)
    if cap:
        value = f"{cap!r} * tanh(({value}) / {cap!r})"
    if mode == 1:
        _emit(z, steps, wide, kind, value)
    inputs: list[Ref] = ["s"]
    names = ["S"]
    conditions = _conditions(site, z)
    if any("N[" in c for c in conditions):
        inputs.append(6)
        names.append("N")
    floats = False
    if site.has(3):
        inputs.append("m")
        names.append("M")
        read = _mask(site, z, steps)
        if site.dtype(3).kind == "b":
            conditions.append(read)
        else:
            floats, value = True, f"{value} + {read}"
    if precision != wide:
        value = f"{precision}({value})"
    spelling = {"inputs": spell(names), "value": value, "allowed": " && ".join(conditions)}
    steps.append(Apply(f"attention.Logits{'Allowed' if conditions else ''}", tuple(inputs), ("l",), spell=spelling))
    if mode == 2:
        _output(z, steps, "l", precision, kind)
    return floats or bool(conditions)


def _emit(z: _Sizes, steps: list[Step], wide: DType, kind: DType, value: str) -> None:
    """An expression over the scores as the fourth output."""
    steps.append(Apply("attention.Logits", ("s",), ("e",), spell={"inputs": "S", "value": value}))
    _output(z, steps, "e", wide, kind)


def _output(z: _Sizes, steps: list[Step], name: str, computed: DType, kind: DType) -> None:
    """A local value as the fourth output, in the type of the inputs."""
    if computed != kind:
        steps.append(Apply(f"elementwise.Cast_{kind}", (name,), (f"{name}.out",)))
    steps.append(View(f"{name}.out" if computed != kind else name, z.scores, 3))


def _conditions(site: Site, z: _Sizes) -> list[str]:
    """When query i may see key j. N: how many keys of each batch are no padding.

    Queries stand behind the keys of the cache: query i is at place i + past, or i + N[b] - queries.
    """
    padded = site.has(6)
    place = f"i + N[b] - {z.queries}" if padded and not z.past else f"i + {z.past}" if z.past else "i"
    left, right = site.attr("left_window_size", -1), site.attr("right_window_size", -1)
    found = []
    if site.attr("is_causal", 0):
        found.append(f"j <= {place}")
    if left >= 0:
        found.append(f"j >= {place} - {left}")
    if right >= 0:
        found.append(f"j <= {place} + {right}")
    if padded:
        found.append("j < N[b]")
    return found


def _mask(site: Site, z: _Sizes, steps: list[Step]) -> str:
    """How a mask of up to four axes is read, as 'm' with five. Keys beyond its end are not seen."""
    shape = (1,) * (4 - site.rank(3)) + site.shape(3)
    if shape[1] not in (1, z.heads) or shape[0] not in (1, z.batch) or shape[2] not in (1, z.queries):
        raise site.misfit(f"the mask does not broadcast to {list(z.scores)}")
    split = (z.groups, z.share) if shape[1] != 1 else (1, 1)
    full = (shape[0], *split, *shape[2:])
    steps.append(View(3, full, "m"))
    read = f"M[{spell(i if e != 1 else '0' for i, e in zip('bgri', full[:4]))}, j]"
    if shape[3] >= z.keys:
        return read
    return f"({read} else {'false' if site.dtype(3).kind == 'b' else '-inf'})"


ROWS: dict[str, Binder] = {"Attention": attention}
