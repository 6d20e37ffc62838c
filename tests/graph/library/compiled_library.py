"""Models as libraries for C that tests compile, open and call themselves."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import polytc
from polytc.graph import ahead
from polytc.testing.suite import Guarded
from tests.graph.open_graphs import Feeds

CC = shutil.which("cc") or shutil.which("gcc")
TYPES = {"f32": np.float32, "f64": np.float64, "i64": np.int64, "i32": np.int32, "bool": np.bool_}


class Record(ctypes.Structure):
    """A NAME_array."""

    _fields_ = (("name", ctypes.c_char_p), ("type", ctypes.c_char_p), ("bytes", ctypes.c_size_t), ("rank", ctypes.c_size_t),
                ("shape", ctypes.POINTER(ctypes.c_int64)))


class Size(ctypes.Structure):
    """A NAME_size."""

    _fields_ = (("name", ctypes.c_char_p), ("least", ctypes.c_int64), ("largest", ctypes.c_int64))


class Library:
    """A model compiled ahead of time, opened once."""

    def __init__(self, model: Any, folder: Path, threads: int = 1, **options: Any) -> None:
        """options: of ahead.export."""
        self.graph = polytc.load_onnx(model)
        self.files = ahead.export(self.graph, folder, name="net", **options)
        subprocess.run([str(CC), "-shared", "net.o", "-lm", "-lpthread", "-o", "net.so"], cwd=folder, check=True)
        self.functions = ctypes.CDLL(str(folder / "net.so"))
        self.model = ctypes.c_void_p()
        for name, kind in (("inputs", Record), ("outputs", Record), ("sizes", Size)):
            getattr(self.functions, f"net_{name}").restype = ctypes.POINTER(kind)
        self.functions.net_model_inputs.restype = self.functions.net_model_outputs.restype = ctypes.POINTER(Record)
        path = str(self.files.weights).encode()
        assert self.functions.net_open(ctypes.byref(self.model), path, threads, None) == 0

    @property
    def sizes(self) -> list[tuple[str, int, int]]:
        """Name, least and largest value of those that are open."""
        count = ctypes.c_size_t()
        table = self.functions.net_sizes(ctypes.byref(count))
        return [(s.name.decode(), s.least, s.largest) for s in table[:count.value]]

    def resize(self, sizes: Mapping[str, int]) -> int:
        """The status."""
        numbers = [sizes[name] for name, _, _ in self.sizes]
        found: int = self.functions.net_resize(self.model, (ctypes.c_int64 * len(numbers))(*numbers))
        return found

    def shapes(self, kind: str) -> list[tuple[str, tuple[int, ...]]]:
        """Type and shape of the 'inputs' or 'outputs' for the sizes now."""
        count = ctypes.c_size_t()
        getattr(self.functions, f"net_{kind}")(ctypes.byref(count))
        found = getattr(self.functions, f"net_model_{kind}")(self.model)[:count.value]
        for r in found:
            assert r.bytes == np.prod(r.shape[:r.rank], dtype=int) * np.dtype(TYPES[r.type.decode()]).itemsize
        return [(r.type.decode(), tuple(r.shape[:r.rank])) for r in found]

    def run(self, feeds: Feeds) -> list[np.ndarray]:
        """The outputs; nothing is written beside them, nor to the inputs."""
        given = [np.ascontiguousarray(feeds[v.name]) for v in self.graph.inputs]
        assert [a.shape for a in given] == [shape for _, shape in self.shapes("inputs")]
        kept = [a.copy() for a in given]
        outputs = [Guarded(shape, np.dtype(TYPES[kind])) for kind, shape in self.shapes("outputs")]
        assert self.functions.net_run(self.model, *pointers([*given, *(o.array for o in outputs)])) == 0
        for k, o in enumerate(outputs):
            o.check(str(k))
        for a, b in zip(given, kept, strict=True):
            np.testing.assert_array_equal(a, b)
        return [o.array for o in outputs]

    def close(self) -> None:
        self.functions.net_close(self.model)


def pointers(arrays: Sequence[np.ndarray]) -> list[ctypes.c_void_p]:
    """As arguments of C."""
    return [ctypes.c_void_p(a.ctypes.data) for a in arrays]
