"""Running the C that polytc writes, built by the system's compiler as a library: polytc itself runs no compiler."""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from polytc.codegen import size_names
from polytc.codegen.target import Binary, Bound, BoundRun, Executable, Source
from polytc.program.sizes import at
from polytc.targets.c.target import CTarget

COMPILERS = [c for c in ("gcc", "clang-22", "clang") if shutil.which(c)]
STRICT = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1"]
SENSE = ["-Wno-unused-variable", "-Wno-unused-but-set-variable", "-Wno-bool-compare", "-Wno-type-limits",
         "-Wno-bool-operation", "-Wno-maybe-uninitialized", "-Wno-tautological-compare"]
"""Warnings of what is odd about the program, not about its C."""
TRAPS = ["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]
"""What C leaves undefined ends the process: sums beyond the range, shifts by too much, addresses that are not aligned."""

ENTRY = "polytc_all_of_it"


@dataclass(frozen=True)
class CompiledC(CTarget):
    """The target C with a compiler behind it. A source that the compiler warns of is an AssertionError."""

    def here(self) -> CompiledC:  # type: ignore[override]
        return self

    def build(self, source: Source) -> Binary:
        contract = [f for f in source.options["build"].split() if "contract" in f]
        text = f"{source.text}\n{_entry(source)}"
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "k.c").write_text(text, encoding="ascii")
            command = [COMPILERS[0], *STRICT, *SENSE, *TRAPS, *contract, "-shared", "-fPIC", "k.c", "-o", "k.so", "-lm"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{done.stderr[:4000]}\n{text}"
            return Binary.of(source, (Path(folder) / "k.so").read_bytes())

    def load(self, binary: Binary, threads: int = 0) -> Executable:  # type: ignore[override]
        return (Open if "sizes" in binary.options else Loaded)(binary)


def _entry(source: Source) -> str:
    """A function that calls all others in order, on addresses of arrays and values of sizes."""
    module = source.module
    given = {b.name: f"p[{k}]" for k, b in enumerate((*module.args, *module.scratch))}
    given |= {name: f"n[{k}]" for k, name in enumerate(module.sizes)}
    calls = "".join(f"    {x.entry}({', '.join(given[a] for a in x.args)});\n" for x in source.launches)
    head = f"void {ENTRY}(void **p, const int64_t *n)"
    return f"extern {head};\n{head}\n{{\n    (void)p, (void)n;\n{calls}}}\n"


class Loaded:
    """A library, which runs on arrays. sizes: those that are not fixed, in order."""

    def __init__(self, binary: Binary, sizes: Mapping[str, int] | None = None) -> None:
        self.binary, self._sizes = binary, sizes or {}
        with tempfile.NamedTemporaryFile(suffix=".so") as file:
            file.write(binary.code)
            file.flush()
            self._run = ctypes.CDLL(file.name)[ENTRY]

    @property
    def temporaries(self) -> list[int]:
        """Bytes of each."""
        return [math.prod(at(n, self._sizes) for n in b.shape) * b.dtype.bytes for b in self.binary.scratch]

    def run(self, buffers: Sequence[np.ndarray]) -> None:
        self.call([*buffers, *(np.full(max(1, n), 77, np.uint8) for n in self.temporaries)])

    def call(self, arrays: Sequence[np.ndarray]) -> None:
        """Run on the arrays and temporaries."""
        self._run((ctypes.c_void_p * (len(arrays) + 1))(*(a.ctypes.data for a in arrays)),
                  (ctypes.c_int64 * (len(self._sizes) + 1))(*self._sizes.values()))

    def bind(self, buffers: Sequence[np.ndarray]) -> Bound:
        return BoundRun(self.run, buffers)


class Open(Loaded):
    """A library that is given the sizes."""

    def at(self, sizes: Mapping[str, int]) -> Loaded:
        return Loaded(self.binary, size_names.named(self.binary.options, sizes))
