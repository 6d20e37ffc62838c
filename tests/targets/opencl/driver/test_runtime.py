"""Choosing a device, programs from the cache, errors of drivers, runs on the caller's queue, times of kernels."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import polytc
from polytc.errors import ArgumentError, TargetError
from polytc.targets.opencl import executable
from polytc.targets.opencl.driver import child, devices, programs
from polytc.targets.opencl.target import OpenCLTarget
from tests.opencl_here import NEEDS_OPENCL

pytestmark = NEEDS_OPENCL

MATMUL = "C[i,j] += A[i,k]*B[k,j]"
SOFTMAX = """def softmax(f32[N,M] X) -> (Y) {
    S[i] max= X[i,j]
    E[i,j] = exp(X[i,j] - S[i])
    T[i] += E[i,j]
    Y[i,j] = E[i,j] / T[i]
}"""


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def python(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own."""
    return subprocess.run([sys.executable, "-c", script], env=os.environ | environment, capture_output=True, text=True,
                          check=False, timeout=300)


@pytest.fixture
def queue():  # type: ignore[no-untyped-def]
    """A queue in a context of its own, as a caller has one, on the device that polytc chooses."""
    cl = devices.pyopencl()
    context = cl.Context([devices.choose().handle])
    made = cl.CommandQueue(context)
    made.kept = context  # Intel's queues do not keep their context alive
    return made


def test_a_device_by_number_and_by_name() -> None:
    a, b = random(5, 7), random(7, 3, seed=1)
    for name in ("opencl:0", f"opencl:{devices.find()[0].name[:8].upper()}"):
        np.testing.assert_allclose(polytc.run(MATMUL, a, b, target=name), a @ b, rtol=1e-4)
    for name, part in (("opencl:99", "number 99"), ("opencl:no such thing", "'no such thing'")):
        with pytest.raises(TargetError, match=part) as caught:
            polytc.run(MATMUL, a, b, target=name)
        assert caught.value.code == "E503"
    for name in ("opencl:", "cpu:1"):
        with pytest.raises(TargetError, match=name) as caught:
            polytc.compile(MATMUL, target=name)
        assert caught.value.code == "E502"


def test_a_program_comes_from_the_disk_the_second_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYTC_CACHE", "1")
    monkeypatch.setenv("POLYTC_CACHE_DIR", str(tmp_path))
    session = executable.session(devices.choose())
    text = "__kernel void twice(__global float* x) { x[get_global_id(0)] *= 2; }"
    calls = []
    ask = child.ask
    monkeypatch.setattr(child, "ask", lambda *a: calls.append(a) or ask(*a))
    cl = devices.pyopencl()
    for _ in range(2):
        program = programs.built("twice", text, ["-cl-std=CL1.2"], session)
        x = np.ones(8, np.float32)
        buffer = cl.Buffer(session.context, cl.mem_flags.COPY_HOST_PTR, hostbuf=x)
        cl.Kernel(program, "twice")(session.queue, (8,), None, buffer)
        cl.enqueue_copy(session.queue, x, buffer)
        assert x.tolist() == [2] * 8
    assert len(calls) == 1
    (entry,) = (tmp_path / "code").glob("*.bin")
    entry.write_bytes(entry.read_bytes()[:-9])
    programs.built("twice", text, ["-cl-std=CL1.2"], session)
    assert len(calls) == 2


def test_devices_can_be_asked_for_while_another_thread_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    cl, session = devices.pyopencl(), executable.session(devices.choose())
    begun, end = threading.Event(), threading.Event()
    build = cl.Program.build

    def slow(program, *a):  # type: ignore[no-untyped-def]
        begun.set()
        assert end.wait(60)
        return build(program, *a)
    monkeypatch.setattr(cl.Program, "build", slow)
    with ThreadPoolExecutor(2) as threads:
        built = threads.submit(programs.built, "f", "__kernel void f(__global int* x) { x[0] = 1; }", [], session)
        try:
            assert begun.wait(60)
            found = threads.submit(lambda: OpenCLTarget().here().machine)
            assert found.result(60).kind in ("cpu", "gpu")
            assert not built.done()
        finally:
            end.set()
        assert built.result(60) is not None


def test_a_lock_that_another_process_left_in_pyopencls_cache_stops_nobody(tmp_path: Path) -> None:
    """Nothing is kept there: what is built lies in polytc's cache, whose entries are complete or absent."""
    done = python("from polytc.targets.opencl.driver import devices\n"
                  "cl, device = devices.pyopencl(), devices.choose()\n"
                  "devices.build(cl.Context([device.handle]), '__kernel void f(__global int* x) { x[0] = 1; }', [])\n"
                  "print('built')", XDG_CACHE_HOME=str(tmp_path), POLYTC_CACHE="0")
    assert done.stdout == "built\n", done.stderr
    assert not list(tmp_path.glob("pyopencl/pyopencl-compiler-cache*"))


def test_pocl_compiles_each_kernel_once(tmp_path: Path) -> None:
    if "Portable Computing" not in devices.choose().platform:
        pytest.skip("not PoCL")
    done = python("import numpy as np\nimport polytc\n"
                  "a = np.ones((40, 40), np.float32)\n"
                  "print(polytc.run('C[i,j] += A[i,k]*B[k,j]', a, a, target='opencl').sum())",
                  POCL_CACHE_DIR=str(tmp_path / "pocl"), POLYTC_CACHE="1", POLYTC_CACHE_DIR=str(tmp_path))
    assert done.stdout == "64000.0\n", done.stderr
    compiled = [p.name for p in (tmp_path / "pocl").rglob("*.so")]
    assert len(compiled) > 1
    assert len(set(compiled)) == len(compiled), "a kernel was compiled for two sizes of the same work"


def test_a_build_that_fails_names_the_line() -> None:
    session = executable.session(devices.choose())
    with pytest.raises(TargetError) as caught:
        programs.built("wrong", "__kernel void f(__global int* x)\n{\n    x[0] = undeclared;\n}\n", [], session)
    assert caught.value.code == "E506"
    assert "undeclared" in str(caught.value)
    assert "line 3: x[0] = undeclared;" in str(caught.value)


def test_no_memory_left_is_a_diagnostic(monkeypatch: pytest.MonkeyPatch) -> None:
    cl = devices.pyopencl()
    op = polytc.compile(MATMUL, target="opencl", shapes={"A": (4, 4), "B": (4, 4)})

    def refuse(*arguments: object, **named: object) -> None:
        raise cl.MemoryError("clCreateBuffer failed: MEM_OBJECT_ALLOCATION_FAILURE")
    monkeypatch.setattr(cl, "Buffer", refuse)
    monkeypatch.setattr(executable.OpenCLExecutable, "_is_shared", lambda self, array: False)
    with pytest.raises(TargetError, match="192 bytes") as caught:
        op(random(4, 4), random(4, 4))
    assert caught.value.code == "E508"


@pytest.mark.parametrize("addresses", [True, False])
@pytest.mark.parametrize("shift", [0, 8, 24])
def test_arrays_may_begin_anywhere(shift: int, addresses: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runtimes for CPUs compute in the host's arrays, wherever whole vectors begin in them: by their addresses, where they take
    any, or in buffers."""
    session = executable.session(devices.choose())
    monkeypatch.setattr(session, "addresses", addresses and session.addresses)

    def array(*shape: int) -> np.ndarray:
        size = 4 * shape[0] * shape[1]
        memory = np.zeros(size + 128, np.uint8)
        first = -memory.ctypes.data % 64 + shift
        made = memory[first:first + size].view(np.float32).reshape(shape)
        made[...] = random(*shape)
        return made
    a, b, c = array(70, 64), array(64, 96), array(70, 96)
    polytc.compile(MATMUL, target="opencl")(a, b, out=c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


def test_arrays_that_change_their_contents_or_their_place() -> None:
    op = polytc.compile(MATMUL, target="opencl")
    arrays = [(random(9, 5, seed=n), random(5, 7, seed=n + 1), np.empty((9, 7), np.float32)) for n in range(2)]
    for turn, (a, b, c) in enumerate([arrays[0], arrays[0], arrays[1], arrays[0], arrays[1]]):
        a += turn
        c.fill(np.nan)
        if turn == 4:
            op.profile(random(9, 5, seed=7), b)
        assert op(a, b, out=c) is c
        np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)


def test_arrays_of_the_device_are_used_where_they_are(queue) -> None:  # type: ignore[no-untyped-def]
    from pyopencl import array
    a, b = random(37, 19), random(19, 23, seed=1)
    on = [array.to_device(queue, x) for x in (a, b)]
    c = array.zeros(queue, (37, 23), np.float32)
    op = polytc.compile(MATMUL, target="opencl")
    event = op.enqueue(queue, *on, out=c)
    event.wait()
    np.testing.assert_allclose(c.get(), a @ b, rtol=1e-4, atol=1e-4)
    op.enqueue(queue, on[0], B=on[1], out=c, wait_for=[event]).wait()
    np.testing.assert_allclose(c.get(), a @ b, rtol=1e-4, atol=1e-4)


def test_several_kernels_on_a_queue_that_is_out_of_order(queue) -> None:  # type: ignore[no-untyped-def]
    from pyopencl import array
    cl = devices.pyopencl()
    loose = cl.CommandQueue(queue.kept, properties=cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE)
    x = random(33, 65)
    y = array.zeros(queue, x.shape, np.float32)
    queue.finish()
    polytc.compile(SOFTMAX, target="opencl").enqueue(loose, array.to_device(queue, x), out=y).wait()
    e = np.exp(x - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(y.get(), e / e.sum(axis=1, keepdims=True), rtol=1e-5)


def test_buffers_have_the_shapes_that_were_declared(queue) -> None:  # type: ignore[no-untyped-def]
    cl = devices.pyopencl()
    a, b, c = random(4, 6), random(6, 5, seed=1), np.zeros((4, 5), np.float32)
    flags = cl.mem_flags
    buffers = [cl.Buffer(queue.kept, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=x) for x in (a, b, c)]
    op = polytc.compile(MATMUL, target="opencl", shapes={"A": (4, 6), "B": (6, 5)})
    op.enqueue(queue, *buffers[:2], out=buffers[2]).wait()
    cl.enqueue_copy(queue, c, buffers[2])
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)
    for arguments, out, part in (
            ((buffers[0], a), buffers[2], "not an array or buffer"), (buffers[:2], None, "must give an array"),
            (buffers[:2], cl.Buffer(queue.kept, flags.READ_WRITE, 76), "has 76 bytes, not 80")):
        with pytest.raises(ArgumentError, match=part):
            op.enqueue(queue, *arguments, out=out)
    with pytest.raises(ArgumentError, match="neither shape nor type"):
        polytc.compile(MATMUL, target="opencl").enqueue(queue, *buffers[:2], out=buffers[2])


def test_what_is_written_in_place_needs_no_output(queue) -> None:  # type: ignore[no-untyped-def]
    from pyopencl import array
    op = polytc.compile("def scale(inout f32[N] A, f32[N] B) -> (A) { A[i] = A[i] * 2 + B[i] }", target="opencl")
    a, b = random(33), random(33, seed=1)
    x, y = array.to_device(queue, a), array.to_device(queue, b)
    op.enqueue(queue, x, y).wait()
    np.testing.assert_allclose(x.get(), a * 2 + b, rtol=1e-6)
    with pytest.raises(ArgumentError, match="in place"):
        op.enqueue(queue, x, y, out=y)


def test_one_buffer_for_two_arrays_is_refused_where_it_is_written(queue) -> None:  # type: ignore[no-untyped-def]
    from pyopencl import array
    turn = polytc.compile("Y[i,j] = X[j,i]", target="opencl")
    x = array.to_device(queue, random(8, 8))
    with pytest.raises(ArgumentError, match="Y and X are the same buffer") as caught:
        turn.enqueue(queue, x, out=x)
    assert caught.value.code == "E408"
    scale = polytc.compile("def scale(inout f32[N] A, f32[N] B) -> (A) { A[i] = A[i] * 2 + B[i] }", target="opencl")
    y = array.to_device(queue, random(33))
    with pytest.raises(ArgumentError, match="A and B are the same buffer"):
        scale.enqueue(queue, y, y)
    both, z = polytc.compile("C[i] = A[i] + B[i]", target="opencl"), array.empty(queue, (33,), np.float32)
    both.enqueue(queue, y, y, out=z).wait()
    np.testing.assert_array_equal(z.get(), 2 * y.get())


def test_what_is_no_queue_no_event_or_of_another_context_is_told(queue) -> None:  # type: ignore[no-untyped-def]
    from pyopencl import array
    cl = devices.pyopencl()
    op = polytc.compile("C[i,j] = A[i,j] + 1", target="opencl")
    a, c = array.to_device(queue, random(8, 8)), array.empty(queue, (8, 8), np.float32)
    for wrong in (None, queue.kept):
        with pytest.raises(ArgumentError, match="not a pyopencl"):
            op.enqueue(wrong, a, out=c)
    with pytest.raises(ArgumentError, match="wait_for has a int"):
        op.enqueue(queue, a, out=c, wait_for=[3])
    op.enqueue(queue, a, out=c, wait_for=cl.enqueue_marker(queue)).wait()
    np.testing.assert_array_equal(c.get(), a.get() + 1)
    other = cl.Context([devices.choose().handle])
    foreign = cl.Buffer(other, cl.mem_flags.READ_WRITE, 256)
    fixed = polytc.compile("C[i,j] = A[i,j] + 1", target="opencl", shapes={"A": (8, 8)})
    with pytest.raises(ArgumentError, match="A lies in another context"):
        fixed.enqueue(queue, foreign, out=c)


def test_views_that_begin_inside_of_a_buffer(queue) -> None:  # type: ignore[no-untyped-def]
    from pyopencl import array
    step = queue.device.mem_base_addr_align // 32  # numbers of f32 between places where buffers may begin
    whole = array.to_device(queue, random(4, step))
    op = polytc.compile("C[i,j] = A[i,j] + 1", target="opencl")
    expected = whole.get()
    op.enqueue(queue, whole[:2], out=whole[2:]).wait()
    np.testing.assert_array_equal(whole.get(), np.concatenate([expected[:2], expected[:2] + 1]))
    small = array.zeros(queue, (8, 8), np.float32)
    for part, words in ((small[1:], "begins 32 bytes"), (small[:, 2:], "not C-contiguous")):
        with pytest.raises(ArgumentError, match=words):
            op.enqueue(queue, part, out=array.empty(queue, part.shape, np.float32))
    with pytest.raises(ArgumentError, match="are the same buffer"):
        op.enqueue(queue, whole[1:3], out=whole[2:4])


def test_buffers_that_may_not_be_used_so(queue) -> None:  # type: ignore[no-untyped-def]
    cl = devices.pyopencl()
    flags = cl.mem_flags
    op = polytc.compile("Y[i] = X[i] * 2", target="opencl", shapes={"X": (1024,)})
    read, write, both, whole = (cl.Buffer(queue.context, f, 8192) for f in (
        flags.READ_ONLY, flags.WRITE_ONLY, flags.READ_WRITE, flags.READ_WRITE))
    op.enqueue(queue, read, out=write).wait()
    for x, y, code, words in ((both, read, "E407", "may only be read"), (both, read[:4096], "E407", "may only be read"),
                              (write, both, "E402", "may only be written"), (whole, whole[:4096], "E408", "same buffer"),
                              (whole[:4096], whole[2048:6144], "E408", "same buffer")):
        with pytest.raises(ArgumentError, match=words) as refusal:
            op.enqueue(queue, x, out=y)
        assert refusal.value.code == code
    op.enqueue(queue, whole[:4096], out=whole[4096:8192]).wait()


def test_shared_virtual_memory(queue) -> None:  # type: ignore[no-untyped-def]
    cl = devices.pyopencl()
    if not queue.device.svm_capabilities & cl.device_svm_capabilities.COARSE_GRAIN_BUFFER:
        pytest.skip("the device has none")
    op = polytc.compile("C[i,j] = A[i,j] + 1", target="opencl")
    a, c = (cl.svm_empty(queue.context, cl.svm_mem_flags.READ_WRITE, (16, 8), np.float32) for _ in range(2))
    with cl.SVM(a).map_rw(queue) as mapped:
        mapped[...] = random(16, 8)
    for given, out in ((a, c), (cl.SVM(a), cl.SVM(c))):
        op.enqueue(queue, given, out=out).wait()
        with cl.SVM(c).map_rw(queue) as mapped:
            np.testing.assert_array_equal(mapped, random(16, 8) + 1)
            mapped[...] = 0
    for out in (a, cl.SVM(a), a[::-1]):
        with pytest.raises(ArgumentError):
            op.enqueue(queue, a, out=out)


def test_the_device_times_each_kernel() -> None:
    op = polytc.compile(SOFTMAX, target="opencl")
    rows = op.profile(random(64, 128))
    assert [name for name, _ in rows] == [x.entry for x in op.specialise({"X": (64, 128)}).executable.binary.launches]
    assert all(0 <= seconds < 10 for _, seconds in rows)
    with pytest.raises(ArgumentError, match="no kernels that a device times"):
        polytc.compile(SOFTMAX).profile(random(64, 128))
