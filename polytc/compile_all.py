"""Several programs compiled at once: forks of this process compile some of them while it compiles the others.

Lowering a program is Python, of which a process runs one thread at a time. Forks begin while nothing is compiled natively, so
that none of LLVM's locks is held in them, and return packages as they would be read from disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from polytc import compiler, keys
from polytc.codegen.package import Package
from polytc.codegen.target import Executable, Forkable, Target
from polytc.errors import ArgumentError, fail
from polytc.native import processes
from polytc.processors import usable
from polytc.program.program import Program
from polytc.targets import registry

LEAST = 4
"""Programs for each process at least."""
MOST = 16
"""Processes at most."""

Begun = Callable[[int], None]
"""Told the number of a program when it is begun or taken over."""


def start_programs(programs: Sequence[Program], target_name: str | Target = "cpu", threads: int | None = None,
                   begun: Begun | None = None) -> list[Future[Executable]]:
    """As compiler.start_program for each. Raises what that raises; what had no turn yet does not get it then."""
    found = dict[int, Future[Executable]]()
    try:
        _start(programs, target_name, threads, begun or (lambda n: None), found)
    except BaseException:
        for future in found.values():
            future.cancel()
        raise
    return [found[n] for n in range(len(programs))]


def _start(programs: Sequence[Program], target_name: str | Target, threads: int | None, told: Begun,
           found: dict[int, Future[Executable]]) -> None:
    """Add the future of each program to `found`."""
    to = registry.here(target_name)

    def start(n: int) -> None:
        told(n)
        found[n] = compiler.start_program(programs[n], target_name, threads, known=known[n])
    known = [keys.key(program, to, None) for program in programs]
    work = _missing(known, to)
    count = min(process_count(), MOST, len(work) // LEAST) if isinstance(to, Forkable) and to.forkable else 1
    if count > 1:
        tasks = [lambda p=programs[n]: compiler.package(p, to).to_bytes() for n in work]
        with compiler.idle(), processes.Forks(tasks[:processes.MOST], count - 1) as forks:
            while (k := forks.claim()) is not None:
                start(work[k])
            for k in forks.others():
                data = forks.result(k)
                if data is not None:
                    told(work[k])
                    found[work[k]] = compiler.start_package(known[work[k]], Package.from_bytes(data), to, threads)
    for n in range(len(programs)):
        if n not in found:
            start(n)


def _missing(known: Sequence[str], to: Target) -> list[int]:
    """The programs whose code is neither in this process nor on disk, each once. known: the key of each."""
    if os.environ.get("POLYTC_DUMP"):
        return []
    first = dict[str, int]()
    for n, key in enumerate(known):
        first.setdefault(key, n)
    return [n for key, n in first.items() if not compiler.is_known(key, to)]


def process_count() -> int:
    """POLYTC_PROCESSES if it is set, else as many as there are processors for this process. Raises ArgumentError E410."""
    text = os.environ.get("POLYTC_PROCESSES", "").strip()
    if text and not (text.isascii() and text.isdigit() and 0 < int(text) < 1000):
        raise fail("E410", f"POLYTC_PROCESSES is {text!r}, not a number from 1 on", kind=ArgumentError,
                   notes=["so many processes compile a model's programs; unset it for as many as there are processors"])
    return (int(text) if text else usable()) if processes.possible() else 1

