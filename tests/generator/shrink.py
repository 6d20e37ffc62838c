"""From a case that goes wrong to a small one that goes wrong in the same way, by choosing more simply."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.generator import programs
from tests.generator.case import Case
from tests.generator.choices import replayed
from tests.generator.judge import Outcome


def alike(a: Outcome, b: Outcome) -> bool:
    """Is it the same kind of failure?"""
    return a.kind == b.kind and _key(a) == _key(b)


def _key(o: Outcome) -> str:
    """The last line of a traceback without its names and numbers; '' for wrong values."""
    if o.kind != "failed":
        return ""
    lines = o.detail.strip().splitlines() if o.detail.startswith("Traceback") else o.detail.splitlines()[:1]
    return re.sub(r"[\d'\"`]+|\b[A-Z]\w*\d\b", "", lines[-1])[:60]


def shrink(numbers: list[int], first: Outcome, judge: Callable[[Case], Outcome], seconds: float, language: bool = False
           ) -> tuple[Case, Outcome]:
    """The smallest case found in that time. numbers: the choices that made the first one; language: see programs.case."""
    end = time.monotonic() + seconds
    best, outcome, made = list(numbers), first, programs.case(replayed(numbers), language)
    improved = True
    while improved and time.monotonic() < end:
        improved = False
        for candidate in simpler(best):
            if time.monotonic() > end:
                break
            chance = replayed(candidate)
            case = programs.case(chance, language)
            if _cost(case) >= _cost(made):
                continue
            found = judge(case)
            if alike(found, first):
                best, outcome, made, improved = chance.taken, found, case, True
                break
    return _plainer(made, outcome, judge, end)


def _cost(case: Case) -> tuple[int, int, str]:
    work = sum(int(n) for n in re.findall(r"\d+", case.text))
    return len(case.text) + 2 * work // 10, work + case.threads + len(case.steps) + len(case.schedule), case.text


def simpler(numbers: list[int]) -> Iterator[list[int]]:
    """Parts left out, then numbers made smaller."""
    size = len(numbers) // 2
    while size:
        for at in range(0, len(numbers), size):
            yield numbers[:at] + numbers[at + size:]
            if any(numbers[at:at + size]):
                yield numbers[:at] + [0] * size + numbers[at + size:]
        size //= 2
    for at, n in enumerate(numbers):
        for smaller in {n // 2, n - 1} - {n, 0, -1}:
            yield [*numbers[:at], smaller, *numbers[at + 1:]]


def _plainer(case: Case, outcome: Outcome, judge: Callable[[Case], Outcome], end: float) -> tuple[Case, Outcome]:
    """Clauses and lines of the text left out, and how it runs made plain, where that changes nothing."""
    improved = True
    while improved and time.monotonic() < end:
        improved = False
        for candidate in _variants(case):
            found = judge(candidate)
            if alike(found, outcome):
                case, outcome, improved = candidate, found, True
                break
    return case, outcome


def _variants(case: Case) -> Iterator[Case]:
    if case.threads > 1:
        yield replace(case, threads=1)
    if case.target != "interp":
        yield replace(case, target="interp")
    if case.schedule == "user":
        yield replace(case, schedule="automatic", steps=())
    for k in range(len(case.open)):
        yield replace(case, open=case.open[:k] + case.open[k + 1:])
    if case.called:
        yield replace(case, called=False, constants=(), out=False)
    if case.constants or case.out:
        yield replace(case, constants=(), out=False)
    for k, x in enumerate(case.inputs):
        if x.layout:
            yield replace(case, inputs=(*case.inputs[:k], replace(x, layout=""), *case.inputs[k + 1:]))
    lines = case.text.splitlines()
    for k in range(len(lines)):
        yield replace(case, text="\n".join(lines[:k] + lines[k + 1:]))
    for m in re.finditer(r"\((\w+(\[[^\]]*\])?) [-+*] [^()]*\)|\(([^()]*)\)", case.text):
        yield replace(case, text=case.text[:m.start()] + (m[1] or m[3]) + case.text[m.end():])
