"""`python -m tests.digests write FILE | compare FILE`: did a change that was to change nothing change generated code?

    python -m tests.digests write before.json --models ../zoo        # on the old sources
    python -m tests.digests compare before.json --models ../zoo      # on the new ones
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from pathlib import Path

from tests.digests.digest import TARGETS, digests
from tests.digests.programs import of_language, of_models, of_operators, of_random


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.digests", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["write", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--models", type=Path, help="a folder of .onnx files")
    parser.add_argument("--targets", nargs="+", default=list(TARGETS), choices=list(TARGETS))
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    found = _all(given.targets, given.models, given.processes)
    if given.command == "write":
        given.file.write_text(json.dumps(found, indent=0, sort_keys=True))
        print(f"{len(found)} digests")
        return 0
    before = {k: v for k, v in json.loads(given.file.read_text()).items() if k.split(":")[0] in given.targets}
    changed = sorted(k for k in found.keys() | before.keys() if found.get(k) != before.get(k))
    print("\n".join([*changed[:50], f"{len(changed)} of {len(found)} digests differ"]))
    return bool(changed)


def _all(targets: list[str], models: Path | None, processes: int) -> dict[str, str]:
    files: list[Path | None] = [None, *(sorted(models.glob("*.onnx")) if models is not None else [])]
    with ProcessPoolExecutor(processes) as pool:
        parts = pool.map(_some, *zip(*((t, f) for f in files for t in targets), strict=True))
        return {k: v for part in parts for k, v in part.items()}


def _some(target: str, file: Path | None) -> dict[str, str]:
    """The digests for a target: of a model, or of all that needs none."""
    kind = TARGETS[target].name
    if file is not None:
        found = digests(of_models([file], kind), target)
    else:
        named = chain(of_language(), of_operators(kind, each=True), of_random(range(400)))
        found = digests(named, target)
    return {f"{target}: {name}": text for name, text in found.items()}


if __name__ == "__main__":
    raise SystemExit(main())
