"""The lint of launches: what it warns of, and what it does not."""

from __future__ import annotations

import pytest

import polytc
from polytc import compiler
from polytc.explanation import explain
from polytc.export import bundle
from polytc.machine import DEVICES
from polytc.targets.opencl.starvation import Starving
from polytc.targets.opencl.target import OpenCLTarget

GPUS = ("nvidia-sm90", "amd-gfx90a", "intel-xe", "mali")


def lowered(text: str, shapes: dict[str, tuple[int, ...]], device: str = "nvidia-sm90", schedule: str | None = None
            ) -> compiler.Lowered:
    return compiler.lower_program(polytc.build(text, shapes), OpenCLTarget(DEVICES[device]), schedule)


def found(text: str, shapes: dict[str, tuple[int, ...]], device: str = "nvidia-sm90", schedule: str | None = None
          ) -> tuple[Starving, ...]:
    return lowered(text, shapes, device, schedule).starving


@pytest.mark.parametrize("device", GPUS)
def test_one_item_for_what_many_could_do_starves(device: str) -> None:
    (one,) = found("Y[i] = 2*X[i]", {"X": (1 << 20,)}, device, "program")
    assert (one.groups, one.items, one.used, one.available) == (1, 1, 1, 1 << 20)
    assert one.needed == 2 * DEVICES[device].cores
    assert (one.statement, one.statements) == ("S1", ("S1",))
    assert one.seconds > 100 * one.least > 0
    assert "1 group of 1 item," in str(one)
    assert "S1 has 1,048,576 independent instances, 1 item takes them: i carries nothing and runs in the items" in str(one)
    assert not found("Y[i] = 2*X[i]", {"X": (1 << 20,)}, device)


@pytest.mark.parametrize(("text", "told"), [
    ("s += X[i]", "each adds up i, 1,048,576 terms one after another"),
    ("def f(i32[1048576] X) -> (i32[64] H) { H[X[i]] += 1 }", "memory says where H is written, so that i runs in one item"),
])
def test_the_reason_is_the_loop_that_no_items_divide(text: str, told: str) -> None:
    longest = max(found(text, {} if "def" in text else {"X": (1 << 20,)}, schedule="program"), key=lambda x: x.seconds)
    assert told in longest.reason


@pytest.mark.parametrize("text", [
    "Y[i] = 2*X[i]",                                                                # too short to matter
    "for i in 1:4000 { X[i] = X[i-1]*X[i-1] }",                                     # there is no more parallelism
])
def test_what_does_not_starve(text: str) -> None:
    program = f"def f(inout f32[4000] X) -> (X) {{ {text} }}" if "for" in text else text
    assert found(program, {"X": (4000,)}, schedule="program" if "for" in text else None) == ()


@pytest.mark.part(2)
@pytest.mark.parametrize("device", GPUS)
@pytest.mark.parametrize(("text", "open_", "typical"), [
    ("Y[i] = 2*X[i]", {"X": ("n",)}, {"n": 1 << 20}),
    ("s += X[i]", {"X": ("n",)}, {"n": 1 << 20}),
    ("C[i,j] += A[i,k]*B[k,j]", {"A": (64, "k"), "B": ("k", "n")}, {"n": 64, "k": 100_000}),
    ("Y[i,j] = X[2*i,j] + 1.0", {"X": ("n", "m")}, {"n": 1999, "m": 1021}),
])
def test_open_sizes_are_judged_at_typical_ones(device: str, text: str, open_: dict[str, tuple[int | str, ...]],
                                               typical: dict[str, int]) -> None:
    """What the order of the text leaves to one item, for open sizes as for fixed ones."""
    numbers = {name: tuple(typical[d] if isinstance(d, str) else d for d in shape) for name, shape in open_.items()}
    fixed = found(text, numbers, device, "program")
    program = polytc.build(text, open_, typical=typical)
    judged = compiler.lower_program(program, OpenCLTarget(DEVICES[device]), "program").starving
    assert fixed
    assert [(x.kernel, x.used, x.available, x.seconds, x.least) for x in judged] == \
        [(x.kernel, x.used, x.available, x.seconds, x.least) for x in fixed]
    assert [x.reason.split(",")[1] for x in judged] == [x.reason.split(",")[1] for x in fixed], "iterations or terms"


def test_loops_around_launches_of_open_sizes_are_judged() -> None:
    text = "def f(f32[n] X) -> (Y) { T[i,0] = X[i]; for j in 1:9 { T[i,j] = T[i,j-1]*X[i] where i in 0:n }; Y[i] = T[i,8] }"
    program = polytc.build(text, {"X": ("n",)}, typical={"n": 4000})
    assert compiler.lower_program(program, OpenCLTarget(DEVICES["nvidia-sm90"])).starving == ()


def test_small_typical_sizes_do_not_starve() -> None:
    for n, starve in ((64, False), (1 << 20, True)):
        program = polytc.build("Y[i] = 2*X[i]", {"X": ("n",)}, typical={"n": n})
        assert bool(compiler.lower_program(program, OpenCLTarget(DEVICES["nvidia-sm90"]), "program").starving) == starve


def test_processors_are_not_judged() -> None:
    program = polytc.build("Y[i] = 2*X[i]", {"X": (1 << 20,)})
    assert compiler.lower_program(program, "cpu", "program").starving == ()
    assert compiler.lower_program(program, OpenCLTarget(DEVICES["pocl-cpu"]), "program").starving == ()


def test_explain_and_export_warn() -> None:
    low = lowered("Y[i] = 2*X[i]", {"X": (1 << 20,)}, schedule="program")
    explained = explain(low, measure=False)
    assert explained.starving == low.starving
    assert f"Launches that starve\n====================\n{low.starving[0]}\n" in str(explained)
    assert "starves: " in explained.html
    fed = explain(lowered("Y[i] = 2*X[i]", {"X": (1 << 20,)}), measure=False)
    assert "starve" not in str(fed)
    assert "starves: " not in fed.html
    wide = bundle.of_program(polytc.build("Y[i] = 2*X[i]", {"X": (1 << 20,)}), OpenCLTarget(DEVICES["nvidia-sm90"]))
    assert wide.starving == ()
