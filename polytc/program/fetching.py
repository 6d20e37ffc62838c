"""What a schedule asks to be fetched before it is used (schedule.user.changes.prefetching): statements have it, and compute the
same."""

from __future__ import annotations

from dataclasses import dataclass

REGISTERS, CACHE = "registers", "cache"
PLACES = (REGISTERS, CACHE)


@dataclass(frozen=True)
class Ahead:
    """What a statement reads of a tensor is fetched `distance` iterations of a loop before. loop: what the statement calls it;
    into: one of PLACES."""

    tensor: str
    loop: str
    distance: int
    into: str

    def __str__(self) -> str:
        return f"{self.tensor} {self.loop} {self.distance} {self.into}"
