"""PyTorch in inference mode; compiled by Inductor where the case's set asks for it and a C++ compiler is here."""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from versus.case import Case
from versus.peers import Prepared, empty


def version() -> str:
    return str(torch.__version__)


def prepare(case: Case, inputs: Mapping[str, np.ndarray], threads: int) -> Prepared | None:
    if case.torch is None:
        return None
    torch.set_num_threads(threads)
    torch.compiler.reset()  # shapes of earlier cases would make this one's dynamic
    function: Any = case.torch
    tensors = tuple(map(torch.from_numpy, inputs.values()))
    if "out" in inspect.signature(function).parameters:
        outs = tuple(map(torch.from_numpy, empty(case).values()))
        out = outs[0] if len(outs) == 1 else outs

        def run() -> Any:
            with torch.inference_mode():
                return function(torch, *tensors, out=out)
        return Prepared(run, lambda _: [t.numpy() for t in outs])

    plain = lambda *given: function(torch, *given)  # noqa: E731  (what torch.compile traces)
    traced = torch.compile(plain) if case.compiled and shutil.which("g++") else plain

    def call() -> Any:
        with torch.inference_mode():
            return traced(*tensors)
    return Prepared(call, lambda made: [t.numpy() for t in (made if isinstance(made, tuple) else (made,))])
