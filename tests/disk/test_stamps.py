"""Stamps change with all that they speak for."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from polytc.disk import stamps


def load(root: Path) -> ModuleType:
    """The stamps of the checkout in that folder, as a new process would find them."""
    spec = importlib.util.spec_from_file_location("stamps_elsewhere", root / "polytc" / "disk" / "stamps.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="the processor has no stamp")
@pytest.mark.parametrize("changed", ["grammar/polytc.lark", "polytc/op.py", "polytc/graph/operators/a.ein"])
def test_sources_and_grammar_count(tmp_path: Path, changed: str) -> None:
    for name in ("polytc/disk/stamps.py", "grammar/polytc.lark", "polytc/op.py", "polytc/graph/operators/a.ein"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("stamps.py"):
            shutil.copy(stamps.__file__, path)
        else:
            path.write_text("text")
        os.utime(path, (1e9, 1e9))
    first = load(tmp_path)
    assert first.native() == load(tmp_path).native()
    assert first.compilation() == load(tmp_path).compilation()
    (tmp_path / changed).write_text("other")
    os.utime(tmp_path / changed, (1e9 + 1, 1e9 + 1))
    second = load(tmp_path)
    assert second.native() not in (None, first.native())
    assert second.compilation() not in (None, first.compilation())
    os.utime(tmp_path / changed)  # now: nobody can tell what this process has read
    third = load(tmp_path)
    third._STARTED -= 10
    assert third.native() is None
    assert third.compilation() is None
