"""Runtimes that take turns on one model, each in a process of its own.

    prepare FEEDS  ->  Ready, or Failed with a text       compiles for these inputs and runs once
    run COUNT      ->  seconds of each of so many calls, after one that is not counted

In one process the pool of one runtime would spin while another computes, and two of them would share an allocator. Here a turn
is a few calls one after another, as a program that uses the runtime makes them, and nobody begins before all threads of the
one before sleep. The call that is not counted wakes the pool and brings back what the others drove out of the caches.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeAlias

import numpy as np
import typer

import polytc
from polytc.cli import peers
from polytc.graph.model import Model
from versus.remote import Lost, Remote, respond

OURS = "polytc"
TURN = 20e-3
"""Seconds of the counted calls of a turn, about."""
ROUNDS = 5
"""Turns of each, at least."""

Feeds: TypeAlias = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Ready:
    """What the first run gave. seconds: up to its end, reading the file included where that was not done before; kernels,
    fallbacks, arena: of ours, see zoo_case.Row."""

    results: list[np.ndarray]
    seconds: float
    kernels: int = 0
    fallbacks: tuple[str, ...] = ()
    arena: int = 0


@dataclass(frozen=True)
class Failed:
    """Why a runtime takes no part."""

    reason: str


class Runtimes:
    """The processes for one model and number of threads, ours among them; those that refuse the model are left out."""

    def __init__(self, path: Path, target: str, threads: int) -> None:
        self.all = {name: Remote(serve, name, path, target, threads) for name in (OURS, *peers.PEERS)}
        self.refusals: dict[str, str] = {}

    def prepare(self, feeds: Feeds) -> dict[str, Ready]:
        """For these inputs."""
        self.refusals, ready = {}, dict[str, Ready]()
        for name, remote in self.all.items():
            try:
                answer = remote.ask("prepare", feeds)
            except Lost as loss:
                answer = Failed(str(loss))
            if isinstance(answer, Ready):
                ready[name] = answer
            else:
                self.refusals[name] = answer.reason
            remote.settle()
        return ready

    def times(self, names: list[str], seconds: float) -> dict[str, float]:
        """The median seconds of a call of each. seconds: of all turns together, about. Raises Lost."""
        first = {name: self._turn(name, 1)[0] for name in names}
        counts = {name: max(1, round(TURN / t)) for name, t in first.items()}
        taken: dict[str, list[float]] = {name: [] for name in names}
        end, done = time.perf_counter() + seconds, 0
        while done < ROUNDS or time.perf_counter() < end:
            for name in names[done % len(names):] + names[:done % len(names)]:
                taken[name] += self._turn(name, counts[name])
            done += 1
        return {name: statistics.median(t) for name, t in taken.items()}

    def _turn(self, name: str, count: int) -> list[float]:
        found: list[float] = self.all[name].ask("run", count)
        self.all[name].settle()
        return found

    def stop(self) -> None:
        for remote in self.all.values():
            remote.stop()


def serve(pipe: Connection, name: str, path: Path, target: str, threads: int) -> None:
    """The process of a runtime."""
    runtime = _Ours(path, target, threads) if name == OURS else _Theirs(name, path, threads)
    respond(pipe, {"prepare": runtime.prepare, "run": partial(_run, runtime)})


class _Ours:
    def __init__(self, path: Path, target: str, threads: int) -> None:
        self.path, self.target, self.threads = path, target, threads
        self.model: Model | None = None
        self.call: Callable[[], object] | None = None

    def prepare(self, feeds: Feeds) -> Ready | Failed:
        start = time.perf_counter()
        try:
            if self.model is None:
                self.model = polytc.load_onnx(self.path).compile(target=self.target, threads=self.threads)
            results = self.model.run(None, feeds)
        except polytc.PolytcError as error:
            return Failed(str(error))
        self.call = partial(self.model.run, None, feeds)
        return Ready(results, time.perf_counter() - start, self.model.kernels, tuple(self.model.fallbacks()), self.model.arena)


class _Theirs:
    def __init__(self, name: str, path: Path, threads: int) -> None:
        self.name, self.path, self.threads = name, path, threads
        self.call: Callable[[], object] | None = None

    def prepare(self, feeds: Feeds) -> Ready | Failed:
        start = time.perf_counter()
        try:
            call = peers.PEERS[self.name](self.path, feeds, self.threads)
        except (peers.Refused, typer.BadParameter) as refusal:
            return Failed(str(refusal))
        self.call = call
        return Ready([], time.perf_counter() - start)


def _run(runtime: _Ours | _Theirs, count: int) -> list[float]:
    call, taken = runtime.call, []
    assert call is not None
    call()
    for _ in range(count):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return taken
