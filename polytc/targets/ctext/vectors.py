"""What dialects of C call vectors, and how they write what is done with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, Protocol


class Vectors(Protocol):
    """Types are those of the dialect, texts are expressions."""

    @property
    def lanewise(self) -> bool:
        """Are functions of scalars only, and called for each lane? Else they take vectors, too."""
        ...

    def made(self, ctype: str, parts: Sequence[str]) -> str:
        """A vector of these lanes; of one part in all of them."""
        ...

    def convert(self, ctype: str, text: str) -> str:
        """A vector in another type, lane by lane."""
        ...

    def bits(self, ctype: str) -> str:
        """The function that takes vectors of integers as others of the same bits."""
        ...

    def lane(self, text: str, k: int) -> str:
        """A lane of a vector."""
        ...

    def half(self, text: str, last: bool) -> str:
        """The first or the last half of the lanes."""
        ...

    def choose(self, mask: str, a: str, b: str) -> str:
        """The lanes of `a` where those of the mask are -1, else of `b`. mask: its lanes have the width of theirs."""
        ...

    def test(self, each: bool, mask: str) -> str:
        """Is any lane of a mask -1, or each?"""
        ...


class NoVectors:
    """Of a dialect that has none."""

    lanewise = True

    def made(self, ctype: str, parts: Sequence[str]) -> NoReturn:
        """Nobody asks."""
        raise AssertionError("c: vectors are written as loops")

    def convert(self, ctype: str, text: str) -> NoReturn:
        """Nobody asks."""
        raise AssertionError("c: vectors are written as loops")

    def bits(self, ctype: str) -> NoReturn:
        """Nobody asks."""
        raise AssertionError("c: vectors are written as loops")

    def lane(self, text: str, k: int) -> NoReturn:
        """Nobody asks."""
        raise AssertionError("c: vectors are written as loops")

    def half(self, text: str, last: bool) -> NoReturn:
        """Nobody asks."""
        raise AssertionError("c: vectors are written as loops")

    def choose(self, mask: str, a: str, b: str) -> NoReturn:
        """Nobody asks."""
        raise AssertionError("c: vectors are written as loops")

    def test(self, each: bool, mask: str) -> NoReturn:
        """Nobody asks."""
        raise AssertionError("c: vectors are written as loops")
