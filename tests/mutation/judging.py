"""Judging faults: each is put into a copy of the checkout and meets the tests of its line."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec, TestOutcome, WorkerOutcome, WorkItem, WorkResult

from tests.mutation.covering import Covering
from tests.mutation.faults import SESSION

PATIENCE, START = 4, 20.0
"""Times as many seconds as the tests take without a fault, and what pytest needs to start: a fault that hangs costs time, one
that is taken for hanging on a machine with other work would count as caught."""
UNCOVERED = "no test runs this line"


def run(folder: Path, processes: int, minutes: float, seconds: float) -> None:
    """Judge what is not judged yet, by the tests of each line, until the time is over."""
    covering = Covering(folder)

    def judges(fault: MutationSpec) -> list[str]:
        return covering.tests(fault.module_path, fault.start_pos[0], fault.end_pos[0], seconds)

    with use_db(str(folder / SESSION), WorkDB.Mode.open) as session:
        _judge(session, sorted(session.pending_work_items, key=lambda i: i.job_id), judges, processes, minutes, seconds)


def again(folder: Path, tests: list[str], processes: int, minutes: float, seconds: float) -> None:
    """Judge what survived once more, by these tests."""
    with use_db(str(folder / SESSION), WorkDB.Mode.open) as session:
        alive = [item for item, result in session.completed_work_items if not result.is_killed]
        _judge(session, alive, lambda fault: tests, processes, minutes, seconds)


def _judge(session: WorkDB, pending: list[WorkItem], judges: Callable[[MutationSpec], list[str]], processes: int,
           minutes: float, seconds: float) -> None:
    end = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory() as scratch:
        places = [_copy(Path(scratch) / str(n)) for n in range(processes)]
        with ProcessPoolExecutor(processes) as pool:
            under_way = {}
            while (pending or under_way) and (under_way or time.monotonic() < end):
                while pending and places and time.monotonic() < end:
                    item, place = pending.pop(0), places.pop()
                    (fault,) = item.mutations
                    under_way[pool.submit(judged, item, judges(fault), place, seconds)] = item, place
                for done in as_completed(list(under_way)):
                    item, place = under_way.pop(done)
                    places.append(place)
                    session.set_result(item.job_id, done.result())
                    break


def _copy(place: Path) -> Path:
    """A copy of the checkout, with what is not committed, and the trained models."""
    subprocess.run(["git", "clone", "--quiet", "--local", ".", str(place)], check=True)
    changed = subprocess.run(["git", "diff", "HEAD"], check=True, capture_output=True).stdout
    if changed:
        subprocess.run(["git", "apply"], cwd=place, input=changed, check=True)
    if Path(".models").exists():
        (place / ".models").symlink_to(Path(".models").resolve())
    return place


def judged(item: WorkItem, tests: list[str], place: Path, seconds: float) -> WorkResult:
    """What became of a fault in a copy of the checkout."""
    if not tests:
        return WorkResult(WorkerOutcome.NO_TEST, UNCOVERED, TestOutcome.SURVIVED)
    os.chdir(place)
    names = place / "judges.txt"
    names.write_text("\n".join(tests))
    os.environ.update(POLYTC_CACHE="0", POLYTC_PROCESSES="1", PYTHONDONTWRITEBYTECODE="1", OPENBLAS_NUM_THREADS="1")
    command = f"{sys.executable} -m pytest -x -q -p no:cacheprovider -p no:xdist @{names}"
    return mutate_and_test(item.mutations, command, PATIENCE * seconds + START)
