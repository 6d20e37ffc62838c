"""Keys of compiled programs, and compiling through the disk cache: a hit runs no stage, and gives the same results."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import polytc
from polytc import compiler, keys, machine
from polytc.codegen.package import Package
from polytc.disk import cache
from polytc.lang import build
from polytc.runtime.pending import Pending
from polytc.targets import registry
from polytc.targets.interp import InterpTarget
from polytc.targets.llvm.target import LLVMTarget

MATMUL = build("C[i,j] += A[i,k] * W[k,j]", {"A": (20, 30), "W": (30, 200)})
PACKED = replace(MATMUL, constants=("W",))
FEW = build("C[i,j] += A[i,k] * W[k,j]", {"A": (5, 12), "W": (12, 100)})
"""Small enough for loops in Python, and wide enough for constants to be packed."""


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("POLYTC_CACHE", "1")
    monkeypatch.setenv("POLYTC_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("POLYTC_CHECK", "0")
    monkeypatch.setattr(cache, "_STATE", cache._State())
    monkeypatch.setattr(keys, "lasting", lambda target: True)  # whoever edits the sources while the tests run
    forget(monkeypatch)
    return tmp_path / "code"


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a new process would begin."""
    monkeypatch.setattr(compiler, "_EXECUTABLES", Pending(8))


def product(target: str, program=MATMUL) -> np.ndarray:
    shapes = [program.tensor(n).shape for n in (*program.inputs, *program.outputs)]
    a, w = (np.arange(np.prod(s), dtype=np.float32).reshape(s) % 7 for s in shapes[:2])
    c = np.full(shapes[2], np.nan, np.float32)
    compiler.compile_program(program, target, threads=1).bind([a, w, c])()
    np.testing.assert_array_equal(c, a @ w)
    return c


def test_a_key_depends_on_all_that_code_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    target = LLVMTarget(machine.AVX2)
    found = {
        keys.key(MATMUL, target, None), keys.key(MATMUL, target, "isl"), keys.key(PACKED, target, None),
        keys.key(MATMUL, LLVMTarget(machine.AVX512), None), keys.key(MATMUL, InterpTarget(machine.AVX2), None),
        keys.key(MATMUL, LLVMTarget(replace(machine.AVX2, features="+fma")), None)}
    assert len(found) == 6
    for module, name in ((keys.isl, "VERSION"), (keys.jit, "VERSION"), (keys.polytc, "__version__")):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, "0.0")
            keys._surroundings.cache_clear()
            assert keys.key(MATMUL, target, None) not in found
    keys._surroundings.cache_clear()
    assert keys.key(MATMUL, target, None) in found


def test_names_count_where_the_schedule_has_them() -> None:
    target, other = InterpTarget(), build("Y[m,n] += X[m,l] * U[l,n]", {"X": (20, 30), "U": (30, 200)})
    assert keys.key(MATMUL, target, "isl") == keys.key(other, target, "isl")
    assert keys.key(MATMUL, target, "{domain: ...}") != keys.key(other, target, "{domain: ...}")


def test_sources_that_changed_while_they_ran_are_not_spoken_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert keys.sources()[1] == (keys.sources.__wrapped__())[1]
    monkeypatch.setattr(keys, "_STARTED", 0.0)
    assert not keys.sources.__wrapped__()[1]
    monkeypatch.setattr(keys, "_STARTED", time.time() + 3600)
    assert keys.sources.__wrapped__() == (keys.sources()[0], True)

    class Elsewhere(LLVMTarget):
        pass

    monkeypatch.setattr(keys, "sources", lambda: ("", True))
    assert keys.lasting(LLVMTarget())
    assert not keys.lasting(Elsewhere())


@pytest.mark.part(2)
@pytest.mark.parametrize("program", [FEW, replace(FEW, constants=("W",))], ids=["plain", "constant"])
def test_a_hit_runs_no_stage(disk: Path, monkeypatch: pytest.MonkeyPatch, targets: tuple[str, ...], program) -> None:
    if "opencl" in targets:
        registry.target("opencl").here()  # what its driver gets wrong is kept, too
    before = set(disk.iterdir()) if disk.exists() else set()
    for target in targets:
        expected = product(target, program)
        forget(monkeypatch)
        with monkeypatch.context() as patch:
            patch.setattr(compiler, "lower_program", lambda *a: pytest.fail("it was lowered again"))
            np.testing.assert_array_equal(product(target, program), expected)
            if target != "opencl":
                renamed = build("R[x,y] += P[x,z] * Q[z,y]", {"P": (5, 12), "Q": (12, 100)})
                product(target, replace(renamed, constants=("Q",) * len(program.constants)))
        forget(monkeypatch)
    built = 1 + len(program.constants) if "opencl" in targets else 0  # what the OpenCL compiler made of each source is kept too
    assert len(set(disk.iterdir()) - before) == len(targets) + built


def test_a_bad_entry_is_made_again(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    product("cpu")
    (path,) = disk.iterdir()
    good = path.read_bytes()
    path.write_bytes(good[:-7])
    forget(monkeypatch)
    product("cpu")
    assert path.read_bytes() == good


def test_contents_that_are_no_package_are_made_again(disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    product("cpu")
    (path,) = disk.iterdir()
    good = path.read_bytes()
    for contents in (b"", b"\xff\xff\xff\x7f", b"\x02\x00\x00\x00{}", good[cache.HEAD:-1], good[cache.HEAD:] + b"x"):
        cache.put(path.stem, contents)
        forget(monkeypatch)
        product("cpu")
        assert path.read_bytes() == good


def test_stages_that_are_to_be_seen_run(disk: Path, monkeypatch: pytest.MonkeyPatch,
                                        capsys: pytest.CaptureFixture[str]) -> None:
    product("cpu")
    forget(monkeypatch)
    monkeypatch.setenv("POLYTC_DUMP", "loops")
    product("cpu")
    assert "kernel k0(" in capsys.readouterr().err


def test_packages_are_read_back() -> None:
    lowered = compiler.lower_program(PACKED, "cpu")
    package = compiler._build(lowered, None)
    assert package.once is not None
    assert Package.from_bytes(package.to_bytes()) == package


def test_another_process_finds_it(disk: Path) -> None:
    program = """
import numpy as np, polytc
from polytc import compiler
compiler.lower_program = None
x = np.arange(6, dtype=np.float32)
print(polytc.run("Y[i] = 2*X[i] + 1", x, threads=2).tolist())
"""
    assert polytc.run("Y[i] = 2*X[i] + 1", np.arange(6, dtype=np.float32), threads=2).tolist() == [1, 3, 5, 7, 9, 11]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env=os.environ)
    assert done.stdout == "[1.0, 3.0, 5.0, 7.0, 9.0, 11.0]\n", done.stderr


def test_a_key_is_the_same_in_each_process() -> None:
    """Strings hash differently in each, and so do sets of them."""
    script = """
from dataclasses import replace
from polytc import keys
from polytc.lang import build
from polytc.machine import DEVICES
from polytc.targets.opencl.target import OpenCLTarget
machine = replace(DEVICES["pocl-cpu"], faults=frozenset(f"fault {n}" for n in range(9)))
print(keys.key(build("Y[i] = X[i]", {"X": (3,)}), OpenCLTarget(machine), None))
"""
    found = {subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": str(seed)}, check=True,
                            capture_output=True, text=True).stdout for seed in range(2)}
    assert len(found) == 1
