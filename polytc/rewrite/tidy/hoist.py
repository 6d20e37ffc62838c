"""What follows from constant inputs alone is split off, so that it is computed once and not in every call."""

from __future__ import annotations

from dataclasses import replace

from polytc.machine import Machine
from polytc.program import program as pr
from polytc.program.sizes import representative
from polytc.rewrite.step import Decision, Reasons, Step


def decide(program: pr.Program, machine: Machine) -> Decision:
    """The temporaries that are computed once; and those tensors that are not, although they follow from constants alone."""
    fixed, why = constants(program), Reasons()
    found = _roots(program, fixed)
    for tensor in dict.fromkeys(s.target for s in program.statements):
        if tensor not in found:
            continue
        names = ", ".join(s.name for s in program.statements if s.target == tensor)
        roots = found[tensor]
        told = f"{tensor} follows from the constant{'s' * (len(roots) > 1)} {', '.join(roots)} alone"
        if tensor in fixed:
            why.acts(names, f"{told}, and is computed once")
        else:
            kept = "it is an output" if tensor in program.outputs else _obstacle(program, tensor)
            why.declines(names, f"computed once, although {told}: {kept}")
    return Decision(machine, tuple(t for t in program.temporaries if t in fixed), tuple(why.rows))


def prologue(program: pr.Program, decision: Decision) -> pr.Program | None:
    """What is computed once: it takes constants and makes the temporaries that depend on nothing else, as far as the rest reads
    them. None if there is nothing. Its sizes are fixed."""
    early = tuple(s for s in program.statements if s.target in decision.choices)
    if not early:
        return None
    used = {r.tensor for s in early for r in pr.reads(s)}
    return _trimmed(replace(program, name=f"{program.name}_once", statements=early, outputs=_handed_on(program, decision),
                            constants=(), sizes=(), once=True, inputs=tuple(n for n in program.inputs if n in used)))


def main(program: pr.Program, decision: Decision) -> pr.Program:
    """The rest: it takes what is computed once as further inputs, behind its own, and as constants."""
    late = tuple(s for s in program.statements if s.target not in decision.choices)
    made = _handed_on(program, decision)
    return _trimmed(replace(program, statements=late, inputs=(*program.inputs, *made), constants=(*program.constants, *made)))


STEP = Step("hoist", "what follows from constants alone is computed once", main, decide, open_sizes=True, required=True)
"""It runs behind the steps of the table: all that they make of constants is to be computed once."""


def constants(program: pr.Program) -> frozenset[str]:
    """The constants of the program and the temporaries that follow from them alone."""
    fixed = frozenset(program.constants)
    while more := {t for t in program.temporaries if t not in fixed and _follows(program, t, fixed)}:
        fixed |= more
    return fixed


def _follows(program: pr.Program, tensor: str, fixed: frozenset[str]) -> bool:
    return _from_constants(program, tensor, fixed) and not _obstacle(program, tensor)


def _from_constants(program: pr.Program, tensor: str, fixed: frozenset[str]) -> bool:
    """Do all statements that write the tensor read constants and what follows from them, and some of it?"""
    sources = set(_sources(program, tensor))
    return bool(sources) and sources <= fixed


def _sources(program: pr.Program, tensor: str) -> list[str]:
    """The other tensors that statements read which write this one."""
    return [r.tensor for s in program.statements if s.target == tensor for r in pr.reads(s) if r.tensor != tensor]


def _roots(program: pr.Program, fixed: frozenset[str]) -> dict[str, tuple[str, ...]]:
    """The constants that tensors follow from, of those which follow from constants alone. What is computed once is complete
    before others read it, so that their last statements are in such an order."""
    found: dict[str, tuple[str, ...]] = {}
    for tensor in reversed(dict.fromkeys(s.target for s in reversed(program.statements))):
        if _from_constants(program, tensor, fixed):
            found[tensor] = tuple(dict.fromkeys(
                n for t in _sources(program, tensor) for n in ([t] if t in program.constants else found[t])))
    return found


def _obstacle(program: pr.Program, tensor: str) -> str:
    """Why a tensor that follows from constants alone is not computed once; '' if it is: it must be made outside of loops, and
    nobody else may read it before the last statement that writes it."""
    writers = [n for n, s in enumerate(program.statements) if s.target == tensor]
    if any(program.statements[n].loops for n in writers):
        return "it is made in a `for` loop"
    made = (program.tensor(tensor), *(program.statements[n] for n in writers))
    if program.sizes and representative(made) is not made:
        return "it depends on sizes that stay open"
    between = [s for s in program.statements[:writers[-1]] if s.target != tensor] if writers else []
    early = any(r.tensor == tensor for s in between for r in pr.reads(s))
    return "it is read before it is complete" if early else ""


def _handed_on(program: pr.Program, decision: Decision) -> tuple[str, ...]:
    """What the rest reads of what is computed once."""
    read = {r.tensor for s in program.statements if s.target not in decision.choices for r in pr.reads(s)}
    return tuple(t for t in decision.choices if t in read)


def _trimmed(program: pr.Program) -> pr.Program:
    """Without the tensors that no statement touches and nobody passes."""
    touched = {*program.inputs, *program.outputs}
    for s in program.statements:
        touched |= {s.target, *(r.tensor for r in pr.reads(s))}
    return replace(program, tensors=tuple(t for t in program.tensors if t.name in touched))
