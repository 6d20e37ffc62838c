"""What came of the faults, and what readers found out about those that survive.

verdicts.tsv has a line for each survivor that somebody read: the file, `same` (no input shows a difference), `speed` (results
stay right, code or compilation change) or `text` (words of messages), the line as it was and as it became, and why. Other
survivors change what programs mean, until somebody shows that they do not.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import WorkerOutcome, WorkResult

from tests.mutation.faults import SESSION

VERDICTS = Path(__file__).with_name("verdicts.tsv")


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
    """The summary, the survivors by verdict and file, and each that has no verdict with its change."""
    with use_db(str(folder / SESSION), WorkDB.Mode.open) as session:
        alive = [(item.mutations[0], result) for item, result in session.completed_work_items if not result.is_killed]
    alive.sort(key=lambda pair: (str(pair[0].module_path), pair[0].start_pos))
    known = verdicts()
    found = [known.get((str(fault.module_path), *_change(result)), ("unread", "")) for fault, result in alive]
    unread = [pair for pair, (verdict, _) in zip(alive, found, strict=True) if verdict == "unread"]
    lines = [summary(folder), *(f"{count:4} {verdict}" for verdict, count in Counter(v for v, _ in found).most_common()), ""]
    lines += [f"{count:4} {name}" for name, count in Counter(str(fault.module_path) for fault, _ in unread).most_common()]
    for fault, result in unread:
        old, new = _change(result)
        lines += ["", f"{fault.module_path}:{fault.start_pos[0]} {fault.operator_name.rpartition('/')[2]}"]
        lines += [f"- {old}", f"+ {new}"] if old else [result.output or ""]
    for (fault, _), (verdict, why) in zip(alive, found, strict=True):
        if why:
            lines += ["", f"{fault.module_path}:{fault.start_pos[0]} {verdict}: {why}"]
    return "\n".join(lines)


def verdicts() -> dict[tuple[str, str, str], tuple[str, str]]:
    """(file, old line, new line) -> the verdict on that fault, and why."""
    lines = VERDICTS.read_text(encoding="utf-8").splitlines()
    return {(file, old, new): (verdict, why) for file, verdict, old, new, why in (line.split("\t") for line in lines)}


def _change(result: WorkResult) -> tuple[str, str]:
    """The changed lines before and after, with single spaces."""
    lines = [x for x in (result.diff or "").splitlines() if not x.startswith(("---", "+++"))]
    old, new = (" ".join(" ".join(x[1:] for x in lines if x.startswith(sign)).split()) for sign in "-+")
    return old, new
