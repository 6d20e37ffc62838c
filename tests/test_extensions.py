"""Targets, operators and steps of another distribution: tests/outside, installed as an installer would."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

ROOT = Path(__file__).parent.parent
OUTSIDE = ROOT / "tests" / "outside"


def install(folder: Path, packages: Path, points: dict[str, dict[str, str]], name: str = "polytc-outside") -> Path:
    """The packages beside the metadata that an installer writes."""
    site = folder / "site"
    shutil.copytree(packages, site / packages.name, dirs_exist_ok=True)
    info = site / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join(f"[{group}]\n" + "".join(f"{n} = {v}\n" for n, v in rows.items())
                                                     for group, rows in points.items()))
    return site


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of installed packages that has the distribution."""
    project = tomllib.loads((OUTSIDE / "pyproject.toml").read_text())["project"]
    return install(tmp_path, OUTSIDE / "polytc_outside", project["entry-points"], project["name"])


def python(site: Path, *command: str, **variables: str) -> str:
    """What Python prints where the folder is on the path; a process that fails is a failure here."""
    path = os.pathsep.join([str(site), str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False, cwd=site,
                          env={**os.environ, "POLYTC_CHECK": "", **variables, "PYTHONPATH": path, "COLUMNS": "200"})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


CLI = """
import json, sys
import polytc.cli
for command in json.loads(sys.argv[1]):
    sys.argv = ["polytc", *command]
    try:
        polytc.cli.main()
    except SystemExit as e:
        assert not e.code, command
    print("\\f", flush=True)
"""


def cli(site: Path, *commands: list[str]) -> list[str]:
    """What each command of polytc prints; one process runs them all."""
    *printed, rest = python(site, "-c", CLI, json.dumps(commands)).split("\f")
    assert len(printed) == len(commands)
    assert not rest.strip()
    return printed


@pytest.mark.long
@pytest.mark.parametrize("selected", [
    pytest.param("", marks=pytest.mark.long, id="all"),
    pytest.param("not (results or same_each_time or tiles) or copy or tiles2 or results and program and convolution",
                 id="some")])
def test_the_target_conforms(outside: Path, selected: str) -> None:
    """tests/test_conformance.py runs the whole suite on polytc's targets."""
    shutil.copy(OUTSIDE / "conformance.py", outside)
    assert " passed" in python(outside, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", selected, "conformance.py")


def test_the_target_is_one_like_others(outside: Path) -> None:
    printed = python(outside, "-c", """
import numpy as np, polytc, polytc.backend
from onnx import helper
print(polytc.targets.registry.target_names())
print(polytc.run("C[i] += A[i,j] * 2", np.ones((2, 3), np.float32), target="plain"))
print(polytc.backend.supports_device("PLAIN"), polytc.backend.supports_device("C"), polytc.backend.supports_device("CUDA"))
print(polytc.backend.run_node(helper.make_node("Neg", ["x"], ["y"]), [np.ones(2, np.float32)], device="PLAIN")[0])
try:
    polytc.run("C[i] = A[i]", np.ones(2, np.float32), target="plan")
except polytc.TargetError as e:
    print(e)
import sys, polytc.cli
sys.argv = ["polytc", "emit", "C[i] = A[i] + 1", "--shape", "A=4", "--target", "plain"]
polytc.cli.main()
""")
    assert "'interp', 'plain')" in printed
    assert "[6. 6.]\nTrue False False\n[-1. -1.]" in printed
    assert "interp, plain, evaluate" in printed
    assert "def kernel0(A, C):\n    for " in printed


def test_the_step_is_one_like_others(outside: Path) -> None:
    emit = ["emit", "C[i] = pow(A[i] + 1, 2.0)", "--shape", "A=4", "--stage"]
    explain = ["explain", "C[i] = pow(A[i], 2.0)", "--shape", "A=4"]
    squares, inline, told = cli(outside, [*emit, "squares"], [*emit, "inline"], explain)
    assert "(A[i] + 1.0) * (A[i] + 1.0)" in squares
    assert "pow" in inline
    assert "squares" in told
    assert "S1: pow(x, 2) is one multiplication" in told
    lower = "import polytc, sys; sys.stderr = sys.stdout; polytc.lower('C[i] = pow(A[i], 2.0)', shapes={'A': (4,)})"
    assert "A[i] * A[i]" in python(outside, "-c", lower, POLYTC_DUMP="squares")


RUN = """
import sys, numpy as np, polytc
print(polytc.load_onnx(sys.argv[1]).compile().run(None, {"x": np.full(3, 2, np.float32)})[0][0])
"""


@pytest.mark.long
def test_the_operator_is_one_like_others(outside: Path, tmp_path: Path) -> None:
    """Kept models and kernels are those of the text that is installed."""
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in "xy"]
    node = helper.make_node("Swish", ["x"], ["y"], domain="com.acme", beta=1.5)
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.acme", 1)],
                                ir_version=8), tmp_path / "m.onnx")
    old = outside / "polytc_outside" / "operators.py"
    for path in (tmp_path / "m.onnx", *old.parent.iterdir()):
        os.utime(path, (1e9, 1e9))

    def agrees(one: int) -> None:
        for _ in range(2):  # compiled, then found on disk
            printed = python(outside, "-c", RUN, str(tmp_path / "m.onnx"), POLYTC_CACHE=str(tmp_path / "kept"))
            np.testing.assert_allclose(float(printed), 2 / (one + np.exp(-3)), 1e-5)
    agrees(1)
    old.write_text(old.read_text().replace("(1 + exp", "(3 + exp"))
    os.utime(old, (1.1e9, 1.1e9))
    agrees(3)


WRONG = [
    ("targets", "plain", "nowhere:X", "cannot be imported"), ("targets", "plain", "steps:decide", "cannot be made"),
    ("targets", "plain", "steps:SQUARES", "is no Target"), ("targets", "other", "target:PlainTarget", "calls itself 'plain'"),
    ("steps", "squares", "steps:apply", "is a function"), ("operators", "com.acme::Swish", "steps:SQUARES", "is a Added")]
USED = {"targets": "polytc.targets.registry.target(NAME)", "steps": "polytc.lower('C[i] = A[i]', shapes={'A': (4,)})",
        "operators": "registry.known(NAME)"}


Refusals = dict[tuple[str, str], str]
"""By group and value."""

EACH = """
import os, sys
import polytc, polytc.targets.registry
from polytc.graph.operators import registry
for k, (site, code) in enumerate(zip(sys.argv[1::2], sys.argv[2::2], strict=True)):
    if (child := os.fork()) == 0:  # nobody has looked for extensions yet
        sys.path.insert(0, site)
        try:
            exec(code)
        except polytc.PolytcError as e:
            print(e)
        print("\\f", flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.fixture(scope="module")
def refusals(tmp_path_factory: pytest.TempPathFactory) -> Refusals:
    """What is said of each of WRONG."""
    given = list[str]()
    for group, name, value, _ in WRONG:
        points = {f"polytc.{group}": {name: f"polytc_outside.{value}"}}
        site = install(tmp_path_factory.mktemp("wrong"), OUTSIDE / "polytc_outside", points)
        given += [str(site), USED[group].replace("NAME", repr(name))]
    printed = python(tmp_path_factory.mktemp("nothing"), "-c", EACH, *given).split("\f")
    return dict(zip(((group, value) for group, _, value, _ in WRONG), printed, strict=False))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize(("group", "name", "value", "why"), WRONG)
def test_what_cannot_be_used_is_refused(refusals: Refusals, group: str, name: str, value: str, why: str) -> None:
    printed = refusals[group, value]
    assert name in printed
    assert "E533" in printed
    assert why in printed
    assert "pip uninstall polytc-outside" in printed


def test_a_name_of_polytc_stays_polytcs(tmp_path: Path) -> None:
    site = install(tmp_path, OUTSIDE / "polytc_outside", {"polytc.targets": {"cpu": "polytc_outside.target:PlainTarget"}})
    assert "LLVMTarget" in python(site, "-c", "import polytc.targets.registry as r; print(r.target('cpu'), r.target_names())")
