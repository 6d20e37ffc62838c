"""Operators that put elements to other places."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from polytc.graph.operators.binding import Apply, Binder, Known, Lowering, Ref, Site, Step, View
from polytc.graph.operators.index_packs import broadcast, broadcast_shapes, indices, ranges, scaled, spell
from polytc.program.scalars import DType


def move(source: Ref, left: Sequence[str], right: Sequence[str], where: str, output: int | str = 0) -> Step:
    """Y[left] = X[right] where ..."""
    return Apply("movement.Move", (source,), (output,), spell={"y": spell(left), "x": spell(right), "ranges": where})


def transpose(site: Site) -> Lowering:
    rank = site.rank(0)
    order = site.attr("perm") or list(range(rank))[::-1]
    if sorted(order) != list(range(rank)):
        raise site.misfit(f"perm {order} of a tensor of rank {rank}")
    moved = [p for p in order if site.shape(0)[p] != 1]
    if moved == sorted(moved):
        return View(0, tuple(site.shape(0)[p] for p in order))
    names = indices(rank)
    return Apply("movement.Permute", (0,), spell={"x": spell(names), "y": spell(names[p] for p in order)})


def concat(site: Site) -> Lowering:
    shapes = [site.shape(i) for i in range(len(site.shapes))]
    axis = site.axis(site.attr("axis", 1), len(shapes[0]))
    first, *others = ((*s[:axis], *s[axis + 1:]) for s in shapes)
    if any(other != first for other in others):
        raise site.misfit(f"the inputs differ in another axis than {axis}")
    full = [i for i, s in enumerate(shapes) if s[axis]]
    if len(full) == 1:
        return View(full[0], shapes[full[0]])
    writes, offset = [], 0
    names = indices(len(shapes[0]))
    for i in full:
        places = [scaled(n, 1, offset) if a == axis else n for a, n in enumerate(names)]
        writes.append(f"Y[{spell(places)}] = X{i}[{spell(names)}]")
        offset += shapes[i][axis]
    return Apply("movement.Assemble", tuple(full), spell={"inputs": spell(f"X{i}" for i in full), "writes": "; ".join(writes)})


def split(site: Site) -> Lowering:
    axis = site.axis(site.attr("axis", 0), site.rank(0))
    extent, count = site.shape(0)[axis], len(site.node.outputs)
    sizes, parts = site.ints_of("split", 1), site.attr("num_outputs", count)
    if parts != count:
        raise site.misfit(f"num_outputs is {parts}, the node has {count} outputs")
    if sizes is None:
        each = -(-extent // parts)
        sizes = [max(0, min(each, extent - i * each)) for i in range(count)]
    if sum(sizes) != extent or len(sizes) != count:
        raise site.misfit(f"extent {extent} does not split into {sizes}")
    steps, offset = [], 0
    for i, size in enumerate(sizes):
        steps.append(_cut(site, {axis: (offset, 1, size)}, i))
        offset += size
    return tuple(steps)


def _cut(site: Site, cuts: dict[int, tuple[int, int, int]], output: int = 0) -> Step:
    """Take (start, step, count) elements of some axes."""
    shape = list(site.shape(0))
    names = indices(len(shape))
    places = list(names)
    if all(cut == (0, 1, shape[a]) for a, cut in cuts.items()):
        return View(0, tuple(shape), output)
    if any(count == 0 for _, _, count in cuts.values()):
        empty = [cuts[a][2] if a in cuts else extent for a, extent in enumerate(shape)]
        return Known(np.zeros(empty, site.dtype(0).numpy), output)
    for a, (start, step, count) in cuts.items():
        places[a], shape[a] = scaled(names[a], step, start), count
    return move(0, names, places, ranges(names, shape), output)


def slice_(site: Site) -> Lowering:
    """Starts, ends, axes and steps as numpy understands them; attributes before opset 10, inputs since."""
    starts, ends = site.ints_of("starts", 1) or [], site.ints_of("ends", 2) or []
    axes = site.ints_of("axes", 3) or list(range(len(starts)))
    steps = site.ints(4, "steps") if site.has(4) else [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise site.misfit(f"{len(starts)} starts, {len(ends)} ends, {len(axes)} axes and {len(steps)} steps")
    cuts = dict[int, tuple[int, int, int]]()
    for start, end, axis, step in zip(starts, ends, axes, steps):
        a = site.axis(axis, site.rank(0))
        if a in cuts:
            raise site.misfit(f"the axis {a} is cut twice")
        if not step:
            raise site.misfit("a step of 0")
        cuts[a] = _taken(start, end, step, site.shape(0)[a])
    return _cut(site, cuts)


def _taken(start: int, end: int, step: int, extent: int) -> tuple[int, int, int]:
    """First place, step and count of a slice. A start before the first element is the first even of slices that go down,
    where numpy takes nothing."""
    if step < 0 and start < -extent and extent:
        start = -extent
    low, high = (0, extent) if step > 0 else (-1, extent - 1)
    first, last = (min(max(n + extent if n < 0 else n, low), high) for n in (start, end))
    return first, step, max((last - first + step - 1) // step if step > 0 else (first - last - step - 1) // -step, 0)


def expand(site: Site) -> Lowering:
    old = site.shape(0)
    try:
        new = broadcast_shapes(old, tuple(site.ints(1, "shape")))
    except ValueError:
        raise site.misfit("the shapes do not broadcast") from None
    if len(new) == len(old) and new == old or np.prod(new) == np.prod(old):
        return View(0, new)
    if 0 in new:
        return Known(np.zeros(new, site.dtype(0).numpy))
    names = indices(len(new))
    return move(0, names, broadcast(names, old), ranges(names, new))


def tile(site: Site) -> Lowering:
    repeats = site.ints(1, "repeats")
    shape = site.shape(0)
    if site.opset < 6:
        raise site.unsupported("Tile as before opset 6")
    if len(repeats) != len(shape) or min(repeats, default=0) < 0:
        raise site.misfit(f"repeats {repeats}")
    if all(r == 1 for r in repeats):
        return View(0, shape)
    if 0 in repeats or 0 in shape:
        return Known(np.zeros([e * r for e, r in zip(shape, repeats, strict=True)], site.dtype(0).numpy))
    names, copies = indices(len(shape)), indices(len(shape), "t")
    places = [n if r == 1 else f"{e}*{c} + {n}" for n, c, r, e in zip(names, copies, repeats, shape)]
    tiled = [(c, r) for c, r in zip(copies, repeats) if r != 1]
    return move(0, places, names, ranges([*names, *(c for c, _ in tiled)], [*shape, *(r for _, r in tiled)]))


def pad(site: Site) -> Lowering:
    shape, rank = site.shape(0), site.rank(0)
    given = site.ints_of("pads", 1) or site.attr("paddings") or []
    axes = [site.axis(a, rank) for a in site.ints(3, "axes")] if site.has(3) else list(range(rank))
    before, after = [0] * rank, [0] * rank
    if len(given) != 2 * len(axes):
        raise site.misfit(f"{len(given)} pads for {len(axes)} axes")
    for i, a in enumerate(axes):
        before[a], after[a] = given[i], given[i + len(axes)]
    mode = site.attr("mode", "constant")
    if not any(before) and not any(after):
        return View(0, shape)
    return _constant_pad(site, before, after) if mode == "constant" else _mirror_pad(site, mode, before, after)


def _constant_pad(site: Site, before: list[int], after: list[int]) -> Lowering:
    value = site.known(2, "constant_value").reshape(-1)[0].item() if site.has(2) else site.attr("value", 0.0)
    extents = [e + b + a for e, b, a in zip(site.shape(0), before, after)]
    if 0 in extents:
        return Known(np.zeros(extents, site.dtype(0).numpy))
    return padded(site.dtype(0), 0, before, extents, value)


def padded(dtype: DType, source: Ref, before: Sequence[int], extents: Sequence[int], value: float = 0, output: int | str = 0
           ) -> Step:
    """A result of the given extents with the source `before` places from its origin (negative: cut off) and `value` around."""
    names = indices(len(extents))
    spelling = {"y": spell(names), "x": spell(scaled(n, 1, -b) for n, b in zip(names, before)),
                "ranges": ranges(names, extents)}
    if dtype.kind == "b":
        return Apply(f"movement.PadConstant{'True' if value else 'Bool'}", (source,), (output,), spell=spelling)
    number = float(value) if dtype.is_float else int(value)
    return Apply("movement.PadConstant", (source,), (output,), attrs={"v": number}, spell=spelling)


def _mirror_pad(site: Site, mode: str, before: list[int], after: list[int]) -> Lowering:
    """One axis after the other; each result consists of three pieces."""
    if mode not in ("reflect", "edge", "wrap"):
        raise site.misfit(f"mode {mode!r}; 'constant', 'reflect', 'edge' and 'wrap' are known")
    most = [e if mode == "wrap" else e - 1 if mode == "reflect" else max(b, a) for e, b, a in zip(site.shape(0), before, after)]
    if min(before + after) < 0 or any(max(b, a) > m for b, a, m in zip(before, after, most)):
        return _tabled_pad(site, mode, before, after)
    shape, steps = list(site.shape(0)), list[Apply]()
    padded = [a for a in range(len(shape)) if before[a] or after[a]]
    for a, last in itertools.zip_longest(padded, [False] * (len(padded) - 1), fillvalue=True):
        n, b, e = shape[a], before[a], after[a]
        first, final = {"reflect": (f"{b} - k", f"{n - 2} - k"), "edge": ("0", f"{n - 1}"), "wrap": (f"k + {n - b}", "k")}[mode]
        pieces = [("k", first, b), (scaled("k", 1, b), "k", n), (scaled("k", 1, b + n), final, e)]
        names = indices(len(shape))
        rest = [(i, x) for i, (i_axis, x) in zip(names, enumerate(shape)) if i_axis != a]
        writes = [f"Y[{_at(names, a, left)}] = X[{_at(names, a, right)}] "
                  f"where {ranges(['k', *(i for i, _ in rest)], [count, *(x for _, x in rest)])}"
                  for left, right, count in pieces if count]
        source: Ref = steps[-1].outputs[0] if steps else 0
        steps.append(Apply("movement.Assemble", (source,), (0 if last else f"t{a}",),
                           spell={"inputs": "X", "writes": "; ".join(writes)}))
        shape[a] += b + e
    return tuple(steps)


def _tabled_pad(site: Site, mode: str, before: list[int], after: list[int]) -> Lowering:
    """By a table of places for each axis: what negative pads cut off is gone before the others repeat the rest."""
    steps: list[Apply] = []
    for a, (extent, b, e) in enumerate(zip(site.shape(0), before, after)):
        if not (b or e):
            continue
        places = np.arange(extent)[max(-b, 0):extent + min(e, 0)]
        if not len(places):
            raise site.misfit(f"nothing of axis {a} is left to repeat")
        table = np.pad(places, (max(b, 0), max(e, 0)), mode=mode)  # type: ignore[call-overload]
        names = indices(site.rank(0))
        source: Ref = steps[-1].outputs[0] if steps else 0
        steps.append(Apply("movement.Gather", (source, table), (f"t{a}",), spell={
            "y": spell(names), "x": _at(names, a, f"I[{names[a]}]")}))
    return (*steps[:-1], replace(steps[-1], outputs=(0,)))


def _at(names: list[str], axis: int, slot: str) -> str:
    return spell(slot if i == axis else name for i, name in enumerate(names))


def depth_to_space(site: Site) -> Lowering:
    b, (n, c, h, w) = site.attr("blocksize"), site.shape(0)
    if b < 1 or c % (b * b) or site.attr("mode", "DCR") not in ("DCR", "CRD"):
        raise site.misfit(f"{c} channels into blocks of {b} x {b}, mode {site.attr('mode', 'DCR')!r}")
    depth = c // (b * b)
    channel = f"{b * b}*c + {b}*p + q" if site.attr("mode", "DCR") == "CRD" else f"{b * depth}*p + {depth}*q + c"
    return move(0, ["n", "c", f"{b}*h + p", f"{b}*w + q"], ["n", channel, "h", "w"],
                ranges(["n", "c", "h", "w", "p", "q"], [n, depth, h, w, b, b]))


def space_to_depth(site: Site) -> Lowering:
    b, (n, c, h, w) = site.attr("blocksize"), site.shape(0)
    if b < 1 or h % b or w % b:
        raise site.misfit(f"an image of {h} x {w} in blocks of {b} x {b}")
    channel = f"{b * b}*c + {b}*p + q" if site.attr("mode", "DCR") == "CRD" else f"{b * c}*p + {c}*q + c"
    return move(0, ["n", channel, "h", "w"], ["n", "c", f"{b}*h + p", f"{b}*w + q"],
                ranges(["n", "c", "h", "w", "p", "q"], [n, c, h // b, w // b, b, b]))


def center_crop_pad(site: Site) -> Lowering:
    """Each axis gets the asked extent, by cutting or padding with zeros at both ends; an odd one more at the end."""
    old, new, before = site.shape(0), list(site.shape(0)), [0] * site.rank(0)
    axes = site.attr("axes") or range(len(old))
    for a, extent in zip((site.axis(a, len(old)) for a in axes), site.ints(1, "shape")):
        new[a], before[a] = extent, (extent - old[a]) // 2 if extent >= old[a] else -((old[a] - extent) // 2)
    if 0 in new:
        return Known(np.zeros(new, site.dtype(0).numpy))
    return padded(site.dtype(0), 0, before, new)


def reverse_sequence(site: Site) -> Lowering:
    batch, time = site.attr("batch_axis", 1), site.attr("time_axis", 0)
    site.within(1, (0, site.shape(0)[time] + 1, f"lengths along axis {time} of {site.node.inputs[0]!r}"))
    names = indices(site.rank(0))
    places = list(names)
    places[time] = f"J[{names[batch]}, {names[time]}]"
    return (Apply("movement.Backwards", (1,), ("j",), attrs={"n": site.shape(0)[time]}),
            Apply("movement.ReverseSequence", (0, "j"), spell={"y": spell(names), "x": spell(places)}))


def col2im(site: Site) -> Lowering:
    """What each block holds is added where the block was."""
    image, block = site.ints(1, "image_shape"), site.ints(2, "block_shape")
    n = len(image)
    stride, dilation = site.attr("strides") or [1] * n, site.attr("dilations") or [1] * n
    pads = site.attr("pads") or [0] * 2 * n
    counts = [(image[a] + pads[a] + pads[a + n] - dilation[a] * (block[a] - 1) - 1) // stride[a] + 1 for a in range(n)]
    batch, columns, blocks = site.shape(0)
    channels = columns // math.prod(block)
    if channels * math.prod(block) != columns or math.prod(counts) != blocks:
        raise site.misfit(f"blocks {block} of an image {image} make {math.prod(counts)} columns")
    read = ["n", "c", *indices(n, "k"), *indices(n, "h")]
    places = [f"{stride[a]}*h{a} + {dilation[a]}*k{a} - {pads[a]}" for a in range(n)]
    inside = [f"{p} >= 0, {p} < {e}" for p, e in zip(places, image)]
    names = indices(n + 2, "z")
    zeros = f"Y[{spell(names)}] = {site.dtype(0)}(0) where {ranges(names, (batch, channels, *image))}"
    return (View(0, (batch, channels, *block, *counts), "x"),
            Apply("movement.Col2Im", ("x",), spell={"x": spell(read), "y": spell(["n", "c", *places]), "zeros": zeros,
                                                    "places": spell(inside)}))


ROWS: dict[str, Binder] = {
    "Transpose": transpose, "Concat": concat, "Split": split, "Slice": slice_, "Expand": expand, "Tile": tile, "Pad": pad,
    "DepthToSpace": depth_to_space, "SpaceToDepth": space_to_depth,
    "CenterCropPad": center_crop_pad, "ReverseSequence": reverse_sequence, "Col2Im": col2im}
