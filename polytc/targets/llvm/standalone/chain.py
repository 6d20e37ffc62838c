"""What runs without Python: kernels in order, where their arrays lie, and what the caller gives."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from polytc.codegen import weight_file
from polytc.codegen.target import Source
from polytc.machine import Machine
from polytc.program.traces.formulas import Guard, Terms

WEIGHTS, ARENA, SCRATCH, NUMBERS = range(4)
"""The areas that the model owns, NUMBERS for what follows from sizes; those of the caller's arrays follow."""
OWN = 4


class Status(IntEnum):
    """What the functions return."""

    OK = 0
    BAD_ARRAY = 1
    BUSY = 2
    NO_MEMORY = 3
    NO_FILE = 4
    BAD_WEIGHTS = 5
    FOREIGN_PROCESSOR = 6
    BAD_SIZE = 7


MEANINGS = {Status.OK: "done", Status.BAD_ARRAY: "an array is NULL, or an output shares memory with another array",
            Status.BUSY: "another thread runs this model: open one for each thread",
            Status.NO_MEMORY: "there is no memory", Status.NO_FILE: "the file of the weights cannot be read",
            Status.BAD_WEIGHTS: "the weights are damaged, or not those of this code",
            Status.FOREIGN_PROCESSOR: "this processor lacks instructions that the code was made of",
            Status.BAD_SIZE: "the code is not for these sizes"}


@dataclass(frozen=True)
class Place:
    """area: WEIGHTS, ARENA, SCRATCH, NUMBERS, or OWN + number of the caller's array. offset: bytes."""

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
    bytes: Terms


@dataclass(frozen=True)
class Word:
    """A number that kernels read, which follows from the sizes. offset: bytes into NUMBERS; dtype: as the language calls it."""

    offset: int
    value: Terms
    dtype: str = "i64"


@dataclass(frozen=True)
class Variant:
    """The steps for one kind of processor and for those of the open sizes that meet `guards`.

    level: number of the kind among those of the chain. words: what is written once for each set of sizes. extents: of the
    caller's arrays, inputs first.
    """

    level: int
    steps: tuple[Step | Skip, ...]
    copies: tuple[Copy, ...]
    extents: tuple[tuple[Terms, ...], ...]
    guards: tuple[Guard, ...] = ()
    words: tuple[Word, ...] = ()


@dataclass(frozen=True)
class Argument:
    """An array of the caller: its name in the model, its type as the language calls it, and its row-major shape, that for the
    largest sizes where some are open. element: bytes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    element: int


@dataclass(frozen=True)
class OpenSize:
    """A size that the caller chooses, from `least` to `largest`."""

    name: str
    least: int
    largest: int


@dataclass(frozen=True)
class Chain:
    """name: prefix of the functions, a C identifier. levels: the kinds of processors, the best first; None for all. variants:
    the first that serves a processor and its sizes runs. header: the words that the file of weights begins with. arena,
    scratch, numbers: bytes; thread_bytes: what each thread adds to scratch. inputs, outputs: the arrays that the caller gives.
    sizes: those that are open. maker: the program and version that made it."""

    name: str
    sources: tuple[Source, ...]
    levels: tuple[Machine | None, ...]
    variants: tuple[Variant, ...]
    header: tuple[int, ...]
    arena: int
    scratch: int
    thread_bytes: int
    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    sizes: tuple[OpenSize, ...] = ()
    numbers: int = 0
    maker: str = ""

    @property
    def weights(self) -> int:
        """Bytes of the file of weights; 0 if there are none."""
        return weight_file.BYTES + self.header[weight_file.BYTES_WORD] if self.header else 0

    @property
    def arrays(self) -> tuple[Argument, ...]:
        """What the caller gives."""
        return *self.inputs, *self.outputs
