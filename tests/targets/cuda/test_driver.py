"""Running through the driver API, on bindings that have the processor behind them: no GPU has run this."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from onnx import helper

import polytc
from polytc.errors import TargetError
from polytc.targets.cuda import devices, nvrtc, session
from polytc.targets.cuda.target import CudaTarget
from polytc.testing.cases import CASES, Case
from polytc.testing.suite import TOLERANCE
from tests.cuda_here import COMPILER
from tests.graph.small_models import model_of
from tests.targets.cuda.fake_bindings import FakeDriver, FakeNvrtc

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")


def forget() -> None:
    devices.choose.cache_clear()
    session.session.cache_clear()
    nvrtc._nvrtc.cache_clear()


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    found = {"driver": FakeDriver(), "nvrtc": FakeNvrtc()}
    monkeypatch.setattr(nvrtc, "bindings", found.__getitem__)
    forget()
    yield found
    forget()


@pytest.mark.part(43)
@needs_compiler
@pytest.mark.parametrize("case", CASES, ids=str)
def test_programs_run(case: Case, fakes: dict[str, Any]) -> None:
    inputs, target = case.inputs(), CudaTarget()
    source = polytc.lower(case.text, target, shapes=case.shapes, dtypes=case.dtypes).source
    expected = case.expected(inputs)
    arrays = {b.name: np.zeros([int(n) for n in b.shape], b.dtype.numpy) for b in source.module.args} | inputs
    executable = target.load(target.build(source))
    executable.run([arrays[b.name] for b in source.module.args])
    for got, wanted in zip((arrays[n] for n in source.module.outputs), expected, strict=True):
        tolerance = TOLERANCE.get(got.dtype, 0)
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance * max(1, np.abs(wanted).max(initial=0)))
    del executable
    gc.collect()
    assert not fakes["driver"].memory, "memory was not given back"
    assert "--gpu-architecture=sm_90" in map(bytes.decode, fakes["nvrtc"].asked)


@needs_compiler
def test_open_sizes_and_loops_of_the_host_run(fakes: dict[str, Any]) -> None:
    op = polytc.compile("""def heat(inout f32[N,M] A) -> (A) {
        for t in 0:3 {
            B[i,j] = A[i-1,j] + A[i,j-1]    where i in 1:N-1, j in 1:M-1
            A[i,j] = B[i,j]                 where i in 1:N-1, j in 1:M-1
        }
    }""", target=CudaTarget(), symbolic=True)
    for shape in ((40, 50), (9, 70)):
        a = np.random.default_rng(0).integers(-3, 4, shape).astype(np.float32)
        want = a.copy()
        for _ in range(3):
            want[1:-1, 1:-1] = want[:-2, 1:-1] + want[1:-1, :-2]
        op(a)
        np.testing.assert_array_equal(a, want)


@needs_compiler
def test_the_machine_is_that_of_the_device(fakes: dict[str, Any]) -> None:
    machine = CudaTarget().here().machine
    assert (machine.cores, machine.second_cache.bytes) == (4, 1 << 20)


def test_the_device_is_listed(fakes: dict[str, Any]) -> None:
    row = polytc.devices()[-1]
    assert (row["target"], row["name"], row["architecture"]) == ("cuda", "a processor", "sm_90")
    fakes["driver"].cuInit = lambda flags: (100,)
    forget()
    assert all(r["target"] != "cuda" for r in polytc.devices())


@needs_compiler
def test_a_device_that_is_newer_than_the_compiler_gets_ptx(fakes: dict[str, Any]) -> None:
    fakes["nvrtc"].known = [70, 80]
    polytc.run("C[i] = A[i] + 3", A=np.ones(5, np.float32), target=CudaTarget())
    assert fakes["nvrtc"].asked == [b"--gpu-architecture=compute_80"]


def test_without_cuda_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(f"No module named {name!r}")
    forget()
    monkeypatch.setattr(nvrtc, "importlib", SimpleNamespace(import_module=missing))
    refused(lambda: CudaTarget().here(), "E524", "polytc[cuda]")
    refused(lambda: nvrtc.compiled("", "sm_90"), "E524", "polytc[cuda]")
    forget()


def test_without_a_device(fakes: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYTC_CUDA_DEVICE", "3")
    refused(lambda: CudaTarget().here(), "E524", "POLYTC_CUDA_DEVICE")
    fakes["driver"].cuInit = lambda flags: (100,)
    refused(lambda: CudaTarget().here(), "E524", "polytc[cuda]")


def refused(call: Callable[[], object], code: str, cure: str) -> None:
    with pytest.raises(TargetError) as refusal:
        call()
    assert refusal.value.code == code
    assert cure in str(refusal.value)


@needs_compiler
def test_what_the_driver_refuses_is_told(fakes: dict[str, Any]) -> None:
    fakes["driver"].limit = 1000
    with pytest.raises(TargetError, match="driver says 2") as refusal:
        polytc.run("C[i] = A[i] + 1", A=np.ones(5000, np.float32), target=CudaTarget())
    assert refusal.value.code == "E526"


N = helper.make_node


@needs_compiler
def test_values_of_a_model_stay_on_the_device(fakes: dict[str, Any]) -> None:
    """Weights go there once; from the third run on launches are one graph, until other arrays are used."""
    r = np.random.default_rng(3)
    weights = {"w": r.standard_normal((12, 20)).astype(np.float32), "v": r.standard_normal((20, 5)).astype(np.float32)}
    nodes = [N("MatMul", ["x", "w"], ["a"]), N("Softmax", ["a"], ["b"], axis=-1), N("MatMul", ["b", "v"], ["c"]),
             N("Add", ["c", "z"], ["d"]), N("Softmax", ["d"], ["y"], axis=0)]
    graph = polytc.load_onnx(model_of(nodes, {"x": (np.float32, [7, 12]), "z": (np.float32, [7, 5])}, ["y", "c"], weights))
    driver = fakes["driver"]
    copied, launched = list[int](), list[int]()
    copy, launch = driver.cuMemcpyHtoD, driver.cuLaunchKernel
    driver.cuMemcpyHtoD = lambda *a: copied.append(a[2]) or copy(*a)
    driver.cuLaunchKernel = lambda *a: launched.append(a[7]) or launch(*a)
    model = graph.compile(target=CudaTarget())
    for run in range(4):
        x, z = (r.standard_normal(s).astype(np.float32) for s in ((7, 12), (7, 5)))
        copied.clear()
        launched.clear()
        found = model.run(None, {"x": x, "z": z})
        a = np.exp(x.astype(np.float64) @ weights["w"])
        c = a / a.sum(1, keepdims=True) @ weights["v"]
        y = np.exp(c + z)
        for got, wanted in zip(found, (y / y.sum(0), c), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-4)
        if run:
            assert sorted(copied) == sorted([x.nbytes, z.nbytes])
        assert bool(launched) == (run < 2), "a graph takes their place"
    with ThreadPoolExecutor(1) as other:
        for got, wanted in zip(other.submit(model.run, None, {"x": x, "z": z}).result(), found, strict=True):
            np.testing.assert_array_equal(got, wanted)
    held = len(driver.memory)
    assert driver.graphs == 1
    del model, graph, found
    gc.collect()
    assert not driver.graphs
    assert len(driver.memory) < held, "memory was not given back"


@needs_compiler
def test_kernels_are_timed(fakes: dict[str, Any]) -> None:
    op = polytc.compile("B[i] += A[i,j]; C[i] = B[i] * 2 -> (B, C)", target=CudaTarget())
    times = op.profile(np.ones((9, 70), np.float32))
    assert times
    assert all(name.startswith("polytc_") and seconds > 0 for name, seconds in times)
    assert fakes["driver"].events == 0


@needs_compiler
def test_code_of_a_known_device_is_built_before_it_is_loaded(fakes: dict[str, Any]) -> None:
    """So that it is built by several processes, and is on the disk for the next one."""
    target = CudaTarget().here()
    assert target.forkable
    low = polytc.lower("C[i] = A[i] + 3", target, shapes={"A": (5,)})
    binary = target.build(low.source)
    asked = list(fakes["nvrtc"].asked)
    assert asked == [b"--gpu-architecture=sm_90"]
    c = np.zeros(5, np.float32)
    target.load(binary).run([np.ones(5, np.float32), c])
    np.testing.assert_array_equal(c, np.full(5, 4, np.float32))
    assert fakes["nvrtc"].asked == asked
    assert CudaTarget() != target
    assert not CudaTarget().forkable
