"""What this machine knows of a model from an earlier process: found on disk by the model's file and the options, and run
without the compiler and without the onnx library.

    file of the model, stamp, passes      ->  what the graph declares            (`graph`)
    that, target, threads, options, shapes ->  its steps, bound to its weights    (`start`)

The graph itself is read from the file when somebody looks at it. Weights are those of the model's files, which must be as they
were (disk/weights.py); what the passes made of them is kept. Only models that are one native call are kept (keeping.py).
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from polytc import processors
from polytc.codegen.package import Package
from polytc.codegen.target import Target
from polytc.disk import cache, mapped, stamps, weights
from polytc.errors import ModelError, fail
from polytc.graph import user_operators
from polytc.graph.ir import Graph, Unread, Value
from polytc.graph.plan import Array, Guard, IndexCheck, Plan
from polytc.graph.planning import memory
from polytc.graph.running.instance import Instance, Link, Progress, bind
from polytc.graph.running.run_fast_path import RunFastPath, fast_path
from polytc.graph.weight_sources import Places
from polytc.native.aligned import aligned_copy
from polytc.native.threads import default_threads
from polytc.options import KEPT, NONE, Licence
from polytc.program.scalars import DTYPES
from polytc.runtime import packages
from polytc.targets.llvm.executable import Loader

LENGTH = struct.Struct("<Q")
"""Bytes of the head of a stored model, at its start."""


@dataclass(frozen=True)
class Choices:
    """How a graph becomes a model; see `model.compile_graph`."""

    target: str | Target
    threads: int | None = None
    fusion: bool = True
    licence: Licence = NONE
    strict: bool = False
    layouts: bool = True
    symbolic: bool = False
    typical: Mapping[str, int] = field(default_factory=dict)
    checked: bool = False
    progress: Progress | None = None
    kept: int = KEPT


@dataclass(frozen=True)
class Origin:
    """Where a graph comes from. path: of the model's file as it was given, absolute; stamp: of the file that it leads to; key:
    of these and of how it was loaded."""

    path: str
    stamp: tuple[int, ...]
    key: str


@dataclass(frozen=True)
class Source:
    """A file that a model was read from. path: as it was looked up; real: where that led, links followed; stamp: of what was
    there; in_place: its bytes are mapped where they are."""

    path: str
    real: str
    stamp: tuple[int, ...]
    in_place: bool

    @staticmethod
    def of(row: Sequence[Any]) -> Source:
        """From a row of a stored model."""
        path, real, stamp, in_place = row
        return Source(str(path), str(real), tuple(stamp), bool(in_place))

    @staticmethod
    def behind(array: np.ndarray) -> Source | None:
        """Of the bytes that an array shows; None where they are of no file, or of one that is no longer what it was, or was
        changed just now."""
        found = mapped.origin(array)
        stamp = stamps.settled(found.status) if found is not None else None
        if found is None or stamp is None:
            return None
        source = Source(str(found.path), os.path.realpath(found.path), stamp, found.live)
        return source if source.same() else None

    def row(self) -> tuple[Any, ...]:
        """For a stored model."""
        return self.path, self.real, self.stamp, self.in_place

    def same(self) -> bool:
        """Does the path lead where it led, to what was there?"""
        return stamps.file(self.path) == self.stamp and os.path.realpath(self.path) == self.real

    def bytes(self) -> np.ndarray | None:
        """Of the file, if they are those of the stamp."""
        try:
            found = weights.contents(Path(self.path), self.in_place)
        except OSError:
            return None
        known = mapped.origin(found)
        same = known is not None and stamps.of(known.status) == self.stamp and os.path.realpath(self.path) == self.real
        return found if same else None


@dataclass(frozen=True)
class Made:
    """A file of what passes made of weights, see `weights.to_file`. size: bytes."""

    name: str
    size: int

    def row(self) -> tuple[Any, ...]:
        """For a stored model."""
        return self.name, self.size

    def bytes(self) -> np.ndarray | None:
        """Of the file, if it is there."""
        return weights.made(self.name, self.size)


def behind(array: np.ndarray) -> Source | Made | None:
    """Where the bytes are from that an array shows; None as `Source.behind`."""
    found = mapped.origin(array)
    return Made(found.path.name, found.status.st_size) if found is not None and found.own else Source.behind(array)


def file_of(row: Sequence[Any]) -> Source | Made:
    """From a row of a stored model."""
    return Made(*row) if len(row) == 2 else Source.of(row)


# ---- the graph

def origin(source: Any, without: Collection[str], strict: bool, places: Places) -> Origin | None:
    """Of the model in a file; None for other sources, and where nothing is kept."""
    asked = os.environ.get("POLYTC_DUMP") or os.environ.get("POLYTC_CHECK") == "1"  # for stages, which would not run
    if asked or user_operators.given() or not isinstance(source, str | os.PathLike) or cache.place() is None:
        return None
    path, around = os.path.abspath(source), stamps.compilation()
    stamp = stamps.file(path) if around is not None else None
    if stamp is None:
        return None
    return Origin(path, stamp, _digest("graph", around, path, os.path.realpath(path), stamp, sorted(map(str, without)), strict,
                                      places))


def graph(found: Origin, read: Callable[[], Graph]) -> Graph | None:
    """The graph of a file that was loaded before; `read` is called when more is asked of it than what it declares."""
    data = cache.get(found.key)
    if data is None:
        return None
    try:
        head = json.loads(data)
        files = [Source.of(row) for row in head["files"]]
        inputs, outputs = (tuple(map(_value, head[side])) for side in ("inputs", "outputs"))
        name, outside = str(head["name"]), tuple(map(str, head["outside"]))
    except (ValueError, LookupError, TypeError):
        cache.drop(found.key)
        return None
    if not all(f.same() for f in files):
        return None

    def unchanged() -> Graph:
        if stamps.file(found.path) != found.stamp:
            raise fail("E614", f"{found.path} was written to after the model was loaded", kind=ModelError,
                       notes=["nodes are read from the file when they are needed; load the model again"])
        return read()
    made = Unread(name, inputs, outputs, outside, unchanged)
    mark(made, found, files)
    return made


def mark(made: Graph, found: Origin, files: Sequence[Source]) -> None:
    """Note down where a graph comes from: on this one, not on what is made of it. files: all that it was read from."""
    vars(made)["origin"] = _digest(found.key, sorted(f.row() for f in files))


def _value(row: Sequence[Any]) -> Value:
    name, dtype, shape, tensor, kind = row
    return Value(name, None if dtype is None else DTYPES[dtype], None if shape is None else tuple(shape), tensor, kind)


def _digest(*parts: Any) -> str:
    return hashlib.sha256("\n".join(map(repr, parts)).encode("utf-8", "surrogatepass")).hexdigest()


# ---- the model

class Start:
    """A model for one set of shapes, ready to run. fast_path: see running/run_fast_path.py."""

    def __init__(self, plan: Plan, links: Sequence[Link], codes: Sequence[Any], arena: memory.Arena) -> None:
        self._parts = plan, links, codes, arena
        self.instance: Instance = bind(plan, links, codes, arena)
        self.fast_path: RunFastPath | None = fast_path(self.instance)

    def again(self) -> Start:
        """The same with memory of its own for intermediate values."""
        return Start(*self._parts)

    def try_fast_path(self, feeds: Mapping[str, Any]) -> list[np.ndarray] | None:
        """All outputs as fresh arrays; None, with nothing done, where the arrays are of another kind."""
        names = self.instance.plan.inputs
        if self.fast_path is None or len(feeds) != len(names) or not all(n in feeds for n in names):
            return None
        return self.fast_path([feeds[n] for n in names])

    def fits(self, arrays: Mapping[str, Any]) -> bool:
        """Are the arrays of the types that it is for?"""
        plan = self.instance.plan
        return all(isinstance(a, np.ndarray) and (a.shape, a.dtype) == (plan.outside(n).shape, plan.types[n].dtype.numpy)
                   for n, a in arrays.items())


def start_key(of: Graph, choices: Choices, shapes: Mapping[str, Sequence[int]]) -> str | None:
    """Under which the model is kept; None for one that never is, as with operators of the user's own."""
    token = vars(of).get("origin")
    if token is None or user_operators.given() or choices.symbolic or choices.target != "cpu":
        return None
    threads = choices.threads or default_threads(processors.usable())
    return _digest("start", token, threads, choices.fusion, choices.licence, choices.strict, choices.layouts, choices.checked,
                   sorted((n, tuple(map(int, s))) for n, s in shapes.items()))


def may_start(of: Graph, choices: Choices) -> bool:
    """Is this a graph that an earlier process loaded, and may there be models of it?"""
    return isinstance(of, Unread) and start_key(of, choices, {}) is not None


class Loaded:
    """What the starts of one graph share, as long as one of them uses it: code by key, bytes of files, constants by their
    places there. So what prologues make of a constant is made once."""

    def __init__(self) -> None:
        self.kernels: WeakValueDictionary[str, Any] = WeakValueDictionary()
        self.files: WeakValueDictionary[Source | Made, np.ndarray] = WeakValueDictionary()
        self.constants: WeakValueDictionary[tuple[Any, ...], np.ndarray] = WeakValueDictionary()

    def kernel(self, key: str, threads: int) -> Any:
        """The code under a key; None if it is gone."""
        found = self.kernels.get(key)
        data = cache.get(key) if found is None else None
        if data is not None:
            found = self.kernels[key] = packages.load(Package.from_bytes(data), Loader(), threads)
        return found

    def file(self, source: Source | Made) -> np.ndarray | None:
        """The bytes of a file; None if they are others now."""
        found = self.files.get(source)
        if found is None:
            found = source.bytes()
            if found is not None:
                self.files[source] = found
        return found

    def constant(self, t: Array, source: Source | Made, at: int) -> np.ndarray:
        """A part of a file that was looked at before."""
        key = source, at, t.dtype.name, t.shape
        found = self.constants.get(key)
        if found is None:
            found = self.constants[key] = self.files[source][at:at + t.bytes].view(t.dtype.numpy).reshape(t.shape)
        return found


def start(of: Graph, choices: Choices, shapes: Mapping[str, Sequence[int]], loaded: Loaded) -> Start | None:
    """The model as an earlier process compiled it, if it did."""
    key = start_key(of, choices, shapes)
    data = cache.get(key) if key is not None else None
    if key is None or data is None:
        return None
    try:
        (length,) = LENGTH.unpack_from(data)
        head = json.loads(data[LENGTH.size:LENGTH.size + length])
        return _start(head, memoryview(data)[LENGTH.size + length:], choices, loaded)
    except (ValueError, LookupError, TypeError, struct.error):
        cache.drop(key)
        return None


def _start(head: Mapping[str, Any], blob: memoryview, choices: Choices, loaded: Loaded) -> Start | None:
    """None where something that it needs is no longer there."""
    if head["tiles"] and not processors.allow_tiles():
        return None
    threads = choices.threads or default_threads(processors.usable())
    sources = [file_of(row) for row in head["files"]]
    files = [loaded.file(each) for each in sources]
    kernels = [loaded.kernel(key, threads) for key in head["kernels"]]
    if any(f is None for f in files) or any(k is None for k in kernels):
        return None
    types = {n: Array(DTYPES[dtype], tuple(shape)) for n, (dtype, shape) in head["types"].items()}
    constants = {n: _made(types[n], blob, at) if file is None else loaded.constant(types[n], sources[file], at)
                 for n, (file, at) in head["constants"].items()}
    plan = Plan(head["name"], (), tuple(head["inputs"]), tuple(head["outputs"]), types, head["aliases"], constants,
                tuple(IndexCheck.of(row) for row in head["index_checks"]), int(head["rounds"]), frozenset(head["split"]))
    links = [Link(tuple(inputs), tuple(outputs), tuple(Guard(*g) for g in guards))
             for _, inputs, outputs, guards in head["links"]]
    return Start(plan, links, [kernels[number] for number, *_ in head["links"]],
                 memory.Arena({n: int(at) for n, at in head["offsets"].items()}, int(head["arena"])))


def _made(t: Array, blob: memoryview, at: int) -> np.ndarray:
    """A part of what is kept with the model."""
    return aligned_copy(np.frombuffer(blob, np.uint8)[at:at + t.bytes].view(t.dtype.numpy).reshape(t.shape))
