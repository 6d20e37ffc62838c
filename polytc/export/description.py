"""What the descriptions of all folders have: arguments and weights, as JSON that people can read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from polytc.export import formula
from polytc.export.bundle import Bundle, bytes_of, offsets
from polytc.machine import ALIGNMENT


def arguments(b: Bundle) -> list[dict[str, object]]:
    """The arguments, in order; what is not fixed is a formula of the sizes in Python."""
    return [{"name": a.name, "title": a.title, "role": a.role, "dtype": a.type.dtype.name,
             "shape": formula.rows(a.type.shape), "bytes": formula.row(bytes_of(a.type.shape, a.type.dtype))}
            for a in b.arguments]


def weights(b: Bundle) -> list[dict[str, object]]:
    """Where the weights lie in their file."""
    return [{"offset": at, "bytes": w.nbytes, "dtype": w.dtype.name, "shape": w.shape}
            for at, w in zip(offsets(b.weights), b.weights)]


def write_weights(weights: Sequence[np.ndarray], path: Path) -> Path:
    """The file of weights: each begins at a multiple of ALIGNMENT bytes."""
    with path.open("wb") as file:
        for part in weights:
            file.write(part.tobytes())
            file.write(bytes(-part.nbytes % ALIGNMENT))
    return path


def rows(found: Mapping[str, object]) -> str:
    """JSON with one line for each item of the outer lists, so that people can read it."""
    parts = []
    for key, value in found.items():
        text = json.dumps(value)
        if isinstance(value, list) and value:
            text = "[\n    " + ",\n    ".join(map(json.dumps, value)) + "\n  ]"
        parts.append(f"  {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}"
