"""Operators of a user's own, or of another distribution: text of the language for nodes of any domain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from polytc import extensions
from polytc.graph.ir import qualified
from polytc.graph.operators.binding import Apply, Binder, Lowering, Routine, Site, Step, operators, spelled
from polytc.graph.operators.table import TABLE
from polytc.graph.user_operators import INSTALLED, OWN_TEXTS
from polytc.lang import signature
from polytc.lang.definitions import calls
from polytc.lang.definitions.parameters import Signature

Binding: TypeAlias = "Callable[[Site], Lowering | Routine] | Mapping[str, str] | None"


def register(domain: str, op: str, text: str, binding: Binding = None) -> None:
    """Let nodes of type `op` of `domain` ('' for onnx's own) be computed by the operator in `text`; replaces what was there.

        text = "op FusedMatMul<alpha>(A, B) -> C { C[i, j] += alpha * A[i, k] * B[k, j] }"
        polytc.graph.register("com.microsoft", "FusedMatMul", text)

    binding: None if the node's inputs are the operator's in order and its attributes have the same names; a mapping from the
    operator's attributes to the node's otherwise; or a row as graph/operators/ has them, a function of a `Site` that returns
    `Apply("FusedMatMul", (0, 1))` and the like, with names of operators in `text`. Raises CompileError for a text that is none.
    """
    key = qualified(domain, op)
    defined = [f.name for f in calls.resolve(text)]
    TABLE[key] = _placed_row(key, binding) if callable(binding) else _row(key, signature(text), binding)
    OWN_TEXTS[key] = dict.fromkeys(defined, text)
    INSTALLED.discard(key)
    operators.cache_clear()
    spelled.cache_clear()


@dataclass(frozen=True)
class Operator:
    """What another distribution gives for nodes of a domain and type, which are the name of its entry point, 'com.acme::Swish',
    in the group polytc.operators. text, binding: see `register`."""

    text: str
    binding: Binding = None


def known(key: str) -> bool:
    """Is there a row for nodes called `key`? Where polytc has none, that of an installed distribution is registered now."""
    if key not in TABLE and key in extensions.names(extensions.OPERATORS):
        found = extensions.load(extensions.OPERATORS, key)
        if not isinstance(found, Operator):
            raise extensions.refusal(extensions.OPERATORS, key, f"is a {type(found).__name__}, and no polytc.graph.Operator")
        domain, _, op = key.rpartition("::")
        register(domain, op, found.text, found.binding)
        INSTALLED.add(key)
    return key in TABLE


def _row(key: str, found: Signature, given: Mapping[str, str] | None) -> Binder:
    """The row for nodes called `key` that hands their inputs and attributes on."""
    own = dict(given) if given is not None else {a: a for a in found.attrs}

    def bind(site: Site) -> Lowering:
        attrs = {a: site.attr(n) for a, n in own.items() if site.attr(n) is not None}
        outputs = tuple(range(min(len(found.outputs), len(site.node.outputs))))
        return Apply(f"{key}.{found.name}", tuple(range(len(site.node.inputs))), outputs, attrs)
    return bind


def _placed_row(key: str, row: Callable[[Site], Lowering | Routine]) -> Binder:
    return lambda site: _placed(key, row(site))


def _placed(key: str, lowering: Lowering | Routine) -> Lowering | Routine:
    """The steps with their operators looked up in the user's text."""
    if isinstance(lowering, tuple):
        return tuple(_own(key, step) for step in lowering)
    return lowering if isinstance(lowering, Routine) else _own(key, lowering)


def _own(key: str, step: Step) -> Step:
    return replace(step, entry=f"{key}.{step.entry}") if isinstance(step, Apply) and "." not in step.entry else step
