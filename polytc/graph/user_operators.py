"""Texts of operators that a user registered (registry.py)."""

from __future__ import annotations

OWN_TEXTS: dict[str, dict[str, str]] = {}
"""'domain::Op' -> the whole text of a user, by the name of each operator in it. No stored model is found beside it."""
