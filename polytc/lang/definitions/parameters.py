"""Arguments and results of a program, as a call sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["tensor", "scalar"]


@dataclass(frozen=True)
class Param:
    """An argument or result. kind: 'tensor' or 'scalar' (a number that specialises the program).

    dtype: as declared, or None; rank: None where packs or the text leave it open; default: of a number that need not be given.
    """

    name: str
    kind: Kind
    dtype: str | None = None
    rank: int | None = None
    default: int | float | complex | bool | None = None

    @property
    def is_scalar(self) -> bool:
        return self.kind == "scalar"


@dataclass(frozen=True)
class Signature:
    """name: of the def or op, 'program' for bare statements; inputs in signature order, or of first appearance; outputs:
    names of what a call gives back; attrs: names of the attributes of an op; inouts: names of the inputs written in place."""

    name: str
    inputs: tuple[Param, ...]
    outputs: tuple[str, ...]
    attrs: tuple[str, ...]
    inouts: tuple[str, ...] = ()
