"""The table of operators: op type -> binding row. Adding an operator: a few lines in graph/ops/*.ein and one row here."""

from collections.abc import Mapping

from polytc.graph.binding import Binder
from polytc.graph.bindings import (
    attention,
    convolution,
    elementwise,
    indexing,
    linear,
    losses,
    movement,
    normalisation,
    pooling,
    quantisation,
    recurrent,
    reduction,
    resize,
    scattering,
    state,
    views,
)

TABLE: Mapping[str, Binder] = (elementwise.ROWS | views.ROWS | convolution.ROWS | pooling.ROWS | linear.ROWS | reduction.ROWS
                               | normalisation.ROWS | movement.ROWS | indexing.ROWS | resize.ROWS | losses.ROWS | attention.ROWS
                               | state.ROWS | quantisation.ROWS | scattering.ROWS | recurrent.ROWS)
