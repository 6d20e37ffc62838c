"""Each family of programs on OpenCL's drivers: Intel's or what else is here, PoCL, and oclgrind, which finds races, accesses
outside of buffers and barriers that not all items of a group reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from polytc.targets.opencl.target import OpenCLTarget
from tests import drivers, families
from tests.opencl_here import NEEDS_OPENCL
from tests.targets.opencl import on_driver

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
    assert [found for p in families.quick(family) if (found := on_driver.wrong(p, target))] == []


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long, *NEEDS_OPENCL])
                                  for n in sorted(families.LIKE_OTHERS)])
def test_others_of_their_kind_on_the_device_that_is_here(name: str) -> None:
    (program,) = (p for programs in families.FAMILIES.values() for p in programs if p.name == name)
    assert not on_driver.wrong(program, OpenCLTarget().here())


@EACH
@marked("pocl")
def test_on_a_second_compiler(family: str, driver: str, tmp_path: Path) -> None:
    assert drivers.python(driver, tmp_path, HERE / "on_driver.py", family, "here") == ""


GPUS = ("nvidia-sm90", "amd-gfx90a", "mali")
"""Three kinds: with tiles in local memory, with wide wavefronts, without local memory."""


@pytest.mark.long
@EACH
@marked("oclgrind")
def test_with_every_access_checked(family: str, driver: str, tmp_path: Path) -> None:
    assert drivers.python(driver, tmp_path, HERE / "on_driver.py", family, *GPUS) == ""
    assert drivers.findings(tmp_path) == []


@pytest.mark.parametrize("machine", GPUS)
@marked("oclgrind")
def test_some_with_every_access_checked(machine: str, driver: str, tmp_path: Path) -> None:
    """Half of each family for one kind of GPUs, without the programs that take long."""
    own = [*families.FAMILIES][GPUS.index(machine)::len(GPUS)]
    assert drivers.python(driver, tmp_path, HERE / "on_driver.py", ",".join(own), machine, "quick") == ""
    assert drivers.findings(tmp_path) == []
