"""The disk cache of built code (and of the tables of the parser): bytes by key, a file each, in a folder of the user.

    ~/.cache/polytc/code/<key>.bin = "polytc 1\n", SHA-256 of key and contents, contents

Any number of processes may read and write it at once. What cannot be read, or does not have its checksum, counts as absent and
is dropped; what cannot be written is done without, with one warning. When the files grow beyond the limit, those that were not
used for the longest time go. The keys say everything that the contents depend on (see polytc/keys.py).

POLYTC_CACHE=0 turns it off; POLYTC_CACHE_DIR is the folder instead of ~/.cache/polytc; POLYTC_CACHE_SIZE the limit (1G). Copies
of large weights lie beside it (weights.py).
"""

from __future__ import annotations

import hashlib
import os
import re
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from polytc.disk import folder
from polytc.errors import ArgumentError, fail

MAGIC = b"polytc 1\n"
HEAD = len(MAGIC) + hashlib.sha256().digest_size
SUFFIX = ".bin"
LIMIT = 1 << 30
FORGOTTEN = 3600.0
"""Seconds after which a file that was never finished counts as left behind by a process that was killed."""


@dataclass
class _State:
    """What this process knows. warned: it said that something is wrong; full: it gave up writing; unswept: bytes written since
    it last looked at the size of everything; None at first."""

    warned: bool = False
    full: bool = False
    unswept: int | None = None


_STATE = _State()


def place() -> Path | None:
    """The folder of the entries, or None where there is no cache: turned off, no home, or a system without owners of files."""
    if os.environ.get("POLYTC_CACHE", "").strip().lower() in ("0", "off", "no", "false") or not folder.SUPPORTED:
        return None
    given, xdg = os.environ.get("POLYTC_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME", "")
    try:
        base = Path(given) if given else (Path(xdg) if os.path.isabs(xdg) else Path.home() / ".cache") / "polytc"
    except RuntimeError:  # nobody's home
        return None
    return base / "code"


def limit() -> int:
    """Bytes that the entries may take. Raises ArgumentError E410 for a POLYTC_CACHE_SIZE that is no size."""
    return size_of("POLYTC_CACHE_SIZE", LIMIT)


def size_of(variable: str, default: int) -> int:
    """The bytes that a variable of the environment asks for. Raises ArgumentError E410 for what is no size."""
    text = os.environ.get(variable, "").strip()
    if not text:
        return default
    match = re.fullmatch(r"([0-9]{1,15})\s*([KMGT]?)(i?B)?", text, re.IGNORECASE | re.ASCII)
    if match is None:
        raise fail("E410", f"{variable} is {text!r}, not a size", kind=ArgumentError,
                   notes=["write a number of bytes, or one such as 500M or 2G"])
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[match[2].upper()]


def get(key: str) -> bytes | None:
    """The contents stored for the key, or None."""
    path = place()
    if path is None:
        return None
    try:
        with folder.opened(path) as descriptor:
            return _checked(descriptor, key)
    except folder.Untrusted as error:
        _warn(f"the cache of compiled code is not used: {error}")
    except OSError:  # not there yet, or not readable
        pass
    return None


def _checked(descriptor: int, key: str) -> bytes | None:
    try:
        data = folder.read(descriptor, key + SUFFIX)
    except FileNotFoundError:
        return None
    except OSError:
        data = b""
    contents = data[HEAD:]
    if data[:HEAD] == _head(key, contents):
        return contents
    folder.remove(descriptor, key + SUFFIX)
    return None


def _head(key: str, contents: bytes) -> bytes:
    digest = hashlib.sha256(key.encode())
    digest.update(contents)
    return MAGIC + digest.digest()


def put(key: str, contents: bytes) -> None:
    """Store contents for a key, if the disk takes them. Raises ArgumentError E410, see `limit`."""
    path, most = place(), limit()
    size = HEAD + len(contents)
    if path is None or _STATE.full or size > most // 4:
        return
    try:
        with folder.opened(path, create=True) as descriptor:
            folder.write(descriptor, key + SUFFIX, _head(key, contents) + contents)
            _STATE.unswept = most if _STATE.unswept is None else _STATE.unswept + size
            if _STATE.unswept > most // 64:
                _STATE.unswept = 0
                _sweep(descriptor, most)
    except FileNotFoundError:  # somebody cleared the cache meanwhile
        pass
    except OSError as error:
        _STATE.full = True
        _warn(f"compiled code is not kept: {error}; POLYTC_CACHE_DIR chooses another folder, POLYTC_CACHE=0 does without")


def _sweep(descriptor: int, most: int) -> None:
    """Remove what was not used for the longest time until the rest takes three quarters of what may be taken."""
    found = sorted(folder.files(descriptor), key=lambda row: row[2])
    total = sum(size for _, size, _ in found)
    goal = most * 3 // 4 if total > most else most
    for name, size, used in found:
        stale = not name.endswith(SUFFIX) and forgotten(used)
        if (stale or name.endswith(SUFFIX) and total > goal) and folder.remove(descriptor, name):
            total -= size


def forgotten(used: float) -> bool:
    """Has a file that was last used at that time been left behind, if it has no name yet?"""
    return time.time() - used > FORGOTTEN


def drop(key: str) -> None:
    """Forget the contents of a key: they turned out to be of no use."""
    path = place()
    try:
        if path is not None:
            with folder.opened(path) as descriptor:
                folder.remove(descriptor, key + SUFFIX)
    except OSError:
        pass


def fetch(key: str, make: Callable[[], bytes]) -> bytes:
    """The contents stored for the key; made and stored if there are none."""
    found = get(key)
    if found is None:
        found = make()
        put(key, found)
    return found


@dataclass(frozen=True)
class Info:
    """What lies in the cache. folder: None if it is off; problem: why it is not used although it is on."""

    folder: Path | None
    entries: int = 0
    bytes: int = 0
    limit: int = 0
    problem: str = ""


def info() -> Info:
    """What lies in the cache now."""
    path = place()
    if path is None:
        return Info(None)
    try:
        with folder.opened(path) as descriptor:
            sizes = [size for name, size, _ in folder.files(descriptor) if name.endswith(SUFFIX)]
            return Info(path, len(sizes), sum(sizes), limit())
    except FileNotFoundError:
        return Info(path, limit=limit())
    except OSError as error:
        return Info(path, limit=limit(), problem=str(error))


def clear() -> int:
    """Remove everything from the cache; how many files that were. Raises OSError where the folder cannot be used."""
    return folder.clear(place())


def _warn(message: str) -> None:
    if not _STATE.warned:
        _STATE.warned = True
        warnings.warn(message, RuntimeWarning, stacklevel=3)
