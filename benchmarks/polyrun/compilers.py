"""PolyBench's C programs through the compilers that are installed."""

from __future__ import annotations

import functools
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

HARNESS = Path(__file__).parent / "harness"
FAST = ("-O3", "-march=native", "-ffast-math")
EXACT = "exact"
"""The peer whose results are kept as checksums: no reassociation, no vectors."""


@dataclass(frozen=True)
class Peer:
    """A compiler with flags. program: names under which it may be installed. parallel: flags for several threads, `{}` being
    their number; None: the program runs on one thread anyway."""

    program: tuple[str, ...]
    flags: tuple[str, ...]
    parallel: tuple[str, ...] | None = None


CLANG = ("clang-22", "clang")
PEERS = {
    EXACT: Peer(("gcc",), ("-O2",)),
    "gcc": Peer(("gcc",), FAST),
    "gcc-parallel": Peer(("gcc",), FAST, ("-fopenmp", "-ftree-parallelize-loops={}")),
    "clang": Peer(CLANG, FAST),
    "polly": Peer(CLANG, (*FAST, "-mllvm", "-polly"), ("-fopenmp", "-mllvm", "-polly-parallel")),
}
"""By name, in the order of the table."""


@functools.cache
def command(peer: str) -> str | None:
    """The compiler's path; None where it is missing, or cannot do what the flags say."""
    path = next((found for name in PEERS[peer].program if (found := shutil.which(name))), None)
    if path is None:
        return None
    probe = subprocess.run([path, *_flags(peer, 2), "-x", "c", "-", "-o", "/dev/null"], input="int main() { return 0; }",
                           text=True, capture_output=True, check=False)
    return path if probe.returncode == 0 else None


def version(peer: str) -> str:
    done = subprocess.run([str(command(peer)), "--version"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]


def build(peer: str, source: Path, kernel: str, size: str, threads: int, folder: Path) -> Path:
    """The kernel's program with our harness, in `folder`. source: PolyBench/C's own folder.

    Raises FileNotFoundError, and subprocess.CalledProcessError with the compiler's messages.
    """
    file = next(source.glob(f"**/{kernel}/{kernel}.c"), None)
    if file is None:
        raise FileNotFoundError(f"{source} has no {kernel}/{kernel}.c")
    program = folder / f"{kernel}.{size}.{peer}.{threads}"
    files = [str(file), str(HARNESS / "harness.c"), "-I", str(HARNESS), "-include", "stdio.h"]
    subprocess.run([str(command(peer)), *_flags(peer, threads), "-w", f"-D{size}_DATASET", *files, "-o", str(program), "-lm"],
                   check=True, capture_output=True, text=True)
    return program


def _flags(peer: str, threads: int) -> list[str]:
    chosen = PEERS[peer]
    return [*chosen.flags, *((f.format(threads) for f in chosen.parallel) if chosen.parallel and threads > 1 else ())]
