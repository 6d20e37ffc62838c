"""What stored results depend on, told apart by stamps that take no time: the processor, libraries and sources on disk.

A stamp is not the thing: it says when a file was last changed (as Python itself does for its byte code) where a key (keys.py)
says what is in it. What changes while this process runs, or has been changed a moment ago, has no stamp.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from polytc import extensions

SETTLED = 2.0
"""Seconds after which a changed file has another time than the change before: what clocks of file systems distinguish."""

LIBRARIES = ("numpy", "onnx", "google", "llvmlite", "islpy", "lark", "ml_dtypes")
"""Packages that decide what compiled code looks like."""

_STARTED = time.time() - 1.0
"""No later than when this process read the first of the source files."""


def file(path: str | os.PathLike[str]) -> tuple[int, ...] | None:
    """The stamp of a file: what tells it from others and from itself before it was changed. None if there is no such file, or
    if it was changed just now."""
    try:
        return settled(os.stat(path))
    except OSError:
        return None


def of(found: os.stat_result) -> tuple[int, ...]:
    """The stamp of a file of which the system says this."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def settled(found: os.stat_result) -> tuple[int, ...] | None:
    """As `of`, None for a file that was changed just now."""
    return of(found) if max(found.st_mtime, found.st_ctime) < time.time() - SETTLED else None


@functools.cache
def native() -> str | None:
    """A stamp of what runs native code and of what makes it: this processor, LLVM and polytc. None where it cannot be told."""
    here, sources = _processor(), _sources()
    return None if here is None or sources is None else f"{here} {_library('llvmlite')} {sources}"


@functools.cache
def compilation() -> str | None:
    """A stamp of all that makes a model's code besides the model. None where it cannot be told."""
    here = native()
    return None if here is None else "\n".join([sys.version, here, *map(_library, LIBRARIES)])


@functools.cache
def _processor() -> str | None:
    """What Linux says about the first processor, without what changes from time to time."""
    try:
        first = Path("/proc/cpuinfo").read_bytes().partition(b"\n\n")[0].splitlines()
    except OSError:
        return None
    lasting = [line for line in first if not line.lower().startswith((b"cpu mhz", b"bogomips"))]
    return hashlib.sha256(b"\n".join([os.uname().machine.encode(), *lasting])).hexdigest()


def _library(name: str) -> str:
    """Where a package lies and when it was installed, without importing it."""
    spec = importlib.util.find_spec(name)
    folders = [spec.origin] if spec is not None and spec.origin else []
    folders += list(spec.submodule_search_locations or ()) if spec is not None else []
    return " ".join([name, *(f"{p} {os.stat(p).st_mtime_ns}" for p in folders if p is not None and os.path.exists(p))])


def _sources() -> str | None:
    """Of polytc's own files, its grammar and what extends it; None if one was written since this process began."""
    digest, newest = hashlib.sha256(), 0.0
    for path, found in sorted(file for folder in (*_folders(), *extensions.places()) for file in _files(folder)):
        digest.update(f"{path}\0{found.st_size}\0{found.st_mtime_ns}\n".encode())
        newest = max(newest, found.st_mtime)
    return digest.hexdigest() if newest < _STARTED else None


def _folders() -> tuple[str, ...]:
    """Where polytc's files lie. A wheel has the grammar within the package, a checkout beside it."""
    root = Path(__file__).resolve().parents[1]
    beside = root.parent / "grammar" / "polytc.lark"
    return (str(root), str(beside.parent)) if beside.is_file() else (str(root),)


def _files(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    if not os.path.isdir(folder):
        yield folder, os.stat(folder)
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                if entry.name != "__pycache__":
                    yield from _files(entry.path)
            else:
                yield entry.path, entry.stat()
