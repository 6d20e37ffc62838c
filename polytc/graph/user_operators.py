"""Texts of operators that a user registered, or that another distribution has (registry.py)."""

from __future__ import annotations

OWN_TEXTS: dict[str, dict[str, str]] = {}
"""'domain::Op' -> the whole text of a user, by the name of each operator in it."""
INSTALLED: set[str] = set()
"""Those of them that came from an installed distribution, whose files the keys of stored models stand for."""


def given() -> bool:
    """Did this process register a text? Nothing that is stored speaks of it."""
    return not OWN_TEXTS.keys() <= INSTALLED
