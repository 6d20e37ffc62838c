"""Each family of programs on OpenCL's drivers: Intel's or what else is here, PoCL, and oclgrind, which finds races, accesses
outside of buffers and barriers that not all items of a group reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from polytc.targets.opencl.target import OpenCLTarget
from tests import drivers, families
from tests.opencl_here import NEEDS_OPENCL
from tests.targets.opencl import on_driver

LIKE_OTHERS = frozenset({
    "triangle of a product", "elimination by blocks", "tiles of both", "tc WaveNet block", "tc strided conv2d", "tc conv2d",
    "tc group convolution", "padded conv", "tc MLP1", "tc kronecker", "tc sgemm", "tc tmm"})
"""Programs that compile long and whose family has quicker ones of their kind."""

HERE = Path(__file__).parent
EACH = pytest.mark.parametrize("family", families.FAMILIES)


def needs(driver: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.opencl, pytest.mark.skipif(not drivers.available(driver), reason=f"{driver} is not here")]


def marked(driver: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("driver", [pytest.param(driver, marks=needs(driver))])


def test_every_program_is_in_a_family() -> None:
    assert families.OTHERS == ()


@pytest.mark.part(12)
@EACH
@pytest.mark.parametrize("machine", [pytest.param("here", marks=NEEDS_OPENCL)])
def test_on_the_device_that_is_here(family: str, machine: str) -> None:
    target = OpenCLTarget().here()
    quick = [p for p in families.FAMILIES[family] if p.name not in LIKE_OTHERS]
    assert quick
    assert [found for p in quick if (found := on_driver.wrong(p, target))] == []


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long, *NEEDS_OPENCL]) for n in sorted(LIKE_OTHERS)])
def test_others_of_their_kind_on_the_device_that_is_here(name: str) -> None:
    (program,) = (p for programs in families.FAMILIES.values() for p in programs if p.name == name)
    assert not on_driver.wrong(program, OpenCLTarget().here())


@EACH
@marked("pocl")
def test_on_a_second_compiler(family: str, driver: str, tmp_path: Path) -> None:
    assert drivers.python(driver, tmp_path, HERE / "on_driver.py", family, "here") == ""


@EACH
@marked("oclgrind")
def test_with_every_access_checked(family: str, driver: str, tmp_path: Path) -> None:
    """Kernels for three kinds of GPUs: with tiles in local memory, with wide wavefronts, without local memory."""
    assert drivers.python(driver, tmp_path, HERE / "on_driver.py", family, "nvidia-sm90", "amd-gfx90a", "mali") == ""
    assert drivers.findings(tmp_path) == []
