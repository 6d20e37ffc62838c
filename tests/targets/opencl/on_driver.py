"""Run by test_families.py in a process of its own: a family's programs on the driver that the process sees.

    on_driver.py FAMILY,... MACHINE ... [quick]     prints what is wrong, a line each; nothing if all results are right

MACHINE: of polytc.machine.DEVICES, whose strategy makes the kernels; `here` is the driver's own device. quick: every second
program, and none that compiles long.
"""

from __future__ import annotations

import sys

import numpy as np

from language.program import Program
from polytc import compiler, stages
from polytc.codegen.target import Target
from polytc.machine import DEVICES
from polytc.targets.opencl.target import OpenCLTarget
from tests import drivers, families


def results(program: Program, target: Target) -> list[np.ndarray]:
    """The outputs, in order."""
    given = {n: np.array(a) for n, a in program.arrays().items()}
    built = stages.build(program.text, {n: a.shape for n, a in given.items()}, {n: a.dtype for n, a in given.items()},
                      scalars=program.numbers)
    for name in built.outputs:
        if name not in given:
            given[name] = np.zeros(built.tensor(name).shape, built.tensor(name).dtype.numpy)
    compiler.compile_program(built, target).run([given[n] for n in built.arrays])
    return [given[n] for n in built.outputs]


def wrong(program: Program, target: Target) -> str:
    """How the results differ from numpy's."""
    for got, expected in zip(results(program, target), program.expected(), strict=True):
        scale = max(1.0, float(np.abs(expected).max(initial=0)))
        try:
            np.testing.assert_allclose(got, expected, rtol=0, atol=program.tolerance * scale)
        except AssertionError as e:
            return f"{program.name}: {' '.join(str(e).split())[:300]}"
    return ""


def main(names: str, *machines: str) -> None:
    """See above."""
    drivers.one_thread()
    few = "quick" in machines
    programs = [p for family in names.split(",") for p in (families.quick(family)[::2] if few else families.FAMILIES[family])]
    for name in machines:
        if name == "quick":
            continue
        target = OpenCLTarget(DEVICES[name]) if name != "here" else OpenCLTarget().here()
        for program in programs:
            if found := wrong(program, target):
                print(f"{name}: {found}")


if __name__ == "__main__":
    main(*sys.argv[1:])
