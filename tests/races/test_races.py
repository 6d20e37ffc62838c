"""A slice of `python -m tests.races`, and that it sees what it looks for."""

from __future__ import annotations

import pytest

from tests import drivers
from tests.races import __main__ as campaign
from tests.races.histograms import TEXTS
from tests.races.stencils import CASES

pytestmark = [pytest.mark.opencl, pytest.mark.skipif(not drivers.available("oclgrind"), reason="oclgrind is not here")]

PARTS = {"polybench": ["atax", "gemm", "jacobi-2d", "lu", "trisolv"],
         "nodes": ["test_conv_with_strides_padding", "test_cumsum_2d_axis_1", "test_softmax_axis_0", "test_top_k"]}
"""A few of each, of different kinds."""
QUICK = {"polybench": ["atax", "trisolv"], "stencils": ["one group", "plane"], "histograms": ["counts", "rows", "ranges"]}
"""Fewer still. Most of what these tests take is oclgrind's, which interprets each instruction."""


@pytest.mark.parametrize(("part", "few"), [pytest.param("polybench", PARTS["polybench"], marks=pytest.mark.long),
                                           pytest.param("nodes", PARTS["nodes"], marks=pytest.mark.long),
                                           ("polybench", QUICK["polybench"])])
def test_kernels_have_no_races_and_are_right(part: str, few: list[str]) -> None:
    found = list(campaign.found(part, few, ["generic-gpu/16"]))
    assert [x.name for x in found] == few
    assert [str(x) for x in found if x.reason] == []


@pytest.mark.long
@pytest.mark.parametrize("machine", ["nvidia-sm90", "amd-gfx90a"])
def test_items_go_through_keys_together(machine: str) -> None:
    few = ["causal", "groups of queries"] if machine == "nvidia-sm90" else campaign.names("attention", 1, "")
    found = list(campaign.found("attention", few, [machine]))
    assert len(found) == len(few)
    assert [str(x) for x in found if x.reason] == []


@pytest.mark.parametrize("machine", ["amd-gfx90a", pytest.param("intel-xe", marks=pytest.mark.long)])
def test_items_share_words_of_bytes(machine: str) -> None:
    few = ["an odd sum"] if machine == "amd-gfx90a" else campaign.names("byte_sums", 1, "")
    found = list(campaign.found("byte_sums", few, [machine]))
    assert [x.name for x in found] == few
    assert [str(x) for x in found if x.reason] == []


@pytest.mark.parametrize(("machine", "few"), [("generic-gpu", QUICK["stencils"]),
                                              pytest.param("generic-gpu", [*CASES], marks=pytest.mark.long),
                                              pytest.param("amd-gfx90a", [*CASES], marks=pytest.mark.long)])
def test_tiles_of_several_iterations(machine: str, few: list[str]) -> None:
    found = list(campaign.found("stencils", few, [machine]))
    assert [x.name for x in found] == few
    assert [str(x) for x in found if x.reason] == []


@pytest.mark.long
@pytest.mark.parametrize(("family", "program", "machine"), [
    ("stencils", "plane", "generic-gpu"), ("byte_sums", "X'", "amd-gfx90a"), ("attention", "causal", "nvidia-sm90")])
def test_programs_without_barriers_are_found(family: str, program: str, machine: str) -> None:
    (found,) = campaign.found(family, [program], [machine], arguments=["broken"])
    assert "data race" in found.reason


def test_kernels_without_barriers_are_found() -> None:
    (found,) = campaign.found("polybench", ["lu"], ["generic-gpu"], arguments=["broken"])
    assert "data race" in found.reason
    assert "A differs" in found.reason


@pytest.mark.parametrize(("machine", "few"), [("generic-gpu/16", QUICK["histograms"]),
                                              pytest.param("generic-gpu/16", [*TEXTS], marks=pytest.mark.long),
                                              pytest.param("amd-gfx90a/32", [*TEXTS], marks=pytest.mark.long)])
def test_items_meet_in_atomic_updates(machine: str, few: list[str]) -> None:
    found = list(campaign.found("histograms", few, [machine]))
    assert [x.name for x in found] == few
    assert [str(x) for x in found if x.reason] == []


@pytest.mark.part(2)
@pytest.mark.parametrize(("broken", "reason"), [
    pytest.param("plain", "Write-write data race", marks=pytest.mark.long), ("broken", "H differs")])
def test_updates_without_atomics_or_barriers_are_found(broken: str, reason: str) -> None:
    found = list(campaign.found("histograms", ["counts", "ranges"], ["generic-gpu/32"], arguments=[broken]))
    assert [x.name for x in found if reason in x.reason] == ["counts", "ranges"], [*map(str, found)]


@pytest.mark.long
def test_all_kernels_of_polybench() -> None:
    chosen = campaign.names("polybench", 1, "")
    assert [str(x) for x in campaign.found("polybench", chosen, [*campaign.MACHINES]) if x.reason] == []


def test_what_runs() -> None:
    assert len(campaign.names("polybench", 1, "")) == 30
    assert campaign.names("polybench", 1, "^lu$") == ["lu"]
