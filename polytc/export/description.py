"""What the descriptions of all folders have: arguments and weights, as JSON that people can read."""

from __future__ import annotations

import json
from collections.abc import Mapping

from polytc.codegen import weight_file
from polytc.export import formula
from polytc.export.bundle import Bundle, bytes_of

SCHEMA = 2
"""Version of what descriptions say, and of what their keys mean. Hosts refuse others."""


def arguments(b: Bundle) -> list[dict[str, object]]:
    """The arguments, in order; what is not fixed is a formula of the sizes in Python."""
    return [{"name": a.name, "title": a.title, "role": a.role, "dtype": a.type.dtype.name,
             "shape": formula.rows(a.type.shape), "bytes": formula.row(bytes_of(a.type.shape, a.type.dtype))}
            for a in b.arguments]


def weights(b: Bundle) -> dict[str, object] | None:
    """The file of the weights, the words of its header, and where each array lies in it; None without weights."""
    parts = [{"offset": weight_file.BYTES + at, "bytes": w.nbytes, "dtype": w.dtype.name, "shape": w.shape}
             for at, w in zip(weight_file.offsets(b.weights), b.weights)]
    return {"file": f"{b.name}.weights", "header": weight_file.header(b.weights), "parts": parts} if parts else None


def rows(found: Mapping[str, object]) -> str:
    """JSON with one line for each item of the outer lists, so that people can read it."""
    parts = []
    for key, value in found.items():
        text = json.dumps(value)
        if isinstance(value, list) and value:
            text = "[\n    " + ",\n    ".join(map(json.dumps, value)) + "\n  ]"
        parts.append(f"  {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}"
