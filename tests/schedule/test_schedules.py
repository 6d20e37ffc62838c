"""Strategies by their structure; transforms and YAML by legality, with witnesses."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest

from polytc import compiler, errors
from polytc.codegen import loops, traverse
from polytc.lang import build
from polytc.machine import AVX2, AVX512, GENERIC_CPU, GENERIC_GPU, NEON, Machine
from polytc.poly import dependences, scheduler, scop
from polytc.schedule import automatic, isl_schedule, transforms, tree
from polytc.targets.llvm.target import LLVMTarget

MATMUL = ("C[i,j] += A[i,k]*B[k,j]", {"A": (96, 64), "B": (64, 96)})


def facts(text: str, shapes: dict[str, tuple[int, ...]]) -> tuple[scop.Scop, dependences.Dependences]:
    found = scop.extract(build(text, shapes))
    return found, dependences.analyse(found)


def shape_of(module: loops.Module) -> Counter[str]:
    """How many kernels, loops of each kind, scratch buffers and register arrays."""
    count = Counter({"kernels": len(module.kernels), "scratch": len(module.scratch)})
    for k in module.kernels:
        for s in traverse.walk_stmt(k.body):
            if isinstance(s, loops.For):
                count[s.kind] += 1
            elif isinstance(s, loops.Alloc):
                count[s.buffer.space] += 1
    return count


def lowered(text: str, shapes: dict[str, tuple[int, ...]], machine: Machine) -> loops.Module:
    return compiler.lower_program(build(text, shapes), LLVMTarget(machine)).loops


@pytest.mark.parametrize("machine", [GENERIC_CPU, AVX2, AVX512, NEON])
def test_matmul_is_one_kernel_with_accumulators_in_registers(machine: Machine) -> None:
    module = lowered(*MATMUL, machine)
    shape = shape_of(module)
    assert shape["kernels"] == 1
    assert shape["scratch"] == 0
    tiles = [s.buffer for s in traverse.walk_stmt(module.kernels[0].body) if isinstance(s, loops.Alloc)]
    assert tiles
    assert all(len(t.shape) == 2 for t in tiles), "rows of vectors"
    biggest = max(t.size * 4 // machine.vector_bytes for t in tiles)
    assert machine.fma_latency * machine.fma_ports <= biggest < machine.vector_registers


def test_epilogue_is_fused_and_the_temporary_vanishes() -> None:
    module = lowered("T[i,j] += A[i,k]*B[k,j]; Y[i,j] = max(T[i,j] + b[j], 0)", {**MATMUL[1], "b": (96,)}, AVX2)
    assert shape_of(module)["kernels"] == 1
    assert module.scratch == ()


def test_softmax_is_one_kernel_over_rows() -> None:
    text = "M[i] max= X[i,j]; E[i,j] = exp(X[i,j]-M[i]); S[i] += E[i,j]; Y[i,j] = E[i,j]/S[i]"
    module = lowered(text, {"X": (64, 128)}, AVX2)
    assert shape_of(module)["kernels"] == 1
    assert module.scratch == ()


def test_elementwise_chain_is_one_flat_vector_loop() -> None:
    module = lowered("A[i,j,k]=X[i,j,k]+1; Y[i,j,k]=A[i,j,k]*A[i,j,k]*2", {"X": (16, 8, 8)}, AVX2)
    shape = shape_of(module)
    assert (shape["kernels"], shape["scratch"], shape["sequential"] + shape["parallel"]) == (1, 0, 1)


def test_dot_products_get_lanes_of_partial_sums() -> None:
    module = lowered("C[i,j] += A[i,k]*B[j,k]", {"A": (4, 64), "B": (32, 64)}, AVX2)
    tiles = [s.buffer for s in traverse.walk_stmt(module.kernels[0].body) if isinstance(s, loops.Alloc)]
    assert any(t.shape[-1] == 8 for t in tiles)
    assert module.scratch == ()


def test_gpu_maps_the_contiguous_loop_to_the_fastest_axis() -> None:
    found, deps = facts(*MATMUL)
    schedule = automatic.schedule(found, deps, GENERIC_GPU)
    assert 'mark: "G0 block1 block0"' in str(schedule)
    assert 'mark: "G0.thread thread1 thread0"' in str(schedule)
    assert "[((j) mod 32)]" in str(schedule).replace("(j mod 32)", "((j) mod 32)")


def test_yaml_round_trip() -> None:
    found, deps = facts(*MATMUL)
    text = str(automatic.schedule(found, deps, AVX2))
    assert str(automatic.schedule(found, deps, AVX2, text)) == text


def test_yaml_of_another_program_is_refused() -> None:
    found, deps = facts(*MATMUL)
    other, other_deps = facts("C[i,j] += A[i,k]*B[k,j]", {"A": (95, 64), "B": (64, 96)})
    text = str(automatic.schedule(found, deps, AVX2))
    with pytest.raises(errors.CompileError, match="another program") as info:
        automatic.schedule(other, other_deps, AVX2, text)
    assert info.value.code == "E703"


def test_text_that_is_no_schedule_is_refused() -> None:
    found, deps = facts(*MATMUL)
    with pytest.raises(errors.CompileError) as info:
        automatic.schedule(found, deps, AVX2, "domain: nonsense")
    assert info.value.code == "E702"


def test_an_illegal_schedule_is_refused_with_two_instances() -> None:
    found, deps = facts("T[i] = X[i]*2; Y[i] = T[7-i]+1 where i in 0:8", {"X": (8,)})
    text = ('{ domain: "{ S1[i] : 0 <= i <= 7; S2[i] : 0 <= i <= 7 }", child: { '
            'schedule: "[{ S1[i] -> [(i)]; S2[i] -> [(i)] }]", '
            'child: { sequence: [ { filter: "{ S1[i] }" }, { filter: "{ S2[i] }" } ] } } }')
    with pytest.raises(errors.IllegalTransform) as info:
        automatic.schedule(found, deps, AVX2, text)
    assert info.value.code == "E701"
    assert "S1[i=" in str(info.value)
    assert "S2[i=" in str(info.value)


def test_a_parallel_reduction_is_refused() -> None:
    found, deps = facts("S[] += X[i]", {"X": (8,)})
    text = ('{ domain: "{ S1_init[]; S1[i] : 0 <= i <= 7 }", child: { sequence: [ { filter: "{ S1_init[] }" }, '
            '{ filter: "{ S1[i] }", child: { mark: "loop parallel", child: { schedule: "[{ S1[i] -> [(i)] }]" } } } ] } }')
    with pytest.raises(errors.IllegalTransform) as info:
        automatic.schedule(found, deps, AVX2, text)
    assert info.value.code == "E704"


def test_tile_and_interchange() -> None:
    found, deps = facts(*MATMUL)
    start = tree.checked(tree.Schedule(found.original, "program order"), deps)
    swapped = transforms.interchange(start, "S1", [2, 0, 1], deps)
    tiled = transforms.tile(swapped, "S1", [16, 8, 4], deps)
    assert "S1.tile" in str(tiled)
    assert tree.checked(tiled, deps) is tiled
    with pytest.raises(errors.CompileError) as info:
        transforms.tile(start, "nowhere", [1], deps)
    assert info.value.code == "E705"
    with pytest.raises(errors.CompileError, match="permutation"):
        transforms.interchange(start, "S1", [0, 0, 1], deps)


def test_budget_falls_back_to_program_order(monkeypatch: pytest.MonkeyPatch) -> None:
    found, deps = facts(*MATMUL)
    monkeypatch.setattr(scheduler, "FIRST", 100)
    monkeypatch.setattr(scheduler, "NUMERIC_ATTEMPTS", (scheduler.Attempt(100, 1.0),))
    schedule = isl_schedule.schedule(found, deps)
    assert schedule.how.startswith("program order")
    assert "operations" in schedule.how


def test_isl_scheduler_tiles_and_parallelises() -> None:
    found, deps = facts(*MATMUL)
    schedule = isl_schedule.schedule(found, deps)
    assert "parallel parallel sequential" in str(schedule)
    assert "mod 32" in str(schedule)


def test_a_long_reduction_is_cut_so_that_its_panel_stays_in_the_second_cache() -> None:
    shapes = {"I": (256, 30, 30), "W": (48, 256, 3, 3)}
    program = build("O[m,h,w] += I[c,h+r,w+s]*W[m,c,r,s]; Y[m,h,w] = max(O[m,h,w], 0)", shapes)
    program = replace(program, constants=("W",), direct=True)
    low = compiler.lower_program(program, LLVMTarget(AVX2))
    assert low.prologue is not None
    assert 'mark: "G0.S1.block sequential"' in str(low.schedule)
    packed = low.rewritten.tensor("W_packed")
    cut = re.search(r"\(\(?c\)? mod (\d+)\)", str(low.schedule))
    assert cut is not None
    size = int(cut[1])
    assert packed.shape[-1] * 9 * size * 4 <= AVX2.caches[1].bytes // 4


def test_a_matrix_read_once_is_walked_along_its_rows() -> None:
    """A vector times a matrix: the reduction runs in short blocks outside of the loop over columns."""
    program = build("y[j] += x[k]*A[k,j]", {"x": (2048,), "A": (2048, 4096)})
    text = str(compiler.lower_program(program, LLVMTarget(AVX512)).schedule)
    assert "floor((k)/8)" in text
    assert text.index("floor((k)/8)") < text.index("S1[j, k] -> [((j) mod")
