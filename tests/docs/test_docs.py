"""What the README and the documentation show is true: code runs, links lead somewhere, diagnostics look as printed."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import polytc
from polytc import errors

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), ROOT / "benchmarks/README.md", *sorted((ROOT / "docs").glob("*.md")),
         *sorted((ROOT / "examples").glob("**/*.md"))]


def test_the_code_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                     capsys: pytest.CaptureFixture[str]) -> None:
    shape = [1, 3, 32, 32]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in ("input", "output")]
    graph = helper.make_graph([helper.make_node("Relu", ["input"], ["output"])], "relu", values[:1], values[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "model.onnx")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    for block in blocks:
        exec(block, names)
    assert len(blocks) == 7
    np.testing.assert_allclose(names["C"], names["A"] @ names["B"], rtol=1e-4)
    assert np.shape(names["O"]) == (1, 8, 32, 32)
    assert "__kernel" in capsys.readouterr().out


def test_the_diagnostic_of_the_readme() -> None:
    text = (ROOT / "README.md").read_text()
    with pytest.raises(polytc.CompileError) as caught:
        polytc.run("B[i] = A[i-1] where i in 0:8", A=np.ones(8, "f4"))
    shown = re.search(r"polytc\.errors\.CompileError: (.*?)\n\n", text, re.DOTALL)
    assert shown is not None
    assert [line.removeprefix("    ") for line in shown[1].splitlines()] == str(caught.value).splitlines()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert "://" in target or (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_code_is_documented_under_its_title() -> None:
    for module in pkgutil.walk_packages(polytc.__path__, "polytc."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    rows = re.findall(r"^\| (E\d+) \| (.*?) \|", (ROOT / "docs/errors.md").read_text(), re.MULTILINE)
    assert dict(rows) == {code: title.replace("|", "\\|") for code, title in errors.TITLES.items()}
    assert len(rows) == len(errors.TITLES), "a code has two rows"
