"""Calls whose code an earlier process made: found on disk, run without the front end and the compiler, never confused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from polytc.disk import folder

pytestmark = pytest.mark.skipif(not folder.SUPPORTED or not Path("/proc/cpuinfo").exists(), reason="stamps are Linux's")

HEAVY = ("islpy", "llvmlite", "lark", "sympy", "pyopencl", "polytc.compiler", "polytc.poly", "polytc.schedule",
         "polytc.rewrite", "polytc.lang.building", "polytc.lang.parsing", "polytc.program.program", "polytc.codegen.loops")
"""What a call that is stored does without."""

PRELUDE = """
import json, sys
import numpy as np
import polytc
from polytc.disk import stamps
stamps._STARTED = 2.0 ** 40  # sources may have been written just now
a, b = np.arange(12, dtype=np.float32).reshape(3, 4), np.ones((4, 2), np.float32)
"""
CALLS = PRELUDE + """
scaled = "op Scaled<alpha=2>(X[*i]) -> Y[*i] { Y[*i] = alpha*X[*i] }"
two = "def f(f64[N] X) -> (Y) { Y[i] = X[i] + 1 }\\ndef g(f64[N] X) -> (Y) { Y[i] = X[i] + 2 }"
v = np.arange(3.0)
found = {
    "product": polytc.run("C[i,j] += A[i,k]*B[k,j]", a, b), "by name": polytc.run("C[i,j] += A[i,k]*B[k,j]", B=b, A=a),
    "f64": polytc.compile("C[i,j] += A[i,k]*B[k,j]")(a.astype("f8"), b.astype("f8")),
    "einsum": polytc.einsum("ik,kj->ij", a, b),
    "out": polytc.compile("C[i,j] += A[i,k]*B[k,j]")(a, b, out=np.empty((3, 2), "f4")),
    "alpha 2": polytc.compile(scaled)(v), "alpha 3": polytc.compile(scaled, attrs={"alpha": 3})(v),
    "f": polytc.compile(two, entry="f")(v), "g": polytc.compile(two, entry="g")(v),
    "program order": polytc.compile("Y[i] = X[i]+1", schedule="program")(v),
    "several": list(map(np.ndarray.tolist, polytc.run("P[i] = X[i]+1; Q[i] = X[i]*2", v))),
    "given": polytc.compile("Y[i] = X[i]-1", shapes={"X": 3}, dtypes={"X": "f64"})(v)}
modules = sorted(sys.modules)
found |= {  # these are looked at by the front end, or by the schedule's
    "n 2": polytc.compile("Y[i] = X[i]*n", scalars={"n": 2})(v),
    "n 2.5": polytc.compile("Y[i] = X[i]*n", scalars={"n": 2.5})(v),
    "min": polytc.compile("Y[i] = X[i]+1", fusion="min")(v)}
"""
TOLD = CALLS + """
print(json.dumps({"modules": modules, "compiled": "polytc.compiler" in sys.modules,
                  "found": {n: np.asarray(a).tolist() for n, a in found.items()},
                  "types": {n: np.asarray(a).dtype.str for n, a in found.items()}}))
"""
LATER = PRELUDE + """
op = polytc.compile("C[i,j] += A[i,k]*B[k,j]")
c = op(a, b)
assert "polytc.compiler" not in sys.modules
assert "tile S1_init" in str(op.decisions)
again = polytc.compile("C[i,j] += A[i,k]*B[k,j]", decisions=op.decisions)(a, b)
assert np.array_equal(again, c)
assert "S1" in str(op.explain())
for bad, code in (((a,), "E401"), ((a, b[:3]), "E"), ((a, object()), "E4")):
    try:
        op(*bad)
        raise SystemExit(f"no error for {bad}")
    except polytc.PolytcError as error:
        assert code in str(error), error
"""


def python(script: str, cache: Path, **environment: str) -> str:
    """What a process of its own prints."""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300,
                         env={**os.environ, "POLYTC_CHECK": "0", "POLYTC_CACHE": "1", "POLYTC_CACHE_DIR": str(cache),
                              **environment})
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache in which the code of all calls is."""
    path = tmp_path_factory.mktemp("calls")
    python(CALLS, path)
    return path


def test_code_is_found_and_right(cache: Path) -> None:
    told = json.loads(python(TOLD, cache))
    assert not [m for m in HEAVY if m in told["modules"]]
    assert not told["compiled"]
    a, b, v = np.arange(12.0).reshape(3, 4), np.ones((4, 2)), np.arange(3.0)
    expected = {**dict.fromkeys(("product", "by name", "f64", "einsum", "out"), a @ b), "alpha 2": 2 * v, "alpha 3": 3 * v,
                "f": v + 1, "g": v + 2, "n 2": 2 * v, "n 2.5": 2.5 * v, **dict.fromkeys(("program order", "min"), v + 1),
                "several": [v + 1, 2 * v], "given": v - 1}
    assert told["found"] == {n: np.asarray(e).tolist() for n, e in expected.items()}
    assert (told["types"]["product"], told["types"]["f64"]) == ("<f4", "<f8")


@pytest.mark.long
def test_the_compiler_comes_when_it_is_asked(cache: Path) -> None:
    python(LATER, cache)


def test_stages_can_be_looked_at(cache: Path, tmp_path: Path) -> None:
    """POLYTC_DUMP prints what is lowered, so that nothing stored may stand in for it."""
    dumps = tmp_path / "dumps"
    run = PRELUDE + "polytc.run('C[i,j] += A[i,k]*B[k,j]', a, b)"
    python(run, cache, POLYTC_DUMP="schedule", POLYTC_DUMP_DIR=str(dumps))
    assert list(dumps.iterdir())


@pytest.mark.part(12)
@pytest.mark.parametrize("damage", [b"", b"{}", b"[1]", b'{"package": 7}', b"\xff"])
def test_what_cannot_be_read_is_compiled(damage: bytes, tmp_path: Path) -> None:
    script = PRELUDE + f"""
from polytc import stored_calls
from polytc.disk import cache
write = cache.put
cache.put = lambda key, data: write(key, {damage!r})
expected = polytc.run("Y[i] = X[i]+1", a[0])
cache.put = write
polytc.api._op.cache_clear()
assert np.array_equal(polytc.run("Y[i] = X[i]+1", a[0]), expected)
assert np.array_equal(expected, a[0] + 1)
"""
    python(script, tmp_path)
