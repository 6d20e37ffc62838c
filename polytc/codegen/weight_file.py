"""The file of weights beside compiled code: a header that is of these weights alone, then the arrays.

    words 0-7    magic, version, bytes of the arrays, two sums of them, zeros
    from 64 on   the arrays, each at a multiple of ALIGNMENT

Code has the header as constants. It refuses a file with another one, and a file whose arrays have other sums: that of another
export, a cut one, one that a disk has damaged.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from polytc.machine import ALIGNMENT

WORDS = 8
"""Of the header, 64 bits each, in the byte order of the processor as the arrays are."""
BYTES = 8 * WORDS
BYTES_WORD, SUM_WORD, SUMS_WORD = 2, 3, 4
"""Which words are the bytes of the arrays and their two sums."""
MAGIC = int.from_bytes(b"polytc-w", "little")
VERSION = 1

Header = tuple[int, ...]


def offsets(parts: Sequence[np.ndarray]) -> list[int]:
    """Where each array begins behind the header, and the end of the last, in bytes."""
    found = [0]
    for part in parts:
        found.append(found[-1] + -(-part.nbytes // ALIGNMENT) * ALIGNMENT)
    return found


def header(parts: Sequence[np.ndarray]) -> Header:
    """The words of the header of these arrays."""
    total, sums = 0, 0
    for words in map(_words, parts):
        # What stands before a word counts as often as there are words behind it: sums += total, for each word.
        behind = np.arange(len(words), 0, -1, dtype=np.uint64)
        sums += total * len(words) + int((behind * words).sum(dtype=np.uint64))
        total += int(words.sum(dtype=np.uint64))
    found = (MAGIC, VERSION, offsets(parts)[-1], total % 2**64, sums % 2**64)
    return (*found, *(0,) * (WORDS - len(found)))


def write(parts: Sequence[np.ndarray], path: Path) -> Path:
    """Write the file."""
    with path.open("wb") as file:
        file.write(np.array(header(parts), np.uint64).tobytes())
        for part in parts:
            file.write(np.ascontiguousarray(part).tobytes())
            file.write(bytes(-part.nbytes % ALIGNMENT))
    return path


def _words(part: np.ndarray) -> np.ndarray:
    """The bytes of an array with the zeros behind it, as 64-bit words."""
    return np.frombuffer(np.ascontiguousarray(part).tobytes() + bytes(-part.nbytes % ALIGNMENT), np.uint64)
