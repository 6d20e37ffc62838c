"""How many work-items a group has, and how many groups a compute unit needs."""

from __future__ import annotations

MAX_WORK_GROUP = 256
"""Work-items of a group at most: more share too few registers."""
