"""A part of a graph: what is compiled now, what the hosts run behind it, and what remains to be specialised then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from polytc.graph.hosts import Host
from polytc.graph.ir import Graph
from polytc.graph.plan import Array, Plan

Types = Mapping[str, Array | None]
"""Of the inputs of a graph; None for what is no tensor of polytc's types."""

ByValue: TypeAlias = "Callable[[str, frozenset[str]], bool]"
"""May one be asked for a value, which is computed from these inputs of the graph?"""


@dataclass(frozen=True)
class Part:
    """plan: what is compiled now. hosts: what runs after it, in order. rest: what remains to be specialised when both have run,
    None if nothing does; late: values that `rest` compiles in. known: values that hosts, `rest` or the caller need and that no
    run changes. ahead: types of all inputs of `rest`, if no run is needed to tell them.
    """

    plan: Plan
    hosts: tuple[Host, ...] = ()
    rest: Graph | None = None
    late: frozenset[str] = frozenset()
    known: Mapping[str, np.ndarray] = field(default_factory=dict)
    ahead: Mapping[str, Array] | None = None

    @property
    def behind(self) -> list[str]:
        """Labels of what runs, or becomes a plan, behind the plan."""
        return [h.label for h in self.hosts] + [n.label for n in (self.rest.nodes if self.rest is not None else ())]
