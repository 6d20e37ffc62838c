"""Random loops around stencils, and what they compute by NumPy, operation by operation in the order of the text.

A field is updated from its own neighbours, from those of others, with coefficients from arrays and with the number of the step;
its ends keep what they had, or reads beyond them have a value of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np

Array = np.ndarray
LETTERS = "ijk"
FORMS = ("copied", "alternating", "waves", "fields", "counted")
"""A[..] = f(B) at the end of an iteration; A to B and back; two states and a copy; two fields that update each other; with what
is added up beside."""


@dataclass(frozen=True)
class Tap:
    """One term of a sum: a coefficient times a neighbour."""

    offsets: tuple[int, ...]
    weight: int
    scaled: bool


@dataclass(frozen=True)
class Stencil:
    """form: of FORMS. taps: of its sums; guard: what reads beyond the ends have, None where these keep their values; dtype: of
    all, small integers, so that sums are exact; steps: iterations."""

    form: str
    shape: tuple[int, ...]
    taps: tuple[Tap, ...]
    guard: int | None
    dtype: str
    steps: int
    first: int = 0

    @property
    def margins(self) -> list[tuple[int, int]]:
        """Elements at either end of each dimension that are not written."""
        if self.guard is not None:
            return [(0, 0)] * len(self.shape)
        return [(max(0, *(-t.offsets[d] for t in self.taps)), max(0, *(t.offsets[d] for t in self.taps)))
                for d in range(len(self.shape))]

    @property
    def fields(self) -> tuple[str, ...]:
        """What the caller gives and gets."""
        return {"copied": ("A",), "alternating": ("A", "B"), "waves": ("P", "A"), "fields": ("A", "B"), "counted": ("A", "S")}[
            self.form]

    def text(self) -> str:
        """The program."""
        size = ",".join(map(str, self.shape))
        given = ", ".join(f"inout {self.dtype}[{size}] {n}" for n in self.fields)
        body = "\n".join(f"        {left} = {value}    where {self._ranges()}" for left, value in self._lines())
        end = self.first + self.steps
        return (f"def stencil({given}, {self.dtype}[{size}] C, {self.dtype}[{end + 1}] w) -> ({', '.join(self.fields)}) {{\n"
                f"    for t in {self.first}:{end} {{\n{body}\n    }}\n}}")

    def _lines(self) -> list[tuple[str, str]]:
        here = self._at((0,) * len(self.shape))
        match self.form:
            case "copied":
                return [(f"N{here}", self._sum("A")), (f"A{here}", f"N{here}")]
            case "alternating":
                return [(f"B{here}", self._sum("A")), (f"A{here}", self._sum("B"))]
            case "waves":
                return [(f"N{here}", f"{self._sum('A')} - P{here}"), (f"P{here}", f"A{here}"), (f"A{here}", f"N{here}")]
            case "fields":
                return [(f"B{here}", f"B{here} - ({self._sum('A')})"), (f"A{here}", f"A{here} + ({self._sum('B')})")]
            case _:
                return [(f"S{here}", f"S{here} + A{here}"), (f"N{here}", self._sum("A")), (f"A{here}", f"N{here}")]

    def _ranges(self) -> str:
        return ", ".join(f"{i} in {a}:{n - b}" for i, n, (a, b) in zip(LETTERS, self.shape, self.margins, strict=False))

    def _at(self, offsets: tuple[int, ...]) -> str:
        return f"[{','.join(f'{i}{o:+}' if o else i for i, o in zip(LETTERS, offsets, strict=False))}]"

    def _sum(self, field: str) -> str:
        found = []
        for t in self.taps:
            read = f"{field}{self._at(t.offsets)}"
            read = read if self.guard is None else f"({read} else {self.guard})"
            found.append(f"{read}*C{self._at((0,) * len(self.shape))}" if t.scaled else f"{t.weight}*{read}")
        return f"{' + '.join(found)} + w[t]"

    def inputs(self, rng: np.random.Generator) -> dict[str, Array]:
        """Arrays that it may be called with: numbers whose sums stay exact for a few steps, and wrap around as integers."""
        kind = {"f32": "f4", "f64": "f8", "i32": "i4"}[self.dtype]
        found = {n: rng.integers(-3, 4, self.shape).astype(kind) for n in (*self.fields, "C")}
        if kind != "i4":
            found = {n: a / 8 for n, a in found.items()}
        return {**found, "w": rng.integers(-3, 4, self.first + self.steps + 1).astype(kind)}

    def expected(self, given: dict[str, Array]) -> dict[str, Array]:
        """What the arrays hold afterwards."""
        v = {n: given[n].copy() for n in self.fields}
        inside = tuple(slice(a, n - b) for n, (a, b) in zip(self.shape, self.margins, strict=True))
        with np.errstate(over="ignore", invalid="ignore"):
            for t in range(self.first, self.first + self.steps):
                self._step(v, given["C"], given["w"][t], inside)
        return v

    def _step(self, v: dict[str, Array], c: Array, w: Array, inside: tuple[slice, ...]) -> None:
        """One iteration."""
        def total(field: str) -> Array:
            return reduce(np.add, [*(self._term(v[field], c, t, inside) for t in self.taps), w])
        match self.form:
            case "copied":
                v["A"][inside] = total("A")
            case "alternating":
                v["B"][inside] = total("A")
                v["A"][inside] = total("B")
            case "waves":
                new = total("A") - v["P"][inside]
                v["P"][inside] = v["A"][inside]
                v["A"][inside] = new
            case "fields":
                v["B"][inside] = v["B"][inside] - total("A")
                v["A"][inside] = v["A"][inside] + total("B")
            case _:
                v["S"][inside] = v["S"][inside] + v["A"][inside]
                v["A"][inside] = total("A")

    def _term(self, a: Array, c: Array, t: Tap, inside: tuple[slice, ...]) -> Array:
        far = max(1, *(abs(o) for x in self.taps for o in x.offsets))
        wide = np.pad(a, far, constant_values=0 if self.guard is None else self.guard)
        moved = wide[tuple(slice(s.start + far + o, s.stop + far + o) for s, o in zip(inside, t.offsets, strict=True))]
        return moved * c[inside] if t.scaled else a.dtype.type(t.weight) * moved


def drawn(rng: np.random.Generator, rank: int, steps: int) -> Stencil:
    """One of so many dimensions."""
    far = int(rng.integers(1, 3))
    count = int(rng.integers(2, 5))
    offsets = {tuple(map(int, rng.integers(-far, far + 1, rank))) for _ in range(count)}
    offsets |= {(*(0,) * (rank - 1), int(rng.choice([-1, 1])))}       # a neighbour along memory at least
    taps = tuple(Tap(o, int(rng.integers(1, 3)), bool(rng.integers(0, 3) == 0)) for o in sorted(offsets))
    shape = tuple(int(n) for n in rng.integers(6, {1: 90, 2: 30, 3: 12}[rank], rank))
    guard = None if rng.integers(0, 3) else int(rng.integers(-1, 2))
    return Stencil(str(rng.choice(FORMS)), shape, taps, guard, str(rng.choice(["f32", "f64", "i32"])), steps,
                   int(rng.integers(0, 3)))


