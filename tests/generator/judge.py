"""The property: a program computes on its target, under its schedule, what the reference evaluator computes."""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass

import numpy as np

from polytc import api, compiler, errors
from polytc.codegen.opencl.target import OpenCLTarget
from polytc.codegen.target import Target
from polytc.lang import evaluate, scalars
from polytc.lang.program import Program, walk
from tests.generator import oracle
from tests.generator.case import Case
from tests.generator.choices import replayed
from tests.generator.recipes import transformed


@dataclass(frozen=True)
class Outcome:
    """kind: 'right'; 'ran' where rounding decides and nothing was compared; 'refused' with the codes; 'wrong' or 'failed' (an
    exception that is no refusal); the worker adds 'crash' and 'hang'. detail: codes, or what happened."""

    kind: str
    detail: str = ""

    @property
    def bad(self) -> bool:
        return self.kind not in ("right", "ran", "refused")


def examine(case: Case) -> Outcome:
    """Run a case in this process; prints what is wrong."""
    found = judge(case)
    print(found.kind, found.detail)
    return found


def judge(case: Case) -> Outcome:
    """What becomes of a case."""
    try:
        try:
            program = api.build(case.text, {x.name: x.shape for x in case.inputs}, {x.name: x.dtype for x in case.inputs},
                                scalars=dict(case.scalars))
        except errors.PolytcError as refusal:
            return Outcome("refused", " ".join(sorted({d.code for d in getattr(refusal, "diagnostics", ())})))
        return _compared(case, program)
    except Exception:
        return Outcome("failed", traceback.format_exc())


def _compared(case: Case, program: Program) -> Outcome:
    inputs = case.arrays()
    expected = evaluate(program, inputs)
    special = any(x.values[0] == "special" for x in case.inputs)
    known = None if special else oracle.run(case.text, program, inputs, dict(case.scalars), case.smooth)
    if known is not None and known.sure and (difference := _differs(case, program, expected, known.values, known)):
        return Outcome("wrong", f"the evaluator against the interpreter of the tests: {difference}")
    schedule = None if case.schedule == "automatic" else case.schedule
    if case.schedule == "user":
        chosen = transformed(program, replayed(case.steps))
        schedule = chosen.yaml() if case.steps[-1] % 2 else chosen.request(target(case).machine)
    given = {n: a.copy() for n, a in inputs.items()}
    for name in program.outputs:
        if name not in given:
            t = program.tensor(name)
            given[name] = np.full(t.shape, 77, t.dtype.numpy)
    try:
        compiler.compile_program(program, target(case), case.threads, schedule).run([given[n] for n in program.arrays])
    except errors.PolytcError as refusal:
        codes = {d.code for d in getattr(refusal, "diagnostics", ())}
        if codes <= {"E530", "E505"}:  # this machine, not the program
            return Outcome("refused", " ".join(sorted(codes)))
        return Outcome("failed", f"{refusal}\n{schedule or ''}")
    difference = _differs(case, program, expected, {n: given[n] for n in program.outputs}, known)
    touched = next((n for n in program.inputs if n not in program.outputs and not _same(given[n], inputs[n])), None)
    if touched is not None:
        difference = f"the input {touched} was written"
    if difference and known is None and not case.smooth and _rounds(case, expected):
        return Outcome("ran")
    if difference:
        return Outcome("wrong", f"{difference}\n{program}\n{schedule or ''}")
    judged = known is None or known.sure or not any(program.tensor(n).dtype.is_float for n in program.outputs)
    return Outcome("right" if judged else "ran")


def target(case: Case) -> Target:
    """'gpu' is OpenCL with the schedules of a GPU, whatever the device."""
    return OpenCLTarget() if case.target == "gpu" else compiler.target(case.target).here()


def _rounds(case: Case, expected: dict[str, np.ndarray]) -> bool:
    """Are the results others if all floats have 64 bits?"""
    inputs = {x.name: a.astype(np.float64) if scalars.named(x.dtype).is_float else a
              for x, a in zip(case.inputs, case.arrays().values(), strict=True)}
    program = api.build(re.sub(r"\b(f32|f16|bf16|float|half)\b", "f64", case.text), {n: a.shape for n, a in inputs.items()},
                        {n: str(scalars.from_numpy(a.dtype) or "bf16") for n, a in inputs.items()}, scalars=dict(case.scalars))
    return any(not np.array_equal(expected[n].astype(np.float64), a.astype(np.float64), equal_nan=True)
               for n, a in evaluate(program, inputs).items())


def _types(program: Program) -> set[scalars.DType]:
    """Those of the tensors and of the expressions: a cast rounds too."""
    return {t.dtype for t in program.tensors} | {e.dtype for s in program.statements for e in walk(s.value)}


def _halves(program: Program) -> bool:
    return any(d.is_half for d in _types(program))


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.tobytes() == b.tobytes()


def _differs(case: Case, program: Program, expected: dict[str, np.ndarray], got: dict[str, np.ndarray],
             known: oracle.Known | None) -> str:
    """Where the outputs differ by more than rounding explains; '' if they do not."""
    narrow = max((2.0 ** -8 if d.is_half else float(np.finfo(np.float32).eps) for d in _types(program) if d.is_float),
                 default=0.0) if case.smooth else 0.0
    for name in program.outputs:
        a, b = expected[name], got[name]
        if program.tensor(name).dtype.is_float:
            if known is not None and not known.sure:
                continue
            a, b = a.astype(np.float64), np.asarray(b).astype(np.float64)
            scale = max(1.0, float(np.abs(a[np.isfinite(a)]).max(initial=0)))
            allowed = 0.0 if known is not None and known.exact else narrow * (
                100 * known.magnitudes[name] if known is not None else 1000 * scale)
            with np.errstate(all="ignore"):
                wrong = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= allowed))
            if known is None and not case.smooth and scale > (2.0 ** 7 if _halves(program) else 2.0 ** 22):
                continue
        else:
            wrong = np.asarray(a != b)
        if wrong.any():
            place = tuple(int(x) for x in np.argwhere(wrong)[0])
            return (f"{name}{list(place)} is {b[place]}, expected {a[place]} ({int(wrong.sum())} of {wrong.size} are wrong)\n"
                    f"expected\n{a}\ngot\n{b}")
    return ""
