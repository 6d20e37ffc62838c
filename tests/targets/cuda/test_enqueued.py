"""Arrays that are on a CUDA device already: their interface, streams, and what is refused. The processor is the device."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import polytc
from polytc.enqueued import dlpack
from polytc.errors import ArgumentError
from polytc.targets.cuda.target import CudaTarget
from tests.targets.cuda.fake_bindings import FakeDriver
from tests.targets.cuda.test_driver import fakes, needs_compiler  # noqa: F401

pytestmark = needs_compiler


class OnDevice:
    """An array in memory of the device, as torch and cupy show theirs."""

    def __init__(self, driver: FakeDriver, contents: np.ndarray, only_read: bool = False, **more: Any) -> None:
        self.contents, self.only_read, self.more = contents, only_read, more
        driver.cuCtxSetCurrent("context")
        self.address = driver.cuMemAlloc(max(1, contents.nbytes))[1]
        driver.cuMemcpyHtoD(self.address, np.ascontiguousarray(contents).ctypes.data, contents.nbytes)
        self._driver = driver

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.contents.shape, "typestr": self.contents.dtype.str, "data": (self.address, self.only_read),
                "version": 3, "strides": None, **self.more}

    def read(self) -> np.ndarray:
        found = np.empty_like(self.contents)
        self._driver.cuMemcpyDtoH(found.ctypes.data, self.address, found.nbytes)
        return found


@pytest.fixture
def driver(fakes: dict[str, Any]) -> FakeDriver:  # noqa: F811
    return fakes["driver"]


def arrays(driver: FakeDriver) -> tuple[OnDevice, OnDevice, OnDevice]:
    r = np.random.default_rng(0)
    return (OnDevice(driver, r.standard_normal((9, 17)).astype(np.float32)),
            OnDevice(driver, r.standard_normal((17, 5)).astype(np.float32)), OnDevice(driver, np.zeros((9, 5), np.float32)))


class TorchStream:
    cuda_stream = 7


class CoreStream:
    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, 7


@pytest.mark.part(3)
@pytest.mark.parametrize("stream", [None, 0, 7, TorchStream(), CoreStream()], ids=["none", "0", "7", "torch", "core"])
def test_kernels_work_on_the_callers_memory(driver: FakeDriver, stream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    op = polytc.compile("C[i,j] += A[i,k]*B[k,j]", target=CudaTarget())
    a, b, c = arrays(driver)
    used, launch = list[int](), driver.cuLaunchKernel
    copies = list[Any]()
    monkeypatch.setattr(driver, "cuLaunchKernel", lambda *x: used.append(x[8]) or launch(*x))
    monkeypatch.setattr(driver, "cuMemcpyHtoD", lambda *x: copies.append(x))
    assert op.enqueue(stream, a, b, out=c) is None
    np.testing.assert_allclose(c.read(), a.contents.astype(np.float64) @ b.contents, rtol=1e-5, atol=1e-5)
    assert set(used) == {0 if stream in (None, 0) else 7}
    assert not copies


def test_in_place_and_several_outputs(driver: FakeDriver) -> None:
    op = polytc.compile("def f(inout f32[N] x, f32[N] y) -> (x, s) { x[i] = x[i] + y[i]; s[i] = 2*x[i] }", target=CudaTarget())
    x, y, s = (OnDevice(driver, np.full(40, v, np.float32)) for v in (1, 2, 0))
    op.enqueue(None, x, y, out=(x, s))
    op.enqueue(None, x, y, out=(x, s))
    np.testing.assert_array_equal(x.read(), np.full(40, 5, np.float32))
    np.testing.assert_array_equal(s.read(), np.full(40, 10, np.float32))


@pytest.mark.part(3)
@pytest.mark.parametrize(("change", "code", "says"), [
    ({"A": np.ones((9, 17), np.float32)}, "E402", "A is a ndarray, not an array of a CUDA device"),
    ({"A": ("strides", (4, 36))}, "E402", "not C-contiguous"),
    ({"out": ("data", None)}, "E407", "may only be read"),
    ({"out": "A"}, "E407", "the result is f32"),
    ({"out": "small"}, "E407", "the result is f32"),
    ({"out": "inside"}, "E408", "same buffer"),
    ({"stream": "x"}, "E402", "not a stream of CUDA"),
    ({"wait_for": [1]}, "E402", "waits for events by itself"),
])
def test_refusals(driver: FakeDriver, change: dict[str, Any], code: str, says: str) -> None:
    op = polytc.compile("C[i,j] += A[i,k]*B[k,j]", target=CudaTarget())
    a, b, c = arrays(driver)
    given: dict[str, Any] = {"A": a, "B": b, "out": c, "stream": None, "wait_for": ()} | {
        k: v for k, v in change.items() if not isinstance(v, str | tuple) or k == "stream"}
    match change:
        case {"A": (key, value)}:
            a.more[key] = value
        case {"out": ("data", _)}:
            c.only_read = True
        case {"out": "A"}:
            given["out"] = a
        case {"out": "small"}:
            given["out"] = OnDevice(driver, np.zeros((9, 4), np.float32))
        case {"out": "inside"}:
            c.address = a.address + 8
    with pytest.raises(ArgumentError, match=says) as refusal:
        op.enqueue(given["stream"], given["A"], given["B"], out=given["out"], wait_for=given["wait_for"])
    assert refusal.value.code == code


@pytest.mark.part(6)
@pytest.mark.parametrize("name", ["A", "B", "C"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_arrays_that_begin_between_two_vectors(driver: FakeDriver, dtype: type, name: str) -> None:
    """As offset views of torch do: kernels with accesses of 16 bytes would fault there; others do not care."""
    def given(rows: int, steps: int, columns: int) -> dict[str, OnDevice]:
        a, b = np.ones((rows, steps), dtype), np.ones((steps, columns), dtype)
        made = {"A": OnDevice(driver, a), "B": OnDevice(driver, b), "C": OnDevice(driver, np.zeros((rows, columns), dtype))}
        bigger = made[name].contents.size + 1
        made[name].address = OnDevice(driver, np.ones(bigger, dtype)).address + np.dtype(dtype).itemsize
        return made
    op = polytc.compile("C[i,j] += A[i,k]*B[k,j]", target=CudaTarget())
    wide, odd = given(64, 64, 64), given(9, 17, 5)
    says = rf"{name} begins at an address that is no multiple of 16 bytes(?s:.)*clone"
    with pytest.raises(ArgumentError, match=says) as refusal:
        op.enqueue(None, wide["A"], wide["B"], out=wide["C"])
    assert refusal.value.code == ("E407" if name == "C" else "E402")
    op.enqueue(None, odd["A"], odd["B"], out=odd["C"])
    memory = (ctypes.c_char * odd["C"].contents.nbytes).from_address(odd["C"].address)
    assert (np.frombuffer(memory, dtype) == 17).all()


def test_memory_of_another_device(driver: FakeDriver) -> None:
    driver.devices = 2
    op = polytc.compile("C[i,j] += A[i,k]*B[k,j]", target=CudaTarget())
    a, b, c = arrays(driver)
    op.enqueue(None, a, b, out=c)
    driver.others[b.address] = 1
    with pytest.raises(ArgumentError, match="B lies on device 1, the op's device is 0") as refusal:
        op.enqueue(None, a, b, out=c)
    assert refusal.value.code == "E402"
    driver.managed.add(b.address)
    op.enqueue(None, a, b, out=c)
    a.address = np.zeros(9 * 17, np.float32).ctypes.data
    with pytest.raises(ArgumentError, match="A lies in no memory of a CUDA device"):
        op.enqueue(None, a, b, out=c)


@pytest.mark.parametrize("name", ["device_index", "device_id"])
def test_a_stream_of_another_device(driver: FakeDriver, name: str) -> None:
    driver.devices = 2
    op = polytc.compile("C[i,j] += A[i,k]*B[k,j]", target=CudaTarget())
    given = arrays(driver)
    stream = TorchStream()
    setattr(stream, name, 0)
    op.enqueue(stream, *given[:2], out=given[2])
    setattr(stream, name, 1)
    with pytest.raises(ArgumentError, match="the stream is one of device 1, the op's device is 0"):
        op.enqueue(stream, *given[:2], out=given[2])


class ByDLPack:
    """An array that says by DLPack alone where it is. kind: of the device; the capsule is numpy's, changed."""

    def __init__(self, of: OnDevice, kind: int = dlpack.CUDA, code: int | None = None) -> None:
        self.of, self.kind, self.code = of, kind, code

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.kind, 0

    def __dlpack__(self, stream: int | None = None) -> Any:
        capsule = self.of.contents.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        t = dlpack._Tensor.from_address(pointer(capsule, b"dltensor"))
        t.kind, t.data, t.offset = self.kind, self.of.address - 64, 64
        t.code = t.code if self.code is None else self.code
        return capsule


def test_arrays_that_show_themselves_by_dlpack(driver: FakeDriver) -> None:
    op = polytc.compile("C[i,j] += A[i,k]*B[k,j]", target=CudaTarget())
    a, b, c = arrays(driver)
    op.enqueue(None, ByDLPack(a), b, out=ByDLPack(c, dlpack.MANAGED))
    np.testing.assert_allclose(c.read(), a.contents.astype(np.float64) @ b.contents, rtol=1e-5, atol=1e-5)
    b.contents = np.asfortranarray(b.contents)
    for bad, says in ((ByDLPack(a, 1), "not an array of a CUDA device"), (ByDLPack(a, code=9), "cannot compute"),
                      (ByDLPack(b), "not C-contiguous")):
        with pytest.raises(ArgumentError, match=says):
            op.enqueue(None, bad, b, out=c)


@pytest.mark.parametrize(("dtype", "code", "name"), [
    ("f4", None, "f32"), ("f2", None, "f16"), ("i1", None, "i8"), ("u8", None, "u64"), ("c8", None, "c64"), ("?", None, "bool"),
    ("u2", 4, "bf16")])
def test_types_by_dlpack(driver: FakeDriver, dtype: str, code: int | None, name: str) -> None:
    found = dlpack.shown(ByDLPack(OnDevice(driver, np.ones((3, 4), dtype)), code=code))
    assert found is not None
    assert str(found.dtype) == name
    assert found.shape == (3, 4)
