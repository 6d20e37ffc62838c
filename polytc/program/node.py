"""Nodes of expressions: frozen dataclasses that remember what was found out about them, as the terms of a Program and the
expressions of the Loop AST do."""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, fields
from typing import Any, TypeVar, dataclass_transform

C = TypeVar("C")


@dataclass_transform(frozen_default=True)
def frozen(cls: type[C]) -> type[C]:
    """A frozen dataclass with slots, whose instances are made in half the time: compiling makes hundreds of thousands. A
    dataclass stores each field by `object.__setattr__`, which looks the name up; here the descriptors of the slots do."""
    made = dataclass(frozen=True, slots=True)(cls)
    found = fields(made)  # type: ignore[arg-type]
    assert not any(f.kw_only or f.default_factory is not MISSING or not f.init for f in found), made
    known: dict[str, Any] = {f"set_{f.name}": getattr(made, f.name).__set__ for f in found}
    known |= {f"default_{f.name}": f.default for f in found}
    lines = [f"def __init__(self, {', '.join(map(_parameter, found))}):", *(f" set_{f.name}(self, {f.name})" for f in found)]
    exec("\n".join(lines), known)  # as the module dataclasses makes its own
    known["__init__"].__qualname__ = f"{made.__qualname__}.__init__"
    made.__init__ = known["__init__"]  # type: ignore[method-assign]
    return made


def _parameter(f: Field[Any]) -> str:
    return f.name if f.default is MISSING else f"{f.name}=default_{f.name}"


@dataclass_transform(frozen_default=True)
def node(cls: type[C]) -> type[C]:
    """A frozen dataclass that computes its hash once: passes keep expressions in dictionaries, and a tree is hashed in time
    proportional to its size; different hashes tell that nodes differ. The class inherits `__slots__` with `_hash` in it. The
    hash is no field, so that no pickle carries it into a process with other hashes of strings."""
    made = frozen(cls)
    compute = made.__hash__

    def cached(self: Any) -> int:
        try:
            return self._hash
        except AttributeError:
            value = compute(self)
            object.__setattr__(self, "_hash", value)
            return value

    fields_equal = made.__eq__

    def equal(self: Any, other: object) -> bool:
        if self is other:
            return True
        if other.__class__ is not self.__class__:
            return NotImplemented
        return cached(self) == hash(other) and fields_equal(self, other)

    made.__hash__, made.__eq__ = cached, equal  # type: ignore[method-assign]
    return made
