"""Numba: the case's loops, with fast math, in parallel if more than one thread is asked for."""

from __future__ import annotations

from collections.abc import Mapping

import numba
import numpy as np

from versus import numba_loops
from versus.case import Case
from versus.peers import Prepared, empty


def version() -> str:
    return str(numba.__version__)


def prepare(case: Case, inputs: Mapping[str, np.ndarray], threads: int) -> Prepared | None:
    if not case.numba:
        return None
    if threads > 1:
        numba.set_num_threads(threads)
    function = numba.njit(fastmath=True, parallel=threads > 1)(getattr(numba_loops, case.numba))
    outputs = tuple(empty(case).values())
    arrays = (*inputs.values(), *outputs)
    return Prepared(lambda: function(*arrays), lambda _: outputs)
