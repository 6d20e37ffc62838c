"""The scripts of examples/ run as a user would run them; each checks its own results."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
ARGUMENTS = {"onnx_model.py": ["ppocrv2_cls.onnx", "x=1,3,48,192"]}
LONG = {"demo.py"}


def run(name: str, *arguments: str) -> str:
    done = subprocess.run([sys.executable, EXAMPLES / name, *arguments], capture_output=True, text=True,
                          env={**os.environ, "POLYTC_CHECK": "0"}, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.part(3)
@pytest.mark.parametrize("name", sorted({p.name for p in EXAMPLES.glob("[!_]*.py")} - LONG - set(ARGUMENTS)))
def test_example(name: str) -> None:
    assert run(name).strip()


@pytest.mark.long
def test_onnx_example(models: Path) -> None:
    first, *rest = ARGUMENTS["onnx_model.py"]
    assert "softmax" in run("onnx_model.py", str(models / first), *rest).lower()


@pytest.mark.long
def test_demo(models: Path) -> None:
    assert "all results are right" in run("demo.py", str(models))
