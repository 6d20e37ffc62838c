"""numpy, into given arrays where the case says how."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from versus.case import Case
from versus.peers import Prepared, empty


def version() -> str:
    return np.__version__


def prepare(case: Case, inputs: Mapping[str, np.ndarray], threads: int) -> Prepared | None:
    """threads: set in the environment (OPENBLAS_NUM_THREADS) before numpy is imported."""
    if case.numpy is None:
        return None
    function: Any = case.numpy
    given = tuple(inputs.values())
    if "out" in inspect.signature(function).parameters:
        outputs = tuple(empty(case).values())
        out = outputs[0] if len(outputs) == 1 else outputs
        return Prepared(lambda: function(np, *given, out=out), lambda _: outputs)
    return Prepared(lambda: function(np, *given), lambda made: made if isinstance(made, tuple) else (made,))
