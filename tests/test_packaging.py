"""The distribution holds every package and data file of the tree, and importing it stays light."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

import polytc

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_every_package_of_the_tree_is_listed() -> None:
    holding = {p.parent for suffix in ("*.py", "*.ein") for p in (ROOT / "polytc").rglob(suffix)}
    tree = {".".join(folder.relative_to(ROOT).parts) for folder in holding}
    assert tree | {"polytc.grammar"} == set(PROJECT["tool"]["setuptools"]["packages"])


def test_every_package_has_an_init() -> None:
    folders = [ROOT / p.replace(".", "/") for p in PROJECT["tool"]["setuptools"]["packages"] if p != "polytc.grammar"]
    assert [f.name for f in folders if not (f / "__init__.py").exists()] == []


def test_the_grammar_is_a_resource() -> None:
    assert "start" in (files("polytc.grammar") / "polytc.lark").read_text()


def test_version_is_said_once() -> None:
    assert PROJECT["project"]["version"] == polytc.__version__


HEAVY = ("islpy", "lark", "llvmlite", "numpy", "onnx", "pyopencl", "rich", "sympy", "typer")


def test_import_is_light() -> None:
    loaded = python(f"import sys, polytc; print([m for m in {HEAVY} if m in sys.modules])")
    assert loaded.strip() == "[]"


def test_compiling_for_the_cpu_loads_no_optional_library() -> None:
    loaded = python("import sys, polytc, numpy as np\n"
                    "polytc.run('C[i] = A[i] + 1', A=np.ones(4, 'f4'))\n"
                    "print([m for m in ('onnx', 'pyopencl', 'onnxruntime', 'typer', 'rich') if m in sys.modules])")
    assert loaded.strip() == "[]"


def test_import_time() -> None:
    code = "import time; t = time.process_time(); import polytc, polytc.errors; print(time.process_time() - t)"
    assert min(float(python(code)) for _ in range(3)) < 0.3


def test_public_names() -> None:
    for name in polytc.__all__:
        assert getattr(polytc, name) is not None
    assert "einsum" in dir(polytc)
    with pytest.raises(AttributeError, match="nothing"):
        _ = polytc.nothing
