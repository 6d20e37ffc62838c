"""Statements over triangles, bands and strided domains: what the strategy makes of them, and that it is right."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import polytc
from polytc import compiler
from polytc.codegen import loops, traverse
from polytc.codegen.passes import unrolling
from polytc.errors import CompileError
from polytc.machine import AVX2, AVX512, NEON, SVE, Machine
from polytc.stages import build
from polytc.targets.llvm.target import LLVMTarget
from tests.processor_here import target_for

MACHINES = {"AVX2": AVX2, "AVX512": AVX512, "NEON": NEON, "SVE": SVE}
Reference = Callable[..., np.ndarray]

PROGRAMS: dict[str, tuple[str, dict[str, tuple[int, ...]], Reference]] = {
    "syrk": ("C[i,j] += A[i,k]*A[j,k] where j <= i", {"A": (45, 19)}, lambda a: np.tril(a @ a.T)),
    "syr2k": ("C[i,j] += A[i,k]*B[j,k] + B[i,k]*A[j,k] where j <= i", {"A": (31, 18), "B": (31, 18)},
              lambda a, b: np.tril(a @ b.T + b @ a.T)),
    "upper triangle": ("C[i,j] += A[k,i]*A[k,j] where j >= i", {"A": (18, 43)}, lambda a: np.triu(a.T @ a)),
    "triangular operand": ("C[i,j] += A[i,k]*B[k,j] where k <= i", {"A": (29, 29), "B": (29, 41)}, lambda a, b: np.tril(a) @ b),
    "transposed triangular operand": ("C[i,j] += A[k,i]*B[k,j] where k >= i", {"A": (29, 29), "B": (29, 41)},
                                      lambda a, b: np.tril(a).T @ b),
    "band": ("C[i,j] += A[i,k]*B[k,j] where k <= i + 3, i <= k + 4", {"A": (29, 29), "B": (29, 41)},
             lambda a, b: (np.tril(a, 3) * np.triu(np.ones_like(a), -4)) @ b),
    "both triangular": ("C[i,j] += A[i,k]*B[k,j] where k <= i, j <= k", {"A": (33, 33), "B": (33, 33)},
                        lambda a, b: np.tril(a) @ np.tril(b)),
    "symmetric operand": ("T[i,j] = j <= i ? A[i,j] : A[j,i] where i in 0:27; C[i,j] += T[i,k]*B[k,j]",
                          {"A": (27, 27), "B": (27, 35)}, lambda a, b: (np.tril(a) + np.tril(a, -1).T) @ b),
    "triangular vector": ("y[i] += A[i,k]*x[k] where k <= i", {"A": (61, 61), "x": (61,)}, lambda a, x: np.tril(a) @ x),
    "row maxima": ("m[i] max= A[i,k] where k <= i", {"A": (61, 61)},
                   lambda a: np.array([r[:i + 1].max() for i, r in enumerate(a)])),
    "column sums": ("s[j] += A[i,j] where j <= i", {"A": (37, 37)}, lambda a: np.tril(a).sum(0)),
    "both halves": ("C[i,j] = A[i,j] where j <= i; C[i,j] = 2*A[j,i] where j > i", {"A": (37, 37)},
                    lambda a: np.tril(a) + 2 * np.triu(a.T, 1)),
    "every second row": ("C[i,j] += A[i,k]*B[k,j] where i % 2 == 0", {"A": (13, 9), "B": (9, 21)},
                         lambda a, b: np.where((np.arange(13) % 2 == 0)[:, None], a @ b, 0)),
    "every second column": ("C[i,j] = A[i,j] where j % 2 == 0; C[i,j] = 3*A[i,j] where j % 2 == 1", {"A": (5, 41)},
                            lambda a: np.where(np.arange(41) % 2 == 0, a, 3 * a)),
    "every second step": ("s[i] += A[i,k] where k % 2 == 0", {"A": (7, 50)}, lambda a: a[:, ::2].sum(1)),
}


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    s = np.where(np.tril(np.ones((len(q), len(q)))) > 0, q @ k.T, -np.inf)
    e = np.exp(s - s.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True) @ v


PROGRAMS["causal attention"] = ("""S[i,j] += Q[i,d]*K[j,d] where j <= i
    M[i] max= S[i,j] where j <= i; E[i,j] = exp(S[i,j] - M[i]) where j <= i; Z[i] += E[i,j] where j <= i
    O[i,d] += E[i,j] / Z[i] * V[j,d] where j <= i; -> (O)""", dict.fromkeys("QKV", (35, 11)), attention)


def run(text: str, machine: Machine, target: str, arrays: dict[str, np.ndarray]) -> np.ndarray:
    program = build(text, {n: a.shape for n, a in arrays.items()}, dict.fromkeys(arrays, "f64"))
    out = np.full(program.tensor(program.outputs[0]).shape, 99.0)
    compiler.compile_program(program, target_for(machine, target), 2).run([*(arrays[n] for n in program.inputs), out])
    return out


QUICK = ("NEON", "interp"), ("AVX512", "cpu")
PRODUCTS = ("syrk", "syr2k", "upper triangle", "triangular operand", "transposed triangular operand", "band", "both triangular",
            "symmetric operand", "causal attention")
"""What takes long. Quick are a machine with masks, compiled, one without, in the interpreter, and, of syrk, the other way."""
FEWER = {45: 23, 41: 23, 43: 23, 35: 19, 33: 19, 31: 19, 29: 19}
"""Extents for the interpreter, which runs loops in Python."""


@pytest.mark.part(22)
@pytest.mark.parametrize(("name", "machine", "target"), [
    pytest.param(name, *on, marks=pytest.mark.long if name in PRODUCTS[1:] and on not in QUICK else ())
    for name in PROGRAMS for on in (*QUICK, ("AVX512", "interp"), ("AVX2", "cpu"))])
def test_results(name: str, machine: str, target: str) -> None:
    text, shapes, reference = PROGRAMS[name]
    if target == "interp" and name in PRODUCTS:
        shapes = {n: tuple(FEWER.get(extent, extent) for extent in s) for n, s in shapes.items()}
    rng = np.random.default_rng(0)
    arrays = {n: rng.standard_normal(s) for n, s in shapes.items()}
    np.testing.assert_allclose(run(text, MACHINES[machine], target, arrays), reference(*arrays.values()), rtol=1e-9, atol=1e-9)


def nodes(module: loops.Module) -> list[loops.Stmt]:
    """All statements, the copies of loops one by one."""
    return [s for k in module.kernels for s in traverse.walk_stmt(unrolling.written_out(k.body))]


def accumulators(module: loops.Module) -> int:
    """Vectors that an innermost loop updates in registers: the most of any loop."""
    inner = [s for s in nodes(module) if isinstance(s, loops.For) and not any(isinstance(x, loops.For) for x in
                                                                              traverse.walk_stmt(s.body))]
    return max((len({x.indices for x in traverse.walk_stmt(s.body) if isinstance(x, loops.Store) and x.value.lanes > 1
                     and any((e.buffer, e.indices) == (x.buffer, x.indices) and e.buffer.space == "private"
                             for e, _ in traverse.loads(x.value))}) for s in inner), default=0)


LARGE: dict[str, dict[str, tuple[int, ...]]] = {
    "syrk": {"A": (300, 200)}, "syr2k": {"A": (300, 200), "B": (300, 200)}, "upper triangle": {"A": (200, 300)},
    "triangular operand": {"A": (300, 300), "B": (300, 240)},
    "transposed triangular operand": {"A": (300, 300), "B": (300, 240)}}


FULL = {("syr2k", "NEON"), ("upper triangle", "AVX2"), ("triangular operand", "AVX2"), ("triangular operand", "AVX512"),
        ("transposed triangular operand", "SVE"), *(("syrk", m) for m in MACHINES)}
"""Each program and each machine at least once: the others are long."""


@pytest.mark.part(4)
@pytest.mark.parametrize(("name", "machine"), [
    pytest.param(n, m, marks=() if (n, m) in FULL else pytest.mark.long) for n in LARGE for m in MACHINES])
def test_full_tiles_are_those_of_a_box(name: str, machine: str) -> None:
    """Accumulators enough to hide the latency of the multiply-adds, in registers, and vectors as wide as the machine's."""
    m = MACHINES[machine]
    program = build(PROGRAMS[name][0], LARGE[name], dict.fromkeys(LARGE[name], "f64"))
    module = compiler.lower_program(program, LLVMTarget(m)).loops
    assert m.fma_latency * m.fma_ports <= accumulators(module) < m.vector_registers
    assert max(s.value.lanes for s in nodes(module) if isinstance(s, loops.Store)) == m.lanes(8)
    assert any(isinstance(s, loops.For) and s.kind == "parallel" for s in nodes(module))


@pytest.mark.parametrize("name", ["syrk", "upper triangle"])
def test_tiles_on_the_diagonal_are_masked_vectors(name: str) -> None:
    """All stores of the updates are vectors: none is left to single iterations."""
    program = build(PROGRAMS[name][0], LARGE[name], dict.fromkeys(LARGE[name], "f64"))
    module = compiler.lower_program(program, LLVMTarget(AVX512)).loops
    main = traverse.walk_stmt(module.kernels[-1].body)
    assert all(s.value.lanes > 1 for s in main if isinstance(s, loops.Store))


condition = st.tuples(st.sampled_from(["i", "j", "k"]), st.sampled_from(["i", "j", "k"]), st.integers(1, 2), st.integers(-6, 6),
                      st.sampled_from(["<=", ">=", "<", ">"]))


domains = given(conditions=st.lists(condition, min_size=1, max_size=2), sizes=st.tuples(*[st.integers(1, 40)] * 3),
                machine=st.sampled_from(sorted(MACHINES)), transposed=st.booleans(), target=st.sampled_from(["cpu", "interp"]))
Conditions = list[tuple[str, str, int, int, str]]


@settings(max_examples=3, deadline=None)
@domains
def test_any_domain(conditions: Conditions, sizes: tuple[int, int, int], machine: str, transposed: bool, target: str) -> None:
    any_domain(conditions, sizes, machine, transposed, target)


@pytest.mark.long
@settings(max_examples=200, deadline=None)
@domains
def test_many_domains(conditions: Conditions, sizes: tuple[int, int, int], machine: str, transposed: bool, target: str) -> None:
    any_domain(conditions, sizes, machine, transposed, target)


def any_domain(conditions: Conditions, sizes: tuple[int, int, int], machine: str, transposed: bool, target: str) -> None:
    if target == "cpu" and machine not in ("AVX2", "AVX512"):
        machine = "AVX2"
    where = ", ".join(f"{a} {op} {f}*{b} + {n}" for a, b, f, n, op in conditions)
    m, n, k = sizes
    text = f"C[i,j] += {'A[k,i]' if transposed else 'A[i,k]'}*B[k,j] where {where}"
    rng = np.random.default_rng(0)
    arrays = {"A": rng.standard_normal((k, m) if transposed else (m, k)), "B": rng.standard_normal((k, n))}
    try:
        expected = polytc.evaluate(text, **arrays)
    except CompileError:                                              # an empty domain, say
        return
    np.testing.assert_allclose(run(text, MACHINES[machine], target, arrays), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.part(2)
@pytest.mark.parametrize("target", ["cpu", "interp"])
@pytest.mark.parametrize("n", [5, 40, 77])
def test_a_row_without_terms_has_no_element(n: int, target: str) -> None:
    """Row 1 of the loop has no term, and the result begins with row 2: interp refuses what lies outside."""
    x = np.random.default_rng(0).integers(-9, 9, (n, n)).astype(np.float32)
    i, k = np.indices((n, n))
    expected = np.where((k < i) & ((i + k) % 3 != 1), x, 0).sum(1)[2:]
    op = polytc.compile("S[i] += X[i,k] where k <= i - 1, (i + k) % 3 != 1", target=target)
    np.testing.assert_array_equal(op(x), expected)
