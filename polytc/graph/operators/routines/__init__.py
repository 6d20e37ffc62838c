"""Operators whose results depend on the data in a way that no text says: numpy functions of the values, one row each.

A row returns a `Routine`: the function and the inputs that it is given at each run. Shapes, counts and thresholds are arguments
like all others, so that nothing is compiled again when they change. Kernels before and after work on the same buffers.
"""

from polytc.graph.operators.binding import Binder
from polytc.graph.operators.routines import selection, suppression

ROWS: dict[str, Binder] = selection.ROWS | suppression.ROWS
