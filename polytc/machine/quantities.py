"""Numbers of a machine that say what they are: each field of a record of costs has a unit and an origin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field, dataclass, field, fields
from typing import Any


@dataclass(frozen=True)
class Origin:
    """Where a number comes from. kind: 'measured', 'documented' or 'guess'; told: by what, in which document, or why."""

    kind: str
    told: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.told}"


def documented(source: str) -> Origin:
    """A vendor or a standard says so; source: the document."""
    return Origin("documented", source)


def measured(on: str) -> Origin:
    """It fits what was measured; on: of what, and where."""
    return Origin("measured", on)


def guess(why: str) -> Origin:
    """Nobody has measured it by itself; why: what speaks for it."""
    return Origin("guess", why)


def cost(default: Any, unit: str, what: str, origin: Origin) -> Any:
    """A field of a frozen dataclass. unit: of the number, e.g. 'cycles' or 'bytes'; what: it is the cost of, in words."""
    return field(default=default, metadata={"unit": unit, "what": what, "origin": origin})


@dataclass(frozen=True)
class Quantity:
    """One field of a record of costs. name: its place, e.g. 'threads.region'."""

    name: str
    value: float | int
    unit: str
    what: str
    origin: Origin


def quantities(record: Any, prefix: str = "") -> Iterator[Quantity]:
    """All fields of a record of costs, those of the records inside of it too, in the order in which they are written down."""
    for f in fields(record):
        value = getattr(record, f.name)
        if "unit" in f.metadata:
            yield _quantity(f, value, prefix)
        else:
            yield from quantities(value, f"{prefix}{f.name}.")


def _quantity(f: Field[Any], value: float | int, prefix: str) -> Quantity:
    return Quantity(prefix + f.name, value, f.metadata["unit"], f.metadata["what"], f.metadata["origin"])
