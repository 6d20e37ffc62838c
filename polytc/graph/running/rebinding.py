"""An instance for other sizes, made of one that is bound: the same code, constants and scratch memory, other addresses.

    the table of a step    [weights, arena + 4096, arena, sizes]    ->  [weights, arena + 7168, arena, other sizes]

To bind the steps of a model one by one takes Python some fifty microseconds for each. Here the tables of all steps are one
block of words, which is copied; the words that depend on sizes are written at once. Intermediate values and temporaries of
these instances lie in the same memory, as one of them runs at a time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from polytc.graph.plan import Plan
from polytc.graph.planning.memory import Arena
from polytc.graph.running.instance import Instance, Place, lasting_buffers
from polytc.native.aligned import aligned_bytes, aligned_copy
from polytc.native.chain_walk import FIELDS
from polytc.runtime.call_chains import Chain, Skip, Words, native, slots
from polytc.runtime.sized import offsets

WORD = 8
"""Bytes of an address."""

Temporaries: TypeAlias = Sequence[tuple[np.dtype, int]]
"""Type and number of elements of each temporary that a step wants of its caller."""


@dataclass(frozen=True)
class Opening:
    """What of a step's code follows from sizes. sizes: how many it takes, None if it has none; temporaries: how many."""

    sizes: int | None
    temporaries: int


class _Tables:
    """The tables of all steps, one behind another. words: what they hold; rows: of the chain, FIELDS words for each step;
    starts: of each step's table, in words."""

    def __init__(self, instance: Instance) -> None:
        address, count, _ = instance.chain.walked
        self.rows = np.array((ctypes.c_int64 * (FIELDS * count)).from_address(address), np.int64).reshape(count, FIELDS)
        self._steps = instance.steps
        sizes = [code.words for step in instance.steps if (code := native(step)) is not None]
        tables = [np.array((ctypes.c_int64 * n).from_address(int(row[1])), np.int64)
                  for n, row in zip(sizes, self.rows, strict=True)]
        self.words, self.starts = np.concatenate(tables), np.cumsum([0, *sizes[:-1]])

    def places(self, step: int, position: int) -> list[int]:
        """The words that hold the address of an argument of a step."""
        first = int(self.rows[step, 1])
        return [int(self.starts[step]) + (ctypes.addressof(s) - first) // WORD for s in slots(self._steps[step], position)]


class Rebinding:
    """Instances of a plan for all sizes that share one memory. Not to be used by two threads at once, as its instances are."""

    def __init__(self, instance: Instance, openings: Sequence[Opening], varying: Collection[str]) -> None:
        """instance: for some sizes, with a native chain. openings: of its steps, those of skips excepted; varying: the
        constants that follow from sizes."""
        self._first, self._tables = instance, _Tables(instance)
        self._store, self._workspace = aligned_bytes(0), aligned_bytes(0)
        self._values: dict[str, list[int]] = {}
        self._temporaries: list[list[list[int]]] = []
        self._sizes: list[tuple[int, int]] = []
        plan, taken, rest = instance.plan, 0, iter(openings)
        self._fixed = plan.constants.keys() - varying
        for k, (step, link) in enumerate(zip(instance.steps, instance.links, strict=True)):
            for position, value in enumerate(link.values):
                base = plan.base(value)
                if base not in self._fixed:
                    self._values.setdefault(base, []).extend(self._tables.places(k, position))
            opening = Opening(None, 0) if isinstance(step, Skip) else next(rest)
            if opening.sizes is not None:
                first = len(link.values)
                self._temporaries.append([self._tables.places(k, first + j) for j in range(opening.temporaries)])
                self._sizes += [(word, taken) for word in self._tables.places(k, first + opening.temporaries)]
                taken += opening.sizes

    def instance(self, plan: Plan, arena: Arena, sizes: Sequence[int], temporaries: Sequence[Temporaries]) -> Instance:
        """For other sizes. sizes: of all steps that have some, one behind another; temporaries: of these steps."""
        self._store = _at_least(self._store, arena.bytes)
        buffers = {n: a for n, a in self._first.buffers.items() if n in self._fixed} | lasting_buffers(plan)
        numbers, words = np.array(sizes, np.int64), self._tables.words.copy()
        store = self._store.ctypes.data
        for name, places in self._values.items():
            if name in arena.offsets:
                address = store + arena.offsets[name]
            else:
                if name not in buffers:
                    buffers[name] = aligned_copy(plan.constants[name])
                address = buffers[name].ctypes.data
            for place in places:
                words[place] = address
        self._lend_workspace(words, temporaries)
        for place, taken in self._sizes:
            words[place] = numbers.ctypes.data + WORD * taken
        rows = self._tables.rows.copy()
        rows[:, 1] = words.ctypes.data + WORD * self._tables.starts
        chain = self._first.chain.with_tables(rows, (words, numbers, self._store, self._workspace, self._first))
        return Instance(plan, self._first.steps, self._first.links, chain, arena, buffers, self._outer(plan, words))

    def _lend_workspace(self, words: np.ndarray, temporaries: Sequence[Temporaries]) -> None:
        """Place the temporaries of each step in memory that all of them share."""
        needed = [offsets(each) for each in temporaries]
        self._workspace = _at_least(self._workspace, max((end for _, end in needed), default=0))
        start = self._workspace.ctypes.data
        for places, (found, _) in zip(self._temporaries, needed, strict=True):
            for each, offset in zip(places, found, strict=True):
                words[each] = start + offset

    def _outer(self, plan: Plan, words: np.ndarray) -> dict[str, tuple[Place, ...]]:
        """Where the tables have the graph's inputs and outputs."""
        table = Words(words)
        return {name: tuple(Place(table, place, plan.types[name].shape) for place in self._values.get(name, ()))
                for name in self._first.places}


def _at_least(found: np.ndarray, size: int) -> np.ndarray:
    return found if found.size >= size else aligned_bytes(size)


def shared(chain: Chain) -> bool:
    """Can other instances have the tables of this chain?"""
    return type(chain) is Chain and chain.native
