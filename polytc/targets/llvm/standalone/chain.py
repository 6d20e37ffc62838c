"""What runs without Python: kernels in order, where their arrays lie, and what the caller gives."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from polytc.codegen import weight_file
from polytc.codegen.target import Source

WEIGHTS, ARENA, SCRATCH = 0, 1, 2
"""The areas that the model owns; those of the caller's arrays follow."""
OWN = 3


class Status(IntEnum):
    """What the functions return."""

    OK = 0
    BAD_ARRAY = 1
    BUSY = 2
    NO_MEMORY = 3
    NO_FILE = 4
    BAD_WEIGHTS = 5
    FOREIGN_PROCESSOR = 6


MEANINGS = {Status.OK: "done", Status.BAD_ARRAY: "an array is NULL, or an output shares memory with another array",
            Status.BUSY: "another thread runs this model: open one for each thread",
            Status.NO_MEMORY: "there is no memory", Status.NO_FILE: "the file of the weights cannot be read",
            Status.BAD_WEIGHTS: "the weights are damaged, or not those of this code",
            Status.FOREIGN_PROCESSOR: "this processor lacks instructions that the code was made of"}


@dataclass(frozen=True)
class Place:
    """area: WEIGHTS, ARENA, SCRATCH, or OWN + number of the caller's array. offset: bytes."""

    area: int
    offset: int = 0


@dataclass(frozen=True)
class Step:
    """One kernel source run once. source: its number. args: where its arrays and then its scratch buffers lie. arena: bytes
    into SCRATCH where the threads' own memory starts."""

    source: int
    args: tuple[Place, ...]
    arena: int


@dataclass(frozen=True)
class Skip:
    """A condition, one bool: the next `count` steps are skipped unless it is `wanted`."""

    condition: Place
    wanted: bool
    count: int


@dataclass(frozen=True)
class Copy:
    """Bytes that are copied after the last step: an output that is another value, too."""

    source: Place
    target: Place
    bytes: int


@dataclass(frozen=True)
class Argument:
    """An array of the caller: its name in the model, its type as the language calls it, and its row-major shape."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int


@dataclass(frozen=True)
class Chain:
    """name: prefix of the functions, a C identifier. header: the words that the file of weights begins with. arena, scratch:
    bytes; thread_bytes: what each thread adds to scratch. inputs, outputs: the arrays that the caller gives. maker: the
    program and version that made it."""

    name: str
    sources: tuple[Source, ...]
    steps: tuple[Step | Skip, ...]
    copies: tuple[Copy, ...]
    header: tuple[int, ...]
    arena: int
    scratch: int
    thread_bytes: int
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    maker: str = ""

    @property
    def weights(self) -> int:
        """Bytes of the file of weights; 0 if there are none."""
        return weight_file.BYTES + self.header[weight_file.BYTES_WORD] if self.header else 0

    @property
    def arrays(self) -> int:
        """How many the caller gives."""
        return len(self.inputs) + len(self.outputs)
