"""model.profile(): each kernel's time, and the trace for Chrome."""

from __future__ import annotations

import json

import numpy as np
import pytest

import polytc
from polytc.errors import ArgumentError

R = np.random.default_rng(7)


@pytest.fixture
def feeds() -> dict[str, np.ndarray]:
    return {"x": R.standard_normal((2, 3, 17, 15)).astype(np.float32)}


@pytest.mark.part(2)
@pytest.mark.parametrize("threads", [1, 2])
def test_kernels_and_their_times(small_cnn, feeds, threads, tmp_path) -> None:
    model = polytc.load_onnx(small_cnn).compile(target="cpu", threads=threads)
    found = model.profile(feeds, runs=3)
    assert len(found.kernels) == model.kernels > 0
    assert found.threads == threads
    assert all(k.seconds >= 0 and k.operations >= 0 and k.bytes > 0 for k in found.kernels)
    assert found.seconds >= max(k.seconds for k in found.kernels) > 0
    starts = [k.start for k in found.kernels]
    assert starts == sorted(starts)
    assert any(k.fraction is not None and k.fraction > 0 for k in found.kernels)
    table = str(found)
    assert all(k.label[:4] in table for k in found.kernels)
    assert "between kernels" in table
    first = str(found.table(1))  # `print(profile.table(1))`
    assert "between kernels" in first
    assert len(first.splitlines()) == len(table.splitlines()) - len(found.kernels) + 1
    found.save(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [e["name"] for e in events] == [k.label for k in found.kernels]
    assert all(e["ph"] == "X" and e["dur"] >= 0 for e in events)


def test_profiling_other_targets_and_results_after_it(small_cnn, feeds) -> None:
    model = polytc.load_onnx(small_cnn).compile(target="evaluate")
    expected = model.run(None, feeds)[0]
    found = model.profile(feeds, runs=1)
    assert all(k.bound is None and k.fraction is None for k in found.kernels)
    np.testing.assert_array_equal(model.run(None, feeds)[0], expected)


@pytest.mark.parametrize("runs", [0, 1.5, True])
def test_number_of_runs(small_cnn, feeds, runs) -> None:
    with pytest.raises(ArgumentError, match="runs is"):
        polytc.load_onnx(small_cnn).compile(target="evaluate").profile(feeds, runs)
