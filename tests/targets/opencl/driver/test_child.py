"""Compilers in a child process: what becomes of one that crashes, hangs or is interrupted, and what a driver gets wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import polytc
from polytc import compiler
from polytc.errors import TargetError
from polytc.targets.opencl.driver import child, conformance, devices
from polytc.targets.opencl.driver.child import Build, CrashedError, Refused, Run
from polytc.targets.opencl.target import OpenCLTarget
from tests import opencl_here

pytestmark = opencl_here.NEEDS_OPENCL

TWICE = "__kernel void twice(__global float* x) { x[get_global_id(0)] *= 2; }"


@pytest.fixture(autouse=True)
def _no_child_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    if "kind" in request.fixturenames:  # of results: whatever child there is
        yield
        return
    child.end()
    yield
    child.end()


def spoil(monkeypatch: pytest.MonkeyPatch, to: str, first: str = "pass") -> None:
    """Every child from now on does `to` where it would compile, and `first` once."""
    popen = subprocess.Popen

    def spoilt(command, **others):  # type: ignore[no-untyped-def]
        code = command[2].replace("; child.serve",
                                  f"; from polytc.targets.opencl.driver import drivers; import os, signal, time; {first}; "
                                  f"drivers.build = lambda *a: {to}; child.serve")
        return popen([*command[:2], code], **others)
    monkeypatch.setattr(child.subprocess, "Popen", spoilt)


def run(number: int) -> np.ndarray:
    """number: makes a program that no other test has compiled."""
    return polytc.compile(f"B[i] = A[i] + {number}", target="opencl")(np.zeros(4, np.float32))


def test_a_compiler_that_crashes_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    devices.choose()
    conformance.faults(devices.choose())
    child.end()
    with monkeypatch.context() as patch:
        spoil(patch, "os.abort()")
        for _ in range(2):
            with pytest.raises(TargetError, match="crashes on 'program': signal 6") as caught:
                run(11)
            assert caught.value.code == "E509"
    assert run(11).tolist() == [11] * 4


def test_a_compiler_that_crashes_where_it_optimises_does_not_optimise(monkeypatch: pytest.MonkeyPatch) -> None:
    conformance.faults(devices.choose())
    child.end()
    spoil(monkeypatch, "os.abort() if '-cl-opt-disable' not in a[2] else build(*a)", "build = drivers.build")
    with pytest.warns(RuntimeWarning, match="crashes on 'program' where it optimises"):
        assert run(13).tolist() == [13] * 4


def test_a_compiler_that_hangs_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    conformance.faults(devices.choose())
    child.end()
    monkeypatch.setattr(child, "LIMIT", 0.5)
    spoil(monkeypatch, "time.sleep(60)")
    with pytest.raises(TargetError, match="no answer") as caught:
        run(12)
    assert caught.value.code == "E509"


def test_what_the_crashed_child_wrote_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, "(print('LLVM ERROR: out of luck', flush=True), os._exit(3))")
    with pytest.raises(CrashedError, match=r"exit code 3: .*out of luck"):
        child.ask(devices.find()[0], Build(TWICE, ()))


def test_answers() -> None:
    device = devices.choose()
    refused = child.ask(device, Build("__kernel void f( {", ()))
    assert isinstance(refused, Refused)
    assert "error" in refused.log.lower()
    x = np.arange(4, dtype=np.float32)
    (found,) = child.ask(device, Run(TWICE, (), "twice", (4,), (1,), (x,)))
    assert found.tolist() == [0, 2, 4, 6]
    assert isinstance(child.ask(device, Build(TWICE, ())), bytes)


def test_a_child_that_was_idle_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    device = devices.choose()
    child.ask(device, Build(TWICE, ()))
    held = child._STATE["child"]
    held.questions.close()  # as if nothing had been asked for long: it ends by itself, with success
    held.process.wait(30)
    assert isinstance(child.ask(device, Build(TWICE, ())), bytes)
    assert child._STATE["child"] is not held


def test_a_fork_has_a_child_of_its_own() -> None:
    device = devices.choose()
    child.ask(device, Build(TWICE, ()))
    before = child._STATE["child"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
        pid = os.fork()
    if pid == 0:
        os._exit(0 if child._child() is not before else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert isinstance(child.ask(device, Build(TWICE, ())), bytes)
    assert child._STATE["child"] is before


def test_no_child_outlives_its_parent(tmp_path: Path) -> None:
    script = ("from polytc.targets.opencl.driver import child, devices\n"
              f"child.ask(devices.find()[0], child.Build({TWICE!r}, ()))\n"
              "print(child._STATE['child'].process.pid, flush=True)\n"
              "import os, signal; os.kill(os.getpid(), signal.SIGKILL)\n")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL
    for _ in range(100):
        try:
            os.kill(int(done.stdout), 0)
        except ProcessLookupError:
            return
        subprocess.run(["sleep", "0.1"], check=True)
        stat = Path(f"/proc/{int(done.stdout)}/stat")
        if stat.exists() and stat.read_text().split()[2] == "Z":
            return
    pytest.fail("the child goes on")


def test_faults_are_kept_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYTC_CACHE", "1")
    monkeypatch.setenv("POLYTC_CACHE_DIR", str(tmp_path))
    device = devices.choose()
    monkeypatch.setattr(conformance, "_KNOWN", {})
    found = conformance.faults(device)
    monkeypatch.setattr(conformance, "_KNOWN", {})
    monkeypatch.setattr(child, "ask", None)
    assert conformance.faults(device) == found


def test_without_a_child_the_faults_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one process found without a child is not what another one then takes for an answer."""
    monkeypatch.setenv("POLYTC_CACHE", "1")
    monkeypatch.setenv("POLYTC_CACHE_DIR", str(tmp_path))
    expected = conformance.faults(devices.choose())
    monkeypatch.setenv("POLYTC_OPENCL_CHILD", "0")
    monkeypatch.setattr(conformance, "_KNOWN", {})
    assert conformance.faults(devices.choose()) == expected


def test_what_may_not_be_the_drivers_fault_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYTC_CACHE", "1")
    monkeypatch.setenv("POLYTC_CACHE_DIR", str(tmp_path))
    device = devices.choose()
    good = conformance.faults(device)
    with monkeypatch.context() as patch:
        patch.setattr(conformance, "_KNOWN", {})
        patch.setattr(conformance.cache, "get", lambda key: None)
        patch.setattr(child, "ask", lambda *a: Refused(""))
        with pytest.warns(RuntimeWarning, match="divisions"):
            assert len(conformance.faults(device)) == len(conformance.CASES)
    monkeypatch.setattr(conformance, "_KNOWN", {})
    assert conformance.faults(device) == good


def test_a_child_that_somebody_ends_is_no_fault_of_the_next_kernel() -> None:
    device = devices.choose()
    child.ask(device, Build(TWICE, ()))
    held = child._STATE["child"]
    os.kill(held.process.pid, signal.SIGKILL)
    while Path(f"/proc/{held.process.pid}/stat").read_text().split()[2] != "Z":
        pass
    assert isinstance(child.ask(device, Build(TWICE, ())), bytes)


def test_a_driver_that_gets_divisions_wrong_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformance, "_KNOWN", {})
    ask = child.ask

    def wrong(device, question):  # type: ignore[no-untyped-def]
        found = ask(device, question)
        return [a + (question.kernel == "quotients") for a in found]
    monkeypatch.setattr(child, "ask", wrong)
    with pytest.warns(RuntimeWarning, match="divisions of integers are wrong"):
        assert "quotients" in conformance.faults(devices.choose())


def numbers(kind: str, seed: int = 0) -> tuple[str, dict[str, np.ndarray], np.ndarray]:
    """A program of the class of a fault, its inputs, and what they give by numpy."""
    r = np.random.default_rng(seed)
    match kind:
        case "carried":
            a = r.integers(-9, 9, (33, 12)).astype(np.float32)
            expected = np.array([a[0::2].sum(), a[1::2].sum()], np.float32)
            return "T[m % 2] += A[m,k] where k >= 0", {"A": a}, expected
        case "carried once":
            a = np.arange(33, dtype=np.float32)
            return ("T[m % 2] += A[m] where m in 0:33, k in 0:12, k >= 0", {"A": a},
                    np.array([12 * a[0::2].sum(), 12 * a[1::2].sum()], np.float32))
        case "carried thirds":
            a = r.integers(-9, 9, 20).astype(np.float32)
            thirds = a[np.arange(40) // 3]
            return ("T[j % 4] += A[j//3] where j in 0:40, k in 0:8, j > 2", {"A": a},
                    np.array([8 * thirds[3:][(d - 3) % 4::4].sum() for d in range(4)], np.float32))
        case "carried integers":
            b = r.integers(0, 4, 20, np.uint8)
            picked = [sum(int(b[j // 3]) for j in range(31) for i in range(16) if j % 4 == d and (i + j) % 2 == 0)
                      for d in range(4)]
            return "T[j % 4] += A[j//3] where i in 0:16, j in 0:31, (i + j) % 2 == 0", {"A": b}, np.array(picked, np.uint8)
        case "negated":
            v, j = r.integers(0, 9, (3, 5, 6, 6)).astype(np.float32), r.integers(0, 1000, (3, 6, 6))
            expected = -np.take_along_axis(v, (j % 5)[:, None], axis=1).sum()
            return "s += -v[i, J[i,k,l] % 5, k, l]", {"v": v, "J": j}, expected
        case "quotient":
            v, j = r.integers(1, 9, (3, 5, 36)).astype(np.float32), r.integers(0, 1000, (3, 36))
            expected = (-np.take_along_axis(v, (j % 5)[:, None], axis=1) / 2).sum()
            return "s += -v[i, J[i,k] % 5, k] / 2.0", {"v": v, "J": j}, expected
        case _:
            x = r.integers(-2**62, 2**62, 100)
            return "m max= ~x[i]", {"x": x}, (~x).max()


@pytest.mark.part(2)
@pytest.mark.parametrize("kind", [
    "carried", pytest.param("carried once", marks=pytest.mark.long), pytest.param("carried thirds", marks=pytest.mark.long),
    "carried integers", "negated", "quotient", "complements"])
def test_what_some_driver_gets_wrong_is_right_on_all(kind: str) -> None:
    text, arrays, expected = numbers(kind)
    for k, _ in enumerate(devices.find()):
        found = polytc.compile(text, target=f"opencl:{k}")(**arrays)
        np.testing.assert_array_equal(found, expected)


def test_texts_that_go_around_faults() -> None:
    """For a device without faults the text is as ever."""
    text, arrays, _ = numbers("carried once")
    shapes = {n: a.shape for n, a in arrays.items()}

    def source(text: str, faults: set[str], **types: object) -> str:
        machine = replace(OpenCLTarget().here().machine, faults=frozenset(faults))
        return compiler.lower_program(polytc.build(text, **types), OpenCLTarget(machine)).source.text
    assert "#pragma unroll 1" in source(text, {"carried"}, shapes=shapes)
    assert "#pragma unroll 1" not in source(text, {"negated", "complements"}, shapes=shapes)
    assert "0.0f - A" in source("s += -A[i]", {"negated"}, shapes={"A": (5,)})
    assert "0.0f - A" not in source("s += -A[i]", {"carried"}, shapes={"A": (5,)})
    assert "-cl-opt-disable" in source("s max= ~A[i]", {"complements"}, shapes={"A": (100,)}, dtypes={"A": "i64"})
    assert "-cl-opt-disable" not in source("s max= A[i]", {"complements"}, shapes={"A": (100,)}, dtypes={"A": "i64"})


RING = "T[i,x] = X[i,x] * 2; Y[i,x] = T[i,x] + T[i+1,x]"


def test_rings_that_are_read_backwards() -> None:
    """Intel's CPU runtime writes beside what it stores then."""
    x = np.random.default_rng(2).integers(-3, 4, (14, 16)).astype(np.float32)
    s = polytc.schedule(RING, {"X": x.shape}).store_at("T", "Y", None, "i")
    machine = replace(OpenCLTarget().here().machine, faults=frozenset({"carried"}))
    for made, slow in ((s, False), (s.reverse("Y", "x"), True)):
        low = polytc.lower(RING, OpenCLTarget(machine), shapes={"X": x.shape}, schedule=made.yaml())
        assert ("-cl-opt-disable" in low.source.text) == slow
        for k, _ in enumerate(devices.find()):
            found = polytc.run(RING, x, schedule=made.yaml(), target=f"opencl:{k}")
            np.testing.assert_array_equal(found, 2 * (x[:-1] + x[1:]))
