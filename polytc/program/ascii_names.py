"""Names for what knows ASCII alone: isl, C, files."""

from __future__ import annotations

import functools
import re

_SPELLED = re.compile("_u[0-9a-f]+_")


@functools.lru_cache(maxsize=4096)
def ascii_name(name: str) -> str:
    """The name in ASCII, another one for each name: `A\u00e9` is `A_ue9_`, and what looks like that is spelled as well."""
    if name.isascii() and not _SPELLED.search(name):
        return name
    return "".join(c if c.isascii() else f"_u{ord(c):x}_" for c in re.sub("_(?=u)", "_u5f_", name))
