"""The property: a program computes on its target, under its schedule, what the reference evaluator computes."""

from __future__ import annotations

import re
import traceback
from dataclasses import dataclass, replace

import numpy as np

from polytc import api, compiler, errors
from polytc.codegen.target import Executable, Target
from polytc.lang import evaluate, scalars
from polytc.lang.program import Program, walk
from polytc.runtime import devices
from tests import guarded
from tests.generator import gpus, oracle
from tests.generator.case import Case
from tests.generator.choices import replayed
from tests.generator.recipes import transformed

compiler.TARGETS |= {"cc": "tests.c_here:CompiledC", **gpus.TARGETS}


@dataclass(frozen=True)
class Outcome:
    """kind: 'right'; 'ran' where rounding decides and nothing was compared; 'refused' with the codes; 'wrong' or 'failed' (an
    exception that is no refusal); 'input' where an index that the program reads from memory is out of bounds; the worker adds
    'crash' and 'hang', and 'driver' for a crash of the OpenCL driver's compiler by itself. detail: codes, or what happened."""

    kind: str
    detail: str = ""

    @property
    def bad(self) -> bool:
        return self.kind not in ("right", "ran", "refused", "input", "driver")


def examine(case: Case) -> Outcome:
    """Run a case in this process; prints what is wrong."""
    found = judge(case)
    print(found.kind, found.detail)
    return found


def judge(case: Case) -> Outcome:
    """What becomes of a case."""
    try:
        try:
            program = built(case)
        except errors.PolytcError as refusal:
            return _refused(refusal)
        return _opened(case) if case.open else _compared(case, program)
    except Exception:
        return Outcome("failed", traceback.format_exc())


_SIDES = ("", "end", "start")
"""Where arrays lie at protected pages."""

GROWTH = ((0, 0), (1, 4), (0, 1), (13, 2))
"""By how much open sizes are larger in each run."""


def _refused(refusal: errors.PolytcError) -> Outcome:
    return Outcome("refused", " ".join(sorted({d.code for d in getattr(refusal, "diagnostics", ())})))


def _opened(case: Case) -> Outcome:
    """A case with open sizes at several of them; those that the program does not allow are left out."""
    try:
        op = api.compile(case.text, case.target, shapes=case.dims(), dtypes={x.name: x.dtype for x in case.inputs},
                         scalars=dict(case.scalars), threads=case.threads,
                         schedule=None if case.schedule == "automatic" else case.schedule)
    except errors.PolytcError as refusal:
        return _refused(refusal)
    kinds = []
    for steps in GROWTH:
        each = case.larger(steps[:len(case.open)])
        try:
            program = built(each)
        except errors.PolytcError:
            continue
        made = op.specialise({x.name: x.shape for x in each.inputs}, {x.name: x.dtype for x in each.inputs})
        found = _compared(each, program, made.executable)
        if found.bad:
            return replace(found, detail=f"larger by {steps}: {found.detail}")
        kinds.append(found.kind)
    return Outcome("right" if "right" in kinds else kinds[0])


def driven(case: Case) -> Outcome:
    """The driver's compiler alone, on the OpenCL C of a case: if it crashes, it did so before, too."""
    try:
        program = built(case)
        source = compiler.lower_program(program, target(case), _schedule(case, program)).source
        context = devices.pyopencl().Context([devices.choose().handle])
        devices.build(context, source.text, source.options["build"].split())
    except Exception:
        return Outcome("failed", traceback.format_exc())
    return Outcome("right")


def built(case: Case) -> Program:
    return api.build(case.text, {x.name: x.shape for x in case.inputs}, {x.name: x.dtype for x in case.inputs},
                     scalars=dict(case.scalars))


def _schedule(case: Case, program: Program) -> str | None:
    """What is asked of `compile_program`."""
    if case.schedule != "user":
        return None if case.schedule == "automatic" else case.schedule
    chosen = transformed(program, replayed(case.steps), case.target.startswith("gpu"))
    return chosen.yaml() if case.steps[-1] % 2 else chosen.request(target(case).machine)


def _compared(case: Case, program: Program, made: Executable | None = None) -> Outcome:
    """made: code of the program; else it is compiled."""
    inputs = case.arrays()
    try:
        expected = evaluate(program, inputs)
    except IndexError as e:
        if any(x.values[0] in ("index", "rows") for x in case.inputs):
            return Outcome("input", str(e))
        raise
    special = any(x.values[0] == "special" for x in case.inputs)
    known = None if special else oracle.run(case.text, program, inputs, dict(case.scalars), case.smooth)
    if known is not None and known.sure and (difference := _differs(case, program, expected, known.values, known)):
        return Outcome("wrong", f"the evaluator against the interpreter of the tests: {difference}")
    schedule = _schedule(case, program) if made is None else None
    given = {n: a.copy() for n, a in inputs.items()}
    for name in program.outputs:
        if name not in given:
            t = program.tensor(name)
            given[name] = np.full(t.shape, 77, t.dtype.numpy)
    try:
        code = made or compiler.compile_program(program, target(case), case.threads, schedule)
        guarded.run(code, [given[n] for n in program.arrays], _SIDES[case.values % len(_SIDES)])
    except errors.PolytcError as refusal:
        codes = {d.code for d in getattr(refusal, "diagnostics", ())}
        allowed = {"E530", "E505"}  # this machine, not the program
        if codes <= allowed | ({"E510", "E511"} if schedule and case.target.startswith("gpu") else set()):
            return Outcome("refused", " ".join(sorted(codes)))
        return Outcome("failed", f"{refusal}\n{schedule or ''}")
    difference = _differs(case, program, expected, {n: given[n] for n in program.outputs}, known)
    touched = next((n for n in program.inputs if n not in program.outputs and not _same(given[n], inputs[n])), None)
    if touched is not None:
        difference = f"the input {touched} was written"
    if difference and known is None and not case.smooth and (_rounds(case, expected) or _overflows(case, expected, given)):
        return Outcome("ran")
    if difference:
        return Outcome("wrong", f"{difference}\n{program}\n{schedule or ''}")
    judged = known is None or known.sure or not any(program.tensor(n).dtype.is_float for n in program.outputs)
    return Outcome("right" if judged else "ran")


def target(case: Case) -> Target:
    """'gpu-mali' is OpenCL with the schedules of such a device, whatever runs them; 'cc' is C through the compiler here."""
    return compiler.target(case.target).here()


def _wide(case: Case) -> Case:
    """The case with 64 bits for all floats."""
    inputs = tuple(replace(x, dtype="f64") if scalars.named(x.dtype).is_float else x for x in case.inputs)
    return replace(case, text=re.sub(r"\b(f32|f16|bf16|float|half)\b", "f64", case.text), inputs=inputs)


def _rounds(case: Case, expected: dict[str, np.ndarray]) -> bool:
    """Are the results others if all floats have 64 bits?"""
    wide = _wide(case)
    return any(not np.array_equal(expected[n].astype(np.float64), a.astype(np.float64), equal_nan=True)
               for n, a in evaluate(built(wide), wide.arrays()).items())


def _overflows(case: Case, expected: dict[str, np.ndarray], got: dict[str, np.ndarray]) -> bool:
    """Is a number infinite or NaN that is not expected to be, and all right with 64 bits? Terms in another order reach other
    partial results, which may be too large for a type."""
    wide = _wide(case)
    return wide != case and any((np.isfinite(a) & ~np.isfinite(got[n])).any() for n, a in expected.items()
                                if a.dtype.kind == "f") and judge(wide).kind == "right"


def _types(program: Program) -> set[scalars.DType]:
    """Those of the tensors and of the expressions: a cast rounds too."""
    return {t.dtype for t in program.tensors} | {e.dtype for s in program.statements for e in walk(s.value)}


def _halves(program: Program) -> bool:
    return any(d.is_half for d in _types(program))


def _least(program: Program) -> float:
    """What may become 0: the smallest normal number of the narrowest float type."""
    return max((6e-5 if d.name == "f16" else float(np.finfo(np.float32).tiny) if d.bits < 64 else 0.0
                for d in _types(program) if d.is_float), default=0.0)


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
                100 * known.magnitudes[name] if known is not None else 1000 * scale) + _least(program)
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
