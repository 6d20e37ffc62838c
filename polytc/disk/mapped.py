"""The bytes of files as arrays, and which file each array shows.

Three kinds: a file of somebody, mapped where it is; a copy of a file in the user's cache, mapped (disk/weights.py); and
memory of this process that was read from a file. Mapped pages are given back when the memory is better used otherwise.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np


class Changed(OSError):
    """A file was written to while it was read."""


@dataclass(frozen=True)
class Origin:
    """Where bytes come from. path: the file; status: what the system said about it when it was read. live: the file itself is
    mapped, so that who writes to it writes here; lasting: pages that are given back can be read again; own: the file is one of
    polytc's whose name tells its contents."""

    path: Path
    status: os.stat_result
    live: bool
    lasting: bool
    own: bool = False


_ORIGINS: WeakKeyDictionary[mmap.mmap, Origin] = WeakKeyDictionary()


def mapped(path: Path) -> np.ndarray:
    """The bytes of a plain file where it is, not to be written. Raises OSError."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would wait for somebody to write into it
        raise OSError(errno.EINVAL, "not a plain file", str(path))
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        return _noted(_whole(file.fileno(), found.st_size), Origin(path.absolute(), found, live=True, lasting=True))


def copy_of(path: Path, status: os.stat_result, descriptor: int) -> np.ndarray:
    """The bytes of a file, of which the system said `status`, from an open copy that nobody writes to. Raises OSError."""
    if os.fstat(descriptor).st_size != status.st_size:
        raise OSError(errno.EINVAL, "a copy of another size", str(path))
    return _noted(_whole(descriptor, status.st_size), Origin(path.absolute(), status, live=False, lasting=True))


def own_file(path: Path, size: int, descriptor: int) -> np.ndarray:
    """The bytes of an open file that nobody writes to and whose name tells its contents. Raises OSError."""
    status = os.fstat(descriptor)
    if status.st_size != size:
        raise OSError(errno.EINVAL, "a file of another size", str(path))
    return _noted(_whole(descriptor, size), Origin(path, status, live=False, lasting=True, own=True))


def read(path: Path, descriptor: int, status: os.stat_result) -> np.ndarray:
    """The bytes of an open file in memory of this process, not to be written. Raises OSError, of which Changed."""
    if not status.st_size:
        return _noted(None, Origin(path.absolute(), status, live=False, lasting=False))
    memory, total = mmap.mmap(-1, status.st_size), 0
    with memoryview(memory) as view:
        while total < len(view) and (got := os.preadv(descriptor, [view[total:]], total)):
            total += got
    check_unchanged(descriptor, status, total)
    return _noted(memory, Origin(path.absolute(), status, live=False, lasting=False))


def check_unchanged(descriptor: int, before: os.stat_result, read: int) -> None:
    """Raises Changed if an open file is no longer what it was, or fewer bytes were read."""
    now = os.fstat(descriptor)
    if read != before.st_size or (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise Changed(errno.EBUSY, "the file was written to while it was read")


def _whole(descriptor: int, size: int) -> mmap.mmap | None:
    return mmap.mmap(descriptor, size, access=mmap.ACCESS_READ) if size else None


def _noted(whole: mmap.mmap | None, origin: Origin) -> np.ndarray:
    if whole is None:
        return np.frombuffer(b"", np.uint8)
    _ORIGINS[whole] = origin
    found = np.frombuffer(whole, np.uint8)
    found.flags.writeable = False
    return found


def file_of(array: np.ndarray) -> mmap.mmap | None:
    """The memory of a file whose bytes an array shows, None for any other array."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    whole = base.obj if isinstance(base, memoryview) else base
    return whole if isinstance(whole, mmap.mmap) and whole in _ORIGINS else None


def origin(array: np.ndarray) -> Origin | None:
    """Of the bytes that an array shows; None for arrays that are of no file."""
    whole = file_of(array)
    return _ORIGINS[whole] if whole is not None else None


def offset(array: np.ndarray) -> int:
    """Bytes from the start of the file whose bytes an array shows; 0 for other arrays."""
    whole = file_of(array)
    return int(array.ctypes.data - np.frombuffer(whole, np.uint8).ctypes.data) if whole is not None and array.size else 0


def release(array: np.ndarray) -> None:
    """Give back the memory that holds the elements of an array, if they are a part of a mapped file: the next who touches them
    reads them again."""
    whole = file_of(array)
    if whole is None or not _ORIGINS[whole].lasting or not array.size or not hasattr(mmap, "MADV_DONTNEED"):
        return
    start = offset(array)
    first = start // mmap.PAGESIZE * mmap.PAGESIZE
    whole.madvise(mmap.MADV_DONTNEED, first, start + array.nbytes - first)


def changed(arrays: Iterable[np.ndarray]) -> Path | None:
    """The name of a file that some of the arrays show where it is, if somebody has written to it since."""
    return next(filter(None, map(_changed, {f for f in map(file_of, arrays) if f is not None})), None)


def _changed(whole: mmap.mmap) -> Path | None:
    origin = _ORIGINS[whole]
    before = origin.status
    try:
        now = os.stat(origin.path)
    except OSError:  # removed: what is mapped stays
        return None
    replaced = (now.st_dev, now.st_ino) != (before.st_dev, before.st_ino)
    same = (now.st_size, now.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    return None if not origin.live or replaced or same else origin.path
