"""Tensors without elements: results that are empty are known at once, and need no kernel."""

from __future__ import annotations

import numpy as np

from polytc.errors import CompileError
from polytc.graph.binding import Apply, Binder, Known, Lowering, NeedsValue, Routine, Site, Unsupported


def bind(row: Binder, site: Site) -> Lowering:
    """The row's lowering, or empty results where onnx's shape inference says that all of them are. A row sees a node with an
    empty input first, since it may have a result that is not (a concatenation, a product over nothing)."""
    try:
        lowering = row(site)
    except (NeedsValue, Unsupported):
        raise
    except (CompileError, TypeError, ValueError, LookupError, ArithmeticError):
        found = _empty_results(site) if _empty_inputs(site) else None
        if found is None:
            raise
        return found
    steps = lowering if isinstance(lowering, tuple) else (lowering,)
    if _empty_inputs(site) and any(isinstance(s, Apply | Routine) for s in steps):
        return _empty_results(site) or lowering
    return lowering


def _empty_inputs(site: Site) -> bool:
    return any(s is not None and 0 in s for s in site.shapes)


def _empty_results(site: Site) -> Lowering | None:
    """Known results if each has no elements, else None."""
    from polytc.graph.onnx import result_types  # the onnx library is optional and slow to import

    inputs = [None if s is None or d is None else (d.numpy, s, v) for s, d, v in zip(site.shapes, site.dtypes, site.values)]
    types = result_types(site.node, inputs)
    if not types or any(0 not in shape for _, shape in types):
        return None
    named = [i for i, name in enumerate(site.node.outputs) if name]
    return tuple(Known(np.zeros(shape, dtype), i) for i, (dtype, shape) in zip(named, types, strict=True))
