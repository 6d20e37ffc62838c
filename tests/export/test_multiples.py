"""Programs for sizes that are multiples: what they say, and what plans made of them compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polytc
from polytc.export import multiples, opencl
from polytc.export.multiples import Part
from polytc.program.program import Program
from tests.export.test_opencl_folder import LAYERNORM
from tests.export.test_opencl_hosts import module
from tests.export.test_refusals import session  # noqa: F401
from tests.export.variants_here import SM90, multiples_of


def test_extents_are_multiples_of_sizes_under_other_names() -> None:
    program = polytc.build("C[i] = A[i] + A[i+1]", {"A": ("I",)}, typical={"I": 512})
    assert isinstance(program, Program)
    parts = multiples.parts(program, {"I": 64})
    assert parts == (Part("I_64", "I", 64),)
    made = multiples.divided(program, parts, {"I": 512})
    assert made.sizes == ("I_64",)
    assert "where i in 0:64*I_64 - 1" in str(made)
    assert int(made.tensor("A").shape[0]) == 512
    assert multiples.with_parts({"I": 640}, parts) == {"I": 640, "I_64": 10}
    assert multiples.with_parts({"I": 641}, parts) is None


def test_names_that_a_program_has_are_not_taken() -> None:
    program = polytc.build("C[I_4] = A[I_4]", {"A": ("I",)})
    assert multiples.parts(program, {"I": 4}) == (Part("I_4_", "I", 4),)


def normalised(x: np.ndarray, g: np.ndarray) -> np.ndarray:
    y = x.astype(np.float64) - x.mean(axis=1, dtype=np.float64, keepdims=True)
    return y / np.sqrt((y * y).mean(axis=1, keepdims=True) + 1e-5) * g


CASES = {
    "layernorm": (LAYERNORM, {"X": ("B", "N"), "G": ("N",)}, normalised),
    "shift": ("def shift(f32[M] X, f32[M] Z) -> (Y) { Y[i] = X[(i+1)%M] + Z[i] * f32(M) }", {"X": ("M",), "Z": ("M",)},
              lambda x, z: np.roll(x, -1) + z * len(x)),
    "triangle": ("C[i,j] += A[i,k]*B[k,j] where k <= i", {"A": ("I", "I"), "B": ("I", "J")}, lambda a, b: np.tril(a) @ b),
    "scan": ("def f(f32[n,m] X) -> (Y) { Y[i,0] = X[i,0]\n for j in 1:m { Y[i,j] = Y[i,j-1] + X[i,j] } }", {"X": ("n", "m")},
             lambda x: np.cumsum(x, axis=1)),
}


@pytest.mark.part(8)
@pytest.mark.parametrize("divisor", [4, 128])
@pytest.mark.parametrize("name", CASES)
def test_plans_for_multiples_compute_the_same(name: str, divisor: int, tmp_path: Path, session: Any) -> None:  # noqa: F811
    found: tuple[str, Mapping[str, Sequence[str]], Callable[..., np.ndarray]] = CASES[name]
    text, shapes, meaning = found
    names = list(dict.fromkeys(n for shape in shapes.values() for n in shape))
    opencl.write(multiples_of(divisor, dict.fromkeys(names, 4096), text, shapes), SM90, tmp_path)
    host = module(tmp_path, "host").Program(session.context, tmp_path / "host.json")
    for times in (1, 2):
        host.force(1)
        sizes = {n: divisor * (times + k % 2) for k, n in enumerate(names)}
        arrays = [np.random.default_rng(k).integers(-3, 4, [sizes[n] for n in shape]).astype(np.float32)
                  for k, shape in enumerate(shapes.values())]
        np.testing.assert_allclose(host(*arrays), meaning(*arrays), rtol=1e-4, atol=1e-4)
