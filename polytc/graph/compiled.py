"""The compiler's side of a Model: all that it needs beyond running what was found on disk.

Large to import, so that `graph.model` does it late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from polytc import processors
from polytc.arguments import check_target
from polytc.graph.ir import Graph
from polytc.graph.operators.binding import NeedsValue
from polytc.graph.part_options import Options
from polytc.graph.parts import PartitionedModel, Ready, whole
from polytc.graph.plan import Array
from polytc.graph.running import profiling
from polytc.graph.running.executables import compiler_for, machine_for, tests_on_host
from polytc.graph.running.instance import Instance
from polytc.graph.running.open_kernels import OpenKernels
from polytc.graph.running.profiling import Profile
from polytc.graph.storing import keeping
from polytc.graph.storing.stored import Choices
from polytc.native.threads import default_threads


class Compiled:
    """A graph with what was compiled of it. kernels: those for all sizes, where sizes stay open."""

    def __init__(self, graph: Graph, choices: Choices) -> None:
        self.graph, self.choices = graph, choices
        check_target(choices.target)
        c, start = choices, compiler_for(choices.target, choices.threads)
        self.kernels = OpenKernels(start) if c.symbolic and c.target != "evaluate" else None
        self.options = Options(start if self.kernels is None else self.kernels.compile, c.licence, c.fusion,
                               c.strict, c.progress, machine_for(c.target) if c.layouts else None, self.kernels, c.typical,
                               guards=tests_on_host(c.target), checked=c.checked, kept=c.kept)
        self.partitioned = PartitionedModel(graph, self.options)
        self._kept = set[tuple[tuple[str, tuple[int, ...]], ...]]()
        self._keeps = self.kernels is None and all(v.dtype is not None for v in graph.inputs)

    def again(self) -> Compiled:
        """The same with memory of its own."""
        other = object.__new__(Compiled)
        other.__dict__.update(self.__dict__)
        other.partitioned = PartitionedModel(self.graph, self.options, opened=self.partitioned.opened)
        return other

    def prepare(self, shapes: Mapping[str, Sequence[int]], arrays: Mapping[str, np.ndarray] | None = None) -> Ready:
        """See `Model.prepare`."""
        types = {v.name: None if v.dtype is None else Array(v.dtype, tuple(shapes[v.name])) for v in self.graph.inputs}
        return self.partitioned.prepare(types, arrays)

    def prepare_early(self, shapes: Mapping[str, Sequence[int]]) -> None:
        """Compile for these shapes, if that is all one needs to know, and keep it for other processes."""
        with suppress(NeedsValue):
            ready = self.prepare(shapes)
            if ready.instance is not None and whole(ready):
                self._keep(shapes, ready.instance)

    def run(self, arrays: Mapping[str, Any], wanted: Sequence[str]) -> list[Any]:
        """The wanted outputs, from all inputs. What was compiled for that is kept for other processes."""
        found = self.partitioned.run(arrays, wanted)
        if self._keeps:
            shapes = {v.name: arrays[v.name].shape for v in self.graph.inputs}
            instance = self.partitioned.compiled([arrays[n] for n in shapes]) if self._is_new(shapes) else None
            if instance is not None:
                self._keep(shapes, instance)
        return found

    def _is_new(self, shapes: Mapping[str, Sequence[int]]) -> bool:
        """Was nothing kept for these shapes, and is there room? As many sets are kept as a model itself keeps."""
        return len(self._kept) < self.choices.kept and _key(shapes) not in self._kept

    def _keep(self, shapes: Mapping[str, Sequence[int]], instance: Instance) -> None:
        """Keep what was compiled for some shapes, once."""
        if self.kernels is None and self._is_new(shapes):
            self._kept.add(_key(shapes))
            keeping.keep_start(self.graph, self.choices, shapes, instance)

    def profile(self, arrays: Mapping[str, Any], runs: int) -> Profile:
        """See `Model.profile`."""
        threads = self.choices.threads or default_threads(processors.usable())
        return profiling.profile(list(self.partitioned.through(arrays)), threads, runs, roofs=self.choices.target == "cpu")


def _key(shapes: Mapping[str, Sequence[int]]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((n, tuple(s)) for n, s in shapes.items())
