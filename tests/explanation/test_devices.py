"""What `explain` tells of devices that are described, and of open sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest

import polytc
from polytc.machine import DEVICES
from tests.test_cli import good, refused

MATMUL = "C[i,j] += A[i,k]*B[k,j]"
OPEN = {"A": ("M", "K"), "B": ("K", "N")}
TYPICAL = {"M": 300, "K": 200, "N": 100}


@pytest.mark.part(3)
@pytest.mark.parametrize("target", ["cpu", "opencl", "cuda"])
def test_open_sizes_are_counted_at_their_typical_values(target: str) -> None:
    found = polytc.explain(MATMUL, target, shapes=OPEN, typical=TYPICAL, roofline=False)
    fixed = polytc.explain(MATMUL, target, shapes={"A": (300, 200), "B": (200, 100)}, roofline=False)
    assert found.report.written == fixed.report.written
    assert found.report.sizes == (("M", 300), ("K", 200), ("N", 100))
    assert "M=300, K=200, N=100" in str(found)
    assert "M=300, K=200, N=100" in found.html


@pytest.mark.part(2)
@pytest.mark.parametrize("machine", ["nvidia-sm90", "amd-gfx90a", "mali"])
def test_the_page_of_a_device_has_its_roofline_and_its_kernels(machine: str) -> None:
    page = polytc.explain(MATMUL, "opencl", shapes={"A": (512, 512), "B": (512, 512)}, machine=machine).html
    assert "by a data sheet" in page
    assert "model us" in page


def test_the_page_of_a_device_has_the_lint() -> None:
    text = "Y[n,c,h+r,w+s] += X[n,c,h,w] + W[c,r,s]"
    found = polytc.explain(text, "opencl", shapes={"X": (1, 64, 32, 32), "W": (64, 3, 3)}, machine="nvidia-sm90")
    assert ("starves: " in found.html) == bool(found.starving)


def test_the_roofs_of_a_device_are_those_of_its_data_sheet() -> None:
    bound = polytc.explain(MATMUL, "opencl", shapes={"A": (512, 512), "B": (512, 512)}, machine="nvidia-sm90").report.bound
    assert bound is not None
    assert bound.roofs.operations == pytest.approx(67e12, rel=0.01)
    assert bound.arithmetic == pytest.approx(2 * 512**3 / 67e12, rel=0.01)
    assert bound.memory == pytest.approx(3 * 4 * 512**2 / 3.35e12, rel=0.01)


@pytest.mark.part(6)
@pytest.mark.parametrize("device", [n for n in DEVICES if not n.startswith(("nvidia", "amd"))])
def test_every_record_is_a_target(device: str) -> None:
    head, line = good("explain", MATMUL, "--target", device, "--typical", "I=256", "--typical", "J=256").splitlines()[:2]
    assert head.split()[:2] == ["kernel", "groups"]
    assert line.startswith("program_k0")
    assert "__kernel" in good("emit", MATMUL, "--target", device)


def test_a_record_is_a_machine_already() -> None:
    refused(2, "--target mali is a machine already", "explain", MATMUL, "--target", "mali", "--machine", "adreno")


@pytest.mark.parametrize("command", [("emit", "--target", "opencl"), ("emit", "--target", "cpu", "--stage", "program")])
def test_inputs_without_a_shape_have_open_sizes(command: tuple[str, ...]) -> None:
    name, *more = command
    assert "K" in good(name, MATMUL, *more)


def test_tiles_without_room_in_local_memory_are_told() -> None:
    """64 rows of 512 floats for a group are 128 KiB; the generic GPU has 32."""
    shapes = {"A": (256, 512), "B": (512, 256)}
    made = polytc.schedule(MATMUL, shapes).tile("C", i=64, j=64).tile("C", {"i.1": 4, "j.1": 4})
    made = made.reorder("C", "i.1.0", "j.1.0", "i.1.1", "j.1.1")
    made = made.bind("C", {"i.0": "grid.y", "j.0": "grid.x", "i.1.0": "block.y", "j.1.0": "block.x"})
    found = polytc.explain(MATMUL, "opencl", shapes=shapes, schedule=made.cache("C", "A", at="j.0"))
    (told,) = found.report.too_large
    assert (told.buffer, told.bytes, told.room) == ("A_S1", 64 * 512 * 4, 32 << 10)
    assert "A_S1 of k1 stays in global memory: what a group uses of it has 131,072 bytes, and 32,768 bytes" in str(found)
    assert "A_S1 of k1 stays in global memory" in found.html
    assert any("A_S1" in x for x in found.warnings)
    large = polytc.explain(MATMUL, "opencl", shapes=shapes, schedule=made.cache("C", "A", at="j.0"),
                           machine=replace(DEVICES["generic-gpu"], local_bytes=132 << 10))
    assert large.report.too_large == ()
