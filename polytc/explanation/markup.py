"""Elements of HTML and SVG as text. Content is markup already; `plain` makes it from text."""

from __future__ import annotations

import html
from collections.abc import Iterable


def plain(text: object) -> str:
    """Text as markup."""
    return html.escape(str(text), quote=True)


def tag(name: str, content: str = "", style: str = "", /, **attributes: object) -> str:
    """`<name class="style" key="value" ...>content</name>`; numbers are written with one decimal, `_` in a key as `-`."""
    written = {"class": style} if style else {}
    written |= {key.rstrip("_").replace("_", "-"): _value(value) for key, value in attributes.items()}
    return f"<{' '.join([name, *(f'{k}={chr(34)}{plain(v)}{chr(34)}' for k, v in written.items())])}>{content}</{name}>"


def _value(value: object) -> str:
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def table(head: Iterable[str], rows: Iterable[Iterable[str]], numbers: int = 0) -> str:
    """Cells are markup; the first column is text, the next `numbers` are numbers."""
    def line(cell: str, row: Iterable[str]) -> str:
        return tag("tr", "".join(tag(cell, content, "number" if 0 < n <= numbers else "") for n, content in enumerate(row)))
    return tag("table", line("th", head) + "".join(line("td", row) for row in rows))


def statement(name: str) -> str:
    """A statement's name that lights up wherever it stands."""
    return tag("span", plain(name), "name", data_s=name)
