"""The kernels of PolyBench/C: polytc, the references in NumPy, and checksums of the C programs' results."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Container, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polytc
from examples.polybench import checksums
from examples.polybench.kernels import KERNELS, Kernel
from polytc.poly import scheduler
from tests.polybench import reference

ROOT = Path(__file__).parents[2]

TOLERANCE = {"f": 1e-4, "d": 1e-9, "i": 0.0}
"""By type of the elements, relative to the largest magnitude. durbin and trisolv amplify rounding errors most."""

SIZES = ("MINI", "SMALL")
AUTOMATIC: dict[str, Any] = {"threads": 1}
PROGRAM: dict[str, Any] = {"threads": 1, "schedule": "program"}
THREADS: dict[str, Any] = {"threads": 2}

FEW_ROUNDS = {"TSTEPS": 4, "TMAX": 4, "N": 33, "M": 21, "NI": 13, "NJ": 15, "NL": 17, "NM": 14, "W": 33, "H": 35}
"""At most, for loops in Python: 33 is one more than the width of most tiles."""

every_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)

ALIKE = frozenset({"covariance", "3mm", "bicg", "mvt", "syr2k", "ludcmp", "heat-3d", "gesummv"})
"""Compiled as another kernel is: correlation, 2mm, atax, syrk, lu and trisolv, jacobi-2d, gemver."""


def kernels_but(others: Container[str]) -> pytest.MarkDecorator:
    """Every kernel; the others are long."""
    return pytest.mark.parametrize("kernel", [pytest.param(k, id=n, marks=pytest.mark.long if n in others else [])
                                              for n, k in KERNELS.items()])


def outputs(op: polytc.Op, result: Any) -> dict[str, np.ndarray]:
    return dict(zip(op.outputs, result if len(op.outputs) > 1 else (result,)))


def run(kernel: Kernel, size: str, **options: Any) -> dict[str, np.ndarray]:
    op = polytc.compile(kernel.text, **options)
    return outputs(op, op(**kernel.arguments(size)))


def assert_close(kernel: Kernel, size: str, found: Mapping[str, np.ndarray]) -> None:
    """The found results are the reference's; the program may return more than those."""
    found = kernel.determined(size, found)
    expected = kernel.determined(size, reference.results(kernel.name, kernel.arguments(size)))
    for name, array in expected.items():
        error = abs(found[name].astype(np.float64) - array).max() / abs(array).max()
        assert found[name].shape == array.shape
        assert error <= TOLERANCE[found[name].dtype.char], f"{name} differs by {error:.1e}"


def test_there_are_30_kernels() -> None:
    assert len(KERNELS) == len(reference.REFERENCES) == 30
    assert set(checksums.stored()) == set(KERNELS) == set(reference.REFERENCES)


@pytest.mark.part(2)
@pytest.mark.parametrize("size", SIZES)
@every_kernel
def test_reference_agrees_with_c(kernel: Kernel, size: str) -> None:
    """The NumPy implementations and the initial values are PolyBench's."""
    results = reference.results(kernel.name, kernel.arguments(size))
    assert checksums.largest_deviation(kernel, size, results) <= checksums.tolerance(kernel.name)


def shorter(kernel: Kernel, extents: Mapping[str, int]) -> Kernel:
    """The kernel with smaller MINI sizes."""
    least = {n: min(extents.get(n, values[0]), values[0]) for n, values in kernel.extents.items()}
    return replace(kernel, extents={n: (least[n], *values[1:]) for n, values in kernel.extents.items()})


def long(options: dict[str, Any], name: str) -> Any:
    """What another size or target runs in the quick tests, in nearly the same way."""
    return pytest.param(options, marks=pytest.mark.long, id=name)


QUICK_IN_ONE_THREAD = ALIKE | {"adi", "correlation", "deriche", "durbin", "gemm", "gramschmidt", "nussinov", "seidel-2d"}


@pytest.mark.part(10)
@kernels_but(KERNELS.keys() - QUICK_IN_ONE_THREAD)
def test_mini(kernel: Kernel) -> None:
    """In one thread; SMALL runs in two those that are long here."""
    assert_close(kernel, "MINI", run(kernel, "MINI", target="cpu", **AUTOMATIC))


@pytest.mark.part(12)
@pytest.mark.parametrize("options", [pytest.param(PROGRAM, id="program"), long(THREADS, "threads")])
@every_kernel
def test_mini_otherwise(kernel: Kernel, options: dict[str, Any]) -> None:
    assert_close(kernel, "MINI", run(kernel, "MINI", target="cpu", **options))


@pytest.mark.part(8)
@pytest.mark.parametrize("name", [name for name, kernel in KERNELS.items() if "for " in kernel.text])
def test_mini_where_isl_gives_up(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops are those of the text, with tiles and vectors as far as their dependences let them."""
    monkeypatch.setenv("POLYTC_CACHE", "0")
    monkeypatch.setattr(scheduler, "FIRST", 10)
    monkeypatch.setattr(scheduler, "SYMBOLIC_ATTEMPTS", ())
    kernel = KERNELS[name]
    assert_close(kernel, "MINI", run(kernel, "MINI", target="cpu", **THREADS))


@pytest.mark.part(30)
@pytest.mark.parametrize("options", [pytest.param(AUTOMATIC, id="automatic"), long(PROGRAM, "program")])
@kernels_but(ALIKE)
def test_mini_with_every_access_checked(kernel: Kernel, options: dict[str, Any]) -> None:
    """Loops in Python run in one thread."""
    kernel = shorter(kernel, FEW_ROUNDS)
    assert_close(kernel, "MINI", run(kernel, "MINI", target="interp", **options))


@pytest.mark.part(6)
@every_kernel
def test_mini_by_definition(kernel: Kernel) -> None:
    kernel = shorter(kernel, {"TSTEPS": 2, "TMAX": 2, "N": 33})
    assert_close(kernel, "MINI", run(kernel, "MINI", target="evaluate"))


@pytest.mark.part(45)
@pytest.mark.parametrize("options", [long(AUTOMATIC, "automatic"), long(PROGRAM, "program"),
                                     pytest.param(THREADS, id="threads")])
@kernels_but(ALIKE)
def test_small(kernel: Kernel, options: dict[str, Any]) -> None:
    found = run(kernel, "SMALL", **options)
    assert_close(kernel, "SMALL", found)
    assert checksums.largest_deviation(kernel, "SMALL", found) <= checksums.tolerance(kernel.name)


def test_checksums_notice_a_changed_element() -> None:
    x = np.random.default_rng(0).standard_normal((30, 40))
    expected = checksums.checksum(x)
    assert checksums.deviation(x, expected) == 0
    for change in (np.nan, x[3, 4] + 1e-3):
        other = x.copy()
        other[3, 4] = change
        assert not checksums.deviation(other, expected) <= 1e-7
    assert checksums.deviation(x.T, expected) > 1e-3


def test_command_line() -> None:
    def main(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "examples.polybench", *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    done = main("--size", "MINI", "atax", "bicg")
    assert done.returncode == 0, done.stderr
    assert [line.split()[-1] for line in done.stdout.splitlines()] == ["right", "right"]
    assert main("at").returncode == 2
