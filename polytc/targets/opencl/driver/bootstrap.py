"""Makes an OpenCL runtime that pip installed visible, without hiding the system's drivers.

Note: why this is needed. pip's intel-opencl-rt installs a driver but no entry that pyopencl's loader would read, and its
library needs intel-cmplr-lib-rt, without which loading fails silently. Setting OCL_ICD_VENDORS hides /etc/OpenCL/vendors,
so that the entries there are copied beside ours.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
from pathlib import Path

SYSTEM = Path("/etc/OpenCL/vendors")


def bootstrap() -> Path | None:
    """Write the driver entries under the user's cache directory and point OCL_ICD_VENDORS there; must run before the first
    OpenCL call of the process. Does nothing where the user set OCL_ICD_VENDORS, or where there is no such runtime.
    Returns the directory written."""
    if sys.platform != "linux" or os.environ.get("OCL_ICD_VENDORS") or os.environ.get("OCL_ICD_FILENAMES"):
        return None
    library = _installed("intel-opencl-rt", "libintelocl.so")
    if library is None or _installed("intel-cmplr-lib-rt", "libimf.so") is None:
        return None
    entries = {"polytc-intel-cpu.icd": str(library)}
    for path in sorted(SYSTEM.glob("*.icd")):
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        if "libintelocl.so" not in text:
            entries[path.name] = text
    try:
        folder = _write(entries)
    except OSError:
        # a read-only home: the system's drivers remain visible, ours does not
        return None
    os.environ["OCL_ICD_VENDORS"] = str(folder)
    return folder


def _write(entries: dict[str, str]) -> Path:
    """One folder for each set of entries, so that environments that share a home do not disturb each other."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "polytc" / "icd" / hashlib.sha256(repr(sorted(entries.items())).encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in entries.items():
        path = folder / name
        if not path.exists() or path.read_text().strip() != text:
            # other processes may read the folder meanwhile
            temporary = folder / f"{name}.{os.getpid()}"
            temporary.write_text(f"{text}\n")
            temporary.replace(path)
    return folder


def _installed(distribution: str, name: str) -> Path | None:
    """A file that a distribution installed, or None."""
    metadata = importlib.import_module("importlib.metadata")  # slow to import
    try:
        files = metadata.files(distribution) or []
    except metadata.PackageNotFoundError:
        return None
    found = next((Path(str(f.locate())).resolve() for f in files if f.name == name), None)
    return found if found is not None and found.exists() else None
