"""Values made of traced integers: for given sizes, as functions of sizes, and the sizes that they follow from."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, cast

from polytc.program.traces.formulas import Guard, evaluated, size_names, source
from polytc.program.traces.traced import Traced, traced


def at(thing: Any, sizes: Mapping[str, int]) -> Any:
    """A value made of tuples and dataclasses for given sizes."""
    if traced(thing):
        return evaluated(cast(Traced, thing).terms, sizes)
    if isinstance(thing, tuple):
        items = tuple(at(x, sizes) for x in thing)
        return items if any(a is not b for a, b in zip(items, thing, strict=True)) else thing
    if is_dataclass(thing) and not isinstance(thing, type):
        old = {f.name: getattr(thing, f.name) for f in fields(thing)}
        new = {n: at(x, sizes) for n, x in old.items()}
        return type(thing)(**new) if any(new[n] is not old[n] for n in old) else thing
    return thing


def sizes_in(thing: Any) -> set[str]:
    """The sizes that occur in a value made of tuples and dataclasses."""
    if traced(thing):
        return size_names([cast(Traced, thing).terms])
    if isinstance(thing, tuple):
        return set().union(*map(sizes_in, thing))
    if is_dataclass(thing) and not isinstance(thing, type):
        return set().union(*(sizes_in(getattr(thing, f.name)) for f in fields(thing)))
    return set()


def any_traced(thing: Any) -> bool:
    """Is there a traced integer in a value made of tuples and dataclasses?"""
    return bool(sizes_in(thing))


class Formulas:
    """Formulas as a function of sizes, compiled once. names: of the sizes that they follow from."""

    def __init__(self, names: Iterable[str], formulas: Iterable[int]) -> None:
        self.names = tuple(names)
        place = _places(self.names)
        values = [source(cast(Traced, n).terms, place) if traced(n) else str(int(n)) for n in formulas]
        self._values = _function(", ".join(place.values()), f"({''.join(f'{v}, ' for v in values)})")

    def values(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The formulas for these sizes."""
        found: tuple[int, ...] = self._values(*(sizes[n] for n in self.names))
        return found


class Guards:
    """Guards as a function of sizes, compiled once. names: of the sizes in them, and maybe others."""

    def __init__(self, names: Sequence[str], guards: Iterable[Guard]) -> None:
        self.names = tuple(names)
        place = _places(self.names)
        tests = [f"{source(terms, place)} {question} 0" for terms, question in guards]
        self._met = _function(", ".join(place.values()), " and ".join(tests) or "True")

    def met(self, sizes: Mapping[str, int]) -> bool:
        """Do these sizes meet all of them?"""
        try:
            return bool(self._met(*(sizes[n] for n in self.names)))
        except ZeroDivisionError:
            return False


def _places(names: Iterable[str]) -> dict[str, str]:
    return {n: f"s{k}" for k, n in enumerate(names)}


@functools.lru_cache(maxsize=256)
def _function(arguments: str, body: str) -> Callable[..., Any]:
    found: Callable[..., Any] = eval(f"lambda {arguments}: {body}")
    return found
