"""Fourier transforms by tables of cosines and sines; long ones in two shorter steps."""

from __future__ import annotations

import math

import numpy as np

from polytc.graph.operators.binding import Apply, Binder, Lowering, Ref, Site, Step, View
from polytc.graph.operators.index_packs import indices, ranges, spell

LARGEST_TABLE = 2**21
"""Numbers in the table of a transform that is one product; larger ones are split where their length has factors."""


def _turns(exponents: np.ndarray, n: int, sign: int) -> np.ndarray:
    """exp(sign * 2 pi i e / n) as [.., p, .., q] parts: axis -2 is the factor's part, axis -1 the result's."""
    angle = sign * 2 * np.pi * (exponents % n) / n
    cos, sin = np.cos(angle), np.sin(angle)
    return np.stack([np.stack([cos, sin], -1), np.stack([-sin, cos], -1)], -2)


def _table(places: int, frequencies: int, n: int, sign: int, parts: int) -> np.ndarray:
    """[k, p, m, q]: what part p at place k adds to part q of frequency m. parts: 1 for real signals."""
    k, m = np.arange(places)[:, None], np.arange(frequencies)[None, :]
    table = _turns(k * m, n, sign).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(table[:, :parts])


def _real_inverse(places: int, n: int) -> np.ndarray:
    """[k, p, m, 0] from the first half of a spectrum, whose other half is its mirror image, to real values."""
    used = min(places, n // 2 + 1)
    k = np.arange(used)
    table = _table(used, n, n, 1, 2)[..., :1] / n
    twice = np.where((k == 0) | ((n % 2 == 0) & (k == n // 2)), 1.0, 2.0)
    result: np.ndarray = table * twice[:, None, None, None]
    return result


def dft(site: Site) -> Lowering:
    """The last axis holds one or two parts; the length is that of the axis or input 1."""
    shape, rank = site.shape(0), site.rank(0)
    given = site.ints(2, "axis")[0] if site.has(2) else site.attr("axis", 1 if site.opset < 20 else -2)
    axis, parts = site.axis(given, rank), shape[-1]
    if axis == rank - 1 or parts not in (1, 2):
        raise site.misfit(f"a transform along axis {axis} of values of {parts} parts")
    inverse, half = bool(site.attr("inverse", 0)), bool(site.attr("onesided", 0))
    n = site.ints(1, "dft_length")[0] if site.has(1) else 2 * (shape[axis] - 1) if inverse and half else shape[axis]
    if n < 1 and (shape[axis] or site.has(1)):
        raise site.misfit(f"a transform of {n} places")
    wide = site.dtype(0).numpy
    places, frequencies = min(n, shape[axis]), n // 2 + 1 if half and not inverse else n
    factor = _factor(n)
    if places * frequencies * parts * 2 > LARGEST_TABLE and factor > 1 and not (inverse and half):
        return _split(site, axis, n, factor, frequencies, -1 if not inverse else 1)
    table = _real_inverse(places, n) if inverse and half else _table(places, frequencies, n, 1 if inverse else -1, parts)
    if inverse and not half:
        table = table / n
    if table.shape[1] > parts:
        table = table[:, :parts]
    names = indices(rank - 1)
    read, written = list(names), list(names)
    read[axis], written[axis] = "k", "m"
    return Apply("spectral.Transform", (0, table.astype(wide)), spell={"x": spell([*read, "p"]), "y": spell([*written, "q"])})


def _factor(n: int) -> int:
    """The largest divisor of n up to its root."""
    return max(d for d in range(1, math.isqrt(n) + 1) if n % d == 0)


def _split(site: Site, axis: int, n: int, u: int, frequencies: int, sign: int) -> Lowering:
    shape, rank, v, wide = site.shape(0), site.rank(0), n // u, site.dtype(0).numpy
    names = indices(rank - 1)

    def along(*slots: str) -> str:
        return spell([*names[:axis], slots[0], *names[axis + 1:], *slots[1:]])

    inner = _table(u, u, u, sign, shape[-1])
    turns = _turns(np.arange(v)[:, None] * np.arange(u)[None, :], n, sign)
    outer = _table(v, -(-frequencies // u), v, sign, 2) / (n if sign > 0 else 1)
    first, second = along("b", "c", "q"), along("b", "c", "r")
    box = ranges([*names[:axis], *names[axis + 1:], "a", "b"], [*shape[:axis], *shape[axis + 1:-1], u, v])
    below = f"c + {u}*d < {frequencies}" if frequencies % u else f"c in 0:{u}"
    return (Apply("spectral.InnerTransforms", (0, inner.astype(wide)), ("a",), attrs={"v": v}, spell={
                "x": along(f"{v}*a + b", "p"), "first": first, "ranges": box}),
            Apply("spectral.Turns", ("a", turns.astype(wide)), ("b",), spell={"first": first, "second": second}),
            Apply("spectral.OuterTransforms", ("b", outer.astype(wide)), spell={
                "second": second, "y": along(f"c + {u}*d", "s"), "ranges": below}))


def stft(site: Site) -> Lowering:
    """Frames of the signal, times the window, each transformed."""
    shape, step = site.shape(0), site.ints(1, "frame_step")[0]
    shape = shape if len(shape) == 3 else (*shape, 1)
    window = site.value(2)
    length = site.ints(3, "frame_length")[0] if site.has(3) else site.shape(2)[0] if site.has(2) else shape[1]
    taken = site.shape(2)[0] if site.has(2) else length
    if step < 1 or not 1 <= length <= shape[1] or taken > length:
        raise site.misfit(f"frames of {length} values, one every {step}, with a window of {taken}")
    count = 1 + (shape[1] - length) // step
    frequencies = length // 2 + 1 if site.attr("onesided", 1) else length
    table = _table(taken, frequencies, length, -1, shape[2])
    if window is not None:
        table = table * window[:, None, None, None].astype(np.float64)
    product: Ref = table.astype(site.dtype(0).numpy)
    steps: list[Step] = []
    source: Ref = 0
    if site.rank(0) == 2:
        steps.append(View(0, shape, "x"))
        source = "x"
    inputs: tuple[Ref, ...] = (source, product) if window is not None or not site.has(2) else (source, 2, product)
    entry = "Frames" if len(inputs) == 2 else "WeighedFrames"
    return (*steps, Apply(f"spectral.{entry}", inputs, attrs={"step": step}, spell={"count": str(count)}))


ROWS: dict[str, Binder] = {"DFT": dft, "STFT": stft}
