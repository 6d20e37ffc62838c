"""`for` programs on GPUs: launches in loops of the host, or one group that meets at barriers, give what the text says."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import polytc
from polytc import compiler, stages
from polytc.codegen.target import Target
from polytc.errors import CompileError
from polytc.machine import GENERIC_GPU, Estimate
from polytc.program.program import Program
from polytc.schedule.gpu import launches, tile_wavefronts
from polytc.targets.interp import InterpTarget
from polytc.targets.opencl.executable import Open
from polytc.targets.opencl.target import OpenCLTarget

Arrays = dict[str, np.ndarray]

SMALL = replace(GENERIC_GPU, max_work_group=16)

JACOBI = """def jacobi(inout f64[N] A, f64[T] w) -> (A) {
    for t in 0:T {
        B[i] = w[t] * (A[i-1] + A[i] + A[i+1])    where i in 1:N-1
        A[i] = B[i]                               where i in 1:N-1
    }
}"""
SEIDEL = """def seidel(f64[T] w, inout f64[N,N] A) -> (A) {
    for t in 0:T {
        for i in 1:N-1 {
            for j in 1:N-1 {
                A[i,j] = w[t] * (A[i-1,j-1] + A[i-1,j+1] + A[i,j-1] + A[i,j] + A[i,j+1] + A[i+1,j] + A[i+1,j+1])
            }
        }
    }
}"""
LU = """def lu(inout f64[N,N] A) -> (A) {
    for k in 0:N-1 {
        A[i,k] = A[i,k] / A[k,k]        where i in k+1:N
        A[i,j] -= A[i,k] * A[k,j]       where i in k+1:N, j in k+1:N
    }
}"""
SUBSEQUENCE = """def subsequence(i32[N] a, i32[M] b, inout i32[N1,M1] L) -> (L) {
    for i in 1:N1 {
        for j in 1:M1 {
            L[i,j] = a[i-1] == b[j-1] ? L[i-1,j-1] + 1 : max(L[i-1,j], L[i,j-1])
        }
    }
}"""
ROWS = """def rows(f64[N,M] X, inout f64[N,M] S) -> (S) {
    for j in 1:M {
        S[i,j] = S[i,j-1] / 2 + X[i,j]
    }
    for j in M-2:-1:-1 {
        S[i,j] = S[i,j+1] / 4 + S[i,j]
    }
}"""
POTENTIALS = """def potentials(f64[N] c, inout f64[N] x, inout f64[N,N] D) -> (D, x) {
    x[i] = x[i] + c[i]
    for k in 0:N {
        s += x[i] * c[i]
        D[i,j] += s * x[i] where i != k, j >= i
        x[k] = x[k] / 2
    }
}"""


def jacobi(A: np.ndarray, w: np.ndarray) -> Arrays:
    A = A.copy()
    for factor in w:
        A[1:-1] = factor * (A[:-2] + A[1:-1] + A[2:])
    return {"A": A}


def seidel(w: np.ndarray, A: np.ndarray) -> Arrays:
    A = A.copy()
    for factor in w:
        for i in range(1, len(A) - 1):
            for j in range(1, len(A) - 1):
                A[i, j] = factor * (A[i-1, j-1] + A[i-1, j+1] + A[i, j-1:j+2].sum() + A[i+1, j] + A[i+1, j+1])
    return {"A": A}


def lu(A: np.ndarray) -> Arrays:
    A = A.copy()
    for k in range(len(A) - 1):
        A[k+1:, k] /= A[k, k]
        A[k+1:, k+1:] -= np.outer(A[k+1:, k], A[k, k+1:])
    return {"A": A}


def subsequence(a: np.ndarray, b: np.ndarray, L: np.ndarray) -> Arrays:
    L = L.copy()
    for i, j in np.ndindex(len(a), len(b)):
        L[i+1, j+1] = L[i, j] + 1 if a[i] == b[j] else max(L[i, j+1], L[i+1, j])
    return {"L": L}


def rows(X: np.ndarray, S: np.ndarray) -> Arrays:
    S = S.copy()
    for j in range(1, S.shape[1]):
        S[:, j] = S[:, j-1] / 2 + X[:, j]
    for j in reversed(range(S.shape[1] - 1)):
        S[:, j] += S[:, j+1] / 4
    return {"S": S}


def potentials(c: np.ndarray, x: np.ndarray, D: np.ndarray) -> Arrays:
    x, D, s = x + c, D.copy(), 0.0
    for k in range(len(c)):
        s += x @ c
        here = np.triu(np.broadcast_to((s * x)[:, None], D.shape))
        here[k] = 0
        D += here
        x[k] /= 2
    return {"D": D, "x": x}


def made(rng: np.random.Generator, n: int, m: int) -> dict[str, Arrays]:
    f = rng.random
    return {"jacobi": {"A": f(n), "w": f(m)}, "seidel": {"w": f(3) / 8, "A": f((n, n))}, "lu": {"A": f((n, n)) + n * np.eye(n)},
            "subsequence": {"a": rng.integers(0, 3, n, np.int32), "b": rng.integers(0, 3, m, np.int32),
                            "L": np.zeros((n + 1, m + 1), np.int32)},
            "rows": {"X": f((n, m)), "S": f((n, m))}, "potentials": {"c": f(n), "x": f(n), "D": f((n, n))}}


PROGRAMS: dict[str, tuple[str, Callable[..., Arrays]]] = {
    "jacobi": (JACOBI, jacobi), "seidel": (SEIDEL, seidel), "lu": (LU, lu), "subsequence": (SUBSEQUENCE, subsequence),
    "rows": (ROWS, rows), "potentials": (POTENTIALS, potentials)}
MODES = {"launches": (0.0, 1e12), "one group": (1e9, 1e12), "tiles": (1e3, 0.0)}
"""What a launch is said to cost, so that loops of the host are always, or never, the better choice, and tiles."""


def program(name: str, given: Arrays) -> Program:
    return stages.build(PROGRAMS[name][0], {n: a.shape for n, a in given.items()}, {n: a.dtype for n, a in given.items()})


def run(low: compiler.Lowered, given: Arrays) -> Arrays:
    p = low.program
    arrays = {n: given[n].copy() if n in given else np.full(p.tensor(n).shape, 77, p.tensor(n).dtype.numpy) for n in p.arrays}
    low.target.load(low.target.build(low.source), 1).run([arrays[b.name] for b in low.loops.args])
    return {n: arrays[n] for n in p.outputs}


def assert_equal(found: Arrays, expected: Arrays) -> None:
    for n, array in expected.items():
        np.testing.assert_allclose(found[n], array, rtol=1e-12, err_msg=n)


TILED = ("seidel", "subsequence")


@pytest.mark.part(9)
@pytest.mark.parametrize(("name", "mode"), [
    pytest.param(n, m, marks=pytest.mark.long if m == "tiles" and n not in TILED else []) for n in PROGRAMS for m in MODES])
def test_results(name: str, mode: str, monkeypatch: pytest.MonkeyPatch, targets: tuple[str, ...]) -> None:
    launch, tiles = MODES[mode]
    small = SMALL.costing({"launches.launch": launch})
    monkeypatch.setattr(tile_wavefronts, "_time", lambda *_: Estimate(launches=tiles))
    monkeypatch.setattr(tile_wavefronts, "SIDES", (4,))
    given = made(np.random.default_rng(3), 7, 9)[name]
    expected = PROGRAMS[name][1](**given)
    p = program(name, given)
    reference = polytc.evaluate(PROGRAMS[name][0], **{n: a.copy() for n, a in given.items()})
    assert_equal(dict(zip(p.outputs, reference if len(p.outputs) > 1 else (reference,))), expected)
    where: list[Target] = [InterpTarget(small), *([OpenCLTarget(small)] if "opencl" in targets else [])]
    for low in (compiler.lower_program(p, target) for target in where):
        assert low.schedule.how.startswith("gpu strategy")
        assert ("wavefronts of tiles" in low.schedule.how) == (mode == "tiles" and name in TILED)
        assert_equal(run(low, given), expected)


def lowered(name: str, **shapes: tuple[int, ...]) -> compiler.Lowered:
    types = {"a": "i32", "b": "i32", "L": "i32"}
    p = stages.build(PROGRAMS[name][0], shapes, {n: types.get(n, "f64") for n in shapes})
    return compiler.lower_program(p, OpenCLTarget(), schedule="polytc decisions 1\ntime_tiles: none\n")


def around(low: compiler.Lowered) -> list[tuple[str, ...]]:
    """The loops of the host around each launch."""
    return [tuple(map(str, x.loops)) for x in low.source.launches]


def test_statements_of_a_time_loop_are_launches() -> None:
    low = lowered("jacobi", A=(5000,), w=(30,))
    assert around(low) == [(), *[("for t in 0:15",)] * 2]
    assert [x.global_size for x in low.source.launches] == [(5120,)] * 3
    assert low.source.launches[1].args[-1] == "t"
    assert "barrier" not in low.source.text


def test_few_iterations_are_one_group_with_barriers() -> None:
    low = lowered("jacobi", A=(100,), w=(30,))
    _, launch = low.source.launches
    assert (launch.loops, launch.global_size) == ((), launch.local_size)
    assert low.source.text.count("barrier(") == 2


def test_gauss_seidel_runs_in_wavefronts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tile_wavefronts, "plan", lambda *_: None)
    low = lowered("seidel", w=(3,), A=(4000, 4000))
    assert around(low) == [("for wave in 3:12003",)]
    assert len(low.source.launches[0].global_size) == 2
    assert "isl's scheduler" in low.schedule.how


def test_large_tables_run_in_tiles_along_their_diagonals() -> None:
    low = lowered("subsequence", a=(20000,), b=(30000,), L=(20001, 30001))
    (launch,) = low.source.launches
    (wave,) = launch.loops
    assert wave.upper == 20000 // launch.local_size[0] + 30000 // launch.local_size[0] + 1
    assert launch.local_size[0] >= 32
    assert "barrier(" in low.source.text


def test_small_tables_are_one_group() -> None:
    low = lowered("subsequence", a=(200,), b=(300,), L=(201, 301))
    assert around(low) == [()]


def test_neighbours_share_a_launch_where_their_instances_meet_in_one_item() -> None:
    text = """def two(inout f32[N] x, inout f32[N] y, f32[T] c) -> (x, y) {
        for t in 0:T {
            x[i] = x[i] * c[t]
            y[i] = y[i] + x[i]
        }
    }"""
    p = stages.build(text, {"x": (100000,), "y": (100000,), "c": (50,)}, dict.fromkeys("xyc", "f32"))
    (launch,) = compiler.lower_program(p, OpenCLTarget()).source.launches
    assert launch.loops == ()  # nothing is carried from item to item


def test_a_recurrence_along_rows_stays_in_the_items() -> None:
    low = lowered("rows", X=(5000, 300), S=(5000, 300))
    assert around(low) == [()] * 2
    assert [x.global_size for x in low.source.launches] == [(5120,)] * 2
    assert "isl's scheduler" not in low.schedule.how


def test_triangles_follow_the_loop_of_the_host() -> None:
    low = lowered("lu", A=(500, 500))
    assert around(low) == [("for k in 0:499",)] * 2
    assert [x.args for x in low.source.launches] == [("A", "k")] * 2


@pytest.mark.part(2)
@pytest.mark.parametrize("name", ["jacobi", "lu"])
def test_open_sizes(name: str, targets: tuple[str, ...]) -> None:
    shapes = {"jacobi": {"A": ("N",), "w": ("T",)}, "lu": {"A": ("N", "N")}}[name]
    p = stages.build(PROGRAMS[name][0], shapes, dict.fromkeys(shapes, "f64"))
    end = {"jacobi": "T", "lu": "N - 1"}[name]
    loop = {"jacobi": "t", "lu": "k"}[name]
    assert around(compiler.lower_program(p, OpenCLTarget())) == [(f"for {loop} in 0:{end}",)] * 2
    if "opencl" in targets:
        op = polytc.compile(PROGRAMS[name][0], target="opencl", shapes=shapes, dtypes=dict.fromkeys(shapes, "f64"))
        for n in (5, 70):
            given = made(np.random.default_rng(n), n, 6)[name]
            expected = PROGRAMS[name][1](**given)
            np.testing.assert_allclose(op(**{k: a.copy() for k, a in given.items()}), expected["A"], rtol=1e-12)


@pytest.mark.part(4)
@pytest.mark.parametrize("tiles", [0.0, 1e12])
@pytest.mark.parametrize("name", ["seidel", "subsequence"])
def test_wavefronts_of_open_sizes(name: str, tiles: float, monkeypatch: pytest.MonkeyPatch, targets: tuple[str, ...]) -> None:
    monkeypatch.setattr(tile_wavefronts, "_time", lambda *_: Estimate(launches=tiles))
    shapes: dict[str, tuple[str, ...]] = {"w": ("T",), "A": ("N", "N")} if name == "seidel" else {
        "a": ("N",), "b": ("M",), "L": ("N1", "M1")}
    dtype = "f64" if name == "seidel" else "i32"
    low = compiler.lower_program(stages.build(PROGRAMS[name][0], shapes, dict.fromkeys(shapes, dtype)), OpenCLTarget())
    (launch,) = low.source.launches
    assert ("wavefronts of tiles" in low.schedule.how) == (tiles == 0.0)
    assert [r.var for r in launch.loops] == ["wave"] or launch.loops[0].var.endswith("_tile")
    assert not any("wave" in str(n) for n in launch.global_size)
    if "opencl" in targets:
        given = made(np.random.default_rng(5), 30, 41)[name]
        sizes = {s: n for a, names in shapes.items() for s, n in zip(names, given[a].shape)}
        arrays = [given[b.name].copy() for b in low.loops.args]
        built = low.target.build(low.source)
        numbers = {"sizes": json.dumps(list(low.loops.sizes))}
        opened = low.target.load(replace(built, options={**built.options, **numbers}), 1)
        assert isinstance(opened, Open)
        opened.at({n: sizes[n] for n in low.loops.sizes}).run(arrays)
        expected = PROGRAMS[name][1](**given)
        assert_equal({b.name: a for b, a in zip(low.loops.args, arrays)}, expected)


def test_triangles_of_open_sizes_end_with_the_loop_of_the_host() -> None:
    text = """def grow(inout f64[N] r, f64[N] q) -> (r) {
        for k in 1:N {
            z[i] = r[k-i-1] + q[i]    where i in 0:k
            r[i] = z[i] / 2           where i in 0:k
        }
    }"""
    p = stages.build(text, {"r": ("N",), "q": ("N",)}, {"r": "f64", "q": "f64"})
    found = compiler.lower_program(p, OpenCLTarget()).source.launches
    assert [str(r) for x in found for r in x.loops] == ["for k in 1:N"] * 2
    assert not any("k" in str(n) for x in found for n in x.global_size)


def test_the_items_of_a_block_of_columns_are_those_of_one_group() -> None:
    text = """def panels(inout f64[N,N] A) -> (A) {
        for b in 0:N//32 {
            for k in 32*b:32*b+32 {
                A[i,j] -= A[i,k] * A[k,j]    where i in k+1:N, j in k+1:32*b+32
            }
        }
    }"""
    (launch,) = compiler.lower_program(stages.build(text, {"A": (512, 512)}, {"A": "f64"}), OpenCLTarget()).source.launches
    assert len(launch.loops) == 2
    assert np.prod(launch.local_size) <= GENERIC_GPU.max_work_group


ELIMINATION = """def blocks(inout f64[N,N] A) -> (A) {
        for b in 0:N//8 {
            for k in 8*b:8*b+8 {
                A[i,k] = A[i,k] / A[k,k]      where i in k+1:N
                A[i,j] -= A[i,k] * A[k,j]     where i in k+1:N, j in k+1:8*b+8
            }
            A[i,j] -= A[i,k] * A[k,j]         where k in 8*b:8*b+8, i in 8*b+8:N, j in 8*b+8:N
        }
    }"""


@pytest.mark.parametrize("n", [pytest.param(96, marks=pytest.mark.long), 512])
def test_items_of_an_elimination_by_blocks(n: int) -> None:
    """Items along j in k+1:8*b+8 are at most those of a block, wherever in 0:N it lies."""
    found = compiler.lower_program(stages.build(ELIMINATION, {"A": (n, n)}, {"A": "f64"}), OpenCLTarget()).source.launches
    assert all(np.prod(x.local_size) <= GENERIC_GPU.max_work_group for x in found)


@pytest.mark.long
def test_elimination_by_blocks(targets: tuple[str, ...]) -> None:
    given = np.random.default_rng(3).random((24, 24)) + 24 * np.eye(24)
    p = stages.build(ELIMINATION, {"A": given.shape}, {"A": "f64"})
    expected = polytc.evaluate(ELIMINATION, A=given.copy())
    for target in (InterpTarget(GENERIC_GPU), *([OpenCLTarget()] if "opencl" in targets else [])):
        assert_equal(run(compiler.lower_program(p, target), {"A": given}), {"A": expected})


def test_loops_over_items_that_opencl_has_not_give_way_to_program_order(targets: tuple[str, ...]) -> None:
    """isl divides the loop over items by the condition: a barrier between its parts would not be reached by all."""
    text = """def f(f32[3,3] X, inout f32[2] S) -> (Y, S) {
        Y[i,j,k] min= X[i,i] * j where i in 0:3, j in 0:3, k in 0:9, (i < k || i > 1)
        for t in 0:2 {
            S[t] = S[t] + X[t,t]
        }
    }"""
    given = {"X": np.arange(9, dtype="f4").reshape(3, 3), "S": np.ones(2, "f4")}
    p = stages.build(text, {n: a.shape for n, a in given.items()}, dict.fromkeys(given, "f32"))
    low = compiler.lower_program(p, OpenCLTarget())
    assert "a barrier stands under a condition" in low.schedule.how
    with pytest.raises(CompileError, match="E511"):
        compiler.lower_program(p, OpenCLTarget(), str(compiler.lower_program(p, InterpTarget(GENERIC_GPU)).schedule))
    if "opencl" in targets:
        expected = dict(zip(p.outputs, polytc.evaluate(text, **{n: a.copy() for n, a in given.items()})))
        assert_equal(run(low, given), expected)


def test_bound_loops_inside_of_a_time_loop(targets: tuple[str, ...]) -> None:
    given = made(np.random.default_rng(3), 40, 5)["jacobi"]
    p = program("jacobi", given)
    recipe = polytc.schedule(p)
    for s in ("S1", "S2"):
        recipe = recipe.split(s, "i", 16).bind(s, {"i.0": "grid.x", "i.1": "block.x"})
    request = str(recipe.schedule)
    for target in (InterpTarget(GENERIC_GPU), *([OpenCLTarget()] if "opencl" in targets else [])):
        low = compiler.lower_program(p, target, request)
        assert_equal(run(low, given), jacobi(**given))
    with pytest.raises(CompileError, match="E704"):
        polytc.schedule(p).bind("S1", {"t": "grid.x"})


def test_loops_that_isl_cannot_see_through_keep_the_order_of_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launches.scheduler, "FIRST", 10)
    monkeypatch.setattr(launches.scheduler, "SYMBOLIC_ATTEMPTS", (launches.scheduler.Attempt(10, 1.0),))
    low = lowered("seidel", w=(3,), A=(40, 40))
    assert "isl's scheduler gives up" in low.schedule.how
    assert [x.global_size for x in low.source.launches] == [(1,)]
