"""JAX: the jitted function on arrays that lie on the device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from versus.case import Case
from versus.peers import Prepared

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")


def version() -> str:
    return str(jax.__version__)


def prepare(case: Case, inputs: Mapping[str, np.ndarray], threads: int) -> Prepared | None:
    """threads: as many as the process may use; XLA takes no number."""
    if case.jax is None:
        return None
    function: Any = case.jax
    arrays = tuple(map(jax.device_put, inputs.values()))
    jitted = jax.jit(lambda *given: function(jax, *given))
    return Prepared(lambda: jax.block_until_ready(jitted(*arrays)),
                    lambda made: [np.asarray(a) for a in (made if isinstance(made, tuple) else (made,))])
