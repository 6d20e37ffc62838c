"""The tests themselves, as a class that pytest collects from a module where it has a subclass with a `target`."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest

import polytc
from polytc import compiler, extensions
from polytc.codegen.package import Package, Part
from polytc.codegen.target import Binary, Source, Target
from polytc.targets import registry
from polytc.testing.cases import CASES, STRAIGHT, Case

TOLERANCE = {np.dtype("f2"): 2e-3, np.dtype("f4"): 3e-5, np.dtype("f8"): 1e-12}
"""Relative; of the largest number of a result where that is more. Integers and bools have to be equal."""
_CANARY = 0xA5
_ROOM = 256
"""Bytes before and behind each array, which no kernel may change."""


class Guarded:
    """An array between canaries. fill: what it holds; else bytes that no program makes by chance."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, fill: np.ndarray | None = None) -> None:
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        raw = np.full(size + 2 * _ROOM + 64, _CANARY, np.uint8)
        start = _ROOM + -(raw.ctypes.data + _ROOM) % 64
        self.array = raw[start:start + size].view(dtype).reshape(shape)
        self._around = raw[:start], raw[start + size:]
        if fill is not None:
            self.array[...] = fill

    def check(self, name: str) -> None:
        """Fails if a byte around the array is another one."""
        for side, part in zip(("before", "behind"), self._around):
            assert (part == _CANARY).all(), f"bytes {side} {name!r} were written"


class TargetSuite:
    """What a target has to do. target: an object of the class to be tested; see codegen/target.py for the protocol."""

    target: ClassVar[Target]

    # ---- the object

    def test_it_is_a_target(self) -> None:
        """It has all parts of the protocol, and is a key: equal objects make the same code."""
        assert isinstance(self.target, Target)
        assert self.target.name.isidentifier()
        again = copy.deepcopy(self.target)
        assert again == self.target
        assert hash(again) == hash(self.target)

    def test_it_goes_through_pickle(self) -> None:
        """Models and errors that name it are sent to other processes."""
        assert pickle.loads(pickle.dumps(self.target)) == self.target

    def test_it_is_for_the_device_that_is_here(self) -> None:
        """`here` gives a target of the same name; what that makes runs."""
        assert self.target.here().name == self.target.name

    def test_it_is_found_by_its_name(self) -> None:
        """Where its distribution is installed, the name is enough."""
        if self.target.name not in registry.target_names():
            pytest.skip(f"no entry point {self.target.name!r} of {extensions.TARGETS!r} is installed")
        assert type(registry.target(self.target.name)) is type(self.target)

    # ---- text and code

    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_the_text_is_the_same_each_time(self, case: Case) -> None:
        """`emit` depends on the module alone, and each kernel is launched with buffers that there are."""
        module = self._lowered(case).loops
        first, second = self.target.emit(module), self.target.emit(module)
        assert isinstance(first, Source)
        assert str(first).strip()
        assert str(first) == str(second)
        buffers = {b.name for b in (*first.module.args, *first.module.scratch)}
        assert first.launches
        for launch in first.launches:
            assert {*launch.args} <= buffers

    def test_code_is_data(self) -> None:
        """What `build` makes can be written to disk, and runs when it is read."""
        case = STRAIGHT[3]
        lowered = self._lowered(case)
        binary = self.target.build(lowered.source)
        arrays = tuple(lowered.program.arrays)
        whole = Package(Part(binary, tuple(arrays.index(b.name) for b in binary.args)), None, ())
        read = Package.from_bytes(whole.to_bytes()).main.binary
        assert isinstance(read, Binary)
        inputs = case.inputs()
        outputs = [np.empty_like(e, dtype=np.float32) for e in case.expected(inputs)]
        self.target.here().load(read, 1).run([*inputs.values(), *outputs])
        _agree(outputs, case.expected(inputs))

    def test_a_bound_call_can_be_moved_to_another_array(self) -> None:
        """`bind` keeps arrays for many calls, `move` replaces one."""
        case = STRAIGHT[3]
        inputs = case.inputs()
        here = self.target.here()
        low = polytc.lower(case.text, target=here, shapes=case.shapes)
        executable = here.load(here.build(low.source), 1)
        first, second = np.zeros(37, np.float32), np.zeros(37, np.float32)
        bound = executable.bind([*inputs.values(), first])
        bound()
        bound.move(len(inputs), second)
        bound()
        _agree([first, second], case.expected(inputs) * 2)

    # ---- results

    @pytest.mark.parametrize(("schedule", "threads"), [("automatic", 2), ("program", 1)])
    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_results(self, case: Case, schedule: str, threads: int) -> None:
        """Those of numpy; nothing beside the arrays is written, and no input."""
        inputs = case.inputs()
        expected = case.expected(inputs)
        guarded = {n: Guarded(a.shape, a.dtype, a) for n, a in inputs.items()}
        op = self._compiled(case, schedule=None if schedule == "automatic" else schedule, threads=threads)
        found = op(**{n: g.array for n, g in guarded.items()})
        found = found if isinstance(found, tuple) else (found,)
        _agree(found, expected)
        for name, g in guarded.items():
            g.check(name)
            np.testing.assert_array_equal(g.array, inputs[name], f"the input {name!r} was written")
        results = [Guarded(a.shape, a.dtype) for a in found]
        op(**inputs, out=results[0].array if len(results) == 1 else tuple(g.array for g in results))
        for k, g in enumerate(results):
            g.check(f"result {k}")
        _agree([g.array for g in results], expected)

    @pytest.mark.parametrize("sizes", [(1, 1, 1), (4, 7, 5), (33, 16, 31)])
    def test_sizes_that_stay_open(self, sizes: tuple[int, int, int]) -> None:
        """One kernel for all sizes."""
        n, k, m = sizes
        text = "def f(A, B) -> (C, R) { C[i,j] += A[i,k] * B[k,j]; R[i] max= C[i,j] }"
        op = polytc.compile(text, target=self.target, shapes={"A": ("N", "K"), "B": ("K", "M")})
        rng = np.random.default_rng(0)
        a, b = rng.normal(size=(n, k)).astype(np.float32), rng.normal(size=(k, m)).astype(np.float32)
        _agree(op(a, b), (a @ b, (a @ b).max(1)))

    @pytest.mark.parametrize("tiles", [{"i": 4}, {"i": 4, "j": 8}, {"k": 5}])
    def test_schedules_of_the_user(self, tiles: Mapping[str, int]) -> None:
        """Tiles of any loop."""
        case = next(c for c in CASES if c.name == "matrix product")
        recipe = polytc.schedule(case.text, case.shapes).tile("S1", tiles)
        inputs = case.inputs()
        _agree((polytc.compile(case.text, target=self.target, schedule=recipe)(**inputs),), case.expected(inputs))

    def test_an_array_that_is_changed_in_place(self) -> None:
        """An `inout` array is input and result."""
        given = Guarded((30,), np.dtype("f4"), np.arange(30) % 7)
        a = given.array.copy()
        op = polytc.compile("def smooth(inout f32[n] A) -> (A) { T[i] = A[i-1] + A[i+1]; A[i] = T[i] / 2 where i in 1:29 }",
                            target=self.target)
        op(given.array)
        given.check("A")
        _agree([given.array], [np.concatenate((a[:1], (a[:-2] + a[2:]) / 2, a[-1:]))])

    def test_operations_as_they_are_written(self) -> None:
        """`precise` rounds each operation: a product and a sum are not one, and no sum changes its order."""
        a, b, c = (np.random.default_rng(k).normal(size=200).astype(np.float32) for k in range(3))
        op = polytc.compile("precise def f(A, B, C) -> (D) { D[i] = A[i] * B[i] + C[i] - A[i] }", target=self.target)
        np.testing.assert_array_equal(op(a, b, c), a * b + c - a)

    def _lowered(self, case: Case) -> compiler.Lowered:
        return polytc.lower(case.text, target=self.target, shapes=case.shapes, dtypes=case.dtypes)

    def _compiled(self, case: Case, **options: Any) -> Any:
        return polytc.compile(case.text, target=self.target, shapes=case.shapes, dtypes=case.dtypes, **options)


def _agree(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    assert len(found) == len(expected)
    for got, e in zip(found, expected, strict=True):
        assert np.shape(got) == e.shape
        tolerance = TOLERANCE.get(np.asarray(got).dtype, 0.0)
        if tolerance:
            largest = float(np.max(np.abs(e), initial=1.0))
            np.testing.assert_allclose(got, e, rtol=tolerance, atol=tolerance * largest)
        else:
            np.testing.assert_array_equal(got, e)
