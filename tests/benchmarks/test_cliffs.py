"""benchmarks/cliffs.py: each row runs, and its result is that of its peers."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import cliffs
from cliff_rows import Row, arrays, grids, products


def test_a_table_of_few_rows(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["cliffs.py", "--only", "D, 20", "--seconds", "0.01"])
    cliffs.main()
    told = capsys.readouterr().out
    assert "A*B*C*D, 20" in told
    assert "of 1 rows" in told


def test_wrong_results_are_told() -> None:
    line, good = cliffs.measured(Row("r", lambda: np.ones(3), {"p": lambda: np.zeros(3) + 2}, 99.0), 0.01)
    assert "WRONG" in line[-1]
    assert not good
    assert cliffs.measured(Row("r", lambda: np.ones(3), {"p": lambda: np.ones(3)}, 99.0), 0.01)[1]


@pytest.mark.long
@pytest.mark.parametrize("rows", [products, arrays, grids])
def test_all_rows_are_right(rows: object) -> None:
    for row in rows.rows(1):
        line, _ = cliffs.measured(row, 0.0)
        assert "WRONG" not in line[-1], line
        assert "refused" not in line[1], line
