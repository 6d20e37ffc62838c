"""Random models by the thousand, beside ONNX Runtime:

    python -m tests.graph.random_models --count 20000 --seed 0 --minutes 60 --resume models.json

Each model runs in a worker process with a time limit. What goes wrong is made smaller and written to a folder, as the
numbers of its choices and the model's text; `--numbers FILE` runs such a file again. `--resume FILE` keeps what is known and
goes on there.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.generator.choices import replayed, seeded
from tests.generator.shrink import simpler
from tests.generator.worker import Worker
from tests.graph.random_models.judge import Outcome, judge, only_onnx_runtime
from tests.graph.random_models.models import made


def key(o: Outcome) -> str:
    """What failures that look alike have in common."""
    lines = o.detail.strip().splitlines() or [""]
    line = next((x for x in reversed(lines) if x and not x.startswith(" ")), "") if o.kind == "failed" else lines[0]
    return o.kind if o.kind == "wrong" else f"{o.kind}: {re.sub(r'[0-9]+|v[0-9]+', '#', line)[:110]}"


def shrunk(numbers: list[int], first: Outcome, run: Callable[[list[int]], Outcome], seconds: float) -> tuple[list[int],
         Outcome]:
    """The smallest model found in that time that goes wrong in the same way."""
    end, best, outcome = time.monotonic() + seconds, numbers, first
    improved = True
    while improved and time.monotonic() < end:
        improved = False
        for candidate in simpler(best):
            if time.monotonic() > end:
                break
            chance = replayed(candidate)
            try:
                text = str(made(chance))
            except Exception:
                continue
            if (len(text), len(chance.taken), sum(chance.taken)) >= (len(outcome.text) or 10**9, len(best), sum(best)):
                continue
            found = run(chance.taken)
            if key(found) == key(first) and set(found.recipes) <= set(first.recipes or found.recipes):
                best, outcome, improved = chance.taken, found, True
                break
    return best, outcome


class Campaign:
    """What is known, in a file: the next seed, outcomes by kind and by recipe, what was refused or left, and what went
    wrong."""

    def __init__(self, path: str, seed: int) -> None:
        self.path = Path(path) if path else None
        known = json.loads(self.path.read_text()) if self.path is not None and self.path.exists() else {}
        self.next: int = known.get("next", seed)
        self.kinds: Counter[str] = Counter(known.get("kinds", {}))
        self.recipes: Counter[str] = Counter(known.get("recipes", {}))
        self.messages: Counter[str] = Counter(known.get("messages", {}))
        self.seeds: dict[str, list[int]] = known.get("seeds", {})

    def add(self, seed: int, o: Outcome) -> None:
        self.next = seed + 1
        self.kinds[o.kind] += 1
        for name in o.recipes:
            self.recipes[f"{name}: {o.kind}"] += 1
        if o.kind not in ("right", "tie"):
            self.messages[key(o)] += 1
            self.seeds.setdefault(key(o), []).append(seed)

    def save(self) -> None:
        if self.path is not None:
            self.path.write_text(json.dumps({"next": self.next, "kinds": self.kinds, "recipes": self.recipes,
                                             "messages": self.messages, "seeds": {k: v[:5] for k, v in self.seeds.items()}}))


def judged(worker: Worker, numbers: list[int], limit: float) -> Outcome:
    found = worker.judge(numbers)
    outcome = found if isinstance(found, Outcome) else Outcome(found.kind, found.detail)
    if outcome.kind in ("crash", "hang"):
        other = Worker(limit, only_onnx_runtime)
        if other.judge(numbers).kind in ("crash", "hang"):
            outcome = Outcome("skipped", "ONNX Runtime crashes")
        other.close()
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.graph.random_models", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=1000, help="models")
    parser.add_argument("--seed", type=int, default=0, help="number of the first")
    parser.add_argument("--minutes", type=float, default=60, help="no model is begun later")
    parser.add_argument("--limit", type=float, default=60, help="seconds one model may take")
    parser.add_argument("--shrink", type=float, default=30, help="seconds for making a failure small")
    parser.add_argument("--out", default="failures", help="folder of the failures")
    parser.add_argument("--resume", default="", help="file of what is known, read if it is there, and kept")
    parser.add_argument("--numbers", default="", help="run this failure again, and nothing else")
    options = parser.parse_args()
    if options.numbers:
        again = judge(json.loads(Path(options.numbers).read_text().splitlines()[0]))
        print(again.text, again.kind, again.detail, sep="\n")
        return int(again.bad)
    campaign, worker = Campaign(options.resume, options.seed), Worker(options.limit, judge)
    end, last = time.monotonic() + 60 * options.minutes, campaign.next + options.count
    while time.monotonic() < end and campaign.next < last:
        seed, chance = campaign.next, seeded(campaign.next)
        made(chance)
        outcome = judged(worker, chance.taken, options.limit)
        campaign.add(seed, outcome)
        if outcome.bad:
            numbers, small = shrunk(chance.taken, outcome, lambda x: judged(worker, x, options.limit), options.shrink)
            path = Path(options.out) / f"{outcome.kind}-{seed}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join([json.dumps(numbers), small.text, small.detail, "", "at first:", outcome.text,
                                       outcome.detail, ""]))
            print(f"model {seed}: {key(small)}, {path}", flush=True)
        if campaign.next % 20 == 0:
            campaign.save()
            print(campaign.next, dict(campaign.kinds), flush=True)
    worker.close()
    campaign.save()
    print(campaign.next, dict(campaign.kinds))
    for message, n in campaign.messages.most_common():
        print(f"{n:6d} {message}  {campaign.seeds[message][:5]}")
    return int(any(Outcome(kind).bad for kind in campaign.kinds))


if __name__ == "__main__":
    sys.exit(main())
