"""The faults: those of cosmic-ray's operators, sampled over the lines of the files that transform programs and emit code."""

from __future__ import annotations

import ast
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import cosmic_ray.commands
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec

SESSION = "faults.db"
PLACES = ("polytc/rewrite", "polytc/schedule", "polytc/poly", "polytc/codegen/astgen.py",
          "polytc/codegen/lower.py", "polytc/codegen/passes", "polytc/targets/llvm", "polytc/targets/ctext",
          "polytc/targets/opencl", "polytc/targets/c", "polytc/targets/interp")
"""Where faults are seeded, as far as these are there."""


def sample(folder: Path, count: int, seed: int) -> int:
    """Choose faults, the same for the same seed and sources; how many. What was chosen and judged before is forgotten."""
    paths = [p for place in map(Path, PLACES) for p in ([place] if place.suffix else sorted(place.rglob("*.py"))) if p.exists()]
    with use_db(str(folder / "all.db"), WorkDB.Mode.create) as everything:
        cosmic_ray.commands.init(paths, everything, {})
        by_line: dict[tuple[str, int], list[MutationSpec]] = defaultdict(list)
        dead = {p: set(_without_effect(p)) for p in paths}
        text = {p: p.read_text().splitlines() for p in paths}
        for item in everything.work_items:
            (fault,) = item.mutations
            (first, column), path = fault.start_pos, fault.module_path
            asserts = text[path][first - 1][:column].endswith("strict=")  # of zip
            if not asserts and not any(line in dead[path] for line in range(first, fault.end_pos[0] + 1)):
                by_line[str(path), first].append(fault)
        chosen = random.Random(seed).sample(sorted(by_line), min(count, len(by_line)))
        pick = random.Random(seed + 1)
        wanted = {_order(pick.choice(sorted(by_line[line], key=_order))) for line in chosen}
        items = [item for item in everything.work_items if _order(item.mutations[0]) in wanted]
    (folder / "all.db").unlink()
    with use_db(str(folder / SESSION), WorkDB.Mode.create) as session:
        session.clear()
        session.add_work_items(items)
    return len(items)


def _order(fault: MutationSpec) -> tuple[str, str, int, str]:
    return str(fault.module_path), fault.operator_name, fault.occurrence, str(sorted(fault.operator_args.items()))


def _without_effect(path: Path) -> Iterator[int]:
    """Lines where a fault does nothing, or costs time only: annotations, which are never evaluated, assertions, docstrings,
    imports, decorators that keep results."""
    for node in ast.walk(ast.parse(path.read_text())):
        parts: list[ast.AST | None] = []
        match node:
            case ast.FunctionDef():
                parts = [node.returns, *(a.annotation for a in (*node.args.args, *node.args.kwonlyargs)),
                         *(d for d in node.decorator_list if "cache" in ast.unparse(d))]
            case ast.AnnAssign():
                parts = [node.annotation] if node.value is None or node.annotation.lineno != node.value.lineno else []
            case ast.Assert() | ast.Import() | ast.ImportFrom():
                parts = [node]
            case ast.Expr(value=ast.Constant()):
                parts = [node]
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                parts = [node]
        for part in parts:
            if part is not None:
                yield from range(part.lineno, (part.end_lineno or part.lineno) + 1)  # type: ignore[attr-defined]
