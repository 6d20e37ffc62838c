"""Hosts with several variants of a program of open sizes: which one they take, and what each computes.

Which one ran is seen in the names of the kernels that the hosts report.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import math
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polytc
from polytc.export import opencl, variants
from polytc.export.bundle import Bundle
from polytc.targets.opencl.target import OpenCLTarget
from tests.export import exported
from tests.export.test_opencl_folder import TIMES, times
from tests.export.test_opencl_hosts import module
from tests.export.test_refusals import library, session  # noqa: F401
from tests.export.variants_here import MATMUL, ODD, POINTS, SM90, SOFTMAX, multiples_of, of, product, program, seconds


class Matmul:
    """The C host as a library, and the Python host, of a product on a device that is here."""

    def __init__(self, folder: Path, context: Any, made: Bundle) -> None:
        import pyopencl as cl
        opencl.write(made, SM90, folder)
        self.folder, self.context, self.queue = folder, context, cl.CommandQueue(context)
        self.code = library(folder, "host", "-lOpenCL")
        self.code.host_estimate.restype = ctypes.c_double
        self.python = module(folder, "host").Program(context, folder / "host.json")
        self.made = self.create()

    def create(self) -> ctypes.c_void_p:
        made, context, device = ctypes.c_void_p(), self.context.int_ptr, self.queue.device.int_ptr
        assert self.code.host_create(ctypes.c_void_p(context), ctypes.c_void_p(device), None, ctypes.byref(made), None,
                                     ctypes.c_size_t(0)) == 0
        return made

    def run(self, made: ctypes.c_void_p, sizes: Sequence[int], seed: int = 0) -> list[str]:
        """The kernels of a run, whose results are right."""
        import pyopencl as cl
        a, b, expected = product(sizes, seed)
        found, seen = np.full_like(expected, np.nan), list[str]()
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        buffers = [cl.Buffer(self.context, flags, hostbuf=x) for x in (a, b, found)]
        observer = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
            lambda data, kernel, event: (seen.append(kernel.decode()), cl.Event.from_int_ptr(event, retain=False))[0])
        self.code.host_observe(made, observer, None)
        assert self.code.host_resize(made, *sizes) == 0, sizes
        assert self.code.host_enqueue(made, ctypes.c_void_p(self.queue.int_ptr), *(ctypes.c_void_p(x.int_ptr) for x in buffers),
                                      0, None, None) == 0
        cl.enqueue_copy(self.queue, found, buffers[2])
        self.queue.finish()
        self.code.host_observe(made, None, None)
        np.testing.assert_array_equal(found, expected, err_msg=str(sizes))
        return seen


def context() -> Any:
    name = exported.device().name
    import pyopencl as cl
    return cl.Context([next(d for p in cl.get_platforms() for d in p.get_devices() if d.name.strip() == name)])


@pytest.fixture(scope="module")
def matmul(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matmul]:
    found = Matmul(tmp_path_factory.mktemp("variants"), context(), of_matmul())
    yield found
    found.code.host_release(found.made)


@pytest.mark.part(4)
@pytest.mark.parametrize(("divisor", "point"), [(4, POINTS[0]), (128, POINTS[0]), (4, {"I": 64, "K": 8192, "J": 64}),
                                                (128, {"I": 4096, "K": 4096, "J": 1})])
def test_sizes_that_are_multiples(divisor: int, point: dict[str, int], tmp_path: Path) -> None:
    made = multiples_of(divisor, point)
    assert {p.divisor for p in made.others[0].parts} == {divisor}
    host = Matmul(tmp_path, context(), made)
    large = {p.size for p in made.others[0].parts}
    multiple = tuple(divisor * n if name in large else n for name, n in (("I", 2), ("K", 3), ("J", 1)))
    for sizes in (multiple, tuple(n + 1 for n in multiple), (1, 1, 1), (2 * divisor, 8 * divisor, 1)):
        named = dict(zip(("I", "K", "J"), sizes, strict=True))
        fits = all(named[n] % divisor == 0 for n in large)
        assert (host.code.host_estimate(1, *sizes) >= 0) == fits == math.isfinite(host.python.estimate(1, **named))
        for number in (0, 1, None):
            host.code.host_force(host.made, -1 if number is None else number)
            host.python.force(number)
            if number == 1 and not fits:
                assert host.code.host_resize(host.made, *sizes) == -30
                with pytest.raises(ValueError, match="variant 1, which has to run, does not"):
                    host.python.variant(**named)
                continue
            seen = {k.split("_")[1] for k in host.run(host.made, sizes)}
            assert seen == ({f"v{number}"} if number is not None else {f"v{host.python.variant(**named)}"})
            a, b, expected = product(sizes)
            np.testing.assert_array_equal(host.python(a, b), expected)
    host.code.host_release(host.made)


def test_multiples_have_aligned_vectors_and_whole_tiles() -> None:
    texts = [v.units[0].lowered.source.text for d in (4, 128) for v in multiples_of(d, POINTS[0]).variants]
    plain, aligned, _, whole = texts
    assert "__global const float4*" not in plain
    assert "__global const float4*" in aligned
    assert "__global const float4*" in whole
    assert plain.count("if (") > aligned.count("if (") > whole.count("if (") == whole.count("?") == 0


@pytest.mark.long
def test_plans_of_multiples_are_found() -> None:
    made = variants.of_program(program(), OpenCLTarget(SM90), "mm", limit=6)
    assert any(v.parts for v in made.variants)
    assert any("multiples of" in (v.model.reasons[0] if v.model else "") for v in made.variants)


def thresholds(chosen: Callable[[tuple[int, ...]], int]) -> list[tuple[int, ...]]:
    """Sizes on both sides of where the choice changes, along a few lines."""
    found = []
    for line in (lambda n: (n, n, n), lambda n: (32, n, 32), lambda n: (n, 512, 1), lambda n: (n, 64, 64),
                 lambda n: (8, 300, n)):
        last = 1
        for n in (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096):
            low, high = last, n
            while high - low > 1 and chosen(line(low)) != chosen(line(high)):
                middle = (low + high) // 2
                low, high = (middle, high) if chosen(line(middle)) == chosen(line(low)) else (low, middle)
            if chosen(line(low)) != chosen(line(high)):
                found += [line(low), line(high)]
            last = n
    return found


def test_all_hosts_choose_alike(matmul: Matmul) -> None:
    taken = set()
    for sizes in [*itertools.product((1, 3, 64, 500, 4096), repeat=3), *ODD]:
        named = dict(zip(("I", "K", "J"), sizes, strict=True))
        own = matmul.code.host_variant(None, *sizes)
        assert own == matmul.python.variant(**named), sizes
        estimates = [matmul.code.host_estimate(v, *sizes) for v in range(len(POINTS))]
        for v, (here, one) in enumerate(zip(estimates, of_matmul().variants, strict=True)):
            there = matmul.python.estimate(v, **named)
            assert here == (there if math.isfinite(there) else -1), (v, sizes)
            assert math.isclose(there, seconds(one, named), rel_tol=1e-12), (v, sizes)
        assert estimates[own] == min(x for x in estimates if x >= 0)
        taken.add(own)
    assert taken == set(range(len(POINTS)))


KEPT: list[Bundle] = []


def of_matmul() -> Bundle:
    """The variants that the hosts have."""
    KEPT.extend([of()] if not KEPT else [])
    return KEPT[0]


def test_compilers_have_nothing_to_say(matmul: Matmul) -> None:
    warnings = ["-Wconversion", "-Wsign-conversion", "-Wshadow", "-Wtype-limits", "-Wstrict-prototypes", "-Wdouble-promotion"]
    flags = exported.opencl(exported.CC or "cc")
    folders = [f for f in flags if f.startswith("-I")]
    subprocess.run([exported.CC or "cc", *exported.STRICT, *warnings, "-c", "host.c", *folders, "-o", "x.o"], cwd=matmul.folder,
                   check=True)


def test_on_both_sides_of_each_threshold_the_chosen_one_runs(matmul: Matmul) -> None:
    edges = [x for x in thresholds(lambda sizes: matmul.code.host_variant(None, *sizes)) if math.prod(x) <= 1 << 24]
    assert len(edges) >= 4
    for sizes in [*edges, *ODD]:
        number = matmul.code.host_variant(matmul.made, *sizes)
        assert {k.split("_")[1] for k in matmul.run(matmul.made, sizes)} == {f"v{number}"}, sizes


def test_each_one_is_right_at_all_sizes(matmul: Matmul) -> None:
    for number in range(len(POINTS)):
        assert matmul.code.host_force(matmul.made, number) == 0
        for sizes in ODD:
            assert matmul.code.host_variant(matmul.made, *sizes) == number
            assert {k.split("_")[1] for k in matmul.run(matmul.made, sizes, number)} == {f"v{number}"}
    other = ctypes.c_void_p()
    assert matmul.code.host_clone(matmul.made, ctypes.byref(other)) == 0
    assert matmul.code.host_variant(other, 64, 64, 64) == len(POINTS) - 1       # as that which it is a clone of
    matmul.run(other, (64, 64, 64))
    matmul.code.host_release(other)
    assert [matmul.code.host_force(matmul.made, n) for n in (len(POINTS), -2, -1)] == [-30, -30, 0]
    assert matmul.code.host_variant(matmul.made, 64, 64, 64) == matmul.code.host_variant(None, 64, 64, 64) != len(POINTS) - 1


def test_sizes_at_which_nothing_runs(matmul: Matmul) -> None:
    for sizes in ((0, 5, 5), (5, 0, 5), (5, 5, 0), (-1, 1, 1), (1 << 20, 1 << 20, 1)):
        assert matmul.code.host_variant(matmul.made, *sizes) == -1
        assert [matmul.code.host_estimate(v, *sizes) for v in range(len(POINTS))] == [-1] * len(POINTS)
        assert matmul.code.host_resize(matmul.made, *sizes) in (-30, 5)
        with pytest.raises(ValueError, match=r"sizes|elements"):
            matmul.python.variant(**dict(zip(("I", "K", "J"), sizes, strict=True)))
    assert matmul.code.host_estimate(len(POINTS), 5, 5, 5) == matmul.code.host_estimate(-1, 5, 5, 5) == -1


def test_variants_whose_temporaries_are_too_long_are_not_taken(matmul: Matmul) -> None:
    """The parts of 16 Ki x 16 Ki results have more elements than indices of 32 bits count."""
    sizes = (1 << 14, 64, 1 << 14)
    parts = [v for v in range(len(POINTS)) if matmul.code.host_estimate(v, *sizes) == -1]
    assert parts
    assert matmul.code.host_variant(None, *sizes) not in parts
    matmul.code.host_force(matmul.made, parts[0])
    assert matmul.code.host_variant(matmul.made, *sizes) == -1
    assert matmul.code.host_resize(matmul.made, *sizes) == -30                   # refused, not wrong
    matmul.code.host_force(matmul.made, -1)
    matmul.run(matmul.made, (9, 9, 9))


def test_the_python_host_runs_variants(matmul: Matmul) -> None:
    import pyopencl as cl
    import pyopencl.array as cl_array
    queue = cl.CommandQueue(matmul.context, properties=cl.command_queue_properties.PROFILING_ENABLE)
    for number in (*range(len(POINTS)), None):
        matmul.python.force(number)
        for sizes in ODD[:4]:
            a, b, expected = product(sizes)
            named, events = dict(zip(("I", "K", "J"), sizes, strict=True)), list[Any]()
            c = cl_array.zeros(queue, expected.shape, np.float32)
            matmul.python.enqueue(queue, cl_array.to_device(queue, a), cl_array.to_device(queue, b), c, events=events, **named)
            np.testing.assert_array_equal(c.get(), expected)
            assert {k.split("_")[1] for k, _ in events} == {f"v{matmul.python.variant(**named)}"}
            np.testing.assert_array_equal(matmul.python.clone()(a, b), expected)
    with pytest.raises(ValueError, match="0 to 3"):
        matmul.python.force(4)
    assert matmul.python.estimate(4, I=5, K=5, J=5) == matmul.python.estimate(-1, I=5, K=5, J=5) == math.inf


def test_sizes_of_the_python_host_stay_set(matmul: Matmul) -> None:
    """Also for variants without buffers between kernels, which two of these are."""
    import pyopencl as cl
    import pyopencl.array as cl_array
    queue, (a, b, expected) = cl.CommandQueue(matmul.context), product((37, 19, 5))
    given = [cl_array.to_device(queue, x) for x in (a, b)]
    for number in range(len(POINTS)):
        host = matmul.python.clone()
        host.force(number)
        host.resize(I=37, K=19, J=5)
        for _ in range(2):
            c = cl_array.zeros(queue, expected.shape, np.float32)
            host.enqueue(queue, *given, c)
            np.testing.assert_array_equal(c.get(), expected)
        host.force(None)
        with pytest.raises(ValueError, match="the sizes"):
            host.enqueue(queue, *given, c)


def test_the_folder_tells_the_rule(matmul: Matmul) -> None:
    about = json.loads((matmul.folder / "host.json").read_text())
    assert [v["made_for"] for v in about["variants"]] == POINTS
    assert {row["kernel"] for v in about["variants"] for row in v["launches"]} == {k["name"] for k in about["kernels"]}
    text = (matmul.folder / "host.cl").read_text()
    for words in ("host_variant tells which of 4 variants runs", "Variant 2, made for I=64, K=16384, J=64", "5 us",
                  "3350 GB/s", "multiply-adds"):
        assert words in text
    assert "host_force" in (matmul.folder / "host.h").read_text()


@pytest.mark.long
def test_loops_of_launches_in_variants(tmp_path: Path, session: Any) -> None:  # noqa: F811
    machine = SM90.costing({"launches.launch": 0.0})
    built = program(TIMES, {"c": ("T",), "start": ("N",)})
    made = variants.of_program(built, OpenCLTarget(machine), typical=[{"T": 16, "N": 1 << 20}, {"T": 16, "N": 40}])
    opencl.write(made, machine, tmp_path)
    c, start = (np.random.default_rng(n).standard_normal(n).astype(np.float32) for n in (5, 41))
    exported.built(tmp_path, "times")
    exported.agree(exported.outputs(tmp_path, "times", [c, start], {"T": 5, "N": 41}), [times(c, start)])
    exported.agree(exported.in_python(tmp_path, "times", [c, start]), [times(c, start)])


@pytest.mark.part(2)
@pytest.mark.parametrize("number", [0, 1])
def test_rows_with_sizes_of_their_own(number: int, tmp_path: Path, session: Any) -> None:  # noqa: F811
    points = [{"n": 4096, "m": 512}, {"n": 16, "m": 1 << 16}]
    opencl.write(of(SOFTMAX, {"X": ("n", "m"), "b": ("m",)}, points, "rows"), SM90, tmp_path)
    host = module(tmp_path, "rows").Program(session.context, tmp_path / "rows.json")
    host.force(number)
    for n, m in ((1, 1), (3, 700), (300, 7), (17, 64)):
        x, b = (np.random.default_rng(0).standard_normal(shape).astype(np.float32) for shape in ((n, m), (m,)))
        e = np.exp((s := 2.0 * x + b) - s.max(axis=1, keepdims=True))
        np.testing.assert_allclose(host(x, b), e / e.sum(axis=1, keepdims=True), rtol=2e-5, atol=1e-6)


def test_sizes_with_names_of_isl(tmp_path: Path, session: Any) -> None:  # noqa: F811
    shapes = {"A": ("floor", "mod"), "B": ("mod", "exists")}
    points = [dict(zip(("floor", "mod", "exists"), p.values(), strict=True)) for p in POINTS[1:3]]
    opencl.write(of(MATMUL, shapes, points), SM90, tmp_path)
    host = module(tmp_path, "host").Program(session.context, tmp_path / "host.json")
    exported.built(tmp_path, "host")
    for sizes in ODD[:2]:
        a, b, expected = product(sizes)
        np.testing.assert_array_equal(host(a, b), expected)
        named = dict(zip(("floor", "mod", "exists"), sizes, strict=True))
        np.testing.assert_array_equal(exported.outputs(tmp_path, "host", [a, b], named)["C"], expected)


def test_temporaries_without_elements(tmp_path: Path, session: Any) -> None:  # noqa: F811
    """The copy of what is between the first and the last row has n - 2 rows."""
    text = """def heat(inout f32[n,m] A) -> (A) {
        for t in 0:3 {
            B[i,j] = (A[i-1,j] + A[i+1,j]) / 2    where i in 1:n-1, j in 0:m
            A[i,j] = B[i,j]                       where i in 1:n-1, j in 0:m
        }
    }"""
    opencl.write(of(text, {"A": ("n", "m")}, [{"n": 512, "m": 512}, {"n": 8, "m": 8}], "heat"), SM90, tmp_path)
    host = module(tmp_path, "heat").Program(session.context, tmp_path / "heat.json")
    exported.built(tmp_path, "heat")
    for n, m in ((1, 1), (2, 3), (1, 7), (9, 40)):
        a = np.random.default_rng(n).standard_normal((n, m)).astype(np.float32)
        expected = a.copy()
        for _ in range(3):
            expected[1:-1] = (expected[:-2] + expected[2:]) / 2
        np.testing.assert_allclose(host(a), expected, rtol=1e-5, atol=1e-6)
        exported.outputs(tmp_path, "heat", [a], {"n": n, "m": m})
        found = np.fromfile(tmp_path / "0.raw", np.float32).reshape(n, m)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_golden(golden: Callable[[str, str], None], matmul: Matmul) -> None:
    """The rule, as the head comment has it, and as C."""
    text = (matmul.folder / "host.cl").read_text().split("*/")[0]
    golden("variants.txt", text.replace(polytc.__version__, "VERSION"))
    code = (matmul.folder / "host.c").read_text()
    golden("variants.c", code[code.index("static double launch_seconds"):code.index("int host_force")])
