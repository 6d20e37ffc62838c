"""The strategy on machines that are not here: what it decides from their descriptions, and what LLVM makes of that."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polytc import compiler
from polytc.codegen import loops, traverse
from polytc.codegen.passes import unrolling
from polytc.lang import build
from polytc.machine import AVX2, AVX512, NEON, SVE
from polytc.native import jit
from polytc.targets.llvm.target import LLVMTarget

MACHINES = {"AVX2": AVX2, "AVX512": AVX512, "NEON": NEON, "SVE": SVE}
PROCESSORS = {"AVX2": ("x86_64-unknown-linux-gnu", "haswell", ""), "AVX512": ("x86_64-unknown-linux-gnu", "skylake-avx512", ""),
              "NEON": ("aarch64-unknown-linux-gnu", "neoverse-n1", "+neon"),
              "SVE": ("aarch64-unknown-linux-gnu", "neoverse-v1", "+neon,+sve")}
"""LLVM's triple, processor and features."""

PROGRAMS: dict[str, tuple[str, dict[str, tuple[int, ...]]]] = {
    "matmul": ("C[i,j] += A[i,k]*B[k,j]", {"A": (256, 256), "B": (256, 256)}),
    "transposed matmul": ("C[i,j] += A[i,k]*B[j,k]", {"A": (96, 128), "B": (160, 128)}),
    "1x1 convolution": ("O[m,h,w] += I[c,h,w]*W[m,c]", {"I": (64, 28, 28), "W": (128, 64)}),
    "strided convolution": ("O[m,h,w] += I[c,2*h+r,2*w+s]*W[m,c,r,s] where h in 0:14, w in 0:16",
                            {"I": (32, 29, 33), "W": (64, 32, 3, 3)}),
    "depthwise convolution": ("O[c,h,w] += I[c,h+r,w+s]*W[c,r,s]", {"I": (64, 30, 30), "W": (64, 3, 3)}),
    "row sums": ("S[i] += X[i,j]", {"X": (128, 1000)}),
    "column sums": ("S[j] += X[i,j]", {"X": (128, 1000)}),
    "element-wise": ("Y[i,j] = max(X[i,j]*2 + 1, 0)", {"X": (64, 1000)}),
}


def nodes(module: loops.Module) -> list[loops.Stmt]:
    """All statements, the copies of loops one by one."""
    return [s for k in module.kernels for s in traverse.walk_stmt(unrolling.written_out(k.body))]


def accumulators(module: loops.Module) -> int:
    """Vectors that an innermost loop updates in each iteration, in registers: the most of any loop."""
    most = 0
    for s in nodes(module):
        if isinstance(s, loops.For) and not any(isinstance(x, loops.For) for x in traverse.walk_stmt(s.body)):
            own = {x.buffer.name for x in traverse.walk_stmt(s.body) if isinstance(x, loops.Alloc)}
            kept = {(x.buffer.name, x.indices) for x in traverse.walk_stmt(s.body) if isinstance(x, loops.Store)
                    and x.buffer.space == "private" and x.value.lanes > 1 and x.buffer.name not in own
                    and any((e.buffer, e.indices) == (x.buffer, x.indices) for e, _ in traverse.loads(x.value))}
            most = max(most, len(kept))
    return most


TILED = ("matmul", "transposed matmul", "1x1 convolution", "strided convolution")


@pytest.mark.part(7)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_vectors_are_as_wide_as_the_machine_and_a_loop_is_parallel(name: str, machine: str) -> None:
    m = MACHINES[machine]
    module = compiler.lower_program(build(*PROGRAMS[name]), LLVMTarget(m)).loops
    widths = {s.value.lanes for s in nodes(module) if isinstance(s, loops.Store)}
    assert max(widths) == m.lanes(4)
    main = module.kernels[-1]  # those before it pack operands
    assert any(isinstance(s, loops.For) and s.kind == "parallel" for s in traverse.walk_stmt(main.body))
    if name in TILED:
        assert m.fma_latency * m.fma_ports <= accumulators(module) < m.vector_registers, "tiles hide the latency and fit"


def test_a_large_operand_is_packed_in_panels_as_wide_as_the_tile() -> None:
    program = replace(build(*PROGRAMS["transposed matmul"]), constants=("B",))
    for m in MACHINES.values():
        low = compiler.lower_program(program, LLVMTarget(m))
        panels = [t for t in low.rewritten.tensors if t.name.startswith("B_packed")]
        assert panels
        assert panels[0].shape[-1] % m.lanes(4) == 0


@settings(max_examples=5, deadline=None)
@given(machine=st.sampled_from(sorted(MACHINES)), i=st.integers(1, 70), j=st.integers(1, 140), k=st.integers(2, 300))
def test_any_tile_fits_the_register_file(machine: str, i: int, j: int, k: int) -> None:
    m = MACHINES[machine]
    if not m.masked:  # the end of a row that is no whole vector takes several smaller ones, which the tile does not count
        j = -(-j // m.lanes(4)) * m.lanes(4)
    low = compiler.lower_program(build("C[i,j] += A[i,k]*B[k,j]", {"A": (i, k), "B": (k, j)}), LLVMTarget(m))
    assert accumulators(low.loops) < m.vector_registers


def innermost(assembly: str) -> list[str]:
    """The lines of the loop with the most multiply-adds among those that have no loop inside."""
    lines = assembly.splitlines()
    at = {line.split(":")[0]: n for n, line in enumerate(lines) if re.match(r"[.\w$]+:", line)}
    spans = [(at[target], n) for n, line in enumerate(lines) if re.match(r"\s+(j\w+|b\.\w+|b|cbn?z|tbn?z)\s", line)
             if (target := re.split(r"[\s,]+", line.split("#")[0].split("//")[0].strip())[-1]) in at and at[target] < n]
    inner = [lines[a:b + 1] for a, b in spans if not any((c, d) != (a, b) and a <= c and d <= b for c, d in spans)]
    return max(inner, key=lambda body: sum(_is_fma(line) for line in body))


def _is_fma(line: str) -> bool:
    return bool(re.search(r"\b(vfmadd|fmla|fmad)", line))


@pytest.mark.part(4)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", ["matmul", "1x1 convolution"])
def test_the_innermost_loop_does_not_spill(name: str, machine: str) -> None:
    triple, cpu, features = PROCESSORS[machine]
    described = replace(MACHINES[machine], cpu=cpu, features=features)
    target = LLVMTarget(described)
    source = compiler.lower_program(build(*PROGRAMS[name]), target).source
    body = innermost(jit.assembly(source.text, cpu, features, jit.Tuning(slp=False, vectorize=False, level=1), triple))
    assert sum(map(_is_fma, body)) >= described.fma_latency * described.fma_ports
    spills = [line for line in body if re.search(r"\(%rsp|\[sp\b", line)]
    assert spills == []
