"""Sums of products of bytes in OpenCL C: by the functions of cl_khr_integer_dot_product on the device that is here, and by what
stands for them elsewhere, beside numpy."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
import pytest

import polytc
from polytc.codegen.target import Source
from polytc.machine import DEVICES
from polytc.program.calls.words import DOTS
from polytc.targets.ctext.calls.word_dots import FEATURE
from polytc.targets.opencl.driver import devices, programs
from polytc.targets.opencl.target import OpenCLTarget
from tests.byte_sums import PRODUCTS, SIGNS, Sum, random_sum
from tests.opencl_here import NEEDS_OPENCL

pytestmark = NEEDS_OPENCL
EAGER = {"launches.launch": 0.0, "groups.integer": 1000.0}
"""Costs by which small sums are made of words, too."""
MACHINES = {name: DEVICES[name].costing(EAGER) for name in ("intel-xe", "amd-gfx90a")}
MATMUL = "C[i,j] += i32(X[i,k])*i32(W[k,j])"


@dataclass(frozen=True)
class Plain(OpenCLTarget):
    """A target whose compiler does not say that it has the functions."""

    def emit(self, module: object) -> Source:
        made = super().emit(module)  # type: ignore[arg-type]
        return replace(made, text=made.text.replace(FEATURE, "there_is_no_such_feature"))


def compared(s: Sum, signs: tuple[str, str], target: OpenCLTarget, seed: int = 0, extreme: bool = False) -> None:
    low = polytc.lower(s.text, target, shapes=s.shapes, dtypes=s.types(signs))
    assert re.search(r"polytc_dot_[iu]8[iu]8\(", low.source.text)
    given = s.inputs(signs, seed, extreme)
    results = {n: np.zeros(low.program.tensor(n).shape, low.program.tensor(n).dtype.numpy) for n in low.program.outputs}
    target.load(target.build(low.source)).run([(given | results)[n] for n in low.program.arrays])
    np.testing.assert_array_equal(results[low.program.outputs[-1]], s.wanted(given))


@pytest.mark.part(120)
@pytest.mark.parametrize("signs", SIGNS, ids="".join)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", PRODUCTS)
def test_sums_beside_numpy(name: str, machine: str, signs: tuple[str, str]) -> None:
    compared(PRODUCTS[name], signs, OpenCLTarget(MACHINES[machine]))


@pytest.mark.part(8)
@pytest.mark.parametrize("signs", SIGNS, ids="".join)
@pytest.mark.parametrize("target", [OpenCLTarget, Plain], ids=["extension", "plain"])
def test_sums_of_the_ends_of_the_ranges_do_not_saturate(target: type[OpenCLTarget], signs: tuple[str, str]) -> None:
    long = Sum(f"{MATMUL}\nY[i,j] = C[i,j] + b[j]", {"X": (33, 1024), "W": (1024, 40), "b": (40,)},
               lambda a: a["X"] @ a["W"] + a["b"])
    compared(long, signs, target(MACHINES["intel-xe"]), extreme=True)


@pytest.mark.part(8)
@pytest.mark.parametrize("seed", range(100, 104))
@pytest.mark.parametrize("target", [OpenCLTarget, Plain], ids=["extension", "plain"])
def test_random_sums(target: type[OpenCLTarget], seed: int) -> None:
    s, signs = random_sum(seed)
    compared(s, signs, target(MACHINES["intel-xe"]), seed)


def test_texts_that_ask_are_of_opencl_3() -> None:
    """In 1.2 compilers do not say what they have."""
    device = devices.choose()
    asked, other = (programs._newest(["-cl-std=CL1.2", "-w"], text, device) for text in (f"#if defined({FEATURE})", "int x;"))
    assert other == ["-cl-std=CL1.2", "-w"]
    assert asked == ([f"-cl-std=CL{3 if '3.' in device.version else 1}.{0 if '3.' in device.version else 2}", "-w"])


def test_no_function_saturates() -> None:
    for name in ("dot_i8i8", "dot_u8u8", "dot_u8i8"):
        signs = DOTS[name].a.name, DOTS[name].b.name
        text = polytc.lower(MATMUL, OpenCLTarget(MACHINES["intel-xe"]), shapes={"X": (64, 64), "W": (64, 64)},
                            dtypes=dict(zip(("X", "W"), signs, strict=True))).source.text
        assert "dot_4x8packed_" in text
        assert "sat" not in text


def test_the_device_that_is_here_has_no_dot_products_where_it_is_a_cpu() -> None:
    """How its compiler makes them is not known."""
    device = devices.choose()
    if device.kind == "cpu":
        assert devices.machine_of(device).dots == ()


class Handle:
    """What is asked of a device."""

    def __init__(self, name: str = "", extensions: str = "", capability: tuple[int, int] | None = None) -> None:
        self.name, self.extensions = name, extensions
        if capability is not None:
            self.compute_capability_major_nv, self.compute_capability_minor_nv = capability


@pytest.mark.parametrize(("handle", "found"), [
    (Handle("some GPU", "cl_khr_fp64 cl_khr_integer_dot_product"), 3), (Handle("some GPU", "cl_khr_fp64"), 0),
    (Handle("GeForce", capability=(7, 5)), 3), (Handle("GeForce", capability=(6, 1)), 3),
    (Handle("GeForce", capability=(6, 0)), 0), (Handle("gfx90a:sramecc+:xnack-"), 2), (Handle("gfx1100"), 3),
    (Handle("gfx803"), 0)])
def test_which_devices_have_them(handle: Handle, found: int) -> None:
    assert len(devices._word_dots(handle)) == found
