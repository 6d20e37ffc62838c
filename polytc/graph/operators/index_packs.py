"""Index lists as text, for the `*name` of .ein files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def indices(rank: int, prefix: str = "i") -> list[str]:
    """`i0, i1, ...`: one name an axis."""
    return [f"{prefix}{axis}" for axis in range(rank)]


def spell(slots: Iterable[str]) -> str:
    """Slots as they stand between brackets."""
    return ", ".join(slots)


def ranges(names: Iterable[str], extents: Iterable[int]) -> str:
    """`i0 in 0:4, i1 in 0:3`: what follows `where`."""
    return ", ".join(f"{name} in 0:{extent}" for name, extent in zip(names, extents, strict=True))


def scaled(index: str, factor: int, offset: int) -> str:
    """`factor*index + offset`, as short as it can be written."""
    text = index if factor == 1 else f"{factor}*{index}"
    return text if offset == 0 else f"{text} + {offset}" if offset > 0 else f"{text} - {-offset}"


def broadcast(names: Sequence[str], extents: Sequence[int]) -> list[str]:
    """Subscripts of an operand of the given extents, aligned to the right of the result's indices: 0 where its extent is 1."""
    own = names[len(names) - len(extents):]
    return [name if extent != 1 else "0" for name, extent in zip(own, extents, strict=True)]


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape to which several broadcast. Raises ValueError where they do not."""
    result: list[int] = [1] * max(map(len, shapes), default=0)
    for shape in shapes:
        for k, extent in enumerate(reversed(shape), 1):
            if extent != 1:
                if result[-k] not in (1, extent):
                    raise ValueError(f"{result[-k]} and {extent}")
                result[-k] = extent
    return tuple(result)


def fits(shape: Sequence[int], whole: Sequence[int]) -> bool:
    """Does a shape broadcast to another one, which stays as it is?"""
    return len(shape) <= len(whole) and all(a in (1, b) for a, b in zip(reversed(shape), reversed(whole)))
