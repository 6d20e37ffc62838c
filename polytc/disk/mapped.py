"""Files as arrays that show their bytes: read when they are touched, given back when the memory is better used otherwise.

A file that is replaced by another of the same name stays what it was; one that is written to, or cut, does not, see `changed`.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np

_STAMPS: WeakKeyDictionary[mmap.mmap, tuple[Path, os.stat_result]] = WeakKeyDictionary()
"""Of each mapped file its name, and what the system said about it at that time."""


def mapped(path: Path) -> np.ndarray:
    """The bytes of a plain file, not to be written. Raises OSError."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would wait for somebody to write into it
        raise OSError(errno.EINVAL, "not a plain file", str(path))
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        if not found.st_size:
            return np.frombuffer(b"", np.uint8)
        whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    _STAMPS[whole] = path.absolute(), found
    return np.frombuffer(whole, np.uint8)


def file_of(array: np.ndarray) -> mmap.mmap | None:
    """The mapped file whose bytes an array shows, None for any other array."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    whole = base.obj if isinstance(base, memoryview) else None
    return whole if isinstance(whole, mmap.mmap) and whole in _STAMPS else None


def origin(array: np.ndarray) -> tuple[Path, os.stat_result] | None:
    """The mapped file whose bytes an array shows, and what the system said about it when it was mapped; None for
    other arrays."""
    whole = file_of(array)
    return _STAMPS[whole] if whole is not None else None


def offset(array: np.ndarray) -> int:
    """Bytes from the start of the mapped file whose bytes an array shows; 0 for other arrays."""
    whole = file_of(array)
    return int(array.ctypes.data - np.frombuffer(whole, np.uint8).ctypes.data) if whole is not None and array.size else 0


def release(array: np.ndarray) -> None:
    """Give back the memory that holds the elements of an array, if they are a part of a mapped file: the next who touches them
    reads them again."""
    whole = file_of(array)
    if whole is None or not array.size or not hasattr(mmap, "MADV_DONTNEED"):
        return
    start = offset(array)
    first = start // mmap.PAGESIZE * mmap.PAGESIZE
    whole.madvise(mmap.MADV_DONTNEED, first, start + array.nbytes - first)


def changed(arrays: Iterable[np.ndarray]) -> Path | None:
    """The name of a mapped file that some of the arrays show, if somebody has written to it since."""
    return next(filter(None, map(_changed, {f for f in map(file_of, arrays) if f is not None})), None)


def _changed(whole: mmap.mmap) -> Path | None:
    path, before = _STAMPS[whole]
    try:
        now = os.stat(path)
    except OSError:  # removed: what is mapped stays
        return None
    replaced = (now.st_dev, now.st_ino) != (before.st_dev, before.st_ino)
    return None if replaced or (now.st_size, now.st_mtime_ns) == (before.st_size, before.st_mtime_ns) else path
