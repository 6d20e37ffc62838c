"""What the hosts of OpenCL folders offer a project: kernels without a folder, binaries, clones, events; and the description."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polytc
from polytc.export import bundle, opencl
from polytc.targets import registry
from tests.export.test_opencl_folder import TIMES, times, write
from tests.export.test_refusals import enqueued, library, session  # noqa: F401

ONLY = 8
TWO = "T[i] = X[i] + X[511-i]; Y[i] = T[i] * T[511-i]"
"""Two kernels, with memory between them."""


def two(x: np.ndarray) -> np.ndarray:
    t = x + x[::-1]
    return t * t[::-1]


class Host:
    """The C host of a program, as a library."""

    def __init__(self, folder: Path, session: Any) -> None:  # noqa: F811
        self.folder, self.session = folder, session
        self.code = library(folder, "host", "-lOpenCL")
        self.code.host_is_restored.restype = ctypes.c_int

    def create(self, folder: bool = True, binary: bytes | None = None) -> ctypes.c_void_p:
        self.made = ctypes.c_void_p()
        at = str(self.folder).encode() if folder else None
        context, device = (ctypes.c_void_p(x.int_ptr) for x in (self.session.context, self.session.device))
        code = self.code.host_restore(context, device, at, binary, ctypes.c_size_t(len(binary or b"")), ctypes.byref(self.made),
                                      None, ctypes.c_size_t(0))
        assert code == 0
        return self.made

    def save(self, made: ctypes.c_void_p) -> bytes:
        size = ctypes.c_size_t(0)
        assert self.code.host_save(made, None, ctypes.byref(size)) == 0
        small = ctypes.c_size_t(size.value - 1)
        room = ctypes.create_string_buffer(size.value)
        assert self.code.host_save(made, room, ctypes.byref(small)) == exported_code("CL_INVALID_BUFFER_SIZE")
        assert self.code.host_save(made, room, ctypes.byref(size)) == 0
        return room.raw

    def run(self, made: ctypes.c_void_p, x: np.ndarray, queue: Any = None) -> np.ndarray:
        import pyopencl as cl
        given = cl.Buffer(self.session.context, cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR, hostbuf=x)
        result = cl.Buffer(self.session.context, cl.mem_flags.WRITE_ONLY, x.nbytes)
        found = np.empty_like(x)
        assert enqueued(self.code, made, queue or self.session, given, result) == 0
        cl.enqueue_copy(queue or self.session, found, result)
        return found


def exported_code(name: str) -> int:
    import pyopencl as cl
    return int(getattr(cl.status_code, name.removeprefix("CL_")))


@pytest.fixture
def host(tmp_path: Path, session: Any) -> Iterator[Host]:  # noqa: F811
    target = registry.target("opencl")
    opencl.write(bundle.of_program(polytc.build(TWO, {"X": (512,)}), target, "host"), target.machine, tmp_path)
    found = Host(tmp_path, session)
    yield found
    found.code.host_release(found.made)


X = np.random.default_rng(0).integers(-9, 9, 512).astype(np.float32)


def test_kernels_need_no_folder(host: Host) -> None:
    (host.folder / "host.cl").unlink()
    np.testing.assert_array_equal(host.run(host.create(folder=False), X), two(X))


def test_code_is_restored_where_it_is_for_this_text_device_and_driver(host: Host) -> None:
    first = host.create()
    binary = host.save(first)
    assert not host.code.host_is_restored(first)
    host.code.host_release(first)
    other = bytes([*binary[:8], binary[8] ^ 1, *binary[9:]])          # of another text, device or driver
    damaged = binary[:16] + b"\0" * 200
    for given, restored in ((binary, True), (other, False), (damaged, False), (binary[:9], False), (b"", False)):
        made = host.create(binary=given)
        assert bool(host.code.host_is_restored(made)) == restored
        np.testing.assert_array_equal(host.run(made, X), two(X))
        host.code.host_release(made)
    source = host.folder / "host.cl"
    source.write_text(source.read_text() + "/* changed */\n")
    made = host.create(binary=binary)
    assert not host.code.host_is_restored(made)


def test_clones_have_memory_of_their_own(host: Host) -> None:
    import pyopencl as cl
    first, other = host.create(), ctypes.c_void_p()
    assert host.code.host_clone(first, ctypes.byref(other)) == 0
    queues = [cl.CommandQueue(host.session.context) for _ in range(2)]
    found = [(host.run(first, X + n, queues[0]), host.run(other, X - n, queues[1])) for n in range(5)]
    for n, (up, down) in enumerate(found):
        np.testing.assert_array_equal(up, two(X + n))
        np.testing.assert_array_equal(down, two(X - n))
    host.code.host_release(first)
    np.testing.assert_array_equal(host.run(other, X), two(X))
    host.made = other


def test_launches_are_observed(host: Host) -> None:
    import pyopencl as cl
    made = host.create()
    queue = cl.CommandQueue(host.session.context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    seen: list[tuple[bytes, Any]] = []
    observer = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
        lambda data, kernel, event: seen.append((kernel, cl.Event.from_int_ptr(event, retain=False))))
    host.code.host_observe(made, observer, None)
    np.testing.assert_array_equal(host.run(made, X, queue), two(X))
    names = [row["kernel"].encode() for row in json.loads((host.folder / "host.json").read_text())["launches"]]
    assert [name for name, _ in seen] == names
    assert all(e.profile.end >= e.profile.start > 0 for _, e in seen)
    host.code.host_observe(made, None, None)
    host.run(made, X, queue)
    assert len(seen) == len(names)


def test_buffers_that_may_not_be_used_so(host: Host) -> None:
    import pyopencl as cl
    made, flags = host.create(), cl.mem_flags
    read, write, both = (cl.Buffer(host.session.context, f, 4096) for f in (
        flags.READ_ONLY, flags.WRITE_ONLY, flags.READ_WRITE))
    assert enqueued(host.code, made, host.session, read, write) == 0
    for x, y in ((both, read), (write, both), (both, read[:2048]), (write[:2048], both)):
        assert enqueued(host.code, made, host.session, x, y) == ONLY


def module(folder: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"host_{folder.name}", folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture
def program(tmp_path: Path, session: Any) -> Callable[..., Any]:  # noqa: F811
    def made(text: str, name: str, **shapes: tuple[int, ...]) -> Any:
        write(text, tmp_path, name, shapes=shapes)
        return module(tmp_path, name).Program(session.context, tmp_path / f"{name}.json")
    return made


def test_the_python_host_in_a_project(program: Callable[..., Any], session: Any) -> None:  # noqa: F811
    import pyopencl as cl
    import pyopencl.array as cl_array
    first = program(TWO, "two", X=(512,))
    other = first.clone()
    queue = cl.CommandQueue(session.context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    events: list[tuple[str, Any]] = []
    whole = cl_array.to_device(session, np.concatenate([X, 0 * X]))
    first.enqueue(session, whole[:512], whole[512:]).wait()             # views begin where buffers may
    np.testing.assert_array_equal(whole.get()[512:], two(X))
    result = cl_array.zeros(queue, 512, np.float32)
    other.enqueue(queue, whole[:512], result, events=events).wait()
    np.testing.assert_array_equal(result.get(), two(X))
    assert [name for name, _ in events] == [row["kernel"] for row in first.about["launches"]]
    assert all(e.profile.end >= e.profile.start for _, e in events)
    flags = cl.mem_flags
    read, write_, both = (cl.Buffer(session.context, f, 2048) for f in (flags.READ_ONLY, flags.WRITE_ONLY, flags.READ_WRITE))
    for given, words in (((both, read), "READ_ONLY"), ((write_, both), "WRITE_ONLY")):
        with pytest.raises(ValueError, match=words):
            first.enqueue(session, *given)


def test_descriptions_of_another_schema_are_refused(tmp_path: Path, session: Any) -> None:  # noqa: F811
    write("Y[i] = 2*X[i]", tmp_path, "twice", shapes={"X": (8,)})
    path = tmp_path / "twice.json"
    path.write_text(path.read_text().replace('"schema": 2', '"schema": 1'))
    with pytest.raises(RuntimeError, match="schema"):
        module(tmp_path, "twice").Program(session.context, path)


def test_events_of_launches_in_loops(program: Callable[..., Any], session: Any) -> None:  # noqa: F811
    found = program(TIMES, "times", c=(3,), start=(41,))
    events: list[tuple[str, Any]] = []
    import pyopencl.array as cl_array
    c, start = np.ones(3, np.float32), np.arange(41, dtype=np.float32)
    arrays = [cl_array.to_device(session, a) for a in (c, start, 0 * start)]
    found.enqueue(session, *arrays, events=events).wait()
    np.testing.assert_allclose(arrays[2].get(), times(c, start), rtol=1e-6)
    assert len(events) == len(list(found._launches(found.about["launches"])))


def test_the_description_has_the_parameters_of_kernels(tmp_path: Path) -> None:
    write("def f(inout f32[N] A, i32[N] k) -> (A, B) { A[i] = A[i] + f32(k[i]); B[i] = 2*A[N-1-i] }", tmp_path, "f",
          shapes={"A": ("N",), "k": ("N",)}, dtypes={"k": "i32"})
    about, text = json.loads((tmp_path / "f.json").read_text()), (tmp_path / "f.cl").read_text()
    roles = {}
    for kernel in about["kernels"]:
        signature = re.search(rf"void {kernel['name']}\(([^)]*)\)", text)
        assert signature is not None
        declared = [f"{p['type']} {p['name']}" for p in kernel["parameters"]]
        assert declared == [" ".join(x.split()) for x in signature[1].split(",")]
        (row,) = [row for row in about["launches"] if row["kernel"] == kernel["name"]]
        assert len(row["arguments"]) == len(declared)
        roles |= {(kernel["name"], p["name"]): p.get("access", "") for p in kernel["parameters"]}
    assert {access for (_, name), access in roles.items() if name == "k"} == {"read"}
    assert "read_write" in {access for (_, name), access in roles.items() if name == "A"}
    assert {access for (_, name), access in roles.items() if name == "B"} == {"write"}
    assert {access for (_, name), access in roles.items() if name == "N"} == {""}
