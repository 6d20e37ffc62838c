"""The bytes of a model's files, out of the reach of whoever writes to those files later.

    small file                          -> memory of this process
    large file                          -> a copy in the user's cache, mapped:  ~/.cache/polytc/weights/<SHA-256>.data
    large file, and no place for a copy -> memory of this process
    large arrays that were made of them, or lie there at odd addresses
                                        -> a file of their own there, mapped, if there is a place    (`to_file`)

Kernels read weights while the model runs. Were the model's own file mapped, cutting it short would end the process
(SIGBUS), and overwriting it would change results without a word. A copy is named by its contents, lies in a folder that only
the user can write to, and is there with all of its contents or not at all. It is made once: the code cache notes down which
copy belongs to a file with this stamp. POLYTC_WEIGHTS_SIZE limits what the copies may take (8G); those that were not used for
the longest time go.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np

from polytc.disk import cache, folder, mapped, stamps
from polytc.machine.alignment import ALIGNMENT

LARGE = 1 << 22
"""Bytes of a file of which a copy is made."""

LEAST = 1 << 16
"""Bytes of an array that is given a place in a file."""

LIMIT = 8 << 30
CHUNK = 1 << 22
SUFFIX = ".data"


def place() -> Path | None:
    """The folder of the copies, None where there is no cache."""
    code = cache.place()
    return None if code is None else code.parent / "weights"


def contents(path: Path, in_place: bool = False) -> np.ndarray:
    """The bytes of a plain file as they are now, not to be written. in_place: the file itself, mapped, whatever happens to it.

    Raises OSError, also where the file changes while it is read; ArgumentError E410 for a limit that is none.
    """
    if in_place:
        return mapped.mapped(path)
    if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would wait for somebody to write into it
        raise OSError(errno.EINVAL, "not a plain file", str(path))
    with path.open("rb", buffering=0) as file:
        status = os.fstat(file.fileno())
        if status.st_size >= LARGE:
            found = _copy(path, file.fileno(), status)
            if found is not None:
                return found
        return mapped.read(path, file.fileno(), status)


def _copy(path: Path, source: int, status: os.stat_result) -> np.ndarray | None:
    """The copy of an open file, made now unless there is one; None where there is no room for it."""
    where, stamp = place(), stamps.settled(status)
    if where is None:
        return None
    key = hashlib.sha256(repr(("weights", stamps.of(status))).encode()).hexdigest()
    known = _known(key) if stamp is not None else None
    try:
        with folder.opened(where, create=True) as descriptor:
            if known is not None:
                try:
                    return _map(descriptor, known, path, status)
                except OSError:  # it was removed to make room
                    pass
            if not _room(where, status.st_size):
                return None
            name = _written(descriptor, _pieces(source, status))
            found = _map(descriptor, name, path, status)
            _sweep(descriptor, name)
    except mapped.Changed:
        raise
    except OSError:  # no place, or a full one: memory serves
        return None
    if stamp is not None:
        cache.put(key, json.dumps(name).encode())
    return found


def _known(key: str) -> str | None:
    data = cache.get(key)
    try:
        name = json.loads(data) if data is not None else None
    except ValueError:
        return None
    return name if isinstance(name, str) and os.path.basename(name) == name else None


def _map(descriptor: int, name: str, path: Path, status: os.stat_result) -> np.ndarray:
    with folder.plain(descriptor, name) as file:
        return mapped.copy_of(path, status, file)


def _pieces(source: int, status: os.stat_result) -> Iterator[bytes]:
    """The contents of an open file, of which the system said `status`. Raises OSError, of which Changed."""
    total = 0
    while piece := os.pread(source, CHUNK, total):
        yield piece
        total += len(piece)
    mapped.check_unchanged(source, status, total)


def _written(descriptor: int, pieces: Iterable[bytes | memoryview], name: str = "") -> str:
    """The name of the file that is written now, one piece after the other. name: it, if that is known."""
    digest = hashlib.sha256()
    with folder.unfinished(descriptor) as (file, rename):
        for piece in pieces:
            if not name:
                digest.update(piece)
            file.write(piece)
        name = name or digest.hexdigest() + SUFFIX
        file.flush()
        os.fsync(file.fileno())  # the contents are not looked at again, so they must be there before the name is
        rename(name)
    return name


# ---- what was made of weights

def to_file(arrays: Mapping[str, np.ndarray], misaligned: bool = False) -> dict[str, np.ndarray]:
    """The same arrays, of which those that lie in memory of this process are parts of one mapped file, if they are large
    together and there is room: so that `mapped.release` gives their memory back when kernels have packed them. They must not
    be written to. misaligned: and those that lie in a copy of a file but not on cache lines, of which there would be copies in
    memory (native/aligned.py) whenever the model starts."""
    found, places, end = dict(arrays), dict[int, int](), 0
    own = {id(a): a for a in found.values() if _moves(a, misaligned)}
    known = {key: array for key, a in own.items() if (array := _moved(a)) is not None}
    new = [a for key, a in own.items() if key not in known]
    for a in new:
        places[id(a)], end = end, end + -(-a.nbytes // ALIGNMENT) * ALIGNMENT
    whole = _file_of(new, end) if end >= LARGE else None
    if whole is not None:
        for a in new:
            start = places[id(a)]
            known[id(a)] = whole[start:start + a.nbytes].view(a.dtype).reshape(a.shape)
            _MOVED[id(a)] = weakref.ref(a, _forget(id(a))), weakref.ref(known[id(a)])
    return {name: known.get(id(a), a) for name, a in found.items()}


_MOVED: dict[int, tuple[weakref.ref[np.ndarray], weakref.ref[np.ndarray]]] = {}
"""id of an array -> it, and the same in a file, as long as both are used: what is made of it is found by its address."""
_FILES: WeakValueDictionary[tuple[str, int], np.ndarray] = WeakValueDictionary()
"""Name and size -> the file as it is mapped."""


def _moves(a: np.ndarray, misaligned: bool) -> bool:
    if a.nbytes < LEAST or not a.flags.c_contiguous or not a.dtype.isnative or a.dtype.hasobject:
        return False
    origin = mapped.origin(a)
    return origin is None or misaligned and origin.lasting and not origin.live and a.ctypes.data % ALIGNMENT != 0


def _moved(a: np.ndarray) -> np.ndarray | None:
    source, found = _MOVED.get(id(a), (None, None))
    return found() if source is not None and found is not None and source() is a else None


def _forget(key: int) -> Callable[[object], None]:
    def forget(reference: object) -> None:
        if _MOVED.get(key, (None, None))[0] is reference:
            del _MOVED[key]
    return forget


def _file_of(arrays: Sequence[np.ndarray], size: int) -> np.ndarray | None:
    """The bytes of a file of these arrays, each at a multiple of ALIGNMENT; None where there is no room for it."""
    def pieces() -> Iterator[memoryview]:
        for a in arrays:
            yield a.reshape(-1).view(np.uint8).data
            yield memoryview(bytes(-a.nbytes % ALIGNMENT))
    digest = hashlib.sha256()
    for piece in pieces():
        digest.update(piece)
    name, where = digest.hexdigest() + SUFFIX, place()
    known = made(name, size)
    if known is not None or where is None:
        return known
    try:
        with folder.opened(where, create=True) as descriptor:
            if not _room(where, size):
                return None
            _sweep(descriptor, _written(descriptor, pieces(), name))
    except OSError:
        return None
    return made(name, size)


def made(name: str, size: int) -> np.ndarray | None:
    """The bytes of a file that `to_file` wrote, by its name; None if it is gone."""
    where, found = place(), _FILES.get((name, size))
    if found is not None or where is None or os.path.basename(name) != name:
        return found
    try:
        with folder.opened(where) as descriptor, folder.plain(descriptor, name) as file:
            found = _FILES[name, size] = mapped.own_file(where / name, size, file)
    except OSError:
        return None
    return found


def limit() -> int:
    """Bytes that the copies may take. Raises ArgumentError E410 for a POLYTC_WEIGHTS_SIZE that is no size."""
    return cache.size_of("POLYTC_WEIGHTS_SIZE", LIMIT)


def _room(where: Path, size: int) -> bool:
    """Does a copy leave half of what is free on the disk, and fit the limit?"""
    return size <= limit() and 2 * size <= _free(where)


def _free(where: Path) -> int:
    """Bytes on the disk for this user."""
    found = os.statvfs(where)
    return found.f_bavail * found.f_frsize


def _sweep(descriptor: int, last: str) -> None:
    """Remove the copies that were not used for the longest time, but for the last one made, until the limit holds."""
    found = sorted(folder.files(descriptor), key=lambda row: row[2])
    total = sum(size for _, size, _ in found)
    for name, size, used in found:
        left_behind = not name.endswith(SUFFIX) and cache.forgotten(used)
        if (left_behind or name.endswith(SUFFIX) and name != last and total > limit()) and folder.remove(descriptor, name):
            total -= size


def info() -> tuple[int, int]:
    """How many copies there are, and their bytes."""
    where = place()
    try:
        if where is None:
            return 0, 0
        with folder.opened(where) as descriptor:
            sizes = [size for name, size, _ in folder.files(descriptor) if name.endswith(SUFFIX)]
            return len(sizes), sum(sizes)
    except OSError:
        return 0, 0


def clear() -> int:
    """Remove all copies; how many files that were. What a process has mapped stays as it is. Raises OSError."""
    return folder.clear(place())
