"""Arrays for the commands that run programs: from .npy and .npz files, or random from a seed."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer

from polytc.program import scalars
from polytc.runtime.arrays import MEMORY, too_large


def load(files: Sequence[str] | None) -> dict[str, np.ndarray]:
    """The `--input` options: `arrays.npz`, or `NAME=array.npy`. Pickled data is refused."""
    found: dict[str, np.ndarray] = {}
    for item in files or ():
        name, sign, path = item.partition("=")
        try:
            data: Any = np.load(path if sign else item, allow_pickle=False)
            if isinstance(data, np.ndarray):
                if not sign:
                    raise typer.BadParameter(f"{item!r} holds one array: write --input NAME={item}")
                found[name] = data
            else:
                found.update({key: data[key] for key in data.files})
        except (ValueError, EOFError, zipfile.BadZipFile) as error:
            raise typer.BadParameter(f"cannot read arrays from {item!r}: {error}") from error
    return found


def random(names: Sequence[str], shapes: Mapping[str, tuple[int, ...]], dtypes: Mapping[str, str], seed: int
           ) -> dict[str, np.ndarray]:
    """Random arrays: floats and parts of complex numbers from a normal distribution, integers in 0:100, booleans fair."""
    rng = np.random.default_rng(seed)
    return {name: random_array(rng, shapes[name], np.dtype(_numpy(dtypes.get(name, "f32")))) for name in names}


def random_array(rng: np.random.Generator, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """One random array, see `random`."""
    if MEMORY is not None and math.prod(shape) * max(8, dtype.itemsize) > MEMORY:  # they are drawn as f64 or i64
        raise too_large("a random array", tuple(shape), dtype)
    if dtype.kind == "c":
        return (rng.standard_normal(tuple(shape)) + 1j * rng.standard_normal(tuple(shape))).astype(dtype)
    if dtype.kind == "f":
        return rng.standard_normal(tuple(shape)).astype(dtype)
    return rng.integers(0, 2 if dtype.kind == "b" else 100, tuple(shape)).astype(dtype)


def _numpy(name: str) -> str | np.dtype:
    found = scalars.DTYPES.get(name)
    return name if found is None else found.numpy


def save(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write results: one array to .npy, any number to .npz."""
    if path.suffix == ".npy" and len(arrays) == 1:
        np.save(path, next(iter(arrays.values())))
    else:
        np.savez(path, allow_pickle=False, **arrays)
