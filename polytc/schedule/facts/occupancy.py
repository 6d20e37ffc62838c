"""How many work-items a group has, and how many groups a compute unit needs."""

from __future__ import annotations

GROUP = 256
"""Work-items of a group at most."""
ENOUGH = 2
"""Groups of one compute unit that hide each other's waiting."""
