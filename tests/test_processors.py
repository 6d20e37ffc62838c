"""How many processors may be used: the affinity mask, and quotas of control groups of both versions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from polytc import machine, processors


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(("groups", "files", "allowed"), [
    ("0::/", {}, None),
    ("0::/", {"cpu.max": "max 100000\n"}, None),
    ("0::/", {"cpu.max": "150000 100000\n"}, 1.5),
    ("0::/a/b", {"a/b/cpu.max": "max 100000\n", "a/cpu.max": "200000 50000\n"}, 4.0),
    ("0::/a/b", {"a/b/cpu.max": "100000 100000\n", "a/cpu.max": "200000 50000\n"}, 1.0),
    ("0::/../outside", {"cpu.max": "300000 100000\n"}, 3.0),
    ("4:memory:/x\n1:cpu:/a", {"cpu/cpu.cfs_quota_us": "-1", "cpu/a/cpu.cfs_quota_us": "250000\n",
                               "cpu/a/cpu.cfs_period_us": "100000\n", "cpu/cpu.cfs_period_us": "100000"}, 2.5),
    ("4:cpu,cpuacct:/", {"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}, 0.5),
    ("4:cpuset:/", {"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}, None),
    ("0::/", {"cpu.max": "garbage"}, None),
    ("0::/", {"cpu.max": "100000 0"}, None),
    ("not a line", {}, None),
])
def test_quotas(tmp_path: Path, groups: str, files: dict[str, str], allowed: float | None) -> None:
    write(tmp_path, {"process": groups, **{f"root/{name}": text for name, text in files.items()}})
    assert processors.quota(tmp_path / "process", tmp_path / "root") == allowed
    assert processors.quota(tmp_path / "missing", tmp_path / "root") is None


@pytest.mark.parametrize(("allowed", "count"), [(None, 4), (0.2, 1), (1.5, 2), (3.0, 3), (9.0, 4)])
def test_the_smaller_of_mask_and_quota(monkeypatch: pytest.MonkeyPatch, allowed: float | None, count: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 3, 5, 6}, raising=False)
    monkeypatch.setattr(processors, "quota", lambda: allowed)
    assert processors.usable() == count
    assert machine.detect("", "").cores == count


@pytest.mark.parametrize("allowed", [True, False])
def test_the_matrix_unit_is_used_if_the_system_allows_it(monkeypatch: pytest.MonkeyPatch, allowed: bool) -> None:
    monkeypatch.setattr(processors, "allow_tiles", lambda: allowed)
    found = machine.detect("sapphirerapids", "+avx512f,+avx512vl,+avx512vnni,+avx512bf16,+amx-tile,+amx-int8,+amx-bf16")
    assert found.multiplies_tiles("dot_u8i8") == found.multiplies_tiles("dot_bf16") == allowed
    assert not found.multiplies_tiles("dot_i16i16")
    assert "dot_u8i8" in found.dots


def test_flags_of_the_first_processor(tmp_path: Path) -> None:
    assert not processors.has_flag("avx2", tmp_path)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "cpuinfo").write_text("processor\t: 0\nflags\t\t: fpu avx avx2\nbugs\t: none\n\nprocessor\t: 1\n")
    assert [processors.has_flag(flag, tmp_path) for flag in ("avx2", "avx512f", "avx")] == [True, False, True]
