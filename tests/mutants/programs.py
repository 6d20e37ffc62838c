"""The property of broken programs: they are refused with a diagnostic, or mean something, which is then computed everywhere."""

from __future__ import annotations

import functools
import random
import resource
import traceback
import warnings
from dataclasses import dataclass

import polytc
from language.programs import PROGRAMS
from language.tc import PROGRAMS as TC
from polytc import lang
from polytc.errors import PolytcError
from tests.docs import test_language as documented
from tests.generator.judge import Outcome
from tests.mutants import texts
from tests.mutants.judge import MEMORY

LARGEST = 1 << 16
"""Instances of a program that is compiled and run."""


@dataclass(frozen=True)
class Mutant:
    text: str
    shape: tuple[int, ...]
    target: str


@functools.cache
def seeds() -> tuple[str, ...]:
    return tuple(text for _, _, text in documented.EXAMPLES) + tuple(p.text for p in (*PROGRAMS, *TC))


def mutant(number: int) -> Mutant:
    """The broken program of that number, and extents for its inputs."""
    r = random.Random(number)
    return Mutant(texts.mutant(r, seeds()), tuple(r.choice((1, 2, 3, 4, 5, 9)) for _ in range(8)),
                  "cpu" if number % 10 == 0 else "interp")


def judge(case: Mutant) -> Outcome:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    try:
        return _run(case)
    except PolytcError as error:
        return Outcome("refused", getattr(error, "code", "")) if str(error) else Outcome("failed", "no text")
    except Exception:
        return Outcome("failed", f"{case.text}\n{traceback.format_exc()}")


def _run(case: Mutant) -> Outcome:
    s = lang.signature(case.text)
    sizes: dict[object, int] = {}
    declared = lang.dimensions(case.text)
    shapes, scalars, extents = {}, {}, iter(case.shape * 8)
    for p in s.inputs:
        if p.is_scalar:
            scalars[p.name] = 2
            continue
        names = [getattr(d, "id", d) for d in declared.get(p.name, ())] or [None] * (2 if p.rank is None else p.rank)
        shapes[p.name] = tuple(int(d.value) if hasattr(d, "value") and isinstance(d.value, int) else
                               sizes.setdefault(d, next(extents, 3)) if d is not None else next(extents, 3) for d in names)
    types = {p.name: p.dtype or "f32" for p in s.inputs if not p.is_scalar}
    program = polytc.build(case.text, shapes, types, attrs=dict.fromkeys(s.attrs, 1) or None, scalars=scalars)
    again = lang.build(str(program), {n: program.tensor(n).shape for n in program.inputs})
    if [x.name for x in again.statements] != [x.name for x in program.statements]:
        return Outcome("wrong", f"{case.text}\n{program}\n{again}")
    if sum(x.points for x in program.statements) > LARGEST:
        return Outcome("right")
    polytc.compile(case.text, case.target, shapes=shapes, dtypes=types, attrs=dict.fromkeys(s.attrs, 1) or None,
                   scalars=scalars, threads=1)
    return Outcome("ran")
