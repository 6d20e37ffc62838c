"""What changed from one program to another, in words: the record of steps that have no choices to tell of."""

from __future__ import annotations

from polytc.program.program import Program, reads
from polytc.rewrite.step import Reason


def changes(before: Program, after: Program) -> tuple[Reason, ...]:
    """A line for each statement that is new, gone or another, and for the tensors that are new or gone."""
    old, new = ({s.name: s for s in p.statements} for p in (before, after))
    found = [Reason(name, True, _gone(before, after, name)) for name in old if name not in new]
    found += [Reason(name, True, f"new, makes {s.target}") for name, s in new.items() if name not in old]
    found += [Reason(name, True, _changed(before, after, name)) for name, s in new.items() if name in old and s != old[name]]
    shapes = {t.name: t.shape for t in after.tensors}
    for t in before.tensors:
        if t.name in shapes and shapes[t.name] != t.shape:
            found.append(Reason("", True, f"{t.name} seen as {_extents(shapes[t.name])}, not {_extents(t.shape)}"))
    return tuple(found)


def _gone(before: Program, after: Program, name: str) -> str:
    """What becomes of a statement that is no longer there."""
    target = before.statement(name).target
    readers = [s.name for s in before.statements if s.name != name and target in {r.tensor for r in reads(s)}]
    if target not in {t.name for t in after.tensors} and readers:
        return f"{target} is computed where {' and '.join(readers)} read{'s' * (len(readers) == 1)} it"
    return "gone"


def _changed(before: Program, after: Program, name: str) -> str:
    """The parts of a statement that are others."""
    old, new = before.statement(name), after.statement(name)
    parts = []
    if [r.index for r in old.ranges] != [r.index for r in new.ranges]:
        parts.append(f"indices {', '.join(new.indices) or 'none'} in place of {', '.join(old.indices) or 'none'}")
    elif old.ranges != new.ranges:
        parts.append("ranges changed")
    was, now = (list(dict.fromkeys(r.tensor for r in reads(s))) for s in (old, new))
    if was != now:
        parts.append(f"reads {', '.join(now) or 'nothing'} in place of {', '.join(was) or 'nothing'}")
    if old.where != new.where or old.bounds != new.bounds:
        parts.append("conditions changed")
    if old.target != new.target:
        parts.append(f"makes {new.target}")
    return "; ".join(parts) or "value changed"


def _extents(shape: tuple[object, ...]) -> str:
    return "x".join(map(str, shape)) or "a number"
