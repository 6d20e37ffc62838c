"""polytc's own targets do what polytc.testing asks of every target, and targets that err do not pass."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from polytc.codegen import loops, traverse
from polytc.codegen.target import Source
from polytc.errors import TargetError
from polytc.machine import GENERIC_CPU
from polytc.targets.interp import InterpTarget
from polytc.targets.llvm.target import LLVMTarget
from polytc.targets.opencl.target import OpenCLTarget
from polytc.testing import TargetSuite
from polytc.testing.cases import CASES, Case
from tests.aarch64_here import EmulatedArm, unicorn
from tests.cuda_here import COMPILER, CompiledCuda
from tests.opencl_here import NEEDS_OPENCL


@pytest.mark.part(3)
class TestCpu(TargetSuite):
    target = LLVMTarget()


@pytest.mark.part(3)
class TestInterp(TargetSuite):
    target = InterpTarget(replace(GENERIC_CPU, vector_bytes=1))


class TestOpenCL(TargetSuite):
    pytestmark = NEEDS_OPENCL + [pytest.mark.part(4)]
    target = OpenCLTarget()


@pytest.mark.part(12)
@pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")
class TestCuda(TargetSuite):
    target = CompiledCuda(name="cuda_on_the_processor")


@pytest.mark.part(9)
@pytest.mark.skipif(unicorn is None, reason="there is no emulator")
class TestArm(TargetSuite):
    target = EmulatedArm()


def test_cases_have_names_of_their_own() -> None:
    assert len({c.name for c in CASES}) == len(CASES)


@dataclass(frozen=True)
class Wrong(InterpTarget):
    """Changes the loops before it emits them. how: the name of a fault."""

    how: str = ""

    def emit(self, module: loops.Module) -> Source:
        kernels = tuple(replace(k, body=traverse.map_stmt(k.body, FAULTS[self.how], lambda e: e)) for k in module.kernels)
        return super().emit(replace(module, kernels=kernels))


def _shorter(s: loops.Stmt) -> loops.Stmt:
    return replace(s, upper=loops.binary("-", s.upper, loops.const(1))) if isinstance(s, loops.For) else s


def _later(s: loops.Stmt) -> loops.Stmt:
    return replace(s, lower=loops.binary("+", s.lower, loops.const(1))) if isinstance(s, loops.For) else s


def _unconditional(s: loops.Stmt) -> loops.Stmt:
    return s.then if isinstance(s, loops.If) else s


def _without_sums(s: loops.Stmt) -> loops.Stmt:
    """Stores of sums store the first operand."""
    plus = isinstance(s, loops.Store) and isinstance(s.value, loops.Binary) and s.value.op == "+"
    return replace(s, value=s.value.a) if plus else s  # type: ignore[union-attr]


FAULTS = {f.__name__: f for f in (_shorter, _later, _unconditional, _without_sums)}


@pytest.mark.parametrize("how", FAULTS)
def test_a_target_that_errs_does_not_pass(how: str) -> None:
    suite = type("Suite", (TargetSuite,), {"target": Wrong(how=how)})()

    def passes(case: Case) -> bool:
        try:
            suite.test_results(case, "program", 1)
        except (AssertionError, TargetError):
            return False
        return True
    assert not all(map(passes, reversed(CASES)))
