"""Programs whose tensors hold a batch of images, and what they do for a few of these alone.

    Y[n,i] += X[n,k]*W[i,k] where n in 0:8                      with X[8,4], W[6,4]
    of 2 images  ->  Y[n,i] += X[n,k]*W[i,k] where n in 0:2     with X[2,4]

The images lie one after another in memory, so that a tensor is one of images if its first extent is a multiple of their number:
rows of a matrix that belong to an image, or its heads, are images' too. A program is separable if all its statements that write
to images go from images to the same ones: if an index that counts images moves by those of one, the places of all that they
touch of images move by one, and nothing else moves. The index is none of a `for`, whose iterations have one order for all
statements in it. Statements that touch no images stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from polytc.program import program as pr
from polytc.program.affine import Atom, Choice, Maximum, QuasiAffine, Quotient, affine, indices, interval


@dataclass(frozen=True)
class ImageProgram:
    """A separable program. images: how many; tensors: those of images; counted: statement -> the index that counts them, and
    its iterations for each."""

    program: pr.Program
    images: int
    tensors: frozenset[str]
    counted: dict[str, tuple[str, int]]

    def of(self, some: int) -> pr.Program:
        """The same for that many images."""
        def statement(s: pr.Statement) -> pr.Statement:
            if s.name not in self.counted:
                return s
            index, each = self.counted[s.name]
            return replace(s, ranges=tuple(replace(r, upper=each * some) if r.index == index else r for r in s.ranges))

        def tensor(t: pr.Tensor) -> pr.Tensor:
            return replace(t, shape=(t.shape[0] // self.images * some, *t.shape[1:])) if t.name in self.tensors else t
        return replace(self.program, tensors=tuple(map(tensor, self.program.tensors)),
                       statements=tuple(map(statement, self.program.statements)))


def separable(program: pr.Program, inputs: frozenset[str], images: int) -> ImageProgram | None:
    """The program as one of images; None if it is not separable, or that is not seen. inputs: those that hold images."""
    if program.sizes or program.inouts:
        return None
    tensors = _of_images(program, inputs)
    known = {t.name: t for t in program.tensors}
    if not all(t.shape and t.lower[0] == 0 and t.shape[0] % images == 0 for t in map(known.__getitem__, tensors)):
        return None
    rows = {n: known[n].shape[0] // images for n in tensors}
    counted: dict[str, tuple[str, int]] = {}
    for s in program.statements:
        if s.target in tensors:
            found = next((c for c in _counters(s, rows[s.target], images) if _moves(s, rows, *c)), None)
            if found is None:
                return None
            counted[s.name] = found
    return ImageProgram(program, images, tensors, counted)


def _of_images(program: pr.Program, inputs: frozenset[str]) -> frozenset[str]:
    """These inputs, and the tensors that depend on them."""
    found, before = inputs, frozenset[str]()
    while found != before:
        before = found
        found |= {s.target for s in program.statements if any(r.tensor in before for r in pr.reads(s))}
    return found


def _counters(s: pr.Statement, rows: int, images: int) -> Iterator[tuple[str, int]]:
    """The indices that may count the images of what a statement writes, and the iterations of each for one. rows: of an image
    in the target."""
    form = affine(s.subscripts[0]) if s.subscripts else None
    for r in s.ranges[s.depth:]:
        if form is not None and r.index in indices(form) and r.lower == 0 and r.upper % images == 0 and not r.typical:
            each = r.upper // images
            if _step(form, r.index, each) == rows:
                yield r.index, each


def _moves(s: pr.Statement, rows: dict[str, int], index: str, each: int) -> bool:
    """If the index moves by one image, does all that the statement touches of images, and nothing else? rows: of an image, for
    each tensor of images."""
    plain = (*s.where, s.value, *(e for b in s.bounds for e in (b.lower, b.upper)))
    if any(index in _counts(e) for e in plain) or any(b.index == index for b in s.bounds):
        return False
    first = {**s.box, index: (0, each - 1)}
    accesses = [(s.target, s.subscripts), *((r.tensor, r.subscripts) for r in pr.reads(s))]
    for tensor, subscripts in accesses:
        expected = [rows[tensor] if tensor in rows and axis == 0 else 0 for axis in range(len(subscripts))]
        if [_moved(e, index, each) for e in subscripts] != expected:
            return False
        if tensor in rows:
            form = affine(subscripts[0])
            if form is None or interval(form, first)[0] < 0 or interval(form, first)[1] >= rows[tensor]:
                return False
    return True


def _counts(e: pr.Expr) -> frozenset[str]:
    """The indices in an expression, but for those in the subscripts of what it reads."""
    if isinstance(e, pr.Read):
        return frozenset()
    return frozenset((e.name,)) if isinstance(e, pr.Index) else frozenset().union(*map(_counts, pr.children(e)))


def _moved(e: pr.Expr, index: str, by: int) -> int | None:
    """How far a subscript moves if the index moves by so much; None if that is not one number."""
    form = affine(e)
    if form is None:
        return None if index in _counts(e) else 0
    return _step(form, index, by)


def _step(form: QuasiAffine, index: str, by: int) -> int | None:
    total = 0
    for atom, c in form.terms:
        step = _atom_step(atom, index, by)
        if step is None:
            return None
        total += c * step
    return total


def _atom_step(atom: Atom, index: str, by: int) -> int | None:
    if isinstance(atom, str):
        return by if atom == index else 0
    if index not in indices(atom):
        return 0
    if isinstance(atom, Maximum):
        a, b = _step(atom.a, index, by), _step(atom.b, index, by)
        return a if a == b else None
    if isinstance(atom, Choice):
        return None
    step = _step(atom.a, index, by)
    if step is None or step % atom.divisor:
        return None
    return step // atom.divisor if isinstance(atom, Quotient) else 0

