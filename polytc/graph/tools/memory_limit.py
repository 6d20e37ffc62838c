"""Memory that the reference may take: what would make the system kill this process is a MemoryError instead.

onnx's evaluator writes out the zeros of a dilated convolution's window and an index for each of its products: 23 GB for a 3 x 3
window 24 apart over 960 channels, whose arrays take 9 MB.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SHARE = 0.8
"""Of the memory that is free, what may be taken."""


@contextmanager
def memory_limit(free: int | None = None) -> Iterator[None]:
    """Let this process take no more than a share of the free bytes; without effect where the system does not tell them."""
    free = _free() if free is None else free
    if free is None:
        yield
        return
    import resource  # not on Windows, where nothing tells the free memory either

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = _taken() + int(SHARE * free)
    resource.setrlimit(resource.RLIMIT_AS, (wanted if soft == resource.RLIM_INFINITY else min(soft, wanted), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _free() -> int | None:
    """Bytes that can be taken without swapping, as Linux tells them."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), None)


def _taken() -> int:
    """Bytes of this process's addresses."""
    import resource

    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
