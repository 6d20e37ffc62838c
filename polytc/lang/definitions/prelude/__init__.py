"""Definitions that every program may call without writing them: the `op`s of the .ein files here.

None of them calls another one, so that what a text defines itself never changes what they mean.
"""

from __future__ import annotations

import functools
import importlib.resources
from collections.abc import Mapping

from polytc.lang.parsing import syntax as sx
from polytc.lang.parsing.parser import parse

FILES = ("activations", "normalisation", "linear")

NAMES = frozenset((
    "elu", "gelu", "hardswish", "leaky_relu", "relu", "silu", "softplus",
    "batchnorm", "l2norm", "layernorm", "log_softmax", "rmsnorm", "softmax",
    "bmm", "linear", "matmul", "matvec", "outer", "transpose"))
"""What the files define: known without reading them."""


def text(file: str) -> str:
    """The text of one of FILES."""
    return (importlib.resources.files("polytc.lang.definitions.prelude") / f"{file}.ein").read_text(encoding="utf-8")


@functools.cache
def definitions() -> Mapping[str, sx.Function]:
    """name -> definition."""
    return {f.name: f for file in FILES for f in parse(text(file))}
