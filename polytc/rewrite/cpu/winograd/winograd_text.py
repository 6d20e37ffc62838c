"""The text of a Winograd convolution's stages, for given ranges.

For 28 x 28 places, that is 7 x 7 tiles of 4 x 4 results, in the names of the text (n batch, g group, c channel, m filter, y and
x places, u and v points of the two transforms, b block of tiles, t tile of a block):

    P[y,x,c] = X[c,y-1,x-1];  P[0,x,c] = 0;  ...                               padded, channels last
    R[u,v,t,c] = P[4*(t//7)+u,4*(t%7)+v,c]                                     row u of B, along the first dimension
    V[u,v,t,c] = R[u,v,t,c]                                                    row v of B, along the second
    F, U                                                                       G on the weights, in the same way
    Q[u,v,t,m] += V[u,v,t,c] * U[u,v,c,m]
    N[i,v,t,m] = Q[i,v,t,m]                                                    row i of A, along the first
    Y[4*(t//7)+i,4*(t%7)+j,m] = N[i,j,t,m]                                     row j of A, along the second
    Z[y,x,m] = Y[y,x,m]                                                        without what whole tiles and blocks add

The text of a transform reads the term that has the number of the row, or adds all terms; `with_matrices` makes rows of B, G and
A of that, a statement each. Channels and filters run along memory in every stage, so that all of them are vector code whatever
the extents of the image are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from polytc.program import program as pr
from polytc.program.calls import matrix_rows
from polytc.program.linear import linear, normalise
from polytc.program.scalars import I64
from polytc.rewrite.cpu.winograd.cook_toom import correlation


@dataclass(frozen=True)
class Window:
    """A dimension of the data with subscript place + sign * tap + offset."""

    place: pr.Range
    tap: pr.Range
    sign: int
    offset: int

    @property
    def start(self) -> int:
        """Coordinate of the data that the first place sees through the first tap, in rising order of coordinates."""
        return self.place.lower + self.offset + min(self.sign * self.tap.lower, self.sign * (self.tap.upper - 1))


@dataclass(frozen=True)
class Layout:
    """What the text depends on: the two reads, the extents of the data along the windows, the roles of the indices (see
    winograd.Convolution), results of a tile in each dimension, tiles of a block; apart: blocks are of one image each, not
    of the tiles of all images in a row, so that nothing but extents depends on how many images there are; whole: the products
    are of all tiles of all images at once, where blocks are apart; lines: blocks are of one line of tiles each, so that nothing
    but extents depends on how large the images are."""

    data: pr.Read
    extents: tuple[int, int]
    weights: pr.Read
    windows: tuple[Window, Window]
    batch: tuple[pr.Range, ...]
    groups: tuple[pr.Range, ...]
    channels: tuple[pr.Range, ...]
    filters: tuple[pr.Range, ...]
    results: int
    block: int
    apart: bool = False
    whole: bool = False
    lines: bool = False

    @property
    def taps(self) -> int:
        """In each dimension."""
        return self.windows[0].tap.extent

    @property
    def points(self) -> int:
        """Products along a dimension of a tile."""
        return self.results + self.taps - 1

    @property
    def joined(self) -> tuple[pr.Range, ...]:
        """The batch whose tiles are numbered in a row."""
        return () if self.apart else self.batch

    @property
    def grid(self) -> tuple[int, int]:
        """Tiles along both dimensions."""
        high, wide = (-(-w.place.extent // self.results) for w in self.windows)
        return high, wide

    @property
    def blocks(self) -> int:
        """Of all images, of one, or of a line."""
        tiles = self.grid[1] if self.lines else prod(r.extent for r in self.joined) * prod(self.grid)
        return -(-tiles // self.block)

    @property
    def several(self) -> bool:
        """Are there several blocks, or may there be?"""
        return self.lines or self.blocks > 1

    @property
    def result(self) -> tuple[pr.Expr, ...]:
        """Subscripts of Z for the element that the statement writes."""
        outer = [*self.batch, *(w.place for w in self.windows), *self.groups, *self.filters]
        return tuple(_shifted(pr.Index(r.index), -r.lower) for r in outer)


def stages(layout: Layout) -> str:
    """A definition of Z, the result with batch, places, groups, filters as its dimensions, from X and W."""
    lines = [*_padded(layout), *_inputs(layout), *_weights(layout), _products(layout), *_outputs(layout)]
    ranks = (len(layout.data.subscripts), len(layout.weights.subscripts))
    shapes = [", ".join(f"{name}{d}" for d in range(rank)) for name, rank in zip(("SX", "SW"), ranks, strict=True)]
    body = "\n".join(f"    {line}" for line in lines)
    return f"def winograd(X[{shapes[0]}], W[{shapes[1]}], {', '.join(sizes(layout))}) -> Z {{\n{body}\n}}\n"


def with_matrices(program: pr.Program, layout: Layout) -> pr.Program:
    """The program of the text with rows of the matrices where the text has the terms: the sum of them, or a read of the term
    that has the number of the row."""
    matrices = correlation(layout.results, layout.taps)
    row_of = {"R": ("u", matrices.inputs), "V": ("v", matrices.inputs), "F": ("u", matrices.weights),
              "U": ("v", matrices.weights), "N": ("i", matrices.output), "Y": ("j", matrices.output)}

    def transform(s: pr.Statement) -> pr.Statement:
        if s.target not in row_of:
            return s
        row, matrix = row_of[s.target]
        terms = _summands(s.value)
        if len(terms) == 1:
            terms = tuple(_without_zeros(pr.substitute(s.value, {row: pr.Const(k, I64)})) for k in range(len(matrix[0])))
        return replace(s, value=matrix_rows.call(matrix, pr.Index(row), terms))
    return replace(program, statements=tuple(map(transform, program.statements)))


def sizes(layout: Layout) -> dict[str, int]:
    """The values of the text's scalar arguments, so that convolutions of many sizes share one text: tiles of a block, and
    blocks; tiles in a line, lines, and both; extents of the data with its padding, where the data lies in it, and of the
    result; `c0s` is the extent of index `c0`. In lines the text has formulas for what follows from others."""
    high, wide = layout.grid
    found = {"block": layout.block, "blocks": layout.blocks, "high": high}
    if not layout.lines:
        rows, columns = _places(layout, layout.taps - 1)
        found |= {"wide": wide, "area": high * wide, "rows": rows, "columns": columns}
        for name, (start, end) in _data(layout).items():
            found |= {f"{name}_from": start, f"{name}_to": end}
    found |= {f"{name}s": r.extent for name, r in _roles(layout, "ngcm")}
    found |= {f"{name}s": w.place.extent for name, w in zip("yx", layout.windows, strict=True)}
    return found | ({"room": _batches(layout)[0]} if layout.joined else {})


# ---- stages

def _padded(layout: Layout) -> list[str]:
    """P: the data with channels last, padded to whole tiles and blocks; what lies around the data is written apart, so that the
    copy needs no tests."""
    place = {w.place.index: _shifted(pr.Index(x), w.start) for w, x in zip(layout.windows, "yx", strict=True)}
    gone: dict[str, pr.Expr] = {w.tap.index: pr.Const(0, I64) for w in layout.windows}
    shifts = {w.place.index: w.offset for w in layout.windows}
    subscripts = []
    for sub in layout.data.subscripts:
        form = linear(sub)
        own = next((i for i in shifts if form is not None and form.coefficient(i)), None)
        subscripts.append(place[own] if own is not None else pr.substitute(sub, gone | _renaming(layout)))
    cells = [*_names(layout, "n"), "y", "x", *_names(layout, "gc")]
    inside: dict[str, tuple[str, str]] = {name: ("0", extent) for name, extent in zip(cells, _cells(layout), strict=True)}
    around: list[str] = []
    numbers = sizes(layout)
    for name, (low, high) in _data(layout).items():
        start, end = _where_data(layout, name)
        upper = inside[name][1]
        around += [_zero(cells, inside | {name: ("0", start)})] if low > 0 else []
        around += [_zero(cells, inside | {name: (end, upper)})] if layout.lines or high < numbers[upper] else []
        inside[name] = (start, end)
    return [f"P[{', '.join(cells)}] = ({_read('X', subscripts)} else 0){_bounds(inside)}", *around]


def _where_data(layout: Layout, name: str) -> tuple[str, str]:
    """From where to where there is data in P along one of its dimensions."""
    if not layout.lines:
        return f"{name}_from", f"{name}_to"
    d = "yx".index(name)
    window = layout.windows[d]
    return str(max(0, -window.start)), f"{name}s + {layout.extents[d] - window.start - window.place.extent}"


def _zero(cells: list[str], bounds: dict[str, tuple[str, str]]) -> str:
    return f"P[{', '.join(cells)}] = 0.0{_bounds(bounds)}"


def _cells(layout: Layout) -> tuple[str, ...]:
    """Extents of P; in lines with one place more than tiles see, so that there are zeros behind the data for all sizes."""
    batch = ("room", *_extents(layout, "n")[1:]) if layout.joined else _extents(layout, "n")
    rows, columns = "rows", "columns"
    if layout.lines:
        more = layout.taps
        rows, columns = f"{layout.results}*high + {more}", f"{layout.results}*block*blocks + {more}"
    return *batch, rows, columns, *_extents(layout, "gc")


def _data(layout: Layout) -> dict[str, tuple[int, int]]:
    """Where in P there is data, in the dimensions that are padded."""
    if layout.lines:  # as much of it as the places see
        return {name: (max(0, -w.start), extent - w.start)
                for name, w, extent in zip("yx", layout.windows, layout.extents, strict=True)}
    found = {name: (0, r.extent) for name, r in _roles(layout, "n")[:1] if layout.joined}
    places = _places(layout, layout.taps - 1)
    for name, window, extent, upper in zip("yx", layout.windows, layout.extents, places, strict=True):
        low = min(max(0, -window.start), upper)
        found[name] = (low, max(low, min(extent - window.start, upper)))
    return found


def _inputs(layout: Layout) -> list[str]:
    """R and V: the terms of the two transforms of the data."""
    gc = _names(layout, "gc")
    g, c = _names(layout, "g"), _names(layout, "c")
    n = str(layout.points)
    inner = {"u": n, "v": n} | _block_extents(layout) | dict(zip(gc, _extents(layout, "gc"), strict=True))
    b, (row, tile) = _block_names(layout), _product_row(layout)
    return [f"R[{', '.join((*b, 'u', 'v', 't', *gc))}] = P[{', '.join((*_tile(layout, 'u', 'v'), *gc))}]{_where(inner)}",
            f"V[{', '.join((*row, *g, tile, 'u', 'v', *c))}] = R[{', '.join((*b, 'u', 'v', 't', *gc))}]{_where(inner)}"]


def _weights(layout: Layout) -> list[str]:
    """F and U: those of the weights."""
    first, second = layout.windows
    extents = dict(zip(_names(layout, "gcm"), _extents(layout, "gcm"), strict=True))
    inner, n, taps = _names(layout, "gcm"), str(layout.points), layout.taps

    def tap(window: Window, number: pr.Expr) -> pr.Expr:
        return _shifted(number if window.sign > 0 else pr.Unary("-", number, I64),
                        window.tap.lower if window.sign > 0 else window.tap.upper - 1)

    def weight(r: int) -> str:
        at = {first.tap.index: tap(first, pr.Const(r, I64)), second.tap.index: tap(second, pr.Index("s"))}
        return _read("W", [normalise(pr.substitute(sub, at | _renaming(layout))) for sub in layout.weights.subscripts])
    g, rest = _names(layout, "g"), _names(layout, "cm")
    half = (f"F[{', '.join(('u', str(s), *inner))}]" for s in range(taps))
    return [f"F[{', '.join(('u', 's', *inner))}] = {' + '.join(map(weight, range(taps)))}"
            f"{_where({'u': n, 's': str(taps)} | extents)}",
            f"U[{', '.join((*g, 'u', 'v', *rest))}] = {' + '.join(half)}{_where({'u': n, 'v': n} | extents)}"]


def _products(layout: Layout) -> str:
    b, g, c, m = _product_row(layout)[0], _names(layout, "g"), _names(layout, "c"), _names(layout, "m")
    result, data, weights = (*b, *g, "u", "v", "t", *m), (*b, *g, "t", "u", "v", *c), (*g, "u", "v", *c, *m)
    return f"Q[{', '.join(result)}] += V[{', '.join(data)}] * U[{', '.join(weights)}]"


def _outputs(layout: Layout) -> list[str]:
    """N and Y: those of the products; Z: the result."""
    b, g, m = _block_names(layout), _names(layout, "g"), _names(layout, "m")
    row, tile = _product_row(layout)
    inner = _block_extents(layout) | dict(zip((*g, *m), _extents(layout, "gm"), strict=True))
    n, results = str(layout.points), str(layout.results)
    return [f"N[{', '.join((*b, *g, 't', 'i', 'v', *m))}] = Q[{', '.join((*row, *g, 'i', 'v', tile, *m))}]"
            f"{_where({'i': results, 'v': n} | inner)}",
            f"Y[{', '.join((*_tile(layout, 'i', 'j'), *g, *m))}] = N[{', '.join((*b, *g, 't', 'i', 'j', *m))}]"
            f"{_where({'i': results, 'j': results} | inner)}",
            _cut(layout)]


def _cut(layout: Layout) -> str:
    """Z: the elements of Y that there is a place for."""
    cell = (*_names(layout, "n"), "y", "x", *_names(layout, "gm"))
    extents = (*_extents(layout, "n"), "ys", "xs", *_extents(layout, "gm"))
    return f"Z[{', '.join(cell)}] = Y[{', '.join(cell)}]{_where(dict(zip(cell, extents, strict=True)))}"


def _without_zeros(e: pr.Expr) -> pr.Expr:
    zero = pr.Const(0, I64)
    return pr.map_expr(e, lambda x: x.a if isinstance(x, pr.Binary) and x.op == "+" and x.b == zero else x)


def _summands(e: pr.Expr) -> tuple[pr.Expr, ...]:
    return (*_summands(e.a), e.b) if isinstance(e, pr.Binary) else (e,)


# ---- names, subscripts and ranges

def _roles(layout: Layout, kinds: str) -> list[tuple[str, pr.Range]]:
    """Names in the text and ranges of the indices of these kinds, in order: n batch, g groups, c channels, m filters."""
    known = {"n": layout.batch, "g": layout.groups, "c": layout.channels, "m": layout.filters}
    return [(f"{kind}{k}", r) for kind in kinds for k, r in enumerate(known[kind])]


def _names(layout: Layout, kinds: str) -> tuple[str, ...]:
    return tuple(name for name, _ in _roles(layout, kinds))


def _extents(layout: Layout, kinds: str) -> tuple[str, ...]:
    """The names of their extents, see `sizes`."""
    return tuple(f"{name}s" for name, _ in _roles(layout, kinds))


def _renaming(layout: Layout) -> dict[str, pr.Expr]:
    """Indices of the statement as indices of the text, which all start at 0."""
    return {r.index: _shifted(pr.Index(name), r.lower) for name, r in _roles(layout, "ngcm")}


def _shifted(e: pr.Expr, by: int) -> pr.Expr:
    return e if by == 0 else pr.Binary("+" if by > 0 else "-", e, pr.Const(abs(by), I64), I64)


def _read(tensor: str, subscripts: list[pr.Expr]) -> str:
    return f"{tensor}[{', '.join(map(pr.format_expr, subscripts))}]"


def _where(extents: dict[str, str]) -> str:
    return _bounds({name: ("0", extent) for name, extent in extents.items()})


def _bounds(ranges: dict[str, tuple[str, str]]) -> str:
    return f" where {', '.join(f'{name} in {low}:{high}' for name, (low, high) in ranges.items())}"


def _block_names(layout: Layout) -> tuple[str, ...]:
    return (*(_names(layout, "n") if layout.apart else ()), *(("h",) if layout.lines else ()),
            *(("b",) if layout.several else ()))


def _product_row(layout: Layout) -> tuple[tuple[str, ...], str]:
    """Names of blocks and the number of a tile in them, as products have them: tile t of a block."""
    if not layout.whole:
        return _block_names(layout), "t"
    number = "0"
    for name, extent in zip(_names(layout, "n"), _extents(layout, "n"), strict=True):
        number = name if number == "0" else f"({number})*{extent} + {name}"
    return (), f"({number})*area + t"


def _block_extents(layout: Layout) -> dict[str, str]:
    images = dict(zip(_names(layout, "n"), _extents(layout, "n"), strict=True)) if layout.apart else {}
    lines = {"h": "high"} if layout.lines else {}
    return images | lines | ({"b": "blocks"} if layout.several else {}) | {"t": "block"}


def _tile(layout: Layout, row: str, column: str) -> tuple[str, ...]:
    """Subscripts of batch and places for element (row, column) of tile t of block b; tiles are numbered row by row, or in each
    line h."""
    number = "(block*b + t)" if layout.several else "t"
    if layout.lines:
        return (*_names(layout, "n"), f"{layout.results}*h + {row}", f"{layout.results}*{number} + {column}")
    batch: list[str] = []
    above = "area"
    for extent in reversed(_extents(layout, "n") if layout.joined else ()):
        last = len(batch) + 1 == len(layout.joined)
        batch.insert(0, f"{number}//({above})" if last else f"{number}//({above})%{extent}")
        above += f"*{extent}"
    line = f"{number}//wide%high" if batch else f"{number}//wide"
    images = _names(layout, "n") if layout.apart else batch
    return (*images, f"{layout.results}*({line}) + {row}", f"{layout.results}*({number}%wide) + {column}")


def _batches(layout: Layout) -> tuple[int, ...]:
    """Extents of the batch dimensions; the first has room for the tiles of a last block that is not full."""
    extents = tuple(r.extent for r in layout.joined)
    if not extents:
        return ()
    return -(-layout.blocks * layout.block // (prod(layout.grid) * prod(extents[1:]))), *extents[1:]


def _places(layout: Layout, more: int) -> tuple[int, int]:
    """Extents of the places, in whole tiles and `more` elements."""
    high, wide = layout.grid
    rows = high if layout.joined else -(-layout.blocks * layout.block // wide)
    return layout.results * rows + more, layout.results * wide + more
