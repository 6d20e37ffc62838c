"""The programs of operators' texts, each made once for equal shapes, types and attributes."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from polytc.lang import build, signature
from polytc.program.compose import with_zero_origins
from polytc.program.program import Program


def frozen(attrs: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Attributes in a form that can be compared and hashed."""
    return tuple(sorted((k, tuple(v) if isinstance(v, list | tuple) else v) for k, v in attrs.items()))


@functools.lru_cache(maxsize=4096)
def program(text: str, entry: str, arrays: tuple[tuple[tuple[int, ...], str], ...], attrs: tuple[tuple[str, Any], ...],
            packs: tuple[tuple[str, int], ...], unrounded: tuple[str, ...] = ()) -> Program:
    """The program of an operator's text; equal nodes share one. unrounded: see `lang.build`."""
    names = [p.name for p in signature(text, entry.rpartition(".")[2]).inputs]
    shapes = {n: shape for n, (shape, _) in zip(names, arrays, strict=True)}
    dtypes = {n: dtype for n, (_, dtype) in zip(names, arrays, strict=True)}
    return with_zero_origins(build(text, shapes, dtypes, attrs=dict(attrs), packs=dict(packs), entry=entry.rpartition(".")[2],
                                   unrounded=frozenset(unrounded)))
