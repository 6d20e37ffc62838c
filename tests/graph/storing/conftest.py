"""A server of processes, and a folder with inputs, for the tests of stored models."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.graph.storing.model_processes import Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("server"))
    yield made
    assert made.process.stdin is not None
    made.process.stdin.close()
    assert made.process.wait(60) == 0


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, np.ndarray]:
    x = np.random.default_rng(5).standard_normal((3, 40)).astype("f4")
    np.save(tmp_path / "x.npy", x)
    return tmp_path, x
