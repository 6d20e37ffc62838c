"""Reductions of which items would read what other items make: the makers are kernels of their own; against numpy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from polytc import compiler, stages
from polytc.codegen.target import Target
from polytc.machine import DEVICES, GENERIC_GPU
from polytc.rewrite.gpu import work_group_shape
from polytc.schedule.facts.fusion_groups import partition
from polytc.targets.interp import InterpTarget
from polytc.targets.opencl.target import OpenCLTarget

CASES: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "mirrored": ("T[b,i] = X[b,i] + 1; U[b,i] = T[b,i]*2; s[b] += T[b,59-i]*U[b,59-i]; Z[b] = s[b]*2 -> (Z)",
                 lambda X: 4 * ((X + 1)**2).sum(1)),
    "its own": ("T[b,i] = X[b,i] + 1; s[b] += T[b,i]*T[b,i]; Z[b,i] = T[b,i] + s[b] -> (Z)",
                lambda X: X + 1 + ((X + 1)**2).sum(1, keepdims=True)),
    "behind": ("m[b] max= X[b,i]; E[b,i] = X[b,i] - m[b]; s[b] += E[b,i]; Z[b,i] = E[b,59-i] + s[b] -> (Z)",
               lambda X: (X - X.max(1, keepdims=True))[:, ::-1] + (X - X.max(1, keepdims=True)).sum(1, keepdims=True)),
    "shifted": ("T[b,i] = X[b,i] + 1; s[b] += T[b,i+1] - T[b,i] where i in 0:59; Z[b] = s[b] + 1 -> (Z)",
                lambda X: X[:, -1] - X[:, 0] + 1)}


@pytest.mark.part(2)
@pytest.mark.parametrize("name", CASES)
def test_results_and_launches(name: str, targets: tuple[str, ...]) -> None:
    text, expected = CASES[name]
    x = np.random.default_rng(4).integers(-3, 4, (40, 60)).astype(np.float32)
    p = stages.build(text, {"X": x.shape})
    for target in (InterpTarget(GENERIC_GPU), *([OpenCLTarget(GENERIC_GPU)] if "opencl" in targets else [])):
        result = np.full(p.tensor("Z").shape, 77, np.float32)
        assert isinstance(target, Target)
        compiler.compile_program(p, target).run([x, result])
        np.testing.assert_allclose(result, expected(x), rtol=1e-6, err_msg=target.name)
    low = compiler.lower_program(stages.build(text, {"X": (2000, 60)}), OpenCLTarget(DEVICES["nvidia-sm90"]))
    assert "refused" not in low.schedule.how
    assert all(launch.global_size[0] > 1 for launch in low.source.launches)


@pytest.mark.parametrize(("name", "tensor"), [("mirrored", "T"), ("its own", ""), ("behind", "E")])
def test_what_items_would_hand_on(name: str, tensor: str) -> None:
    p = stages.build(CASES[name][0], {"X": (40, 60)})
    group = max(partition(p, "smart"), key=lambda g: len(g.statements))
    dealt = tuple((g[0].index if (g := group.inner(n)) else "") for n in range(len(group.statements)))
    assert work_group_shape.hands_on(group, dealt) == tensor
    assert (len(work_group_shape.apart(p, group)) > 1) == bool(tensor)
