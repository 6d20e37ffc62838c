"""A process for each contender: thread pools, allocators and caches of one do not disturb the others, nor do crashes.

The parent asks for one thing at a time and waits; workers that have nothing to do sleep on their pipe.

    prepare SET CASE   ->  ready, samples of the results, seconds that it took   (or: absent, or: failed with a text)
    run COUNT          ->  seconds for COUNT calls
    release            ->  forgets the case
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from versus import machine, peers
from versus.remote import Remote, respond
from versus.sets import SETS

SAMPLE = 1 << 20
"""Elements of a result that are compared: every n-th of larger ones."""


@dataclass(frozen=True)
class Ready:
    """A prepared case. results: samples of the outputs. seconds: of preparation, with the first call."""

    results: list[np.ndarray]
    seconds: float


@dataclass(frozen=True)
class Failed:
    """Why a contender takes no part; an empty reason where the case does not say how it would."""

    reason: str


class Worker(Remote):
    """The parent's end."""

    def __init__(self, peer: str, threads: int) -> None:
        super().__init__(serve, peer, threads)
        self.peer, self.threads = peer, threads


def limit_threads(count: int) -> None:
    """For processes started from here on: libraries that read their number of threads from the environment."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = str(count)


def serve(pipe: Connection, peer: str, threads: int) -> None:
    """The worker's process, on as many processors as threads."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
    answers: dict[str, Callable[..., Any]] = {"limits": lambda: machine.limits(threads), "release": lambda: None}
    if peer != "machine":
        contestant = _Contestant(peer, threads)
        answers |= {"prepare": contestant.prepare, "run": contestant.run, "release": contestant.release,
                    "version": contestant.contender.version}
    respond(pipe, answers)


class _Contestant:
    """The library and the case at hand."""

    def __init__(self, peer: str, threads: int) -> None:
        self.contender, self.threads = peers.load(peer), threads
        self.inputs: dict[str, np.ndarray] = {}
        self.prepared: peers.Prepared | None = None

    def prepare(self, table: str, name: str) -> Ready | Failed:
        case = SETS[table].case(name)
        self.inputs = case.arrays()  # kept: libraries that are given addresses do not keep the arrays
        start = time.perf_counter()
        try:
            self.prepared = self.contender.prepare(case, self.inputs, self.threads)
            if self.prepared is None:
                return Failed("")
            results = self.prepared.results(self.prepared.call())
        except Exception as error:  # whatever a library raises: the others go on
            return Failed(f"{type(error).__name__}: {error}".strip())
        return Ready([sample(np.asarray(a)) for a in results], time.perf_counter() - start)

    def run(self, count: int) -> float:
        assert self.prepared is not None
        call = self.prepared.call
        if count > 1:
            call()  # brings back what the others have driven out of the caches
        start = time.perf_counter()
        for _ in range(count):
            call()
        return time.perf_counter() - start

    def release(self) -> None:
        self.prepared, self.inputs = None, {}


def sample(a: np.ndarray) -> np.ndarray:
    """About SAMPLE elements, evenly spread; an odd step, so that no row or column is favoured."""
    flat = a.reshape(-1)
    step = flat.size // SAMPLE | 1
    return flat[::step].copy()
