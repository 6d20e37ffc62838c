"""The former place of polytc.program.extents, for those who import it from here."""

from polytc.program.extents import at

__all__ = ["at"]
