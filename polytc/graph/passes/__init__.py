"""Graph passes: each a function Graph -> Graph that keeps what the graph computes.

POLYTC_DUMP=graph prints the graph before the first and after each pass that changed it; POLYTC_DUMP=algebra,... only before
and after those passes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from polytc import errors
from polytc.errors import ModelError, fail
from polytc.graph.ir import Graph
from polytc.graph.passes.algebraic_simplification import simplify
from polytc.graph.passes.batchnorm_folding import merge_batchnorm
from polytc.graph.passes.common_subexpressions import merge_duplicates
from polytc.graph.passes.constant_folding import fold_constants
from polytc.graph.passes.identities import drop_identities
from polytc.graph.passes.integer_products import use_integers
from polytc.graph.passes.patterns import group_patterns
from polytc.graph.passes.quantised_weights import narrow_weights
from polytc.graph.passes.scale_folding import merge_scales
from polytc.graph.passes.transpose_sinking import sink_transposes

errors.register(E620="graph pass that does not exist")

Pass = Callable[[Graph], Graph]

PIPELINE: Mapping[str, Pass] = {
    "identities": drop_identities,
    "integers": use_integers,
    "narrow": narrow_weights,
    "constants": fold_constants,
    "duplicates": merge_duplicates,
    "batchnorm": merge_batchnorm,
    "scales": merge_scales,
    "algebra": simplify,
    "patterns": group_patterns,
    "transposes": sink_transposes,
    "leftovers": fold_constants,
}
"""name -> pass, in order. 'leftovers' computes what the passes before it made constant."""


def run(graph: Graph, without: Collection[str] = ()) -> Graph:
    """All passes, in order, except those named. Raises ModelError E620 for a name that is not there."""
    unknown = [name for name in without if name not in PIPELINE]
    if unknown:
        raise fail("E620", f"there is no graph pass {', '.join(map(repr, unknown))}", kind=ModelError,
                   notes=[f"the passes are {', '.join(PIPELINE)}"])
    wanted = os.environ.get("POLYTC_DUMP", "").split(",")
    everything = "graph" in wanted or "all" in wanted
    if everything:
        _dump(graph, "imported")
    for name, each in PIPELINE.items():
        if name in without:
            continue
        before, graph = graph, _guarded(name, each, graph)
        if name in wanted and not everything:
            _dump(before, f"before {name}")
        if name in wanted or (everything and graph is not before):
            _dump(graph, f"after {name}")
    return graph


def _guarded(name: str, each: Pass, graph: Graph) -> Graph:
    """A file may hold anything: what a pass trips over is a refusal that says how to go on without the pass."""
    try:
        return each(graph)
    except ModelError:
        raise
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, MemoryError, RuntimeError) as error:
        raise fail("E606", f"the graph pass {name!r} cannot deal with this graph ({type(error).__name__}: {error})",
                   kind=ModelError, notes=[
                       f"load it with without=[{name!r}]: a node that makes no sense is then named"]) from error


def _dump(graph: Graph, when: str) -> None:
    """As the compiler's stages: to stderr, or into a file."""
    folder = os.environ.get("POLYTC_DUMP_DIR")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        name = "".join(c if c.isalnum() else "_" for c in graph.name)[:80]
        (Path(folder) / f"{name}.{when.replace(' ', '_')}.txt").write_text(f"{graph}\n", encoding="utf-8")
    else:
        print(f"# {when}\n{graph}\n", file=sys.stderr)
