"""benchmarks/polybench.py: C programs through the harness, turns, the table. The C program here is our own."""

from __future__ import annotations

import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from examples.polybench import checksums
from examples.polybench.kernels import KERNELS
from polyrun import compilers, report, turns
from polyrun.contestant import Contestant, Lost
from polyrun.turns import Result, Timed

COMMAND = Path(__file__).parents[2] / "benchmarks" / "polybench.py"

BICG = """
#include <polybench.h>
#ifdef MINI_DATASET
enum { M = 38, N = 42 };
#endif
static void kernel(double POLYBENCH_2D(A, N, M, n, m), double POLYBENCH_1D(s, M, m), double POLYBENCH_1D(q, N, n),
                   double POLYBENCH_1D(p, M, m), double POLYBENCH_1D(r, N, n)) {
    for (int j = 0; j < M; j++) s[j] = 0;
    for (int i = 0; i < N; i++) {
        double sum = FACTOR - 1;
        for (int j = 0; j < M; j++) s[j] += r[i] * A[i][j], sum += A[i][j] * p[j];
        q[i] = sum;
        r[i] = -1;
    }
}
int main(int argc, char **argv) {
    POLYBENCH_2D_ARRAY_DECL(A, double, N, M, n, m);
    POLYBENCH_1D_ARRAY_DECL(scratch, double, M, m);
    POLYBENCH_1D_ARRAY_DECL(s, double, M, m);
    POLYBENCH_1D_ARRAY_DECL(q, double, N, n);
    POLYBENCH_1D_ARRAY_DECL(p, double, M, m);
    POLYBENCH_1D_ARRAY_DECL(r, double, N, n);
    POLYBENCH_FREE_ARRAY(scratch);
    for (int j = 0; j < M; j++) (*p)[j] = (double)j / M;
    for (int i = 0; i < N; i++) {
        (*r)[i] = (double)i / N;
        for (int j = 0; j < M; j++) (*A)[i][j] = (double)(i * (j + 1) % N) / N;
    }
    polybench_start_instruments;
    kernel(POLYBENCH_ARRAY(A), POLYBENCH_ARRAY(s), POLYBENCH_ARRAY(q), POLYBENCH_ARRAY(p), POLYBENCH_ARRAY(r));
    polybench_stop_instruments;
    polybench_print_instruments;
    polybench_prevent_dce(printf("%f", (*s)[0]));
    return 0;
}
"""

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc here")


def source(folder: Path, factor: str = "1") -> Path:
    (folder / "kernels" / "bicg").mkdir(parents=True)
    (folder / "kernels" / "bicg" / "bicg.c").write_text(BICG.replace("FACTOR", factor))
    return folder


@needs_gcc
def test_every_run_begins_with_the_initial_values(tmp_path: Path) -> None:
    program = compilers.build("gcc", source(tmp_path), "bicg", "MINI", 1, tmp_path)
    contestant = Contestant([program], {}, 60)
    seconds = contestant.run(3)
    arrays = contestant.arrays()
    contestant.stop()
    assert len(seconds) == 3
    assert all(0 < s < 1 for s in seconds)
    assert set(arrays) == {"A", "s", "q", "p", "r"}
    assert checksums.largest_deviation(KERNELS["bicg"], "MINI", arrays) <= checksums.tolerance("bicg")
    assert (arrays["r"] == -1).all()


@pytest.mark.long
@needs_gcc
def test_compete(tmp_path: Path) -> None:
    result = turns.compete("bicg", "MINI", 1, ["gcc"], source(tmp_path), seconds=0.01)
    assert set(result.times) == {"polytc", "gcc"}, result.failed
    assert all(t.rounds >= 1 and t.deviation < 1e-12 and t.compiled > 0 for t in result.times.values())
    assert result.best_peer() == "gcc"
    assert result.ratio() == pytest.approx(result.times["polytc"].median / result.times["gcc"].median)


@pytest.mark.long
@needs_gcc
def test_wrong_results_and_failed_builds_take_no_part(tmp_path: Path) -> None:
    result = turns.compete("bicg", "MINI", 1, ["gcc"], source(tmp_path / "wrong", "2"), seconds=0.01)
    assert set(result.times) == {"polytc"}
    assert "wrong result" in result.failed["gcc"]
    assert result.ratio() is None
    result = turns.compete("bicg", "MINI", 1, ["gcc"], source(tmp_path / "broken", "oops("), seconds=0.01)
    assert "error" in result.failed["gcc"]
    result = turns.compete("bicg", "MINI", 1, ["gcc"], tmp_path / "nothing", seconds=0.01)
    assert "has no bicg/bicg.c" in result.failed["gcc"]


def test_lost_contestants_are_noticed() -> None:
    with pytest.raises(Lost, match="ended with code 3: farewell"):
        Contestant([sys.executable, "-c", "import sys; print('farewell', file=sys.stderr); sys.exit(3)"], {}, 60)
    with pytest.raises(Lost, match="no answer in 0 s"):
        Contestant([sys.executable, "-c", "import time; time.sleep(60)"], {}, 0.2)


def timed(seconds: float) -> Timed:
    return Timed(seconds, seconds, 3, 0.0, 0.5)


def test_verdicts() -> None:
    results = [Result("gemm", {"polytc": timed(1), "clang": timed(5), "gcc": timed(9)}, {}),
               Result("lu", {"polytc": timed(2), "clang": timed(1)}, {}), Result("adi", {"polytc": timed(1)}, {"gcc": "ill"})]
    lines = list(report.verdicts(results))
    assert lines == ["all: 2 kernels, geometric mean 0.63 (goal 0.3), faster in 1 (goal 28 of 30)",
                     "dense: 1 of 2 within 0.25; missed: lu 2.00",
                     "compiling: median 0.50 s (goal 1.0), worst 0.50 s (goal 5.0)"]


def test_every_goal_names_kernels() -> None:
    assert {k for g in report.GOALS for k in g.kernels} <= set(KERNELS)


def test_files_keep_what_was_not_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    first = (Result("gemm", {"polytc": timed(1), "gcc": timed(9)}, {"clang": "ill"}), Result("lu", {"gcc": timed(2)}, {}))
    report.Run("LARGE", 2, "this", {"gcc": "12"}, first).write(path)
    report.Run("LARGE", 2, "this", {"polytc": "1"}, (Result("gemm", {"polytc": timed(3), "clang": timed(4)}, {}),)).write(path)
    run = report.read(path)
    assert run.versions == {"gcc": "12", "polytc": "1"}
    assert {r.kernel: {n: t.median for n, t in r.times.items()} for r in run.results} == {
        "gemm": {"polytc": 3, "gcc": 9, "clang": 4}, "lu": {"gcc": 2}}
    assert not run.results[0].failed
    report.Run("SMALL", 2, "this", {}, first[1:]).write(path)
    assert [r.kernel for r in report.read(path).results] == ["lu"]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, COMMAND, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.long
def test_command_line(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    done = run("--only", "atax,bicg", "--size", "MINI", "--threads", "1", "--seconds", "0.01", "--json", str(path))
    assert done.returncode == 0, done.stderr
    shown = run("--show", str(path)).stdout
    assert "atax" in shown
    assert "bicg" in shown
    assert "compiling: median" in shown


@pytest.mark.parametrize("arguments", [["--size", "TINY"], ["--only", "gem"], ["--peers", "gcc"], ["--source", "/nowhere"]])
def test_refused(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [str(COMMAND), *arguments])
    with pytest.raises(SystemExit) as done:
        runpy.run_path(str(COMMAND), run_name="__main__")
    assert done.value.code == 2


def test_checksums_can_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checksums, "FILE", tmp_path / "checksums.json")
    x = np.arange(12.0)
    checksums.keep(KERNELS["gemm"], "MINI", {"C": x, "A": x})
    checksums.keep(KERNELS["gemm"], "SMALL", {"C": x + 1})
    assert set(checksums.stored()["gemm"]) == {"MINI", "SMALL"}
    assert checksums.largest_deviation(KERNELS["gemm"], "MINI", {"C": x.reshape(3, 4)}) == 0
    assert checksums.largest_deviation(KERNELS["gemm"], "SMALL", {"C": x}) > 0.01
