"""NumPy's own tests of einsum, from the installed numpy, with polytc.einsum in the place of numpy.einsum.

What is left out is in EXCLUDED, with the reason; nothing else is. The tests of sums for each type have hundreds of shapes each,
and run on the reference evaluator; those of one type, and all others, on compiled code too.
"""

from __future__ import annotations

import functools
import importlib.util
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polytc
from polytc.errors import CompileError

SOURCE = Path(np.__file__).parent / "_core" / "tests" / "test_einsum.py"
if not SOURCE.exists():
    pytest.skip("this numpy comes without its tests", allow_module_level=True)

_LONG, _OBJECT = "80-bit floats are no type of polytc", "arrays of Python objects are no type of polytc"
EXCLUDED = {
    "test_einsum_sums_longdouble": _LONG, "test_einsum_sums_clongdouble": _LONG,
    "test_einsum_sums_object": _OBJECT, "test_einsum_object_errors": _OBJECT,
    "test_object_loop": _OBJECT, "test_different_paths[g]": _LONG, "test_different_paths[G]": _LONG,
    "test_einsum_sorting_behavior": "internals: the text of numpy.einsum_path",
    "test_output_order": "internals: order='K' follows the strides of numpy's iterator; C, F and A are tested below",
    "test_memory_contraints": "numpy.einsum_path alone", "test_long_paths": "numpy.einsum_path alone",
    "test_edge_paths": "numpy.einsum_path alone",
    "test_einsum_chunking_precision-cpu": "internals: the chunks in which numpy's iterator sums; vector lanes sum a "
                                          "million equal numbers less exactly",
}
SUMS = "test_einsum_sums_"
QUICK = {f"{SUMS}float32-evaluate", f"{SUMS}uint8-evaluate"}
LONG = {"test_edge_cases-cpu", "test_complex-cpu", "test_random_cases-cpu"}


class _Numpy(types.ModuleType):
    """numpy with another einsum."""

    def __init__(self, einsum: Any) -> None:
        super().__init__("numpy")
        self.einsum = einsum

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def suite(target: str) -> types.ModuleType:
    """NumPy's test module, its einsum being ours on one target."""
    einsum = functools.update_wrapper(functools.partial(polytc.einsum, target=target), polytc.einsum)
    spec = importlib.util.spec_from_file_location(f"numpy_test_einsum_{target}", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    original = np.einsum
    np.einsum = einsum  # parameters of its tests name it
    try:
        spec.loader.exec_module(module)
    finally:
        np.einsum = original
    module.__dict__["np"] = _Numpy(einsum)
    return module


def _cases(target: str) -> Iterator[Any]:
    """Every test of the suite, each with its parameters, as parameters of ours."""
    module = suite(target)
    holders = [module.TestEinsum(), module.TestEinsumPath(), module]
    for holder in holders:
        for name in sorted(n for n in dir(holder) if n.startswith("test")):
            if target == "cpu" and name.startswith(SUMS) and name != f"{SUMS}float32":
                continue
            test = getattr(holder, name)
            for values, label in _parameters(test):
                reason = EXCLUDED.get(name) or EXCLUDED.get(f"{name}[{label}]") or EXCLUDED.get(f"{name}-{target}")
                marks = [pytest.mark.skip(reason=reason)] if reason else []
                if (name.startswith(SUMS) and f"{name}-{target}" not in QUICK) or f"{name}-{target}" in LONG:
                    marks.append(pytest.mark.long)
                shown = f"{name}[{label}]-{target}" if label else f"{name}-{target}"
                yield pytest.param(functools.partial(test, **values), id=shown, marks=marks)


def _parameters(test: Any) -> list[tuple[dict[str, Any], str]]:
    """The combinations that pytest.mark.parametrize gives a test."""
    found: list[tuple[dict[str, Any], str]] = [({}, "")]
    for mark in getattr(test, "pytestmark", []):
        names, values = mark.args
        assert "," not in names, "one name each"
        found = [({**known, names: v}, f"{label}-{getattr(v, '__name__', v)}".lstrip("-"))
                 for known, label in found for v in values]
    return found


@pytest.mark.part(18)
@pytest.mark.parametrize("case", [*_cases("evaluate"), *_cases("cpu")])
def test_numpys_own(case: Any) -> None:
    case()


def test_what_is_left_out_exists() -> None:
    ids = [p.id for target in ("evaluate", "cpu") for p in _cases(target)]
    assert not [name for name in EXCLUDED if not any(i.startswith(name) for i in ids)]
    assert len(ids) > 120


@pytest.mark.parametrize(("layouts", "order", "expected"), [
    ("CC", "C", "C"), ("FF", "C", "C"), ("CC", "F", "F"), ("CF", "F", "F"), ("FF", "A", "F"), ("CF", "A", "C"),
    ("FF", "K", "C")])
def test_orders(layouts: str, order: str, expected: str) -> None:
    a, b = (np.ones(s, order=o) for s, o in zip([(2, 3, 5), (4, 3)], layouts, strict=True))
    for target in ("evaluate", "cpu"):
        found = polytc.einsum("...ft,mf->...mt", a, b, order=order, target=target)
        assert found.flags[f"{expected}_CONTIGUOUS"]
        assert np.array_equal(found, np.full((2, 4, 5), 3.0))


def test_a_path_is_followed() -> None:
    rng = np.random.default_rng(0)
    a, b, c = rng.standard_normal((2, 3)), rng.standard_normal((3, 4)), rng.standard_normal((4, 5))
    for path in (["einsum_path", (0, 1), (0, 1)], ["einsum_path", (1, 2), (0, 1)], ["einsum_path", (0, 1, 2)]):
        np.testing.assert_allclose(polytc.einsum("ij,jk,kl", a, b, c, optimize=path), a @ b @ c)


def test_conversions_are_asked_for() -> None:
    x = np.arange(4.0)
    with pytest.raises(TypeError):
        polytc.einsum("i,i", x, x, dtype="f4")
    assert polytc.einsum("i,i", x, x, dtype="f4", casting="same_kind").dtype == np.float32
    out = np.zeros((), "i4")
    with pytest.raises(TypeError):
        polytc.einsum("i,i", x, x, out=out)
    assert polytc.einsum("i,i", x, x, out=out, casting="unsafe") is out
    assert out == 14
    for bad in ({"order": "X"}, {"casting": "some"}, {"out": np.zeros(3)}):
        with pytest.raises(CompileError) as caught:
            polytc.einsum("i->i", x, **bad)
        assert caught.value.code == "E411"
    frozen = np.zeros(4)
    frozen.flags.writeable = False
    with pytest.raises(ValueError):
        polytc.einsum("i->i", x, out=frozen)
