"""How programs that can be called show themselves: to `help`, to `inspect.signature`, and in notebooks."""

from __future__ import annotations

import inspect
from html import escape
from typing import Any

from polytc import lang


class Shown:
    """For Op and FixedOp: `__name__` is that of the definition, `__doc__` the text, `inspect.signature` has the inputs with
    their types, and notebooks show a table. text, _entry: the program; inputs, outputs: names, in order."""

    text: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    _entry: str | None

    def __getattr__(self, name: str) -> Any:
        if name == "__signature__" and "inputs" in vars(self):
            return signature(self)
        if name in ("__name__", "__qualname__") and "name" in vars(self):
            return self.name
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def _repr_html_(self) -> str:
        types = declared(self)
        rows = [("input", n, types.get(n, "")) for n in self.inputs] + [("output", n, types.get(n, "")) for n in self.outputs]
        cells = "".join("<tr>" + "".join(f"<td><code>{escape(c)}</code></td>" for c in row) + "</tr>" for row in rows)
        return f"<b>{escape(repr(self))}</b><pre>{escape(self.text.strip())}</pre><table>{cells}</table>"


def declared(op: Shown) -> dict[str, str]:
    """The types of inputs and outputs as the text declares them, or their ranks: `f32[M,K]`, `[_,_]`, `i32`."""
    shapes = lang.dimensions(op.text, op._entry)
    found = {}
    for p in lang.signature(op.text, op._entry).inputs:
        dims = [op.text[d.span.start:d.span.end] for d in shapes[p.name]] if p.name in shapes else ["_"] * (p.rank or 0)
        form = "" if p.kind == "scalar" else "[...]" if p.rank is None else f"[{','.join(dims)}]"
        found[p.name] = (p.dtype or "") + form
    return found


def signature(op: Shown) -> inspect.Signature:
    """The inputs, by position or by name, with their types as text and their defaults; `out`; what comes back."""
    types = declared(op)
    empty = inspect.Parameter.empty
    defaults = {p.name: p.default for p in lang.signature(op.text, op._entry).inputs if p.default is not None}
    parameters = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=types.get(n) or empty,
                                    default=defaults.get(n, empty)) for n in op.inputs if n != "out"]
    out = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)
    return inspect.Signature([*parameters, out], return_annotation=", ".join(op.outputs))
