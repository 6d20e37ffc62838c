"""A schedule as a user saves it: isl's YAML, and keys before its `domain` that say what it is for and how it was made.

    program: as written
    changes:
    - "cache S1 A 0,1"
    steps:
    - "cache A of S1 at i.0"
    domain: "{ S1[i, j] : 0 <= i < 512 and 0 <= j < 512 }"
    child: ...

Without `program` it is for whatever program has its domain; comments say nothing to the compiler. `changes` are what was done
to the program itself (schedule.user.changes), in order: with them the text is enough to make the program again.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from polytc.schedule.user.changes import listed
from polytc.schedule.user.changes.listed import Change

_WRITTEN = "program: as written"
_ITEM = re.compile(r'- ("(?:[^"\\]|\\.)*")\s*')


@dataclass(frozen=True)
class Saved:
    """tree: isl's YAML; written: it is for the program before the rewrites, with the changes, whatever else it would fit;
    steps: what was done to program order."""

    tree: str
    written: bool = False
    changes: tuple[Change, ...] = ()
    steps: tuple[str, ...] = ()

    def __str__(self) -> str:
        lists = (("changes", tuple(map(str, self.changes))), ("steps", self.steps))
        lines = [line for key, items in lists if items for line in (f"{key}:", *(f"- {json.dumps(x)}" for x in items))]
        return "\n".join([*([_WRITTEN] if self.written else []), *lines, self.tree])


def read(text: str) -> Saved:
    """What a text says that a user gave. Raises E702 for a change that is none; the tree is read later, and has the lines that
    it has in the text."""
    lines = text.splitlines()
    lists: dict[str, list[str]] = {"copies:": [], "changes:": [], "steps:": []}
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
    copies = (f"cache {c}" for c in lists["copies:"])  # the only changes, once
    changes = tuple(map(listed.read, (*copies, *lists["changes:"])))
    return Saved(tree, written, changes, tuple(lists["steps:"]))


def _item(line: str) -> str | None:
    """The text of an item of a list."""
    found = _ITEM.fullmatch(line)
    try:
        return str(json.loads(found[1], strict=False)) if found is not None else None
    except ValueError:
        return None
