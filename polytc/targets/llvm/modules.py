"""A module of the Loop AST as one LLVM module."""

from __future__ import annotations

from polytc.codegen import addresses, loops
from polytc.machine import Machine
from polytc.targets.llvm import arithmetic, bodies, ir, statements, straight_arrays


def emit_module(m: loops.Module, machine: Machine, walks: bool = False) -> tuple[ir.Text, int, int]:
    """All kernels, and the function `run(buffers, arena, launch, pool, threads)` that calls them in order; of those that are
    parallel loops only, it launches the loops itself.

    buffers: an array of pointers, module arguments then scratch; walks: as in statements.Emission. Returns the text, the
    arena's bytes per thread, and the number of parallel loops.
    """
    text = ir.Text()
    order = {b.name: i for i, b in enumerate((*m.args, *m.scratch))}
    entry = ir.Function(text, "run", ["ptr %buffers", *statements.RUNTIME], linkage="")
    slots: dict[str, ir.Value] = {}
    arena = parallel = 0
    for k in m.kernels:
        emission = statements.Emission(text, machine, k, _flags(k), addresses.pairs(k), straight_arrays.found(k), walks)
        for b in k.args:
            if b.name not in slots:
                at = entry.emit("ptr", f"getelementptr inbounds ptr, ptr %buffers, i64 {order[b.name]}")
                slots[b.name] = entry.emit("ptr", f"load ptr, {at}, align 8")
        pointers = {b.name: slots[b.name] for b in k.args}
        if bodies.are_launches(k.body):  # LLVM takes a millisecond for each function
            statements.write(emission, entry, pointers)
        else:
            args = ", ".join((*map(str, pointers.values()), *statements.RUNTIME))
            entry.do(f"call void @{statements.emit_kernel(emission).name}({args})")
        arena = max(arena, emission.arena_bytes)
        parallel += emission.bodies
    entry.do("ret void")
    return text, arena, parallel


def _flags(k: loops.Kernel) -> str:
    """Of a kernel's float operations."""
    return "" if k.precise else arithmetic.LOOSE if k.fast else arithmetic.CONTRACTION
