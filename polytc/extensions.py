"""What other distributions add to polytc: targets, operators of models and steps of rewriting, by entry points.

    [project.entry-points."polytc.targets"]
    plain = "polytc_plain:PlainTarget"             # a Target, or what makes one when it is called

    [project.entry-points."polytc.operators"]
    "com.acme::Swish" = "acme.operators:SWISH"     # a polytc.graph.Operator, for nodes of that domain and type

    [project.entry-points."polytc.steps"]
    halves = "acme.steps:HALVES"                   # a polytc.rewrite.table.Added: a Step, and the one that it follows

An object is imported when it is first needed. polytc's own names cannot be replaced by what is installed.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from polytc import errors

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

errors.register(E533="extension that cannot be used")

TARGETS, OPERATORS, STEPS = "polytc.targets", "polytc.operators", "polytc.steps"


def names(group: str) -> tuple[str, ...]:
    """The names that installed distributions add to a group, in alphabetical order."""
    return tuple(_installed().get(group, ()))


def load(group: str, name: str) -> Any:
    """The object behind a name. Raises PolytcError E533 if it cannot be imported."""
    entry = _installed()[group][name]
    try:
        return entry.load()
    except Exception as e:
        raise refusal(group, name, f"cannot be imported: {type(e).__name__}: {e}") from e


def refusal(group: str, name: str, why: str) -> errors.PolytcError:
    """The error E533 about what a name stands for, with the distribution that it came from."""
    entry = _installed()[group][name]
    dist = entry.dist
    origin = f"{entry.value!r} of {dist.name} {dist.version}" if dist is not None else repr(entry.value)
    notes = [f"it is {origin}, the entry point {name!r} of {group!r}"]
    if dist is not None:
        notes.append(f"ask its authors, or do without it: pip uninstall {dist.name}")
    return errors.fail("E533", f"{group.removeprefix('polytc.')[:-1]} {name!r} {why}", notes=notes)


def places() -> tuple[str, ...]:
    """Where the modules of operators and steps lie, folders or files: what is compiled depends on what is in them."""
    modules = {e.module.partition(".")[0] for group in (OPERATORS, STEPS) for e in _installed().get(group, {}).values()}
    found = list[str]()
    for spec in filter(None, map(importlib.util.find_spec, sorted(modules))):
        found += spec.submodule_search_locations or filter(None, [spec.origin])
    return tuple(found)


@functools.cache
def _installed() -> Mapping[str, Mapping[str, EntryPoint]]:
    """group -> name -> entry point. Where two distributions have one name, the first on the path counts, as for modules."""
    if not any(map(_adds, _metadata())):
        return {}
    from importlib.metadata import entry_points  # slow to import, and hardly anybody has extensions

    found: dict[str, dict[str, EntryPoint]] = {}
    for group in (TARGETS, OPERATORS, STEPS):
        rows = reversed(tuple(entry_points(group=group)))
        found[group] = dict(sorted((e.name, e) for e in rows))
    return found


def _metadata() -> Iterator[str]:
    """The files in which installed distributions list their entry points."""
    for folder in dict.fromkeys(sys.path):
        try:
            with os.scandir(folder or ".") as entries:
                yield from (os.path.join(e.path, "entry_points.txt") for e in entries
                            if e.name.endswith((".dist-info", ".egg-info")))
        except OSError:
            continue


def _adds(path: str) -> bool:
    """Does the file name one of the groups?"""
    try:
        with open(path, "rb") as file:
            return b"[polytc." in file.read()
    except OSError:
        return False
