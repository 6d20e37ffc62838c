"""What the processes of `python -m tests.races` have in common: they read names, and write what is wrong with each."""

from __future__ import annotations

import importlib
import json
import logging
import os
import re
import signal
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import onnx

import onnx_suite
import polytc.backend
from polytc.codegen import loops
from polytc.codegen.target import Source, Target
from polytc.machine import DEVICES, Machine
from polytc.targets.interp import InterpTarget
from polytc.targets.opencl.target import OpenCLTarget
from tests import drivers

LIMIT = 240
"""Seconds that a program may take."""


def machine(name: str) -> Machine:
    """Of polytc.machine.DEVICES; 'generic-gpu/16' has groups of 16 items at most, so that small programs have several."""
    device, _, items = name.partition("/")
    return replace(DEVICES[device], max_work_group=int(items)) if items else DEVICES[device]


def attempts(wrong: Callable[[str, Target], str]) -> Callable[[str], Callable[[str], str]]:
    """What `serve` prepares, of what says what is wrong with a name on a target."""
    def prepare(target: str) -> Callable[[str], str]:
        made = {"opencl": OpenCLTarget, "interp": InterpTarget}[target](machine(sys.argv[1]))

        def attempt(name: str) -> str:
            try:
                return wrong(name, made)
            except Exception as error:  # whatever it is, it is a finding
                return " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return attempt
    return prepare


def serve(prepare: Callable[[str], Callable[[str], str]]) -> None:
    """Read names, write outcomes with what oclgrind found as well. prepare: gives, for 'opencl' or 'interp', what says why a
    name's result is wrong, '' if it is not.

    Each name runs in a fork that ran nothing before: where memory lies that was given back, oclgrind 21.10 takes some of what
    was stored for what nobody stored. It does so in scratch of models, too: where that is all it finds, the interpreter judges,
    whose fresh memory holds NaN. What else is printed goes to the standard error. With the argument 'broken' kernels have no
    barriers, which is to be found."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    drivers.one_thread()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    if "broken" in sys.argv:
        _break()
    wrong, again = prepare("opencl"), prepare("interp")
    _import()
    print(onnx_suite.READY, file=out, flush=True)
    for line in sys.stdin:
        name = line.strip()
        pid = os.fork()
        if pid == 0:
            signal.alarm(LIMIT)
            print(json.dumps(asdict(_outcome(name, wrong, again))), file=out, flush=True)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        if status:
            reason = f"the process ended with {os.waitstatus_to_exitcode(status)}"
            print(json.dumps(asdict(onnx_suite.Outcome(name, reason, ""))), file=out, flush=True)


def _import() -> None:
    """What the forks need, and no driver is asked for."""
    polytc.lower("Y[i] = X[i]", "opencl", shapes={"X": (4,)})
    for name in ("graph.running.building", "targets.opencl.driver.programs", "targets.opencl.executable"):
        importlib.import_module(f"polytc.{name}")
    polytc.backend.run_node(onnx.helper.make_node("Relu", ["x"], ["y"]), [np.zeros(3, np.float32)], "INTERP")


def _outcome(name: str, wrong: Callable[[str], str], again: Callable[[str], str]) -> onnx_suite.Outcome:
    """Of a name, in a process that ran nothing before. again: judges as the interpreter does."""
    start, log = time.monotonic(), Path(os.environ["OCLGRIND_LOG"])
    log.unlink(missing_ok=True)
    reason = wrong(name)
    found = sorted({*drivers.FINDINGS.findall(log.read_text())}) if log.exists() else []
    if found and not reason and all("ninitialized" in x for x in found):
        reason = again(name)
        found = found if reason else []
    return onnx_suite.Outcome(name, "; ".join([*filter(None, (reason,)), *found]), "", round(time.monotonic() - start, 2))


def _break() -> None:
    """From now on kernels have no barriers."""
    emit = OpenCLTarget.emit

    def broken(self: OpenCLTarget, module: loops.Module) -> Source:
        source = emit(self, module)
        return replace(source, text=re.sub(r"barrier\(.*?\);", "", source.text))
    OpenCLTarget.emit = broken  # type: ignore[method-assign]
