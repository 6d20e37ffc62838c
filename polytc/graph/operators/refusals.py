"""What is said about nodes that cannot be bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from polytc.errors import CompileError, Diagnostic, ModelError, fail
from polytc.graph.ir import Node
from polytc.graph.operators.binding import Unsupported


def refusal(code: str, message: str, *notes: str) -> Unsupported:
    """A node is left to onnx's definition or evaluator, or refused."""
    return Unsupported([Diagnostic(code, message, None, notes)])


def row_failure(node: Node, described: Callable[[str], str], error: Exception) -> CompileError:
    """A node's binding row met an error. described: the type of a value."""
    attributes = ", ".join(f"{k}={_brief(v)}" for k, v in node.attributes.items()) or "none"
    inputs = ", ".join(f"{n}: {described(n)}" for n in node.inputs) or "none"
    notes = [f"inputs: {inputs}", f"attributes: {attributes}", "check them, and export the model again"]
    why = f"cannot be used with these inputs and attributes ({type(error).__name__}: {error})"
    return fail("E608", f"{node.label} {why}", kind=ModelError, notes=notes)


def _brief(value: Any) -> str:
    text = f"array {value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)
    return text if len(text) <= 60 else text[:60] + "..."
