"""Models that an earlier process compiled: found on disk, run without the compiler, and never taken for another model."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from polytc.disk import folder
from tests.graph.storing.model_processes import HEAVY, MORE, RUN, Server, execute, expected, run, save

pytestmark = pytest.mark.skipif(not folder.SUPPORTED or not Path("/proc/cpuinfo").exists(), reason="models are kept on Linux")


def test_the_second_start_needs_no_compiler(files: tuple[Path, np.ndarray], server: Server) -> None:
    weights = save(files[0] / "model.onnx", 1)
    first = run(files, None)
    second = run(files, None)
    assert not first["started"]
    assert second["started"]
    np.testing.assert_allclose(second["y"], expected(files[1], weights), rtol=1e-4, atol=1e-4)
    assert second["y"] == first["y"]
    loaded = [m for m in second["modules"] for heavy in HEAVY if m == heavy or m.startswith(heavy + ".")]
    assert not loaded
    run(files, None, MORE)
    assert not run(files, server, POLYTC_CHECK="1")["started"]
    assert not run(files, server, threads=2)["started"]
    assert run(files, server, threads=2)["y"] == first["y"]


@pytest.mark.part(6)
@pytest.mark.parametrize("external", [False, True])
def test_a_model_that_was_written_to_is_another_one(files: tuple[Path, np.ndarray], server: Server, external: bool) -> None:
    save(files[0] / "model.onnx", 1, external)
    run(files, server)
    assert run(files, server)["started"]
    before = os.stat(files[0] / "model.onnx")
    weights = save(files[0] / "model.onnx", 2, external)
    os.utime(files[0] / "model.onnx", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert os.stat(files[0] / "model.onnx").st_size == before.st_size
    found = run(files, server)
    assert not found["started"]
    np.testing.assert_allclose(found["y"], expected(files[1], weights), rtol=1e-4, atol=1e-4)
    if external:
        other = np.fromfile(files[0] / "weights.bin", "f4") * 0
        other.tofile(files[0] / "weights.bin")
        assert not np.any(run(files, server)["y"])


@pytest.mark.long
def test_a_link_to_weights_that_is_pointed_elsewhere(files: tuple[Path, np.ndarray], server: Server) -> None:
    """Both files of weights stay as they were: only the link changes."""
    folder_ = files[0]
    weights = []
    for seed in (1, 2):
        weights.append(save(folder_ / "model.onnx", seed, external=True))
        (folder_ / "weights.bin").rename(folder_ / f"{seed}.bin")
    link = folder_ / "weights.bin"
    link.symlink_to("1.bin")
    run(files, server)
    assert run(files, server)["started"]
    link.unlink()
    link.symlink_to("2.bin")
    found = run(files, server)
    assert not found["started"]
    np.testing.assert_allclose(found["y"], expected(files[1], weights[1]), rtol=1e-4, atol=1e-4)
    assert run(files, server)["started"]


@pytest.mark.long
def test_two_versions_of_a_hub_share_the_model_but_not_the_weights(files: tuple[Path, np.ndarray], server: Server) -> None:
    """The links of both lead to one file of the graph and to different weights."""
    folder_ = files[0]
    (folder_ / "blobs").mkdir()
    weights = []
    for seed in (1, 2):
        weights.append(save(folder_ / "blobs" / "graph", seed, external=True))
        (folder_ / "blobs" / "weights.bin").rename(folder_ / "blobs" / str(seed))
        (folder_ / f"v{seed}").mkdir()
        (folder_ / f"v{seed}" / "model.onnx").symlink_to("../blobs/graph")
        (folder_ / f"v{seed}" / "weights.bin").symlink_to(f"../blobs/{seed}")
    for _ in range(2):
        for k, seed in enumerate((1, 2)):
            (folder_ / "model.onnx").unlink(missing_ok=True)
            np.save(folder_ / f"v{seed}" / "x.npy", files[1])
            found = run((folder_ / f"v{seed}", files[1]), server, POLYTC_CACHE_DIR=str(folder_ / "cache"))
            np.testing.assert_allclose(found["y"], expected(files[1], weights[k]), rtol=1e-4, atol=1e-4)


SPOILED = """
import sys
import numpy as np
from polytc.disk import stamps, weights
stamps.SETTLED = -1000.0
weights.LARGE = int(sys.argv[4])
import polytc.graph
model = polytc.graph.load_onnx(sys.argv[1]).compile(threads=1)
x = np.load(sys.argv[3])
before = model.run(None, {"x": x})[0]
for path in sys.argv[5:]:
    size = len(open(path, "rb").read())
    with open(path, "r+b") as file:
        file.write(b"\\x11" * size)
    assert np.array_equal(model.run(None, {"x": x})[0], before), "overwritten"
    with open(path, "r+b") as file:
        file.truncate(0)
    assert np.array_equal(model.run(None, {"x": x})[0], before), "cut"
assert np.array_equal(model.session().run(None, {"x": x})[0], before)
"""


@pytest.mark.part(8)
@pytest.mark.parametrize("large", [0, 1 << 30])
@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("external", [False, True])
def test_files_that_are_overwritten_or_cut_under_a_running_model(files: tuple[Path, np.ndarray], server: Server, external: bool,
                                                                 cached: bool, large: int) -> None:
    folder_ = files[0]
    save(folder_ / "model.onnx", 1, external)
    if cached:
        run(files, server)
    names = [str(folder_ / n) for n in ("weights.bin", "model.onnx") if (folder_ / n).exists()]
    execute(files, server, SPOILED, "1", str(folder_ / "x.npy"), str(large), *names)


def test_broken_entries_are_made_again(files: tuple[Path, np.ndarray], server: Server) -> None:
    weights = save(files[0] / "model.onnx", 3)
    run(files, server)
    entries = sorted((files[0] / "cache" / "code").glob("*.bin"))
    assert len(entries) >= 3
    for n, entry in enumerate(entries):
        data = bytearray(entry.read_bytes())
        data[-1 - n % 7] ^= 0x5A
        entry.write_bytes(data if n % 2 else data[:len(data) // 2])
    np.testing.assert_allclose(run(files, server)["y"], expected(files[1], weights), rtol=1e-4, atol=1e-4)
    assert run(files, server)["started"]


def test_a_missing_kernel_means_compiling(files: tuple[Path, np.ndarray], server: Server) -> None:
    weights = save(files[0] / "model.onnx", 4)
    run(files, server)
    for entry in (files[0] / "cache" / "code").glob("*.bin"):
        if b"parts" in entry.read_bytes()[:200]:  # a package: see codegen/package.py
            entry.unlink()
    found = run(files, server)
    assert not found["started"]
    np.testing.assert_allclose(found["y"], expected(files[1], weights), rtol=1e-4, atol=1e-4)


def test_a_file_that_was_changed_just_now_is_not_kept(files: tuple[Path, np.ndarray], server: Server) -> None:
    save(files[0] / "model.onnx", 5)
    soon = RUN.replace("-1000.0", "1000.0")
    run(files, server, soon)
    assert not run(files, server, soon)["started"]


def test_nodes_are_read_from_the_file_that_was_loaded(files: tuple[Path, np.ndarray], server: Server) -> None:
    save(files[0] / "model.onnx", 6)
    run(files, server)
    run(files, server, RUN + """
open(sys.argv[1], "ab").write(b"x")
try:
    graph.nodes
    raise SystemExit("no error")
except polytc.ModelError as error:
    assert "E614" in str(error)
""")


def test_operators_of_the_user_count_whenever_they_are_registered(files: tuple[Path, np.ndarray], server: Server) -> None:
    weights = save(files[0] / "model.onnx", 7)
    late = RUN.replace("model =", 'polytc.graph.register("", "Relu", "op Own(X) -> Y { Y[i, j] = X[i, j] + 1 }")\nmodel =')
    own = ((files[1] @ weights["w"] + weights["b"] + 1) @ weights["v"] * 2).tolist()
    for script, wanted in ((late, own), (RUN, expected(files[1], weights)), (late, own)):
        np.testing.assert_allclose(run(files, server, script)["y"], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.long
def test_a_graph_that_was_found_is_changed_as_any_other(files: tuple[Path, np.ndarray], server: Server) -> None:
    save(files[0] / "model.onnx", 8)
    run(files, server)
    assert run(files, None, RUN + """
import copy, dataclasses, pickle
again = polytc.graph.load_onnx(sys.argv[1])
other = dataclasses.replace(again, name="other")
assert other.name == "other" and other.nodes == again.nodes and type(other) is type(again)
assert "origin" not in vars(other)
for each in (graph, again):
    assert [n.op for n in pickle.loads(pickle.dumps(each)).nodes] == [n.op for n in copy.deepcopy(each).nodes]
""")["started"]
