"""Hand-written Loop AST modules and the arrays to run them on, for the tests of the interpreter and OpenCL targets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polytc.codegen import loops as L
from polytc.codegen import traverse
from polytc.program import scalars
from polytc.program.scalars import BOOL, F32, I64, DType


def add(a: L.Expr, b: L.Expr) -> L.Expr:
    return L.binary("+", a, b)


def mul(a: L.Expr, b: L.Expr) -> L.Expr:
    return L.binary("*", a, b)


def scaled(var: str, factor: int, rest: L.Expr | None = None) -> L.Expr:
    """var * factor + rest"""
    product = mul(L.Var(var), L.const(factor))
    return product if rest is None else add(product, rest)


def load(b: L.Buffer, *indices: L.Expr, lanes: int = 1) -> L.Load:
    return L.Load(b, indices, b.dtype, lanes)


def loop(var: str, count: int | L.Expr, body: L.Stmt, kind: str = "sequential", axis: int = 0, lower: int = 0,
         step: int = 1) -> L.For:
    upper = L.const(count) if isinstance(count, int) else count
    return L.For(var, L.const(lower), upper, step, body, kind, axis)  # type: ignore[arg-type]


def all_of(*conditions: L.Expr) -> L.Expr:
    result = conditions[0]
    for c in conditions[1:]:
        result = L.binary("&&", result, c)
    return result


def less(a: L.Expr, n: int) -> L.Expr:
    return L.binary("<", a, L.const(n))


def module(name: str, args: Sequence[L.Buffer], outputs: Sequence[str], *bodies: L.Stmt, scratch: Sequence[L.Buffer] = (),
           precise: bool = False) -> L.Module:
    """A module with one kernel a body, each taking the buffers it uses."""
    kernels = []
    for n, body in enumerate(bodies):
        loaded = {e.buffer.name
                   for s in traverse.walk_stmt(body) for top in traverse.expressions(s) for e in traverse.walk_expr(top)
                  if isinstance(e, L.Load)}
        stored = {s.buffer.name for s in traverse.walk_stmt(body) if isinstance(s, L.Store)}
        used = [b for b in (*args, *scratch) if b.name in loaded | stored]
        kernels.append(L.Kernel(f"k{n}", tuple(used), tuple(b.name for b in used if b.name in stored), body, precise))
    return L.Module(name, tuple(args), tuple(outputs), tuple(scratch), tuple(kernels))


def matmul(m: int, n: int, k: int, tile: tuple[int, int] = (4, 4)) -> L.Module:
    """One element a work-item, guards for partial tiles, the sum in a private scalar."""
    a, b, c = L.Buffer("A", F32, (m, k)), L.Buffer("B", F32, (k, n)), L.Buffer("C", F32, (m, n))
    acc = L.Buffer("acc", F32, (), "private")
    i, j = scaled("b0", tile[0], L.Var("t0")), scaled("b1", tile[1], L.Var("t1"))
    body: L.Stmt = L.Alloc(acc, L.block(
        L.Store(acc, (), L.Const(0.0, F32)),
        loop("k", k, L.Store(acc, (), add(load(acc), mul(load(a, i, L.Var("k")), load(b, L.Var("k"), j))))),
        L.Store(c, (i, j), load(acc))))
    body = L.If(all_of(less(i, m), less(j, n)), body)
    body = loop("t0", tile[0], loop("t1", tile[1], body, "thread", 0), "thread", 1)
    body = loop("b0", -(-m // tile[0]), loop("b1", -(-n // tile[1]), body, "block", 0), "block", 1)
    return module("matmul", (a, b, c), ("C",), body)


def tiled_matmul(n: int, t: int) -> L.Module:
    """Square matrices of n = multiple of t; tiles of both operands are staged in local memory between barriers."""
    a, b, c = (L.Buffer(x, F32, (n, n)) for x in "ABC")
    ta, tb = L.Buffer("tileA", F32, (t, t), "local"), L.Buffer("tileB", F32, (t, t), "local")
    acc = L.Buffer("acc", F32, (), "private")
    t0, t1 = L.Var("t0"), L.Var("t1")
    i, j = scaled("b0", t, t0), scaled("b1", t, t1)
    inner = loop("k", t, L.Store(acc, (), add(load(acc), mul(load(ta, t0, L.Var("k")), load(tb, L.Var("k"), t1)))))
    steps = loop("kt", n // t, L.block(
        L.Store(ta, (t0, t1), load(a, i, scaled("kt", t, t1))), L.Store(tb, (t0, t1), load(b, scaled("kt", t, t0), j)),
        L.Barrier(), inner, L.Barrier()))
    body: L.Stmt = L.Alloc(acc, L.block(L.Store(acc, (), L.Const(0.0, F32)), steps, L.Store(c, (i, j), load(acc))))
    body = L.Alloc(ta, L.Alloc(tb, loop("t0", t, loop("t1", t, body, "thread", 0), "thread", 1)))
    body = loop("b0", n // t, loop("b1", n // t, body, "block", 0), "block", 1)
    return module("tiled", (a, b, c), ("C",), body)


def vector_matmul(m: int, n: int, k: int, rows: int, lanes: int) -> L.Module:
    """A register tile of rows x 2*lanes: vector accumulators in a private array with constant indices; parallel outside."""
    a, b, c = L.Buffer("A", F32, (m, k)), L.Buffer("B", F32, (k, n)), L.Buffer("C", F32, (m, n))
    acc = L.Buffer("acc", F32, (rows, 2 * lanes), "private")

    def ramp(base: int | L.Expr) -> L.Expr:
        return L.Ramp(L.const(base) if isinstance(base, int) else base, 1, lanes)

    cells = [(r, v * lanes) for r in range(rows) for v in range(2)]
    zero = [L.Store(acc, (L.const(r), ramp(v)), L.Const(0.0, F32, lanes)) for r, v in cells]
    step = []
    for r, v in cells:
        left = L.Broadcast(load(a, scaled("i", rows, L.const(r)), L.Var("k")), lanes, F32)
        right = load(b, L.Var("k"), ramp(scaled("j", 2 * lanes, L.const(v))), lanes=lanes)
        old = load(acc, L.const(r), ramp(v), lanes=lanes)
        step.append(L.Store(acc, (L.const(r), ramp(v)), L.Call("fma", (left, right, old), F32, lanes)))
    out = [L.Store(c, (scaled("i", rows, L.const(r)), ramp(scaled("j", 2 * lanes, L.const(v)))),
                   load(acc, L.const(r), ramp(v), lanes=lanes)) for r, v in cells]
    body: L.Stmt = L.Alloc(acc, L.block(*zero, loop("k", k, L.block(*step)), *out))
    body = loop("i", m // rows, loop("j", n // (2 * lanes), body, "parallel"), "parallel")
    return module("vector_matmul", (a, b, c), ("C",), body)


SPECIAL = {"f": [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 7.0, -7.0], "b": [True, False],
           "i": [0, 1, -1, 2, -2, 3, 7, -7], "u": [0, 1, 2, 3, 7, 9]}


def samples(dtype: DType, count: int, seed: int) -> np.ndarray:
    """Values of every kind, the special ones against each other in two arrays of different seeds."""
    rng = np.random.default_rng(seed)
    special = list(SPECIAL[dtype.kind])
    if dtype.is_int:
        limits = np.iinfo(dtype.numpy)
        special += [limits.min, limits.max, limits.max - 1]
        values = rng.integers(limits.min, limits.max, count, dtype=dtype.numpy, endpoint=True)
    elif dtype.is_float:
        values = (rng.standard_normal(count) * 4).astype(dtype.numpy)
    else:
        values = rng.integers(0, 2, count).astype(dtype.numpy)
    chosen = rng.random(count) < 0.6
    values[chosen] = np.array(special, dtype.numpy)[rng.integers(0, len(special), chosen.sum())]
    return values


def operations(dtype: DType) -> dict[str, tuple[str, ...]]:
    """kind -> the operations that the type has."""
    binary = {"f": ("+", "-", "*", "/", "//", "%"), "b": ("&", "|", "^", "+", "*"),
              "i": ("+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>")}
    calls = [n for n, row in scalars.INTRINSICS.items() if row.result == "same"]
    if dtype.kind == "b":
        calls = ["min", "max", "clamp"]
    if dtype.is_float:
        calls += [n for n, row in scalars.INTRINSICS.items() if row.result in ("float", "bool")]
    if dtype.is_int:
        calls.remove("pow")
    return {"unary": ("-",) if dtype.is_float else ("~", "!") if dtype.kind == "b" else ("-", "~"),
            "binary": binary["i" if dtype.kind == "u" else dtype.kind], "compare": scalars.COMPARISONS,
            "call": tuple(calls), "cast": tuple(scalars.REAL)}


def elementwise(dtype: DType, lanes: int, count: int) -> tuple[L.Module, list[tuple[str, str]]]:
    """One kernel that applies every operation to a, b, c; and what each output is: (kind, operation)."""
    inputs = [L.Buffer(x, dtype, (count,)) for x in "abc"]
    x = scaled("i", lanes)
    index = x if lanes == 1 else L.Ramp(x, 1, lanes)
    a, b, c = (load(t, index, lanes=lanes) for t in inputs)
    outputs, stores, which = [], [], []
    for kind, names in operations(dtype).items():
        for name in names:
            match kind:
                case "unary":
                    e: L.Expr = L.Unary(name, a, dtype, lanes)
                case "binary" | "compare":
                    e = L.Binary(name, a, b, BOOL if kind == "compare" else dtype, lanes)
                case "call":
                    row = scalars.INTRINSICS[name]
                    e = L.Call(name, (a, b, c)[:row.arity], BOOL if row.result == "bool" else dtype, lanes)
                case _:
                    e = L.Cast(a, scalars.DTYPES[name], lanes)
            out = L.Buffer(f"o{len(outputs)}", e.dtype, (count,))
            outputs.append(out)
            which.append((kind, name))
            stores.append(L.Store(out, (index,), e))
    body = loop("i", count // lanes, L.block(*stores))
    return module(f"elementwise_{dtype}", (*inputs, *outputs), [o.name for o in outputs], body), which


def run(executable, m: L.Module, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs by name."""
    arrays = [inputs[b.name].copy() if b.name in inputs else np.zeros(b.shape, b.dtype.numpy) for b in m.args]
    executable.run(arrays)
    return {b.name: x for b, x in zip(m.args, arrays, strict=True) if b.name in m.outputs}


def index64(value: int) -> L.Const:
    return L.Const(value, I64)
