"""A folder that only its user can have written: what native code may be loaded from.

The folder is opened once for each operation, looked at through that descriptor (a directory, no symbolic link, owned by the
user that we run as, closed to everybody else), and its files are opened relative to it, so that what was checked is what is
used, whatever happens to names on the way there. Files must be plain, the user's own, and writable by nobody else.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

CLOSED = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)

SUPPORTED = {os.open, os.rename, os.unlink, os.stat} <= os.supports_dir_fd and os.listdir in os.supports_fd
"""Whether this system has files with owners, and names relative to descriptors."""


class Untrusted(OSError):
    """A folder or a file that somebody else may have written."""


@contextmanager
def opened(path: Path, create: bool = False) -> Iterator[int]:
    """A descriptor of the folder. create: make it first, with its parents. Raises OSError, of which Untrusted."""
    if create and not path.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | CLOSED)
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid():
            raise Untrusted(f"{path} belongs to user {found.st_uid}, not to {os.geteuid()}")
        if found.st_mode & 0o077:
            raise Untrusted(f"{path} is open to other users (mode {stat.S_IMODE(found.st_mode):04o}); "
                            f"if you trust what lies there: chmod 700 {path}")
        yield descriptor
    finally:
        os.close(descriptor)


def read(folder: int, name: str) -> bytes:
    """The contents of a file, whose time of use becomes now. Raises OSError, of which Untrusted."""
    with plain(folder, name) as descriptor, open(descriptor, "rb", closefd=False) as file:
        return file.read()


@contextmanager
def plain(folder: int, name: str) -> Iterator[int]:
    """A descriptor of a file that only its user can have written, whose time of use becomes now. Raises OSError, of which
    Untrusted."""
    descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK | CLOSED, dir_fd=folder)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise Untrusted(f"{name} is not a plain file of ours")
        with suppress(OSError):  # a read-only disk
            os.utime(descriptor)
        yield descriptor
    finally:
        os.close(descriptor)


def write(folder: int, name: str, data: bytes) -> None:
    """A file that is there with all of its contents or not at all, whoever reads and writes at the same time. Raises OSError.

    Nothing is flushed to the disk: after a loss of power a file may be short, which readers find out by its checksum.
    """
    with unfinished(folder) as (file, rename):
        file.write(data)
        rename(name)


@contextmanager
def unfinished(folder: int) -> Iterator[tuple[BinaryIO, Callable[[str], None]]]:
    """A new file to write to, and the function that gives it its name; it is gone where that is not called. Raises OSError."""
    temporary = f"{os.getpid()}.{os.urandom(8).hex()}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | CLOSED, 0o600, dir_fd=folder)
    try:
        with open(descriptor, "wb") as file:
            def rename(name: str) -> None:
                file.flush()
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            yield file, rename
    finally:  # after an interrupt too: nothing is left behind
        remove(folder, temporary)


def remove(folder: int, name: str) -> bool:
    """Whether the file was there, and went."""
    try:
        os.unlink(name, dir_fd=folder)
        return True
    except OSError:
        return False


def files(folder: int) -> list[tuple[str, int, float]]:
    """Name, bytes and time of last use of every file."""
    found = []
    for name in os.listdir(folder):
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:  # another process was quicker
            continue
        if stat.S_ISREG(status.st_mode):
            found.append((name, status.st_size, status.st_mtime))
    return found


def clear(path: Path | None) -> int:
    """Remove all files of a folder, if there is one; how many that were. Raises OSError where the folder cannot be used."""
    if path is None:
        return 0
    try:
        with opened(path) as descriptor:
            return sum(remove(descriptor, name) for name, _, _ in files(descriptor))
    except FileNotFoundError:
        return 0
