"""Text of several modules to read and to ship: the functions that kernels need once, each kernel under a comment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from polytc.codegen import loops
from polytc.codegen.target import Launch
from polytc.targets.ctext.text import comment


@dataclass(frozen=True)
class Part:
    """A module, as a target's source has it. entry: what the names of its kernels begin with. about: lines on what it computes,
    written above its first kernel. notes: statement -> what to call it where it is computed."""

    module: loops.Module
    entry: str
    about: tuple[str, ...]
    notes: dict[str, str]

    def named(self, number: int, kernel: loops.Kernel) -> str:
        """The name of a kernel, from its number."""
        return f"{self.entry}_{number}"


@dataclass(frozen=True)
class Parameter:
    """Of a kernel in a text. type: as it is declared; access: 'read', 'write' or 'read_write' of an array, '' of a number."""

    name: str
    type: str
    access: str


@dataclass(frozen=True)
class Library:
    """text: without a head comment. launches: of each part, in order; local_bytes: by entry. build: compiler flags. doubles:
    does it compute with f64? alignment: bytes that the address of each array is a multiple of; 0: that of its elements.
    parameters: of kernels, by entry; alignments: for the arrays of each kernel, by entry, where they differ."""

    text: str
    launches: tuple[tuple[Launch, ...], ...]
    local_bytes: dict[str, int]
    build: str
    doubles: bool
    alignment: int
    parameters: dict[str, tuple[Parameter, ...]]
    alignments: dict[str, int] = field(default_factory=dict)


def commented(part: Part, lines: Sequence[str], first: bool) -> str:
    """The text of a kernel; what the part computes stands above its first one."""
    return (comment(part.about) if first and part.about else "") + "\n".join(lines) + "\n"
