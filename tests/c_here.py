"""Running the C that polytc writes, built by the system's compiler as a library: polytc itself runs no compiler."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from polytc.codegen.target import Source

COMPILERS = [c for c in ("gcc", "clang-22", "clang") if shutil.which(c)]
STRICT = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror"]


def run(source: Source, buffers: Sequence[np.ndarray], compiler: str = "", flags: Sequence[str] = ("-O1",)) -> None:
    """Run a source of fixed sizes on arrays for its arguments, in order; a build that fails is an AssertionError."""
    module = source.module
    places = {b.name: k for k, b in enumerate((*module.args, *module.scratch))}
    calls = "".join(f"    {x.entry}({', '.join(f'p[{places[a]}]' for a in x.args)});\n" for x in source.launches)
    text = f"{source.text}\nextern void run(void **p);\nvoid run(void **p)\n{{\n    (void)p;\n{calls}}}\n"
    arrays = [*buffers, *(np.full(max(1, b.size * b.dtype.bytes), 77, np.uint8) for b in module.scratch)]
    pointers = (ctypes.c_void_p * max(1, len(arrays)))(*(a.ctypes.data for a in arrays))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "k.c").write_text(text, encoding="ascii")
        contract = [f for f in source.options["build"].split() if "contract" in f]
        command = [compiler or COMPILERS[0], *STRICT, *flags, *contract, "-shared", "-fPIC", "k.c", "-o", "k.so", "-lm"]
        done = subprocess.run(command, cwd=path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{done.stderr[:4000]}\n{text}"
        ctypes.CDLL(str(path / "k.so")).run(pointers)
