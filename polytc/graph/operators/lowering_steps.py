"""Programs of the steps of one node's lowering. What one step hands to the next is a temporary of the node.

Results of nodes are rounded to their types. Between steps a half is what it is between statements: it has its type for
promotion, and is held in f32 (see lang/halves.py), so that the sum in AveragePool = SumPool, Scale stays in range.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from polytc.graph.operators.binding import Apply, Step, View, text_of
from polytc.graph.operators.operator_programs import frozen, program
from polytc.graph.plan import Array
from polytc.lang import signature
from polytc.program.program import Program
from polytc.program.scalars import DType
from polytc.program.traces.traced import named_numbers


@dataclass(frozen=True)
class Given:
    """An input of a step. dtype: its type for promotion; in_f32: is it given in f32 though that is a half?"""

    shape: tuple[int, ...]
    dtype: DType
    in_f32: bool = False


@dataclass(frozen=True)
class StepProgram:
    """The program of a step. results: what it computes, as stored; halves: the type for promotion of each result that is a half
    and held in f32, None for the others."""

    program: Program
    results: tuple[Array, ...]
    halves: tuple[DType | None, ...]


def step_program(step: Apply, given: Sequence[Given], local: frozenset[str]) -> StepProgram:
    """local: the outputs that only other steps read. Raises CompileError where the step does not fit its inputs."""
    text = text_of(step)
    sizes = named_numbers(text)  # words for what follows from traced sizes are attributes
    if sizes:
        text = _with_attributes(text, sizes)
    arguments = (text, step.entry, tuple((g.shape, g.dtype.name) for g in given), frozen({**step.attrs, **sizes}),
                 tuple(sorted(step.packs.items())))
    plain = program(*arguments)
    types = [plain.tensor(n).dtype for n in plain.outputs]
    unrounded = [n for n, ref, t in zip(plain.outputs, step.outputs, types, strict=True) if ref in local and t.is_half]
    if any(g.in_f32 for g in given):
        own = signature(text, step.entry.rpartition(".")[2])
        unrounded += [p.name for p, g in zip(own.inputs, given, strict=True) if g.in_f32]
    made = program(*arguments, tuple(unrounded)) if unrounded else plain
    results = tuple(Array(made.tensor(n).dtype, made.tensor(n).shape) for n in made.outputs)
    return StepProgram(made, results, tuple(t if r.dtype != t else None for t, r in zip(types, results, strict=True)))


def _with_attributes(text: str, names: Iterable[str]) -> str:
    """The text of an operator with further attributes:  op A<n>(X) -> Y ...   ->   op A<n, traced0>(X) -> Y ..."""
    head, opened, rest = text.partition("(")
    name, _, given = head.partition("<")
    known = given.rstrip().removesuffix(">").strip()
    return f"{name.rstrip()}<{', '.join([*([known] if known else []), *names])}>{opened}{rest}"


def step_temporaries(steps: Iterable[Step]) -> frozenset[str]:
    """Names of what only other steps read, not even as a result of the node under another shape."""
    named, results = set[str](), set[str]()
    for step in reversed(tuple(steps)):
        if isinstance(step, View) and isinstance(step.source, str) and (isinstance(step.output, int) or step.output in results):
            results.add(step.source)
        named |= {n for n in (step.outputs if isinstance(step, Apply) else (step.output,)) if isinstance(n, str)}
    return frozenset(named - results)
