"""Intrinsics that users declare: what a piece of C does, said as a program.

    dot8:  C += i32(A[k]) * i32(B[k])  where k in 0:8        c: "{C} = dot8({A}, {B}, {C});"

A nest of loops that computes the program (schedule.user.changes.tensorization) becomes the text where a target writes that
language, and stays loops elsewhere. (Intrinsics of TVM: Chen et al., OSDI 2018; instr procedures of Exo: Ikarashi et al., PLDI
2022.)
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

LANGUAGES = ("c", "opencl", "cuda")
"""Of the texts: C99, OpenCL C, CUDA C and HIP."""

HOLE = re.compile(r"\{([^\W\d]\w*)(?:\.([^{}\s]*))?\}")
"""`{A}`, `{A.0}`, `{A.space}` in a text; braces of C have a space or a number behind them."""


@dataclass(frozen=True)
class Intrinsic:
    """name: an identifier; text: the program, one update or assignment; shapes, dtypes: of its operands, by name; code: a text
    for each language; head: definitions that this text needs before the kernels, for each language; alignment: bytes that the
    first element of each operand in memory begins at a multiple of.

    In code `{A}` stands for a pointer to the first element of an operand, or for the element of one without dimensions;
    `{A.0}` for the elements from one step of its first dimension to the next, `{A.space}` for the address space in OpenCL C.
    An operand whose `{A.0}` does not occur in the text of a language lies there as its shape says, row by row.
    """

    name: str
    text: str
    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    dtypes: tuple[tuple[str, str], ...]
    code: tuple[tuple[str, str], ...]
    head: tuple[tuple[str, str], ...] = ()
    alignment: int = 1

    def __str__(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    def in_language(self, language: str) -> tuple[str, str] | None:
        """Its code, and what this needs before the kernels; None where there is none."""
        code = dict(self.code).get(language)
        return None if code is None else (code, dict(self.head).get(language, ""))

    def untold(self, operand: str, dimension: int) -> tuple[str, ...]:
        """The languages whose texts take no stride in a dimension of an operand."""
        return tuple(language for language, text in self.code if f"{{{operand}.{dimension}}}" not in text)

    @staticmethod
    def read(text: str) -> Intrinsic | None:
        """What prints so."""
        try:
            found: Mapping[str, Any] = json.loads(text)
            shapes = tuple((str(n), tuple(map(int, shape))) for n, shape in found["shapes"])
            pairs = [tuple((str(a), str(b)) for a, b in found[name]) for name in ("dtypes", "code", "head")]
            dtypes, code, head = pairs
            return Intrinsic(str(found["name"]), str(found["text"]), shapes, dtypes, code, head, int(found["alignment"]))
        except (ValueError, KeyError, TypeError):
            return None


@dataclass(frozen=True)
class Operand:
    """Of a call. name, shape: in the intrinsic; rows: for each of its dimensions, how it moves with each of the loops; offsets:
    for each, where the loops begin there: 7 in A[7-k], as the text begins at A[0]. whole: the shape of the tensor that has more
    of the declared elements than the loops touch; () where they touch all."""

    name: str
    shape: tuple[int, ...]
    rows: tuple[tuple[int, ...], ...]
    offsets: tuple[int, ...]
    whole: tuple[int, ...] = ()


@dataclass(frozen=True)
class Call:
    """What the innermost loops of a statement are. operands: the one that is written, then each that is read, in order;
    extents: of the loops, outermost first."""

    intrinsic: Intrinsic
    operands: tuple[Operand, ...]
    extents: tuple[int, ...]
