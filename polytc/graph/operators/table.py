"""The table of operators: op type -> binding row. Adding an operator: a few lines in an .ein file and one row here."""

from polytc.graph.operators import routines
from polytc.graph.operators.binding import Binder
from polytc.graph.operators.dense import (
    attention,
    convolution,
    einsum,
    elimination,
    linear,
    losses,
    normalisation,
    pooling,
    quantisation,
    recurrent,
    spectral,
    state,
    training,
)
from polytc.graph.operators.elements import elementwise, random, reduction, words
from polytc.graph.operators.estimators import linear_models, preparation, support_vectors, trees
from polytc.graph.operators.movement import indexing, movement, ordering, resize, sampling, scattering, views

TABLE: dict[str, Binder] = (
    elementwise.ROWS | views.ROWS | convolution.ROWS | pooling.ROWS | linear.ROWS | einsum.ROWS | reduction.ROWS
    | normalisation.ROWS | movement.ROWS | indexing.ROWS | resize.ROWS | losses.ROWS | attention.ROWS | state.ROWS
    | quantisation.ROWS | random.ROWS | training.ROWS | scattering.ROWS | recurrent.ROWS | routines.ROWS
    | sampling.ROWS | spectral.ROWS | words.ROWS | elimination.ROWS | ordering.ROWS | trees.ROWS | linear_models.ROWS
    | support_vectors.ROWS | preparation.ROWS)
