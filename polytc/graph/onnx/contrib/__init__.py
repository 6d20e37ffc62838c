"""Operators of ONNX Runtime's own, which become operators of onnx.

    sites               what a text depends on
    products            activations, products, convolutions
    normalisation       normalisations and embeddings
    quantised           integers that stand for real numbers
    block_quantised     weights of a few bits
    attention, rotary   attention with caches, rotary embeddings, grouped queries
    experts             mixtures of experts
    movement            what moves, counts and selects
    table               operator -> text
    blocked_channels    convolutions with blocks of channels (com.microsoft.nchwc) as plain ones
    expansion           nodes to nodes
"""

from polytc.graph.onnx.contrib.expansion import definition, expand, why_not
from polytc.graph.onnx.contrib.sites import NoText

__all__ = ["NoText", "definition", "expand", "why_not"]
