"""Windows: what the iterations of some loops use of a tensor, for each of them, in a tensor of its own.

    S1: Y[i] = X[i] + X[i+1] + X[i+2]
    ->  S1_X: X_S1[i_each, i] = X[64*i_each + i] where 64*i_each + i < 514;
        S1: Y[i] = X_S1[i // 64, i % 64] + X_S1[i // 64, i % 64 + 1] + X_S1[i // 64, i % 64 + 2]

Windows of different iterations may overlap: each has its own copy of the elements in common, the halo, so that they can run at
once. A window of what another statement makes can be computed in place of being copied: its elements then are computed as often
as there are windows that hold them (compute_at: Ragan-Kelley et al., Halide, PLDI 2013). A saved schedule lists them as
`window S1 X i/64` and `recompute S2 T i/64`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from polytc import errors
from polytc.program import program as pr
from polytc.program.linear import linear
from polytc.program.names import fresh, initialisation
from polytc.program.scalars import I64
from polytc.program.sizes import Size
from polytc.schedule.user import quasi_affine
from polytc.schedule.user.changes import copies, elements, producers
from polytc.schedule.user.changes.pieces import Piece


@dataclass(frozen=True)
class Window:
    """statement: the reader; tensor: what it reads; each: pieces of the reader's indices, for each of whose values there is a
    window; recompute: it is filled by what makes the tensor, instead of copied from it."""

    statement: str
    tensor: str
    each: tuple[Piece, ...]
    recompute: bool = False

    def __str__(self) -> str:
        word = "recompute" if self.recompute else "window"
        return " ".join([f"{word} {self.statement} {self.tensor}", *map(str, self.each)])

    def apply(self, program: pr.Program) -> pr.Program:
        """The program with the windows."""
        return apply(program, self).program

    @staticmethod
    def read(text: str, recompute: bool = False) -> Window | None:
        """What prints so, behind `window` or `recompute`."""
        parts = text.split()
        pieces = tuple(map(Piece.read, parts[2:]))
        if len(parts) < 2 or None in pieces:
            return None
        return Window(parts[0], parts[1], tuple(p for p in pieces if p is not None), recompute)


@dataclass(frozen=True)
class Windowed:
    """program: the changed one; made: the statements that fill the windows, in order; each: the index over the windows, for
    each of the wanted pieces; tensor: of the windows; sides: the index over each dimension of a window, and whether it counts
    from the window's first element."""

    program: pr.Program
    made: tuple[pr.Statement, ...]
    each: tuple[pr.Expr, ...]
    tensor: str
    sides: tuple[tuple[str, bool], ...]


@dataclass(frozen=True)
class _Side:
    """One dimension of the windows. index: over it, from low to high - 1; element: of the tensor, by the windows' indices; off:
    what is taken off a subscript of the reader to find the place in the window, None where the dimension is whole."""

    index: str
    low: int
    high: int
    element: pr.Expr
    off: pr.Expr | None


def overlap(reads: list[pr.Read]) -> bool:
    """Do iterations of some loop use elements of others, too? True where a subscript is a sum of indices, a multiple of one, or
    not the same in all reads; where memory or `//` is in it nothing is known, and the answer is no, as where reads
    have several defaults."""
    if len({r.default for r in reads}) > 1:
        return False
    for d in range(len(reads[0].subscripts)):
        forms = [linear(r.subscripts[d]) for r in reads]
        known = [f for f in forms if f is not None]
        terms = {f.terms for f in known}
        if len(known) == len(forms) and len(terms) == 1 and (found := terms.pop()) and (
                len(found) > 1 or found[0][1] != 1 or len({f.constant for f in known}) > 1):
            return True
    return False


def apply(program: pr.Program, wanted: Window) -> Windowed:
    """The program with windows. Raises E707 for an unknown statement, tensor or index, E708 where they do not fit."""
    s, reads, first = copies.reader(program, wanted.statement, wanted.tensor)
    tensor = program.tensor(wanted.tensor)
    defaults = {r.default for r in reads}
    default = reads[0].default
    if len(defaults) > 1 or (wanted.recompute and default is not None):
        raise errors.fail("E708", f"{s.name} reads {tensor.name} where it may have no element: no window for it",
                          notes=["fuse the loops instead" if wanted.recompute else "cache it without a loop, with at=None"])
    maker = producers.of(program, tensor.name, s) if wanted.recompute else None
    taken = {r.index for r in maker.left} if maker is not None else set[str]()
    ranges = copies.pieces(s, wanted.each, taken)
    names = [r.index for r in ranges]
    each = dict(zip(wanted.each, names, strict=True))
    sides: list[_Side] = []
    for d in range(len(tensor.shape)):
        sides.append(_side(s, [r.subscripts[d] for r in reads], d, tensor, each, taken))
        taken.add(sides[-1].index)
    label = fresh(f"{s.name}_{tensor.name}", {x.name for x in program.statements})
    ends = [*((r.lower, r.upper) for r in ranges), *((x.low, x.high) for x in sides)]
    small = pr.Tensor(fresh(f"{tensor.name}_{s.name}", {t.name for t in program.tensors}), tensor.dtype,
                      tuple(high - low for low, high in ends), tuple(low for low, _ in ends))
    places = tuple(pr.Index(i) for i in (*names, *(x.index for x in sides)))
    windows = (*ranges, *(pr.Range(x.index, x.low, x.high) for x in sides))
    element = tuple(x.element for x in sides)
    plain = pr.Statement(label, small.name, places, None, pr.Read(tensor.name, element, tensor.dtype, default), windows,
                         () if default is not None else _inside(sides, tensor, pr.box(windows)), span=s.span)
    made = (plain,) if maker is None else _computed(maker, plain)

    def moved(e: pr.Expr) -> pr.Expr:
        if not (isinstance(e, pr.Read) and e.tensor == tensor.name):
            return e
        at = (x if side.off is None else quasi_affine.normal(pr.Binary("-", x, side.off, I64))
              for x, side in zip(e.subscripts, sides, strict=True))
        left_out = None if all(x.off is not None for x in sides) else e.default
        return replace(e, tensor=small.name, subscripts=(*(p.value for p in wanted.each), *at), default=left_out)
    user = replace(s, value=pr.map_expr(s.value, moved), subscripts=tuple(pr.map_expr(x, moved) for x in s.subscripts))
    statements = tuple(y for x in program.statements for y in ((*(made if x is first else ()), user if x is s else x)))
    changed = replace(program, tensors=(*program.tensors, small), statements=statements)
    if maker is not None:
        changed = producers.without(changed, maker)
    return Windowed(changed, made, tuple(map(pr.Index, names)), small.name,
                    tuple((x.index, x.off is not None) for x in sides))


def _side(s: pr.Statement, subs: list[pr.Expr], d: int, tensor: pr.Tensor, each: dict[Piece, str], taken: set[str]) -> _Side:
    """A dimension, of what the reader reads there at the subscripts."""
    lower, upper = tensor.lower[d], tensor.lower[d] + tensor.shape[d]
    found = _form(s, subs, each)
    form = linear(subs[0])
    name = form.terms[0][0] if form is not None and len(form.terms) == 1 else f"d{d}"
    index = fresh(name, taken)
    if found is None or (not isinstance(tensor.shape[d], Size) and found[2] >= tensor.shape[d]):
        return _Side(index, lower, upper, pr.Index(index), None)
    own, mine, extent = found
    return _Side(index, 0, extent, quasi_affine.normal(pr.Binary("+", own, pr.Index(index), I64)), mine)


def _form(s: pr.Statement, subs: list[pr.Expr], each: dict[Piece, str]) -> tuple[pr.Expr, pr.Expr, int] | None:
    """The first element of a window, by the indices over the windows, and by those of the reader, and how many there are; None
    if reads do not agree, or sizes that are open decide how many."""
    forms = [linear(x) for x in subs]
    known = [f for f in forms if f is not None]
    if len(known) < len(forms) or len({f.terms for f in known}) != 1:
        return None
    own: pr.Expr = pr.Const(min(f.constant for f in known), I64)
    mine, extent = own, max(f.constant for f in known) - min(f.constant for f in known) + 1
    for index, c in known[0].terms:
        r = s.by_index[index]
        first, told, cell = _first(index, each)
        left = told - 1 if told else r.extent - 1
        if isinstance(left, Size) or (not told and isinstance(r.lower, Size)):
            return None
        start = first if told else pr.Const(r.lower, I64)
        origin = cell if told else pr.Const(r.lower, I64)
        extent += abs(c) * left
        own = pr.Binary("+", own, _least(start, c, left), I64)
        mine = pr.Binary("+", mine, _least(origin, c, left), I64)
    return own, mine, extent


def _least(first: pr.Expr, c: int, left: int) -> pr.Expr:
    """The least value of c times an index that runs from `first` to first + left."""
    return pr.Binary("*", pr.Const(c, I64), first if c > 0 else pr.Binary("+", first, pr.Const(left, I64), I64), I64)


def _first(index: str, each: dict[Piece, str]) -> tuple[pr.Expr, int, pr.Expr]:
    """The first value of an index in a window, by the indices over the windows; how many values from there on; and the same
    first value by the index itself. 0 values: nothing is known."""
    value: pr.Expr = pr.Const(0, I64)
    told = 0
    for p in sorted((p for p in each if p.index == index), key=lambda p: -p.divisor):
        if not told and not p.modulus:
            value, told = pr.Index(each[p]), p.divisor
        elif told and p.divisor * p.modulus == told:
            value = pr.Binary("+", pr.Binary("*", value, pr.Const(p.modulus, I64), I64), pr.Index(each[p]), I64)
            told = p.divisor
    whole = pr.Binary("*", value, pr.Const(told, I64), I64)
    cell = pr.Binary("*", pr.Binary("//", pr.Index(index), pr.Const(max(1, told), I64), I64), pr.Const(told, I64), I64)
    return whole, told, cell


def _inside(sides: list[_Side], tensor: pr.Tensor, box: pr.Box) -> tuple[pr.Expr, ...]:
    """The elements of windows lie in the tensor."""
    found: list[pr.Expr] = []
    for d, x in enumerate(sides):
        if x.off is not None:
            found += producers.within(x.element, tensor.lower[d], tensor.lower[d] + tensor.shape[d], box)
    return tuple(found)


def _computed(maker: producers.Producer, plain: pr.Statement) -> tuple[pr.Statement, ...]:
    """What computes the windows, in place of what copies them."""
    read = plain.value
    assert isinstance(read, pr.Read), "windows: no copy"
    values = {i: elements.minus(e, c) for (i, c), e in zip(maker.cell, read.subscripts, strict=True) if i}
    s = maker.update
    kept = [c for r in s.ranges if r.index in values
            for c in producers.within(values[r.index], r.lower, r.upper, plain.box)]
    where = (*kept, *(pr.substitute(c, values) for c in s.where))
    made = replace(plain, op=s.op, value=pr.substitute(s.value, values), ranges=(*plain.ranges, *maker.left), where=where)
    if maker.first is None:
        return (made,)
    begin = replace(plain, name=initialisation(plain.name), value=maker.first.value, where=())
    return begin, made

