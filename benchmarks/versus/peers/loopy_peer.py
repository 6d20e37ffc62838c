"""Kernels of loopy on buffers of the device. loopy needs another islpy than polytc: an interpreter that has it writes them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from polytc.targets.opencl.driver import devices
from polytc.targets.opencl.driver.session import session
from versus.case import Case
from versus.peers import Prepared

PYTHON = "LOOPY_PYTHON"
"""The environment variable with the path of that interpreter."""
SCRIPT = Path(__file__).parent.parent / "loopy_kernels.py"


def version() -> str:
    code = "import importlib.metadata as m; print(m.version('loopy'))"
    return subprocess.run([os.environ[PYTHON], "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def prepare(case: Case, inputs: Mapping[str, np.ndarray], threads: int) -> Prepared | None:
    if not case.loopy:
        return None
    shapes = [t.shape for t in (*case.inputs.values(), *case.outputs.values())]
    written = subprocess.run([os.environ[PYTHON], str(SCRIPT), case.loopy, json.dumps(shapes)], capture_output=True, text=True,
                             check=True).stdout
    made: dict[str, Any] = json.loads(written.splitlines()[-1])
    on, cl = session(devices.choose()), devices.pyopencl()
    kernel = cl.Kernel(devices.build(on.context, made["source"], []), made["entry"])
    results = [np.zeros(t.shape, t.dtype) for t in case.outputs.values()]
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    memory = [cl.Buffer(on.context, flags, hostbuf=a) for a in (*inputs.values(), *results)]
    kernel.set_args(*memory)
    size = [g * n for g, n in zip(made["groups"], made["items"], strict=True)]

    def call() -> None:
        cl.enqueue_nd_range_kernel(on.queue, kernel, size, made["items"])
        on.queue.finish()

    def read(_: Any) -> list[np.ndarray]:
        for array, buffer in zip(results, memory[len(inputs):], strict=True):
            cl.enqueue_copy(on.queue, array, buffer)
        return results
    return Prepared(call, read)
