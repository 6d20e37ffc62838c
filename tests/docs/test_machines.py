"""docs/machines.md: its record is one, its code runs, and its tables name what there is."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from polytc.machine import Costs, Estimate, record_files

PAGE = (Path(__file__).parents[2] / "docs" / "machines.md").read_text(encoding="utf-8")


def test_the_record_is_one() -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.S)
    machine = record_files.read(text)
    assert machine.costs.threads.region == 7300.0
    assert record_files.origin(machine, "threads.region").startswith("measured: ")


def test_its_code_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    exec(compile(code, "docs/machines.md", "exec"), {})
    assert "estimated: " in capsys.readouterr().out


def test_the_tables_name_what_there_is() -> None:
    assert re.findall(r"^\| `costs\.(\w+)`", PAGE, re.M) == [f.name for f in fields(Costs)]
    told = PAGE.partition("The parts are ")[2]
    assert re.findall(r"`(\w+)`", told.partition(".\n")[0]) == [f.name for f in fields(Estimate)]
