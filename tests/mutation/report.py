"""What came of the faults."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import WorkerOutcome

from tests.mutation.faults import SESSION


def summary(folder: Path) -> str:
    """One line: how many are judged, caught, and alive."""
    with use_db(str(folder / SESSION), WorkDB.Mode.open) as session:
        results = [result for _, result in session.completed_work_items]
        total = session.num_work_items
    caught = sum(r.is_killed for r in results)
    uncovered = sum(r.worker_outcome == WorkerOutcome.NO_TEST for r in results)
    share = 100 * caught / max(1, len(results))
    return f"{len(results)} of {total} judged, {caught} caught ({share:.1f} %), {uncovered} on lines that no test runs"


def whole(folder: Path) -> str:
    """The summary, the survivors by file, and each with its change."""
    with use_db(str(folder / SESSION), WorkDB.Mode.open) as session:
        alive = [(item.mutations[0], result) for item, result in session.completed_work_items if not result.is_killed]
    alive.sort(key=lambda pair: (str(pair[0].module_path), pair[0].start_pos))
    files = Counter(str(fault.module_path) for fault, _ in alive)
    lines = [summary(folder), *(f"{count:4} {name}" for name, count in files.most_common())]
    for fault, result in alive:
        changed = [x for x in (result.diff or result.output or "").splitlines()
                   if x.startswith(("-", "+")) and not x.startswith(("---", "+++"))] or [result.output or ""]
        lines += ["", f"{fault.module_path}:{fault.start_pos[0]} {fault.operator_name.rpartition('/')[2]}", *changed]
    return "\n".join(lines)
