"""What follows from constant inputs alone is split off, so that it is computed once and not in every call."""

from __future__ import annotations

from dataclasses import replace

from polytc.program import program as pr
from polytc.program.sizes import representative


def hoist(program: pr.Program) -> tuple[pr.Program | None, pr.Program]:
    """(prologue, main). The prologue takes constants and makes the temporaries that depend on nothing else; main takes them as
    further inputs, behind its own, and as constants. No prologue if there is nothing to hoist. Its sizes are fixed."""
    fixed = constants(program)
    early = tuple(s for s in program.statements if s.target in fixed)
    late = tuple(s for s in program.statements if s.target not in fixed)
    made = tuple(t for t in program.temporaries if t in fixed and any(r.tensor == t for s in late for r in pr.reads(s)))
    if not early:
        return None, program
    used = {r.tensor for s in early for r in pr.reads(s)}
    prologue = replace(program, name=f"{program.name}_once", statements=early, outputs=made, constants=(), sizes=(),
                       inputs=tuple(n for n in program.inputs if n in used))
    main = replace(program, statements=late, inputs=(*program.inputs, *made), constants=(*program.constants, *made))
    return _trimmed(prologue), _trimmed(main)


def constants(program: pr.Program) -> frozenset[str]:
    """The constants of the program and the temporaries that follow from them alone."""
    fixed = frozenset(program.constants)
    while more := {t for t in program.temporaries if t not in fixed and _follows(program, t, fixed)}:
        fixed |= more
    return fixed


def _follows(program: pr.Program, tensor: str, fixed: frozenset[str]) -> bool:
    """Do all statements that write the tensor read constants and what follows from them, and some of it, outside of loops, and
    does nobody else read it before the last of them?"""
    writers = [n for n, s in enumerate(program.statements) if s.target == tensor]
    if any(program.statements[n].loops for n in writers):
        return False
    made = (program.tensor(tensor), *(program.statements[n] for n in writers))
    if program.sizes and representative(made) is not made:
        return False
    sources = {r.tensor for n in writers for r in pr.reads(program.statements[n])} - {tensor}
    between = [s for s in program.statements[:writers[-1]] if s.target != tensor] if writers else []
    early = any(r.tensor == tensor for s in between for r in pr.reads(s))
    return bool(sources) and sources <= fixed and not early


def _trimmed(program: pr.Program) -> pr.Program:
    """Without the tensors that no statement touches and nobody passes."""
    touched = {*program.inputs, *program.outputs}
    for s in program.statements:
        touched |= {s.target, *(r.tensor for r in pr.reads(s))}
    return replace(program, tensors=tuple(t for t in program.tensors if t.name in touched))
