"""The property: a broken file is refused with a diagnostic, or is a model after all, which then compiles or is refused."""

from __future__ import annotations

import math
import resource
import tempfile
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import polytc
from polytc.errors import PolytcError
from tests.generator.judge import Outcome

MEMORY = 6 << 30
"""Bytes that a process may take: more is as bad as a crash."""

LARGEST = 4096
"""Elements of all inputs of a model that is run."""


@dataclass(frozen=True)
class Mutant:
    """data: the file. target: to run it on."""

    data: bytes
    target: str


def judge(case: Mutant) -> Outcome:
    """What becomes of a mutant; outside of its folder lies a secret that must not be read."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as outer:
        (Path(outer) / "secret.bin").write_bytes(b"\x5a" * 4096)
        folder = Path(outer) / "model"
        folder.mkdir()
        (folder / "m.onnx").write_bytes(case.data)
        try:
            return _run(folder / "m.onnx", case.target)
        except PolytcError as error:
            text = str(error)
            return Outcome("refused", error.diagnostics[0].code) if text else Outcome("failed", "a diagnostic without a text")
        except Exception:
            return Outcome("failed", traceback.format_exc())


def _run(path: Path, target: str) -> Outcome:
    graph = polytc.load_onnx(path)
    if any((a.dtype.kind in "iu" and b"\x5a" * 64 in a.tobytes()) for a in graph.constants.values()):
        return Outcome("wrong", "a file outside of the model's folder was read")
    str(graph)
    graph.report()
    feeds = {}
    for v in graph.inputs:
        if v.dtype is None or v.shape is None:
            return Outcome("right")
        shape = tuple(d if isinstance(d, int) else 2 for d in v.shape)
        if math.prod(shape) > LARGEST:
            graph.compile(target=target, threads=1, shapes={v.name: shape})
            return Outcome("right")
        feeds[v.name] = np.ones(shape, v.dtype.numpy)
    graph.compile(target=target, threads=1).run(None, feeds)
    return Outcome("ran")
