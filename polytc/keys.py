"""The key of a compiled program: a digest of all that its code depends on, and of nothing else.

That is the program without its names, the target and its machine, the schedule that was asked for, the versions of the
libraries that make code, and the source files of polytc and of what extends it, so that code made by other sources is never
taken for this one's.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import time
from collections.abc import Iterator
from typing import Any

import polytc
from polytc import extensions
from polytc.codegen.target import Target
from polytc.machine import Machine
from polytc.native import jit
from polytc.options import REQUESTS
from polytc.poly import isl
from polytc.program.canonical import canonical
from polytc.program.program import Program

_STARTED = time.time() - 1.0
"""No later than when this process read the first of the source files: importing them takes less than a second."""


def key(program: Program, target: Target, schedule: str | None) -> str:
    """The key, in hexadecimal. A schedule in YAML refers to statements and indices by name, so that these count then."""
    named = schedule not in REQUESTS
    kind = type(target)
    around = _surroundings(f"{kind.__module__}.{kind.__qualname__} {target.name}{_choices(target)}", target.machine)
    text = "\n".join([around, repr(schedule), canonical(program, names=named)])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _choices(target: Target) -> str:
    """What a target that was made by hand says besides its name and its machine."""
    fields: tuple[dataclasses.Field[Any], ...] = dataclasses.fields(target) if dataclasses.is_dataclass(target) else ()
    values = {f.name: getattr(target, f.name) for f in fields if f.name != "name"}
    return "".join(f" {n}={v!r}" for n, v in values.items() if v is not None and not isinstance(v, Machine))


def lasting(target: Target) -> bool:
    """Whether keys mean the same in other processes: they speak for the sources of polytc as they were when this process began,
    but not for a target from elsewhere."""
    return type(target).__module__.startswith("polytc.") and sources()[1]


@functools.lru_cache(maxsize=64)
def _surroundings(kind: str, machine: Machine) -> str:
    """What code depends on besides the program. kind: of target; a class stands for its decisions, the machine for the rest."""
    return f"{polytc.__version__} {sources()[0]}\nisl {isl.VERSION}\nllvm {jit.VERSION}\n{kind} {_described(machine)}"


def _described(machine: Machine) -> str:
    """The machine as text that is the same in each process: the order in which a set prints is not."""
    return f"{dataclasses.replace(machine, faults=frozenset())!r} {sorted(machine.faults)}"


@functools.cache
def sources() -> tuple[str, bool]:
    """A digest of the source files of polytc and of the operators and steps that others add, and whether they are those that
    this process runs: none was written since it began."""
    digest, newest = hashlib.sha256(), 0.0
    root = os.path.dirname(polytc.__file__)
    for path in sorted(path for place in (root, *extensions.places()) for path in _files(place)):
        with open(path, "rb") as file:
            text = file.read()
            newest = max(newest, os.fstat(file.fileno()).st_mtime)
        digest.update(f"{path.removeprefix(root)}\0{len(text)}\0".encode())
        digest.update(text)
    return digest.hexdigest(), newest < _STARTED


def _files(folder: str) -> Iterator[str]:
    if not os.path.isdir(folder):
        yield folder
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _files(entry.path)
            elif entry.name.endswith(".py"):
                yield entry.path
