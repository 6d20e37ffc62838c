"""What the hosts of exported folders refuse: sizes that are not set or overflow, arrays that overlap, foreign weights.

The C hosts are loaded as libraries and called by ctypes, so that what they return is seen.
"""

from __future__ import annotations

import ctypes
import importlib.util
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import polytc
from polytc.codegen import weight_file
from polytc.export import bundle, c_host, opencl
from polytc.graph import ahead
from polytc.targets import registry
from polytc.targets.llvm.standalone.chain import Status
from tests.export import exported

MATMUL = "C[i,j] += A[i,k] * B[k,j]"
OPEN = {"A": ("M", "K"), "B": ("K", "N")}
HUGE = 3_037_000_500  # whose square has more than 63 bits
NO_SIZES, SHARED, TOO_LARGE, INVALID_CONTEXT, INVALID_BUFFER_SIZE = 6, 7, 5, -34, -61


def library(folder: Path, name: str, *libraries: str) -> ctypes.CDLL:
    """NAME.c as a library. Skips where it cannot be built."""
    if "-lOpenCL" in libraries:
        exported.built(folder, name)
        libraries = tuple(exported.opencl(exported.CC or "cc"))
    if exported.CC is None:
        pytest.skip("there is no C compiler")
    subprocess.run([exported.CC, *exported.STRICT, "-shared", "-fPIC", f"{name}.c", *libraries, "-lm", "-o", "host.so"],
                   cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "host.so"))


@pytest.fixture
def for_cpus(tmp_path: Path) -> Callable[..., ctypes.CDLL]:
    def made(text: str, **shapes: tuple[int | str, ...]) -> ctypes.CDLL:
        c_host.write(bundle.of_program(polytc.build(text, shapes), registry.target("c"), "host"), tmp_path)
        found = library(tmp_path, "host")
        found.host_create.restype, found.host_bytes.restype = ctypes.c_void_p, ctypes.c_size_t
        found.host_error.restype = ctypes.c_char_p
        return found
    return made


def at(array: np.ndarray, offset: int = 0) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data + offset)


def sizes(*values: int) -> list[ctypes.c_int64]:
    return [ctypes.c_int64(v) for v in values]


def test_the_c_host_refuses_sizes(for_cpus) -> None:
    host = for_cpus(MATMUL, **OPEN)
    a = np.ones(64, np.float32)
    self = ctypes.c_void_p(host.host_create(None))
    for given in ((0, 1, 1), (1, -3, 1), (HUGE, HUGE, 1), (1, HUGE, HUGE), (1 << 62, 4, 4), (1 << 40, 1 << 40, 1 << 40),
                  (1 << 32, 1 << 32, 1)):
        assert host.host_run(self, *sizes(*given), at(a), at(a, 64), at(a, 128)) == 2, given
        assert 0 in [host.host_bytes(k, *sizes(*given)) for k in range(3)]
    assert b"size" in host.host_error(2)
    assert host.host_bytes(0, *sizes(2, 2, 2)) == 16
    assert host.host_run(self, *sizes(2, 2, 2), at(a), at(a, 16), at(a, 32)) == 0
    np.testing.assert_array_equal(a[8:12], 2)
    host.host_release(self)


def test_the_c_host_refuses_sizes_at_which_arrays_end_too_early(for_cpus) -> None:
    host = for_cpus("C[i] = A[i + 2] + B[2*i] where i in 0:5", A=("m",), B=("n",))
    a = np.arange(64, dtype=np.float32)
    self = ctypes.c_void_p(host.host_create(None))
    for given, allowed in (((7, 9), True), ((6, 9), False), ((7, 8), False), ((30, 8), False), ((30, 20), True)):
        a[40:] = -1
        assert host.host_run(self, *sizes(*given), at(a), at(a), at(a, 160)) == (0 if allowed else 2), given
        np.testing.assert_array_equal(a[40:45], a[2:7] + a[0:10:2] if allowed else -1)
    host.host_release(self)


@pytest.mark.part(4)
@pytest.mark.parametrize(("text", "offsets", "code"), [
    ("B[i] = A[i] + 1", (0, 32), 0), ("B[i] = A[i] + 1", (0, 0), 3), ("B[i] = A[i] + 1", (0, 28), 3),
    ("B[i] = A[i] + 1", (28, 0), 3),
    ("C[i] = A[i] + B[i]", (0, 0, 32), 0), ("C[i] = A[i] + B[i]", (0, 32, 60), 3), ("C[i] = A[i] + B[i]", (0, 32, 64), 0),
    ("def f(inout f32[N] A, f32[N] B) -> (A) { A[i] = A[i] + B[i] }", (0, 0), 3),
    ("def f(inout f32[N] A, f32[N] B) -> (A) { A[i] = A[i] + B[i] }", (0, 32), 0)])
def test_the_c_host_refuses_arrays_that_overlap(for_cpus, text: str, offsets: tuple[int, ...], code: int) -> None:
    host = for_cpus(text, A=(8,), **({"B": (8,)} if "B[i]" in text.split("= ", 1)[1] else {}))
    memory = np.ones(64, np.float32)
    self = ctypes.c_void_p(host.host_create(None))
    assert host.host_run(self, *(at(memory, k) for k in offsets)) == code
    for missing in range(len(offsets)):
        assert host.host_run(self, *(None if k == missing else at(memory, place) for k, place in enumerate(offsets))) == 3
    host.host_release(self)


@pytest.fixture
def session() -> Iterator[Any]:
    """A queue, which in some runtimes does not keep its context alive."""
    exported.device()
    import pyopencl as cl
    device = next(d for p in cl.get_platforms() for d in p.get_devices() if d.name.strip() == exported.device().name)
    context = cl.Context([device])
    yield cl.CommandQueue(context)
    del context


@pytest.fixture
def for_devices(tmp_path: Path, session: Any) -> Iterator[Callable[..., tuple[ctypes.CDLL, ctypes.c_void_p]]]:
    made: list[tuple[ctypes.CDLL, ctypes.c_void_p]] = []

    def make(text: str, **shapes: tuple[int | str, ...]) -> tuple[ctypes.CDLL, ctypes.c_void_p]:
        target = registry.target("opencl")
        opencl.write(bundle.of_program(polytc.build(text, shapes), target, "host"), target.machine, tmp_path)
        host, self = library(tmp_path, "host", "-lOpenCL"), ctypes.c_void_p()
        assert host.host_create(ctypes.c_void_p(session.context.int_ptr), ctypes.c_void_p(session.device.int_ptr),
                                str(tmp_path).encode(), ctypes.byref(self), None, ctypes.c_size_t(0)) == 0
        host.host_bytes.restype = ctypes.c_size_t
        made.append((host, self))
        return made[-1]
    yield make
    for host, self in made:
        host.host_release(self)


def enqueued(host: ctypes.CDLL, self: ctypes.c_void_p, queue: Any, *buffers: Any) -> int:
    given = [ctypes.c_void_p(b.int_ptr) for b in buffers]
    code: int = host.host_enqueue(self, ctypes.c_void_p(queue.int_ptr), *given, 0, None, None)
    queue.finish()
    return code


def test_a_run_before_its_sizes_are_set(for_devices, session) -> None:
    import pyopencl as cl
    host, self = for_devices(MATMUL, **OPEN)
    a, b, c = (cl.Buffer(session.context, cl.mem_flags.READ_WRITE, 64) for _ in range(3))
    assert enqueued(host, self, session, a, b, c) == NO_SIZES
    assert [host.host_bytes(self, k) for k in range(3)] == [0, 0, 0]
    assert host.host_resize(self, 2, 2, 2) == 0
    assert enqueued(host, self, session, a, b, c) == 0
    for given in ((0, 2, 2), (1 << 30, 1 << 30, 2), (2, 1 << 30, 1 << 30), ((1 << 31) - 1,) * 3):
        assert host.host_resize(self, *given) in (TOO_LARGE, -30), given
        assert enqueued(host, self, session, a, b, c) == NO_SIZES, given


def test_buffers_that_overlap_or_are_of_another_context(for_devices, session) -> None:
    import pyopencl as cl
    host, self = for_devices("C[i] = A[i] + B[i]", A=(1024,), B=(1024,))
    flags = cl.mem_flags.READ_WRITE
    whole, a, c = (cl.Buffer(session.context, flags, 8192 * 2) for _ in range(3))
    first, second, between = whole[:4096], whole[8192:8192 + 4096], whole[2048:2048 + 4096]
    assert enqueued(host, self, session, a, a, c) == 0  # what is only read may be one buffer
    assert enqueued(host, self, session, a, c, c) == SHARED
    assert enqueued(host, self, session, first, a, second) == 0
    assert enqueued(host, self, session, first, second, between) == SHARED
    assert enqueued(host, self, session, first, a, whole) == SHARED
    assert enqueued(host, self, session, a, a, cl.Buffer(session.context, flags, 4092)) == INVALID_BUFFER_SIZE
    other = cl.Context([session.device])
    assert enqueued(host, self, session, a, a, cl.Buffer(other, flags, 4096)) == INVALID_CONTEXT
    assert enqueued(host, self, cl.CommandQueue(other), a, a, c) == INVALID_CONTEXT


def test_the_python_host_takes_only_what_its_kernels_read(tmp_path: Path, session) -> None:
    import pyopencl as cl
    import pyopencl.array as cl_array
    target = registry.target("opencl")
    opencl.write(bundle.of_program(polytc.build("C[i,j] = A[i,j] + B[i,j]", {"A": (8, 16), "B": (8, 16)}), target, "host"),
                 target.machine, tmp_path)
    spec = importlib.util.spec_from_file_location("host_of_refusals", tmp_path / "host.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    program = module.Program(session.context, tmp_path / "host.json")
    x = np.arange(128, dtype=np.float32).reshape(8, 16)
    np.testing.assert_array_equal(program(x, x), 2 * x)
    np.testing.assert_array_equal(program(x.tolist(), x.T.copy().T), 2 * x)
    for given in (x.astype(np.float64), x.astype(np.int32)):
        with pytest.raises(TypeError, match="A is"):
            program(given, x)
    with pytest.raises(ValueError, match="shape"):
        program(x[:4], x)

    def on_device(array: np.ndarray) -> Any:
        return cl_array.to_device(session, array)
    a, b, c = on_device(x), on_device(x), on_device(0 * x)
    program.enqueue(session, a, b, c)
    np.testing.assert_array_equal(c.get(), 2 * x)
    tall = on_device(np.ones((16, 16), np.float32))
    for bad, error in ((on_device(x.astype(np.float64)), TypeError), (on_device(x[:4]), ValueError), (tall[:8, :8], ValueError),
                       (tall[::2], ValueError), (tall[1:9], ValueError),
                       (on_device(np.ones((16, 8), np.float32)).T, ValueError),
                       (cl.Buffer(session.context, cl.mem_flags.READ_WRITE, 508), ValueError), (x, TypeError)):
        with pytest.raises(error, match="A"):
            program.enqueue(session, bad, b, c)
    for shared in ((a, c, c), (c, b, c), (c.data, b, c)):
        with pytest.raises(ValueError, match="share memory"):
            program.enqueue(session, *shared)
    other = cl.Context([session.device])
    with pytest.raises(ValueError, match="context"):
        program.enqueue(session, cl.Buffer(other, cl.mem_flags.READ_WRITE, 512), b, c)


@pytest.fixture(scope="module")
def model() -> polytc.Graph:
    r = np.random.default_rng(5)
    constants = {"w": r.standard_normal((8, 6)).astype(np.float32), "v": r.standard_normal(6).astype(np.float32)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "v"], ["y"])]
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 8])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [numpy_helper.from_array(a, n) for n, a in constants.items()])
    return polytc.load_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))


def spoilt(data: bytes) -> Iterator[bytes]:
    """The file with a bit changed here and there, cut, longer, with two words exchanged, and without its header."""
    for place in (0, 9, 17, 25, 33, 63, 64, 65, 100, len(data) // 2, len(data) - 1):
        yield data[:place] + bytes([data[place] ^ 4]) + data[place + 1:]
    yield data[:-8]
    yield data + bytes(8)
    yield data[:64] + data[72:80] + data[64:72] + data[80:]
    yield data[64:]
    yield b""


def test_weights_of_another_export_ahead_of_time(model, tmp_path: Path) -> None:
    if exported.CC is None:
        pytest.skip("there is no C compiler")
    files = ahead.export(model, tmp_path, name="net")
    subprocess.run([exported.CC, "-shared", "net.o", "-lm", "-lpthread", "-o", "net.so"], cwd=tmp_path, check=True)
    host = ctypes.CDLL(str(tmp_path / "net.so"))
    good, bad, self = files.weights.read_bytes(), tmp_path / "bad", ctypes.c_void_p()
    for data in spoilt(good):
        bad.write_bytes(data)
        assert host.net_open(ctypes.byref(self), str(bad).encode(), 1, None) == Status.BAD_WEIGHTS
        assert self.value is None
    for missing in (str(tmp_path / "missing").encode(), None):
        assert host.net_open(ctypes.byref(self), missing, 1, None) == Status.NO_FILE
    assert host.net_open(ctypes.byref(self), str(files.weights).encode(), 1, None) == Status.OK
    x, y = np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32), np.zeros((4, 6), np.float32)
    assert host.net_run(self, at(x), at(y)) == Status.OK
    np.testing.assert_allclose(y, model.compile().run(None, {"x": x})[0], rtol=1e-5)
    memory = np.zeros(64, np.float32)
    for given, code in (((0, 0), 1), ((0, 124), 1), ((0, 128), 0), ((96, 0), 0), ((95, 0), 1)):
        assert host.net_run(self, *(at(memory, k) for k in given)) == code, given
    assert [host.net_run(self, *arrays) for arrays in ((None, at(y)), (at(x), None))] == [Status.BAD_ARRAY] * 2
    host.net_close(self)


def test_weights_of_another_export_in_folders(model, tmp_path: Path) -> None:
    plan = ahead.plan_of(model, {})
    c_host.write(bundle.of_plan(plan, registry.target("c"), "net"), tmp_path)
    host = library(tmp_path, "net")
    host.net_create.restype = ctypes.c_void_p
    weights = tmp_path / "net.weights"
    good = weights.read_bytes()
    for data in spoilt(good):
        weights.write_bytes(data)
        assert host.net_create(str(tmp_path).encode()) is None
    weights.write_bytes(good)
    self = host.net_create(str(tmp_path).encode())
    assert self
    host.net_release(ctypes.c_void_p(self))


def test_the_sums_of_weights() -> None:
    """Against sums in Python's integers, of arrays that are no whole words."""
    r = np.random.default_rng(2)
    parts = [r.integers(0, 256, n).astype(np.uint8) for n in (3, 64, 1000, 0, 129)]
    data = b"".join(p.tobytes() + bytes(-len(p) % 64) for p in parts)
    total = sums = 0
    for k in range(0, len(data), 8):
        total += int.from_bytes(data[k:k + 8], "little")
        sums += total
    assert weight_file.header(parts)[2:] == (len(data), total % 2**64, sums % 2**64, 0, 0, 0)


ANOTHER = ("def f(f32[m] A, f32[k] Z) -> (C, S) { C[i] = Z[i]*2 where i in 0:k, i < m\nS[i] = A[i] }",
           {"A": ("m",), "Z": ("k",)})
"""A program whose first result has min(m, k) elements: k of them for the typical sizes."""


def test_the_c_host_refuses_sizes_at_which_the_text_is_another_program(for_cpus) -> None:
    host = for_cpus(ANOTHER[0], **ANOTHER[1])
    host.host_error.restype = ctypes.c_char_p
    a, z, c, s = (np.arange(16, dtype=np.float32) for _ in range(4))
    self = ctypes.c_void_p(host.host_create(None))
    for (m, k), code in {(9, 9): 0, (12, 7): 0, (8, 9): 2, (1, 2): 2, (1, 1): 0}.items():
        c[:], s[:] = -1, -1
        assert host.host_run(self, *sizes(m, k), at(a), at(z), at(c), at(s)) == code
        assert c.tolist() == ([*(2*z[:k]).tolist()] if code == 0 else []) + [-1]*(16 - k*(code == 0))
    assert host.host_error(2).startswith(b"a size is below 1, m - k is below 0, or ")
    host.host_release(self)
