"""A model compiled ahead of time as a library of a product: handles, threads, hooks, what it says of itself, build systems."""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import polytc
from polytc.graph import ahead
from polytc.graph.library import processors
from polytc.targets.llvm.standalone.chain import Status
from polytc.targets.llvm.target import LLVMTarget
from tests.graph.library.compiled_library import CC, Record, pointers

N = helper.make_node
pytestmark = pytest.mark.skipif(CC is None, reason="there is no C compiler")
ALLOCATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
START = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64), ctypes.c_void_p, ctypes.c_void_p)
JOIN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint64)


class Hooks(ctypes.Structure):
    _fields_ = (("context", ctypes.c_void_p), ("allocate", ALLOCATE), ("release", RELEASE), ("start", START), ("join", JOIN))


@pytest.fixture
def graph(build) -> polytc.Graph:
    r = np.random.default_rng(3)
    constants = {"w": r.standard_normal((32, 8, 3, 3)).astype(np.float32), "v": r.standard_normal((32, 6)).astype(np.float32)}
    nodes = [N("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), N("Relu", ["c"], ["h"]), N("GlobalAveragePool", ["h"], ["g"]),
             N("Flatten", ["g"], ["f"]), N("MatMul", ["f", "v"], ["y"]), N("Greater", ["y", "n"], ["above"])]
    return polytc.load_onnx(build(nodes, {"x": (np.float32, [1, 8, 40, 40]), "n": (np.float32, [])}, ["y", "above"], constants))


@pytest.fixture
def library(graph, tmp_path: Path) -> ctypes.CDLL:
    """The shared library of the model, which the tests open themselves; its files lie in tmp_path."""
    ahead.export(graph, tmp_path, name="net")
    subprocess.run([str(CC), "-shared", "net.o", "-lm", "-lpthread", "-o", "net.so"], cwd=tmp_path, check=True)
    return ctypes.CDLL(str(tmp_path / "net.so"))


def opened(library: ctypes.CDLL, weights: np.ndarray, threads: int = 1, hooks: Hooks | None = None) -> ctypes.c_void_p:
    """A model whose weights are those in memory."""
    model = ctypes.c_void_p()
    given = ctypes.byref(hooks) if hooks is not None else None
    assert library.net_open_memory(ctypes.byref(model), ctypes.c_void_p(weights.ctypes.data), ctypes.c_size_t(weights.nbytes),
                                   threads, given) == Status.OK
    return model


def in_memory(path: Path) -> np.ndarray:
    """A file's bytes, at a multiple of 64."""
    data = path.read_bytes()
    room = np.zeros(len(data) + 64, np.uint8)
    first = -room.ctypes.data % 64
    room[first:first + len(data)] = np.frombuffer(data, np.uint8)
    return room[first:first + len(data)]


def run(library: ctypes.CDLL, model: ctypes.c_void_p, x: np.ndarray) -> tuple[int, np.ndarray, np.ndarray]:
    y, above, n = np.full((1, 6), np.nan, np.float32), np.zeros((1, 6), np.bool_), np.zeros((), np.float32)
    status = library.net_run(model, *pointers([x, n, y, above]))
    return status, y, above


def inputs(count: int) -> list[np.ndarray]:
    return list(np.random.default_rng(5).standard_normal((count, 1, 8, 40, 40)).astype(np.float32))


def at_once(jobs: list[Callable[[], None]]) -> None:
    """Runs them in threads of their own; what one raises is raised."""
    raised: list[BaseException] = []

    def safely(job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as e:
            raised.append(e)
    threads = [threading.Thread(target=safely, args=(job,)) for job in jobs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not raised, raised


def test_models_of_one_memory_run_at_once(graph, library, tmp_path: Path) -> None:
    weights, xs = in_memory(tmp_path / "net.weights"), inputs(4)
    kept = weights.copy()
    expected = [graph.compile(threads=1).run(None, {"x": x, "n": np.float32(0)})[0] for x in xs]

    def job(k: int) -> Callable[[], None]:
        def work() -> None:
            model = opened(library, weights, threads=1 + k % 2)
            for _ in range(40):
                status, y, above = run(library, model, xs[k])
                assert status == Status.OK
                np.testing.assert_allclose(y, expected[k], rtol=1e-5)
                np.testing.assert_array_equal(above, y > 0)
            library.net_close(model)
        return work
    at_once([job(k) for k in range(4)])
    np.testing.assert_array_equal(weights, kept)


def test_a_second_thread_with_one_model_is_told(graph, library, tmp_path: Path) -> None:
    """It gets BUSY and changes nothing: each run that says OK is right."""
    weights, xs, told = in_memory(tmp_path / "net.weights"), inputs(3), [0]
    expected = [graph.compile(threads=1).run(None, {"x": x, "n": np.float32(0)})[0] for x in xs]
    model, end = opened(library, weights), time.monotonic() + 30

    def job(k: int) -> Callable[[], None]:
        def work() -> None:
            rounds = 0
            while rounds < 60 or not told[0] and time.monotonic() < end:
                rounds += 1
                status, y, _ = run(library, model, xs[k])
                if status == Status.BUSY:
                    told[0] += 1
                    assert np.isnan(y).all()
                    continue
                assert status == Status.OK
                np.testing.assert_allclose(y, expected[k], rtol=1e-5)
        return work
    at_once([job(k) for k in range(3)])
    assert told[0]
    assert run(library, model, xs[0])[0] == Status.OK
    library.net_close(model)


def hooks_of(limit: int, held: set[int], threads: set[int]) -> Hooks:
    """Hooks that keep account; memory for `limit` requests, after which there is none."""
    libc = ctypes.CDLL(None)
    libc.aligned_alloc.restype = ctypes.c_void_p
    asked = [0]

    def allocate(context: int, size: int) -> Any:
        asked[0] += 1
        if asked[0] > limit:
            return None
        held.add(found := libc.aligned_alloc(ctypes.c_size_t(64), ctypes.c_size_t(size)))
        return found

    def release(context: int, memory: int) -> None:
        held.remove(memory)
        libc.free(ctypes.c_void_p(memory))

    def start(context: int, thread: Any, work: int, argument: int) -> int:
        assert context == 7
        status: int = libc.pthread_create(thread, None, ctypes.c_void_p(work), ctypes.c_void_p(argument))
        threads.add(thread[0])
        return status

    def join(context: int, thread: int) -> None:
        threads.remove(thread)
        libc.pthread_join(ctypes.c_uint64(thread), None)
    return Hooks(7, ALLOCATE(allocate), RELEASE(release), START(start), JOIN(join))


def test_memory_and_threads_are_the_callers(library, tmp_path: Path) -> None:
    held, threads = set[int](), set[int]()
    hooks, (x,) = hooks_of(1000, held, threads), inputs(1)
    model = opened(library, in_memory(tmp_path / "net.weights"), 3, hooks)
    assert len(threads) == 2
    assert held
    assert run(library, model, x)[0] == Status.OK
    library.net_close(model)
    assert (held, threads) == (set(), set())


def test_no_memory_is_a_status(library, tmp_path: Path) -> None:
    """Whichever request fails, all that was taken is given back."""
    path, seen = str(tmp_path / "net.weights").encode(), []
    for limit in range(12):
        held, model = set[int](), ctypes.c_void_p(1)
        hooks = hooks_of(limit, held, set())
        seen.append(library.net_open(ctypes.byref(model), path, 1, ctypes.byref(hooks)))
        if seen[-1] == Status.OK:
            library.net_close(model)
            break
        assert not model.value
        assert not held
    assert seen == [Status.NO_MEMORY] * 9 + [Status.OK]


def test_weights_in_memory_are_looked_at(library, tmp_path: Path) -> None:
    weights = in_memory(tmp_path / "net.weights")

    def status(address: int | None, size: int) -> int:
        model = ctypes.c_void_p()
        found: int = library.net_open_memory(ctypes.byref(model), ctypes.c_void_p(address), ctypes.c_size_t(size), 1, None)
        return found
    at, size = weights.ctypes.data, weights.nbytes
    for given in ((at, size - 64), (at + 8, size), (at + 64, size), (None, size), (None, 0)):
        assert status(*given) == Status.BAD_WEIGHTS
    weights[24] ^= 1
    assert status(at, size) == Status.BAD_WEIGHTS


@pytest.mark.part(9)
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the code is for x86-64")
@pytest.mark.parametrize("processor", ["x86-64-v3", "x86-64-v4", "x86-64"])
def test_a_processor_without_the_instructions_is_told(graph, tmp_path: Path, processor: str) -> None:
    """What LLVM says of this processor is what `open` finds out."""
    files = ahead.export(graph, tmp_path, name="net", processor=processor)
    subprocess.run([str(CC), "-shared", "net.o", "-lm", "-lpthread", "-o", "net.so"], cwd=tmp_path, check=True)
    library, model = ctypes.CDLL(str(tmp_path / "net.so")), ctypes.c_void_p()
    able = any(not LLVMTarget(m).lacks() for m in processors.PROCESSORS[processor])
    status = library.net_open(ctypes.byref(model), str(files.weights).encode(), 1, None)
    assert status == (Status.OK if able else Status.FOREIGN_PROCESSOR)
    assert bool(model.value) == able
    if able:
        (x,) = inputs(1)
        expected = graph.compile().run(None, {"x": x, "n": np.float32(0)})[0]
        np.testing.assert_allclose(run(library, model, x)[1], expected, rtol=1e-5)
        library.net_close(model)


def test_what_it_says_of_itself(library) -> None:
    def facts(name: str) -> list[tuple[str, str, int, list[int]]]:
        function, count = getattr(library, name), ctypes.c_size_t()
        function.restype = ctypes.POINTER(Record)
        table = function(ctypes.byref(count))
        assert ctypes.addressof(function(None).contents) == ctypes.addressof(table.contents)
        return [(f.name.decode(), f.type.decode(), f.bytes, f.shape[:f.rank]) for f in table[:count.value]]
    assert facts("net_inputs") == [("x", "f32", 51200, [1, 8, 40, 40]), ("n", "f32", 4, [])]
    assert facts("net_outputs") == [("y", "f32", 24, [1, 6]), ("above", "bool", 6, [1, 6])]
    library.net_version.restype = library.net_meaning.restype = ctypes.c_char_p
    assert library.net_version().decode().startswith(f"polytc {polytc.__version__}, weights ")
    words = [library.net_meaning(s).decode() for s in (*Status, 99, -1)]
    assert len(set(words)) == len(Status) + 1


def test_tables_of_arrays(graph, library, tmp_path: Path) -> None:
    model, (x,) = opened(library, in_memory(tmp_path / "net.weights")), inputs(1)
    n, y, above = np.zeros((), np.float32), np.zeros((1, 6), np.float32), np.zeros((1, 6), np.bool_)

    def table(*arrays: np.ndarray | None) -> Any:
        return (ctypes.c_void_p * len(arrays))(*(a.ctypes.data if a is not None else None for a in arrays))
    assert library.net_run_arrays(model, table(x, n), table(y, above)) == Status.OK
    np.testing.assert_allclose(y, graph.compile().run(None, {"x": x, "n": n})[0], rtol=1e-5)
    assert library.net_run_arrays(model, table(x, None), table(y, above)) == Status.BAD_ARRAY
    assert library.net_run_arrays(model, table(x, n), table(x, above)) == Status.BAD_ARRAY
    library.net_close(model)


def test_nothing_else_is_shown(library, graph, tmp_path: Path) -> None:
    """Symbols of two models in one library do not meet."""
    ahead.export(graph, tmp_path, name="other")
    subprocess.run([str(CC), "-shared", "net.o", "other.o", "-lm", "-lpthread", "-o", "both.so"], cwd=tmp_path, check=True)
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("there is no nm")
    done = subprocess.run([nm, "-D", "--defined-only", "both.so"], cwd=tmp_path, check=True, capture_output=True, text=True)
    shown = sorted(line.split()[-1] for line in done.stdout.splitlines() if line.split()[-2] in "TDRB")
    parts = ("close", "inputs", "meaning", "model_inputs", "model_outputs", "open", "open_memory", "outputs", "resize", "run",
             "run_arrays", "sizes", "version")
    assert [s for s in shown if not s.startswith("_")] == [f"{name}_{part}" for name in ("net", "other") for part in parts]


def test_files_of_numpy(graph, tmp_path: Path) -> None:
    ahead.export(graph, tmp_path, name="net")
    build = [str(CC), "-O1", "-Wall", "-Wextra", "-Werror", "-std=c99", "main.c", "net.o", "-lm", "-lpthread", "-o", "net"]
    subprocess.run(build, cwd=tmp_path, check=True)
    x, n = np.random.default_rng(5).standard_normal((1, 8, 40, 40)).astype(np.float32), np.float32(.5)
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "n.npy", n)
    subprocess.run(["./net", "-o", ".", "net.weights", "2", "x.npy", "n.npy"], cwd=tmp_path, check=True, capture_output=True)
    for k, expected in enumerate(graph.compile().run(None, {"x": x, "n": n})):
        found = np.load(tmp_path / f"{k}.npy")
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    np.save(tmp_path / "version2.npy", x)
    data = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "version2.npy").write_bytes(data[:6] + b"\2\0" + data[8:10] + b"\0\0" + data[10:])
    np.load(tmp_path / "version2.npy")
    subprocess.run(["./net", "net.weights", "1", "version2.npy"], cwd=tmp_path, check=True, capture_output=True)
    wrong = {"f8": (x.astype("f8"), "'<f4'"), "turned": (np.asfortranarray(x), "fortran_order"),
             "short": (x[0], "(1, 8, 40, 40)")}
    for name, (array, words) in wrong.items():
        np.save(tmp_path / "wrong.npy", array)
        done = subprocess.run(["./net", "net.weights", "1", "wrong.npy"], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 1, name
        assert words in done.stderr
    (tmp_path / "wrong.npy").write_bytes(data[:-4])
    assert subprocess.run(["./net", "net.weights", "1", "wrong.npy"], cwd=tmp_path, capture_output=True).returncode == 1


def test_a_process_that_nobody_has_prepared(build, tmp_path: Path) -> None:
    """A product large enough for a matrix unit, whose registers Linux gives to processes that ask."""
    r = np.random.default_rng(6)
    w, x = r.standard_normal((512, 512)).astype(np.float32), r.standard_normal((256, 512)).astype(np.float32)
    made = polytc.load_onnx(build([N("MatMul", ["x", "w"], ["y"])], {"x": (np.float32, [256, 512])}, ["y"], {"w": w}))
    ahead.export(made, tmp_path, name="net")
    subprocess.run([str(CC), "main.c", "net.o", "-lm", "-lpthread", "-o", "net"], cwd=tmp_path, check=True)
    np.save(tmp_path / "x.npy", x)
    subprocess.run(["./net", "-o", ".", "net.weights", "2", "x.npy"], cwd=tmp_path, check=True, capture_output=True)
    np.testing.assert_allclose(np.load(tmp_path / "0.npy"), x.astype(np.float64) @ w, rtol=0, atol=1e-3)


PROGRAM = """\
#include <stdio.h>
#include "net.h"
int main(void) {
    static float x[12800], n, y[6];
    static uint8_t above[6];
    net_model *model;
    int status = net_open_memory(&model, net_weights, NET_WEIGHTS_BYTES, 1, NULL);
    if (!status) status = net_run(model, x, &n, y, above);
    printf("%s\\n", net_meaning(status));
    net_close(model);
    return status;
}
"""
LISTS = """\
cmake_minimum_required(VERSION 3.10)
project(product C ASM)
find_package(net CONFIG REQUIRED PATHS ${CMAKE_CURRENT_SOURCE_DIR})
add_executable(product product.c net_weights.S)
target_link_libraries(product net::net)
"""


def test_cmake_and_pkg_config(graph, tmp_path: Path) -> None:
    ahead.export(graph, tmp_path, name="net")
    (tmp_path / "product.c").write_text(PROGRAM)
    (tmp_path / "CMakeLists.txt").write_text(LISTS)
    built = 0
    if shutil.which("pkg-config"):
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "net"], check=True, capture_output=True, text=True,
                               env={"PKG_CONFIG_PATH": str(tmp_path), "PATH": "/usr/bin:/bin"}).stdout.split()
        subprocess.run([str(CC), "product.c", "net_weights.S", *flags, "-o", "by_flags"], cwd=tmp_path, check=True)
        assert subprocess.run(["./by_flags"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout == "done\n"
        built += 1
    if shutil.which("cmake") and shutil.which("make"):
        for command in (["cmake", "-S", ".", "-B", "made"], ["cmake", "--build", "made"]):
            subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
        assert subprocess.run(["made/product"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout == "done\n"
        built += 1
    if not built:
        pytest.skip("there is neither CMake nor pkg-config")
