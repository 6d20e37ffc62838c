"""Programs whose code has a digest: those of the language's tables, of onnx's node suite, and of models in a folder."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import onnx

import polytc
from language.programs import PROGRAMS
from language.tc import PROGRAMS as TC
from polytc import errors, stages
from polytc.graph.tools import listing
from polytc.options import Licence
from polytc.program.program import Program
from tests.generator import choices, judge, programs
from tests.test_programs import LARGE, SMALL
from tests.test_symbolic import CASES

Named = tuple[str, Program]


def of_language() -> Iterator[Named]:
    for p in (*PROGRAMS, *TC):
        yield f"table, {p.name}", stages.build(p.text, {n: a.shape for n, a in p.arrays().items()},
                                            {n: a.dtype for n, a in p.arrays().items()}, scalars=dict(p.numbers))
    for size, table in (("small", SMALL), ("large", LARGE)):
        for name, (text, shapes) in table.items():
            yield f"{size}, {name}", stages.build(text, shapes)
    for name, case in CASES.items():
        yield f"open, {name}", stages.build(case.text, case.shapes, case.dtypes)


def of_random(seeds: Iterable[int]) -> Iterator[Named]:
    """Random programs; those that are refused have no code."""
    for seed in seeds:
        with suppress(errors.CompileError):
            yield f"random, {seed}", judge.built(programs.case(choices.seeded(seed), language=True))


def of_operators(kind: str, each: bool) -> Iterator[Named]:
    """The kernels of onnx's node tests, for a target of this name. each: of all tests, else of the first of each operator."""
    met = set()
    for case in _node_suite():
        operators = tuple((n.domain, n.op_type) for n in case.model.graph.node)
        if each or operators not in met:
            met.add(operators)
            yield from _kernels(case.name, case.model, kind)


def of_models(files: Iterable[Path], kind: str) -> Iterator[Named]:
    """The kernels of models whose files say all shapes, and those that a run with extents of 1 would have for others."""
    for path in files:
        yield from _kernels(path.stem, path, kind)


@cache
def _node_suite() -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite computes its expected values with overflows and divisions by zero
        from onnx.backend.test.loader import load_model_tests
        return sorted((c for c in load_model_tests(kind="node") if not c.name.endswith("_expanded")), key=lambda c: str(c.name))


def _kernels(name: str, model: onnx.ModelProto | Path, kind: str) -> Iterator[Named]:
    """What cannot be compiled has no kernels."""
    try:
        graph = polytc.load_onnx(model)
        shapes = {v.name: [d if isinstance(d, int) else 1 for d in v.shape or ()] for v in graph.inputs}
        found, _ = listing.kernels(graph, shapes, kind, Licence())
    except errors.PolytcError:
        return
    for k, (label, program) in enumerate(found):
        yield f"{name}, {k} {label[:40]}", program
