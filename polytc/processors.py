"""How many processors this process may use: those of its affinity mask, and no more than the quota of its control groups.

A container that may use two processors' worth of time usually sees all of the machine's processors; with a thread for each, all
threads are stopped together whenever the quota of a period (100 ms) is spent.
"""

from __future__ import annotations

import ctypes
import math
import os
import platform
import re
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
PROCESS = Path("/proc/self/cgroup")
ARCH_PRCTL, REQUEST, TILE_DATA = 158, 0x1023, 18
"""A system call of Linux on x86-64; what it is to do; the number of the matrix unit's registers."""
VECTOR_LENGTH, LENGTH_BITS = 51, 0xFFFF
"""Linux's PR_SVE_GET_VL, for `prctl`; the bits of its answer that are bytes of a register."""


def usable() -> int:
    """At least 1."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    allowed = quota()
    return max(1, count if allowed is None else min(count, math.ceil(allowed)))


def allow_tiles() -> bool:
    """Ask Linux for the registers of the matrix unit (AMX), for all threads of this process and what it forks; whether it has
    allowed that."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return False
    return ctypes.CDLL(None).syscall(ARCH_PRCTL, REQUEST, TILE_DATA) == 0


def scalable_bytes() -> int:
    """Bytes of a register of Arm's scalable vectors (SVE); 0 where there are none, or where no system tells."""
    if platform.system() != "Linux" or platform.machine() != "aarch64":
        return 0
    return max(0, ctypes.CDLL(None).prctl(VECTOR_LENGTH, 0, 0, 0, 0)) & LENGTH_BITS


def quota(process: Path = PROCESS, root: Path = CGROUPS) -> float | None:
    """Processors' worth of time that the control groups allow, the smallest of all levels; None without a limit.

    process, root: the files that say which groups those are (lines `number:controllers:path`), and where groups lie.
    """
    try:
        lines = process.read_text().splitlines()
    except OSError:  # not Linux
        return None
    found = []
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if not controllers:
            found += [_unified(level / "cpu.max") for level in _levels(root, path)]
        elif "cpu" in controllers.split(","):
            found += [_first_version(level) for level in _levels(root / "cpu", path)]
    limits = [limit for limit in found if limit is not None]
    return min(limits) if limits else None


def _levels(root: Path, path: str) -> list[Path]:
    """The folders of a group and of those that it is in. Inside of a container the path may be one of the outside."""
    parts = [p for p in path.split("/") if p not in ("", "..")]
    return [root.joinpath(*parts[:n]) for n in range(len(parts) + 1)]


def _unified(file: Path) -> float | None:
    """Control groups, version 2: `quota period` in microseconds, or `max period`."""
    try:
        allowed, period = file.read_text().split()
        return int(allowed) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _first_version(folder: Path) -> float | None:
    """Version 1: two files; a quota of -1 is none."""
    try:
        allowed = int((folder / "cpu.cfs_quota_us").read_text())
        return allowed / int((folder / "cpu.cfs_period_us").read_text()) if allowed > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None


def has_flag(flag: str, root: Path = Path("/")) -> bool:
    """Does Linux list a feature of the first processor, 'avx512f' for one? Elsewhere nothing is known, and none is there."""
    try:
        text = (root / "proc/cpuinfo").read_text()
    except OSError:
        return False
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    return found is not None and flag in found[1].split()
