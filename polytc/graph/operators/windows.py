"""Strides, dilations, pads and output extents of operators that slide a window."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from polytc.graph.operators.binding import Site


@dataclass(frozen=True)
class Windows:
    """One number a spatial axis in each field. before, after: padding; out: places of the window."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    out: tuple[int, ...]

    def attrs(self, *names: str) -> dict[str, list[int]]:
        """The fields as attributes of an .ein operator, by their names there."""
        fields = {"kernel": self.kernel, "stride": self.stride, "dilation": self.dilation, "pad": self.before, "out": self.out}
        return {n: list(fields[n]) for n in names}

    def clipped(self, extents: tuple[int, ...]) -> Windows:
        """Without the places of the window, at either end, that lie in the padding wherever it is put; at least one is left.
        extents: of the input. A file may declare windows and padding of any size."""
        axes = range(len(self.kernel))
        last = [(o - 1) * s for o, s in zip(self.out, self.stride)]
        first = [min(max(-(-(self.before[a] - last[a]) // self.dilation[a]), 0), self.kernel[a] - 1) for a in axes]
        end = [max(min((extents[a] - 1 + self.before[a]) // self.dilation[a] + 1, self.kernel[a]), first[a] + 1) for a in axes]
        return replace(self, kernel=tuple(e - f for f, e in zip(first, end)),
                       before=tuple(b - f * d for b, f, d in zip(self.before, first, self.dilation)))

    def inside(self, axis: int, low: int, high: int) -> bool:
        """Do all elements of all places of the window along an axis have coordinates in low..high-1?"""
        reach = (self.out[axis] - 1) * self.stride[axis] + (self.kernel[axis] - 1) * self.dilation[axis]
        return low <= -self.before[axis] and reach - self.before[axis] < high

    def counts(self, axis: int, low: int, high: int) -> np.ndarray:
        """For each place of the window along an axis, how many of its elements have a coordinate in low..high-1."""
        start = self.stride[axis] * np.arange(self.out[axis]) - self.before[axis]
        first, end = (np.clip(-((start - x) // self.dilation[axis]), 0, self.kernel[axis]) for x in (low, high))
        return end - first


def axis_list(site: Site, name: str, count: int, default: int) -> tuple[int, ...]:
    """A list attribute that must have `count` numbers."""
    given = site.attr(name) or [default] * count
    if not isinstance(given, list):
        raise site.misfit(f"the attribute {name!r} is {given!r}, not a list of numbers")
    if len(given) != count:
        raise site.misfit(f"the attribute {name!r} has {len(given)} numbers, {count} are needed")
    if name in ("strides", "dilations") and min(given, default=1) < 1:
        raise site.misfit(f"the attribute {name!r} is {given}, its numbers must be positive")
    if name == "pads" and min(given, default=0) < 0:
        raise site.misfit(f"the attribute {name!r} is {given}, its numbers must not be negative")
    return tuple(int(v) for v in given)


def sliding(site: Site, kernel: tuple[int, ...], *, cropping: bool = False) -> Windows:
    """The windows of a convolution or pooling node over input 0. cropping: see `padding`."""
    extents = site.shape(0)[2:]
    n = len(extents)
    if "kernel_shape" in site.node.attributes and list(kernel) != list(site.attr("kernel_shape")):
        raise site.misfit(f"the attribute 'kernel_shape' is {site.attr('kernel_shape')}, the weights have {list(kernel)}")
    if min(kernel, default=1) < 1:
        raise site.misfit(f"a window of {list(kernel)}")
    if len(kernel) != n:
        raise site.misfit(f"a window of {len(kernel)} axes over {n} spatial axes")
    stride, dilation = axis_list(site, "strides", n, 1), axis_list(site, "dilations", n, 1)
    reach = tuple(d * (k - 1) + 1 for d, k in zip(dilation, kernel))
    before, after = padding(site, extents, stride, reach, cropping)
    out = tuple(_places(site, x + b + a - r, s, x + b) for x, b, a, r, s in zip(extents, before, after, reach, stride))
    if any(o <= 0 for o in out):
        raise site.misfit(f"the window {list(kernel)} is larger than its input")
    return Windows(kernel, stride, dilation, before, after, out)


def _places(site: Site, free: int, stride: int, end: int) -> int:
    """How many windows start in `free` + 1 positions; with ceil_mode a last partial one counts if it starts before `end`."""
    if not site.attr("ceil_mode", 0):
        return free // stride + 1
    count = -(-free // stride) + 1
    return count - 1 if (count - 1) * stride >= end else count


def padding(site: Site, extents: tuple[int, ...], stride: tuple[int, ...], reach: tuple[int, ...],
            cropping: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Padding before and after each axis, from `pads` or `auto_pad`. cropping: where strides are larger than windows, SAME may
    come to less than nothing; pools then leave out that many elements at both ends, convolutions none at the first."""
    n, auto = len(extents), site.attr("auto_pad", "NOTSET")
    if auto == "NOTSET":
        pads = axis_list(site, "pads", 2 * n, 0)
        return pads[:n], pads[n:]
    if any(site.attr("pads") or ()):
        raise site.misfit(f"both auto_pad {auto!r} and the attribute 'pads' {site.attr('pads')}")
    if auto == "VALID":
        return (0,) * n, (0,) * n
    if auto not in ("SAME_UPPER", "SAME_LOWER"):
        raise site.misfit(f"auto_pad {auto!r} is unknown")
    total = [(-(-x // s) - 1) * s + r - x for x, s, r in zip(extents, stride, reach)]
    if not cropping:
        total = [max(t, 0) for t in total]
    twice = [t if auto == "SAME_UPPER" else t + 1 for t in total]
    before = tuple(t // 2 if t >= 0 else -(-t // 2) for t in twice)
    return before, tuple(t - b for t, b in zip(total, before))
