"""A schedule for open sizes as one of a program of typical sizes, which can be counted."""

from __future__ import annotations

import re

from polytc.poly.dependences import Dependences, analyse
from polytc.poly.scop import Scop, extract
from polytc.program import program as pr
from polytc.schedule.tree import Schedule, read, to_yaml

_DOMAIN = re.compile(r'domain: "[^"]*"')
_OPTIONS = re.compile(r"^ *options: .*\n", re.MULTILINE)
"""Of the code for a band, not of its order."""


def of_typical(program: pr.Program, schedule: Schedule) -> tuple[Scop, Dependences, Schedule]:
    """A program of typical sizes (generalise.numeric), and the schedule for open ones as one of that."""
    scop = extract(program)
    text = _OPTIONS.sub("", _DOMAIN.sub(lambda _: f'domain: "{scop.domain}"', to_yaml(schedule), count=1))
    return scop, analyse(scop), Schedule(read(text, scop), schedule.how)
