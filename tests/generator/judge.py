"""The property: a program computes on its target, under its schedule, what the language says (tests/meaning)."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from polytc import api, compiler, errors, lang, stages
from polytc.codegen.target import Executable, Target
from polytc.lang import evaluate
from polytc.poly.proofs import Proofs
from polytc.program import scalars
from polytc.program.canonical import canonical
from polytc.program.program import Program
from polytc.rewrite import long_sums
from polytc.targets import registry
from polytc.targets.opencl.driver import devices
from tests import guarded
from tests.generator import calls, gpus
from tests.generator.case import Case
from tests.generator.choices import replayed
from tests.generator.recipes import transformed
from tests.generator.state import SIZES
from tests.meaning.run import Refused, Unsupported, meaning

Expected = dict[str, tuple[np.ndarray, np.ndarray]]
"""Values, and how far what is licensed may be from each."""


@dataclass(frozen=True)
class Outcome:
    """kind: 'right'; 'ran' where nothing could be compared; 'refused' with the codes; 'wrong'; 'accepted' where the meaning
    refuses; 'failed' (an exception that is no refusal); the worker adds 'crash' and 'hang', and 'driver' for a crash of the
    OpenCL driver's compiler by itself. detail: codes, or what happened; 'printed' where that was tried too."""

    kind: str
    detail: str = ""

    @property
    def bad(self) -> bool:
        return self.kind not in ("right", "ran", "refused", "driver")


def examine(case: Case, cut_sums: bool = False) -> Outcome:
    """Run a case in this process; prints what is wrong. cut_sums: see `judge_cut_sums`."""
    found = judge_cut_sums(case) if cut_sums else judge(case)
    print(found.kind, found.detail)
    return found


def judge(case: Case) -> Outcome:
    """What becomes of a case."""
    try:
        return _opened(case) if case.open else _compared(case)
    except errors.PolytcError as refusal:
        return _refused(case, refusal)
    except Exception:
        return Outcome("failed", traceback.format_exc())


SHORT_SUMS = {"LIMIT": 6, "BLOCK": 3, "NARROW": 12, "STEP": 2, "BRANCHES": 2}
"""Limits of rewrite/long_sums.py with which sums of more than six terms are long."""


def judge_cut_sums(case: Case) -> Outcome:
    """The same, in a process in which sums of more than a few terms are taken in parts."""
    for name, value in SHORT_SUMS.items():
        setattr(long_sums, name, value)
    return judge(case)


def built(case: Case) -> Program:
    return stages.build(case.text, {x.name: x.shape for x in case.inputs}, {x.name: x.dtype for x in case.inputs},
                     scalars=dict(case.scalars))


_SIDES = ("", "end", "start")
"""Where arrays lie at protected pages."""

RUNS = 4


def _sizes(case: Case) -> Iterator[dict[str, int]]:
    """Some values of the open sizes, the written ones first; each seen as often."""
    rng = np.random.default_rng(case.values)
    yield {n: int(n[1:]) for n in case.open}
    for _ in range(RUNS - 1):
        yield {n: SIZES[rng.integers(len(SIZES))] for n in case.open}


def _opened(case: Case) -> Outcome:
    """A case with open sizes at several of them; those that the program does not allow are left out."""
    op = api.compile(case.text, gpus.named(case.target), shapes=case.dims(), dtypes={x.name: x.dtype for x in case.inputs},
                     scalars=dict(case.scalars), threads=case.threads,
                     schedule=None if case.schedule == "automatic" else case.schedule)
    kinds = []
    for sizes in _sizes(case):
        each = case.at(sizes)
        try:
            made = op.specialise({x.name: x.shape for x in each.inputs}, {x.name: x.dtype for x in each.inputs})
        except errors.PolytcError as refusal:
            found = _refused(each, refusal)
        else:
            found = _compared(each, made.program, None if case.called else made.executable, op)
        if found.bad:
            return replace(found, detail=f"at {sizes}: {found.detail}")
        kinds.append(found.kind)
    return Outcome("right") if "right" in kinds else found


def _compared(case: Case, program: Program | None = None, made: Executable | None = None, op: api.Op | None = None) -> Outcome:
    """made: code of the program; op: what is called; else it is compiled."""
    program = program or built(case)
    inputs = case.arrays()
    try:
        expected = meaning(case.text, inputs, dict(case.scalars))
    except Unsupported:
        expected = {}
    except Refused as problem:
        return Outcome("accepted", f"{problem}\n{program}")
    schedule, side = None, _SIDES[case.values % len(_SIDES)]
    try:
        if case.called:
            got = calls.called(case, program, inputs, side, op)
        else:
            schedule = _schedule(case, program) if made is None else None
            code = made or compiler.compile_program(program, target(case), case.threads, schedule)
            got = _direct(code, program, inputs, side)
    except errors.PolytcError as refusal:
        found = _refused(case, refusal)
        return replace(found, detail=f"{refusal}\n{schedule or ''}") if found.bad else found
    except guarded.Stray as stray:
        return Outcome("wrong", f"{stray}\n{program}\n{schedule or ''}")
    difference = _differs(case, expected, got)
    if difference:
        whose = "the evaluator too" if _differs(case, expected, evaluate(program, inputs)) else "not the evaluator"
        return Outcome("wrong", f"{difference}\n{whose}\n{program}\n{schedule or ''}")
    printed = case.values % PRINTED == 0 and not case.open
    if printed and (difference := _printed(program)):
        return Outcome("wrong", difference)
    compared = any((e < np.inf).any() or not e.size for _, e in expected.values())
    return Outcome("right" if compared else "ran", "printed" * printed)


PRINTED = 4
"""One program in so many is printed and parsed again."""


def _printed(program: Program) -> str:
    """How the program that the text of a program is differs from it; '' if it does not."""
    text = str(program)
    again = lang.build(text, {n: program.tensor(n).shape for n in program.inputs}, prover=Proofs())
    same = canonical(again) == canonical(replace(program, constants=()))
    return "" if same else f"what was printed parses to another program:\n{text}\n{again}"


def _direct(code: Executable, program: Program, inputs: dict[str, np.ndarray], side: str) -> dict[str, np.ndarray]:
    """What compiled code writes, between canaries. Raises Stray."""
    given = {n: a.copy() for n, a in inputs.items()}
    for name in program.outputs:
        if name not in given:
            t = program.tensor(name)
            given[name] = np.full(t.shape, 77, t.dtype.numpy)
    guarded.run(code, [given[n] for n in program.arrays], side)
    for n in program.inputs:
        if n not in program.outputs and given[n].tobytes() != inputs[n].tobytes():
            raise guarded.Stray(f"the input {n} was written")
    return {n: given[n] for n in program.outputs}


def _refused(case: Case, refusal: errors.PolytcError) -> Outcome:
    """A refusal; that of code which was found to be right is one only where this machine, or the schedule, is the reason."""
    codes = {d.code for d in getattr(refusal, "diagnostics", ())}
    allowed = {"E530", "E505"} | ({"E510", "E511"} if case.target.startswith("gpu") else set())
    allowed |= {"E528"} if case.schedule == "user" else set()
    if {c for c in codes if c[:2] in ("E5", "E6", "E7")} - allowed:
        return Outcome("failed", str(refusal))
    return Outcome("refused", " ".join(sorted(codes)))


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


def _schedule(case: Case, program: Program) -> str | None:
    """What is asked of `compile_program`."""
    if case.schedule != "user":
        return None if case.schedule == "automatic" else case.schedule
    chosen = transformed(program, replayed(case.steps), case.target.startswith("gpu"))
    return chosen.yaml() if case.steps[-1] % 2 else chosen.request(target(case).machine)


def target(case: Case) -> Target:
    """'gpu-mali' is OpenCL with the schedules of such a device, whatever runs them; 'cc' is C through the compiler here."""
    return registry.target(gpus.named(case.target)).here()


def _differs(case: Case, expected: Expected, got: dict[str, np.ndarray]) -> str:
    """Where the outputs differ by more than what is licensed; '' if they do not."""
    for name, (a, error) in expected.items():
        b = got.get(name)
        if b is None:
            return f"there is no output {name}"
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"{name} is {b.dtype}{list(b.shape)}, expected {a.dtype}{list(a.shape)}"
        if a.dtype.kind in "biu":
            wrong = (a != b) & (error == 0)
        else:
            x, y = a.astype(np.float64), b.astype(np.float64)
            with np.errstate(all="ignore"):
                allowed = (error + _least(a.dtype) * (error > 0)) * (4 if case.target.startswith(("opencl", "gpu")) else 1)
                wrong = ~((x == y) | (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= allowed) | np.isinf(allowed))
        if wrong.any():
            place = tuple(int(k) for k in np.argwhere(wrong)[0])
            return (f"{name}{list(place)} is {b[place]}, expected {a[place]} within {error[place]:.3g}"
                    f" ({int(wrong.sum())} of {wrong.size} are wrong)\nexpected\n{a}\ngot\n{b}")
    return ""


def _least(dtype: np.dtype) -> float:
    """What may become 0: the smallest normal number."""
    found = scalars.from_numpy(dtype)
    return 0.0 if found is None or found.bits == 64 else 6e-5 if found.name == "f16" else float(np.finfo(np.float32).tiny)
