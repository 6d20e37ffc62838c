"""The limit of memory around the reference."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from polytc.graph.tools import verify
from polytc.graph.tools.memory_limit import memory_limit

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell their free memory")


def test_more_than_there_is_raises() -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(MemoryError), memory_limit(1 << 28):
        np.ones(1 << 28)
    assert resource.getrlimit(resource.RLIMIT_AS) == before
    with memory_limit(1 << 32):
        np.ones(1 << 20)


def test_a_reference_that_wants_too_much_is_not_asked(build, monkeypatch) -> None:
    """A window of 3 x 3, 24 apart: 49 x 49 mostly zeros for onnx's evaluator. ONNX Runtime answers instead."""
    from onnx import helper

    pytest.importorskip("onnxruntime")
    limits = []
    monkeypatch.setattr(verify, "memory_limit", lambda: limits.append(1) or memory_limit(1 << 28))
    r = np.random.default_rng(0)
    source = build([helper.make_node("Conv", ["x", "w"], ["y"], dilations=[24, 24], pads=[24] * 4)],
                   {"x": (np.float32, [1, 160, 33, 33])}, ["y"], {"w": r.standard_normal((4, 160, 3, 3)).astype(np.float32)})
    graph, feeds = verify.imported(source), {"x": r.standard_normal((1, 160, 33, 33)).astype(np.float32)}
    (finding,) = verify.nodes(graph, feeds, "cpu")
    assert limits
    assert finding.error is not None
    assert not finding.wrong
