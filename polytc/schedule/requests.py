"""The schedules that have a name."""

from __future__ import annotations

import re

from polytc import errors
from polytc.schedule.fusion.policies import POLICIES

errors.register(E702="the text is not a schedule")

REQUESTS = (None, "isl", "program", *POLICIES)
"""Requests other than the text of a schedule."""


def check_request(text: str) -> None:
    """Refuses a word that names no schedule (E702)."""
    if re.fullmatch(r"\s*[\w.-]*\s*", text) and text not in REQUESTS:
        raise errors.fail("E702", f"there is no schedule {text.strip()!r}", notes=[
            f"those with a name are {', '.join(r for r in REQUESTS if r is not None)}",
            "another one is the text or the file that polytc.schedule makes, or isl's YAML"])
