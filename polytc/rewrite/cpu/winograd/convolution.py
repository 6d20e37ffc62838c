"""Winograd's convolutions: windows of 3 x 3 taps and stride 1 run as one small matrix product for each point of a transform.

    O[m,h,w] += (X[c,h+r-1,w+s-1] else 0)*W[m,c,r,s] where h in 0:28, w in 0:28
        with X[64,28,28], W[64,64,3,3] on avx512
    ->  ...
        O_V[t,u,v,c0] = rows[1.265625 0 -2.8125 0 1 0 | ...](v, O_R[u,0,t,c0], ..., O_R[u,5,t,c0])
            where t in 0:49, u in 0:6, v in 0:6
        ...
        O_Q[u,v,t,m0] += O_V[t,u,v,c0]*O_U[u,v,c0,m0] where u in 0:6, v in 0:6
        ...
        O_Z[y,x,m0] = O_Y[y,x,m0]
        O[m,h,w] = O_Z[h,w,m]

that is V = B X B' for each tile t, U = G W G', and Z = A Q A', with 16 products for each tile of 2 x 2 results or 36 for one of
4 x 4, where the sums as written take 36 or 144 (Lavin & Gray,
Fast Algorithms for Convolutional Neural Networks, CVPR 2016). What is recognised is the form of the statement, with its indices
in any order, any number of batch, group, channel and filter indices, and any padding by zeros. Of a window in more dimensions
the last two are transformed: the places along the others are a batch, their taps channels. The text of the stages is made
by `winograd_text`; U follows from W alone, so for constant weights it is computed once. Results differ by rounding; an infinity
or NaN spreads to the results of its whole tile (docs/accuracy.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from polytc.lang.building import build
from polytc.program import program as pr
from polytc.program.affine import Linear, interval
from polytc.program.generalise import fitted
from polytc.program.linear import linear
from polytc.program.names import fresh
from polytc.program.scalars import F32
from polytc.program.sizes import Size, mapped, specialised, surely
from polytc.rewrite.cpu.winograd import winograd_text
from polytc.rewrite.cpu.winograd.winograd_text import Layout, Window

TAPS = 3
"""Extent of the windows that are recognised, in both dimensions."""


SAMPLE = 8
"""What stands for open sizes of the stages' text, of which all extents are sums."""


@dataclass(frozen=True)
class Convolution:
    """A statement of the form above. windows: the last two dimensions of the data that a window slides along, in their order;
    batch: indices of data and result; groups: of all three; channels: of data and weights, summed; filters: of weights and
    result."""

    statement: pr.Statement
    data: pr.Read
    weights: pr.Read
    windows: tuple[Window, Window]
    batch: tuple[pr.Range, ...]
    groups: tuple[pr.Range, ...]
    channels: tuple[pr.Range, ...]
    filters: tuple[pr.Range, ...]

    @property
    def lines(self) -> bool:
        """Are blocks of tiles of one line each? They are where it is open how large images are."""
        return any(_is_open(w.place) for w in self.windows)

    @property
    def apart(self) -> bool:
        """Are blocks of tiles of one image each? They are where it is open how many images there are."""
        return self.lines or any(map(_is_open, self.batch))

    @property
    def numbered(self) -> bool:
        """Can the tiles of all images be numbered in a row where it is open how many images there are?"""
        return self.apart and not self.lines and not any(map(_is_open, self.batch[1:]))

    def tiles(self, results: int) -> int:
        """Tiles of results x results elements that cover what blocks are made of: a line of an image, an image, or the results
        of all batches."""
        if self.lines:
            return -(-self.windows[1].place.extent // results)
        images = 1 if self.apart else prod(r.extent for r in self.batch)
        return images * prod(-(-w.place.extent // results) for w in self.windows)


@dataclass(frozen=True)
class Choice:
    """Compute tiles of results x results elements, `block` tiles at a time; 0: those of all images, whose number is open."""

    results: int
    block: int


def rewrite(program: pr.Program, chosen: Mapping[str, Choice]) -> pr.Program:
    """The program with the convolutions of the chosen statements, by name, computed in Winograd's way."""
    for s in program.statements:
        convolution = recognise(program, s) if s.name in chosen else None
        if convolution is not None:
            program = _applied(program, convolution, chosen[s.name])
    return program


def _is_open(r: pr.Range) -> bool:
    return r.typical or isinstance(r.extent, Size)


# ---- recognition

def recognise(program: pr.Program, s: pr.Statement) -> Convolution | None:
    """The statement as a convolution of 3 x 3 taps and stride 1 in f32, if it is one."""
    product = s.value
    if s.op != "+" or s.where or program.tensor(s.target).dtype != F32:
        return None
    if not isinstance(product, pr.Binary) or product.op != "*":
        return None
    a, b = product.a, product.b
    if not isinstance(a, pr.Read) or not isinstance(b, pr.Read) or s.target in (a.tensor, b.tensor) or a.dtype != b.dtype:
        return None
    return _form(program, s, a, b) or _form(program, s, b, a)


def _form(program: pr.Program, s: pr.Statement, data: pr.Read, weights: pr.Read) -> Convolution | None:
    """As `recognise`, where one read is taken for the data."""
    guarded = data.default is not None and data.default.value != 0
    if guarded or weights.default is not None or any(program.tensor(n).lower != (0,) * len(program.tensor(n).shape)
                                                     for n in (data.tensor, weights.tensor)):
        return None
    subscripts = tuple(_all_linear(x) for x in (s.subscripts, data.subscripts, weights.subscripts))
    target, image, kernel = subscripts
    if target is None or image is None or kernel is None:
        return None
    ranges = s.by_index
    written = _indices(target)
    windows = [w for form in image if (w := _window(form, ranges, written, image, kernel)) is not None]
    if len(windows) < 2 or not surely(lambda: _meets(program.tensor(data.tensor), image, ranges)):
        return None
    windows = windows[-2:]
    sliding = {i for w in windows for i in (w.place.index, w.tap.index)}
    kinds: dict[tuple[bool, bool, bool], list[pr.Range]] = {}
    for r in s.ranges:
        if r.index not in sliding:
            kinds.setdefault((r.index in written, r.index in _indices(image), r.index in _indices(kernel)), []).append(r)
    batch, groups, channels, filters = (tuple(kinds.pop(key, ())) for key in _KINDS)
    if kinds or not channels or not filters:
        return None
    if any(map(_is_open, (*groups, *channels, *filters))) or not _fits_in_lines(program.tensor(data.tensor), image, windows):
        return None
    alone = {form.index for form in image}
    channels = tuple(sorted(channels, key=lambda r: r.index in alone))  # vectors run along the last ones, not along taps
    return Convolution(s, data, weights, (windows[0], windows[1]), batch, groups, channels, filters)


_KINDS = ((True, True, False), (True, True, True), (False, True, True), (True, False, True))
"""Where an index occurs, in (result, data, weights), if it is one of batch, groups, channels, filters."""


def _all_linear(subscripts: tuple[pr.Expr, ...]) -> tuple[Linear, ...] | None:
    forms = tuple(f for f in map(linear, subscripts) if f is not None)
    return forms if len(forms) == len(subscripts) else None


def _indices(forms: tuple[Linear, ...]) -> set[str]:
    return {i for f in forms for i, _ in f.terms}


def _fits_in_lines(data: pr.Tensor, image: tuple[Linear, ...], windows: list[Window]) -> bool:
    """Where it is open how large images are: do the places see all of the data, for all sizes? Then zeros lie behind it in
    whole tiles."""
    extents = [next(n for form, n in zip(image, data.shape, strict=True) if form.coefficient(w.place.index)) for w in windows]
    if not any(isinstance(n, Size) for w, extent in zip(windows, extents, strict=True) for n in (extent, *w.place.ends)):
        return True
    behind = [extent - w.start - w.place.extent for w, extent in zip(windows, extents, strict=True)]
    fixed = not any(isinstance(n, Size) for n in (*behind, *(w.place.lower for w in windows)))
    return fixed and all(1 - TAPS <= n <= TAPS - 1 for n in behind)


def _meets(data: pr.Tensor, image: tuple[Linear, ...], ranges: Mapping[str, pr.Range]) -> bool:
    """Does some access lie inside of the data, in each dimension?"""
    box = [interval(form, pr.box(ranges.values())) for form in image]
    return all(low < extent and high >= 0 for (low, high), extent in zip(box, data.shape, strict=True))


def _window(form: Linear, ranges: Mapping[str, pr.Range], written: set[str], image: tuple[Linear, ...],
            kernel: tuple[Linear, ...]) -> Window | None:
    """The window that slides along a dimension of the data: `h + r + offset`, or `h - r + offset` for taps in reverse."""
    places = [i for i, c in form.terms if i in written and c == 1]
    taps = [(i, c) for i, c in form.terms if i not in written and abs(c) == 1 and ranges[i].extent == TAPS]
    if len(form.terms) != 2 or len(places) != 1 or len(taps) != 1:
        return None
    place, (tap, sign) = places[0], taps[0]
    alone = all(sum(f.coefficient(i) != 0 for f in image) == 1 for i in (place, tap))
    own = [f.index for f in kernel if f.coefficient(tap)] == [tap]
    if not alone or not own or place in _indices(kernel):
        return None
    return Window(ranges[place], ranges[tap], sign, form.constant)


# ---- rewriting

def _applied(program: pr.Program, convolution: Convolution, choice: Choice) -> pr.Program:
    """The program with the stages of the convolution before its statement, which then adds the result to its target."""
    s = convolution.statement
    shape = program.tensor(convolution.data.tensor).shape
    sliding = [next(d for d, sub in enumerate(convolution.data.subscripts) if _contains(sub, w.place.index))
               for w in convolution.windows]
    block = choice.block or convolution.tiles(choice.results)
    layout = Layout(convolution.data, (shape[sliding[0]], shape[sliding[1]]), convolution.weights, convolution.windows,
                    convolution.batch, convolution.groups, convolution.channels, convolution.filters, choice.results,
                    block, convolution.apart, choice.block == 0, convolution.lines)
    data, weights = program.tensor(convolution.data.tensor), program.tensor(convolution.weights.tensor)
    stages = winograd_text.with_matrices(_stages(layout, data.shape, weights.shape), layout)
    names = {"X": data.name, "W": weights.name}
    taken = {t.name for t in program.tensors}
    names |= {t.name: fresh(f"{s.target}_{t.name}", taken) for t in stages.tensors if t.name not in names}
    tensors = tuple(replace(t, name=names[t.name]) for t in stages.tensors if t.name not in ("X", "W"))
    known = {x.name for x in program.statements}
    before = tuple(replace(_renamed(x, names), name=fresh(f"{s.name}_{x.name}", known)) for x in stages.statements)
    result = pr.Read(names["Z"], layout.result, F32)
    kept = tuple(r for r in s.ranges if any(_contains(sub, r.index) for sub in s.subscripts))
    after = replace(s, value=result, ranges=kept)
    statements = list(program.statements)
    at = statements.index(s)
    start = next((x for x in statements[:at] if _starts(x, after) and not _between(statements, x, s)), None)
    if start is not None:
        after = replace(after, op=None, value=_sum(_first(start, after), result))
    statements[at:at + 1] = [*before, after]
    return replace(program, tensors=(*program.tensors, *tensors), statements=tuple(x for x in statements if x is not start))


def _contains(e: pr.Expr, index: str) -> bool:
    return pr.Index(index) in pr.walk(e)


def _stages(layout: Layout, data: tuple[int, ...], weights: tuple[int, ...]) -> pr.Program:
    """The program of the stages. Text is built for numbers: where some are open it is built for several, of which the extents
    are formulas, as nothing else in the stages depends on them."""
    if layout.lines:
        return _open_stages(layout, data, weights)
    numbers = (data, tuple(r.extent for r in layout.batch))
    given = tuple(dict.fromkeys(n for row in numbers for n in row if isinstance(n, Size)))
    if not given:
        return _built(winograd_text.stages(layout), data, weights, tuple(winograd_text.sizes(layout).items()))
    names = [f"size{k}" for k in range(len(given))]
    points = [{n: 2 + move * (n == moved) for n in names} for move in range(4) for moved in names[:None if move else 1]]

    def at(point: Mapping[str, int]) -> pr.Program:
        number = {n: point[name] for n, name in zip(given, names)}
        fixed = mapped(layout, number.__getitem__)
        return _built(winograd_text.stages(fixed), mapped(data, number.__getitem__), weights,
                      tuple(winograd_text.sizes(fixed).items()))
    return specialised(fitted([at(p) for p in points], points), dict(zip(names, given)))


def _open_stages(layout: Layout, data: tuple[int, ...], weights: tuple[int, ...]) -> pr.Program:
    """The same where the extents of images are open: what the text calls sizes may be any numbers."""
    numbers = winograd_text.sizes(layout)
    given = {n: value for n, value in numbers.items() if isinstance(value, Size)}
    fixed = tuple((n, value) for n, value in numbers.items() if n not in given)
    shape = mapped(data, lambda n: SAMPLE)
    return specialised(_fitted(winograd_text.stages(layout), shape, weights, fixed, tuple(given)), given)


@lru_cache(maxsize=64)
def _fitted(text: str, data: tuple[int, ...], weights: tuple[int, ...], fixed: tuple[tuple[str, int], ...],
            given: tuple[str, ...]) -> pr.Program:
    """The program of the stages for all values of the given sizes of their text."""
    points = [{n: SAMPLE + (n == moved) for n in given} for moved in ("", *given)]
    return fitted([_built(text, data, weights, (*fixed, *p.items())) for p in points], points)


@lru_cache(maxsize=256)
def _built(text: str, data: tuple[int, ...], weights: tuple[int, ...], sizes: tuple[tuple[str, int], ...]) -> pr.Program:
    """The program of the stages; equal convolutions of a model share it. Tests prove its accesses, at sizes that are less work:
    for a batch of 32 it takes longer than all else."""
    return build(text, {"X": data, "W": weights}, scalars=dict(sizes), proved=True)


def _renamed(s: pr.Statement, names: dict[str, str]) -> pr.Statement:
    def rename(e: pr.Expr) -> pr.Expr:
        return pr.map_expr(e, lambda x: replace(x, tensor=names[x.tensor]) if isinstance(x, pr.Read) else x)
    return replace(s, target=names[s.target], subscripts=tuple(map(rename, s.subscripts)), value=rename(s.value), span=None)


def _starts(init: pr.Statement, s: pr.Statement) -> bool:
    """Does `init` write 0, or elements of another tensor, to exactly the elements that `s` adds to, each of which `s` adds to
    once?"""
    value = init.value
    zero = isinstance(value, pr.Const) and value.value == 0
    bias = isinstance(value, pr.Read) and value.dtype == F32 and value.default is None and value.tensor != s.target
    if init.op is not None or init.target != s.target or init.where or not (zero or bias):
        return False
    pairs = _pairs(init, s)
    before, after = (x.box for x in (init, s))
    once = [i for i, _ in pairs] == list(dict.fromkeys(i for i, _ in pairs)) and len(pairs) == len(before) == len(after)
    return once and {i for _, i in pairs} == {*after} and all(before[a] == after[b] for a, b in pairs)


def _pairs(init: pr.Statement, s: pr.Statement) -> list[tuple[str, str]]:
    """For each dimension of the target that both write index by index the two indices; nothing if they differ elsewhere."""
    found: list[tuple[str, str]] = []
    for a, b in zip(map(linear, init.subscripts), map(linear, s.subscripts), strict=True):
        if a is None or b is None or (a.index is None or b.index is None) and (a != b or a.terms):
            return []
        if a.index is not None and b.index is not None:
            found.append((a.index, b.index))
    return found


def _first(init: pr.Statement, s: pr.Statement) -> pr.Expr:
    """What `init` writes to the element that `s` writes."""
    return pr.substitute(init.value, {a: pr.Index(b) for a, b in _pairs(init, s)})


def _sum(first: pr.Expr, rest: pr.Expr) -> pr.Expr:
    return rest if isinstance(first, pr.Const) else pr.Binary("+", first, rest, F32)


def _between(statements: list[pr.Statement], first: pr.Statement, last: pr.Statement) -> bool:
    """Does a statement between the two touch the target of the first, or write what that one reads?"""
    middle = statements[statements.index(first) + 1:statements.index(last)]
    kept = {first.target, *(r.tensor for r in pr.reads(first))}
    return any(x.target in kept or any(r.tensor == first.target for r in pr.reads(x)) for x in middle)
