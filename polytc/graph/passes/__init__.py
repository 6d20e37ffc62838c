"""Graph passes: each a function Graph -> Graph that keeps what the graph computes."""

from polytc.graph.ir import Graph
from polytc.graph.passes.batchnorm import merge_batchnorm
from polytc.graph.passes.constants import fold_constants

PIPELINE = (fold_constants, merge_batchnorm)


def run(graph: Graph) -> Graph:
    """All passes, in order."""
    for each in PIPELINE:
        graph = each(graph)
    return graph
