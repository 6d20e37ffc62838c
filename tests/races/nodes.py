"""Run by `python -m tests.races` in a process of its own, on oclgrind: onnx's tests of single operators.

    nodes.py MACHINE

Inputs and expected outputs are onnx's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import onnx_suite
import polytc.backend
from tests.races import serving


def prepare(target: str) -> Callable[[str], str]:
    tests = onnx_suite.tests_by(polytc.backend.native, target, machine=serving.machine(sys.argv[1]))
    return lambda name: onnx_suite.attempt(tests[name])


if __name__ == "__main__":
    serving.serve(prepare)
