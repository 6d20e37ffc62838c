"""The texts of declared intrinsics, with the operands of a call in them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from polytc import errors
from polytc.program.intrinsics import HOLE
from polytc.targets.ctext.intrinsic_nests import Argument, Nest
from polytc.targets.ctext.text import PREFIX, operand

if TYPE_CHECKING:
    from polytc.targets.ctext.statements import Statements


def write(to: Statements, nest: Nest, language: str) -> None:
    """The lines of a call."""
    found = nest.call.intrinsic.in_language(language)
    assert found is not None, "intrinsic: no text for the language"
    code, head = found
    if head:
        to.expressions.preamble.add(f"intrinsic {nest.call.intrinsic.name}", head.rstrip() + "\n")
    to.note(nest.store)
    if nest.call.intrinsic.alignment > 1:
        to.memory.needs_alignment = True
    arguments = {a.operand.name: a for a in nest.arguments}

    def filled(hole: re.Match[str]) -> str:
        return _told(to, arguments[hole[1]], hole[2] or "")
    for line in HOLE.sub(filled, code).splitlines():
        to.line(line if line.rstrip().endswith((";", "}", "{")) else f"{line};")


def _told(to: Statements, a: Argument, what: str) -> str:
    """A hole: the pointer or element, a stride, or the address space."""
    if what == "space":
        return to.memory.space_of(a.buffer)
    if what:
        return str(a.strides[int(what)])
    if to.memory.place(a.buffer).lanes > 1:
        raise errors.fail("E527", f"{a.buffer.name} is kept in vectors, of which no pointer is had", kind=errors.TargetError,
                          notes=["leave vectors away beside an intrinsic"])
    element = to.memory.element(to.expressions, a.buffer, a.indices)
    if not a.operand.rows:
        return element
    pointer = operand(f"&{element}", PREFIX)
    return f"({pointer} {'-' if a.offset > 0 else '+'} {abs(a.offset)})" if a.offset else pointer
