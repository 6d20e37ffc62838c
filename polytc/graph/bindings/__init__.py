"""The table of operators: op type -> binding row. Adding an operator: a few lines in graph/ops/*.ein and one row here."""

from polytc.graph import routines
from polytc.graph.binding import Binder
from polytc.graph.bindings import (
    attention,
    convolution,
    einsum,
    elementwise,
    elimination,
    indexing,
    linear,
    losses,
    movement,
    normalisation,
    ordering,
    pooling,
    quantisation,
    random,
    recurrent,
    reduction,
    resize,
    sampling,
    scattering,
    spectral,
    state,
    training,
    views,
    words,
)

TABLE: dict[str, Binder] = (
    elementwise.ROWS | views.ROWS | convolution.ROWS | pooling.ROWS | linear.ROWS | einsum.ROWS | reduction.ROWS
    | normalisation.ROWS | movement.ROWS | indexing.ROWS | resize.ROWS | losses.ROWS | attention.ROWS | state.ROWS
    | quantisation.ROWS | random.ROWS | training.ROWS | scattering.ROWS | recurrent.ROWS | routines.ROWS
    | sampling.ROWS | spectral.ROWS | words.ROWS | elimination.ROWS | ordering.ROWS)
