"""A schedule as a user saves it: isl's YAML, and keys before its `domain` that say what it is for and how it was made.

    program: as written
    copies:
    - "S1 A 0,1"
    steps:
    - "cache A of S1 at i.0"
    domain: "{ S1[i, j] : 0 <= i < 512 and 0 <= j < 512 }"
    child: ...

Without `program` it is for whatever program has its domain; comments say nothing to the compiler.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from polytc import errors
from polytc.schedule.user.copies import Copy

_WRITTEN = "program: as written"
_ITEM = re.compile(r'- ("(?:[^"\\]|\\.)*")\s*')


@dataclass(frozen=True)
class Saved:
    """tree: isl's YAML; written: it is for the program before the rewrites, with the copies, whatever else it would fit; steps:
    what was done to program order."""

    tree: str
    written: bool = False
    copies: tuple[Copy, ...] = ()
    steps: tuple[str, ...] = ()

    def __str__(self) -> str:
        lists = (("copies", tuple(map(str, self.copies))), ("steps", self.steps))
        lines = [line for key, items in lists if items for line in (f"{key}:", *(f"- {json.dumps(x)}" for x in items))]
        return "\n".join([*([_WRITTEN] if self.written else []), *lines, self.tree])


def read(text: str) -> Saved:
    """What a text says that a user gave. Raises E702 for a copy that is none; the tree is read later, and has the lines that it
    has in the text."""
    lines = text.splitlines()
    lists: dict[str, list[str]] = {"copies:": [], "steps:": []}
    written, items, head = False, list[str](), 0
    for line in lines:
        item = _item(line)
        if line.rstrip() in lists:
            items = lists[line.rstrip()]
        elif item is not None:
            items.append(item)
        elif line.rstrip() == _WRITTEN:
            written = True
        elif line.strip() and not line.startswith("#"):
            break
        head += 1
    tree = "\n".join(["" if n < head else line for n, line in enumerate(lines)])
    return Saved(tree, written, tuple(map(_copy, lists["copies:"])), tuple(lists["steps:"]))


def _item(line: str) -> str | None:
    """The text of an item of a list."""
    found = _ITEM.fullmatch(line)
    try:
        return str(json.loads(found[1], strict=False)) if found is not None else None
    except ValueError:
        return None


def _copy(text: str) -> Copy:
    found = Copy.read(text)
    if found is None:
        raise errors.fail("E702", f"this is no copy in a schedule: {text!r}",
                          notes=["a copy names a statement, a tensor and the order of its dimensions: \"S1 A 0,1\""])
    return found
