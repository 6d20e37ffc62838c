"""Tensors without elements: results that are empty are known at once, and need no kernel."""

from __future__ import annotations

import numpy as np

from polytc.errors import CompileError, ModelError
from polytc.graph.operators.binding import Apply, Binder, Known, Lowering, Routine, Site, Unsupported


def bind(row: Binder, site: Site) -> Lowering:
    """The row's lowering, or empty results where onnx's shape inference says that all of them are. A row sees a node with an
    empty input first, since it may have a result that is not (a concatenation, a product over nothing)."""
    try:
        lowering = row(site)
    except CompileError:  # a misfit, or no text for it
        raise
    except (TypeError, ValueError, LookupError, ArithmeticError):
        found = _empty_results(site) if _empty_inputs(site) else None
        if found is None:
            raise
        return found
    steps = lowering if isinstance(lowering, tuple) else (lowering,)
    if _empty_inputs(site) and any(isinstance(s, Apply | Routine) for s in steps):
        return _empty_results(site) or lowering
    return lowering


def vet(row: Binder, site: Site) -> None:
    """Raise ModelError E609 if the row, or onnx's shape inference, refuses a node with an empty input. Code that computes none
    of it has nothing to trip over: for nodes whose inputs are all known, which are evaluated and not bound."""
    if not _empty_inputs(site):
        return
    from polytc.graph.onnx import refused_by_inference  # the onnx library is optional and slow to import

    try:
        row(site)
    except Unsupported:
        pass
    except ModelError:
        raise
    except (CompileError, TypeError, ValueError, LookupError, ArithmeticError, AssertionError):
        pass  # the row is made for tensors that have elements
    why = refused_by_inference(site.node, _known(site))
    if why is not None:
        raise site.misfit(why)


def _empty_inputs(site: Site) -> bool:
    return any(s is not None and 0 in s for s in site.shapes)


def _empty_results(site: Site) -> Lowering | None:
    """Known results if each has no elements, else None."""
    from polytc.graph.onnx import result_types  # the onnx library is optional and slow to import

    types = result_types(site.node, _known(site))
    if not types or any(0 not in shape for _, shape in types):
        return None
    named = [i for i, name in enumerate(site.node.outputs) if name]
    return tuple(Known(np.zeros(shape, dtype), i) for i, (dtype, shape) in zip(named, types, strict=True))


def _known(site: Site) -> list[tuple[np.dtype, tuple[int, ...], np.ndarray | None] | None]:
    return [None if s is None or d is None else (d.numpy, s, v) for s, d, v in zip(site.shapes, site.dtypes, site.values)]
