"""An operator of models, as text of the language."""

from __future__ import annotations

from polytc.graph import Operator

SWISH = Operator("op Swish<beta>(X[*i]) -> Y[*i] { Y[*i] = X[*i] / (1 + exp(-beta * X[*i])) }")
"""For nodes Swish of the domain com.acme, with the attribute `beta`."""
