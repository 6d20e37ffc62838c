"""The clock of the processor, as the system tells it."""

from __future__ import annotations

from pathlib import Path

import pytest

from polytc import processors
from polytc.machine import GENERIC_CPU, detection

FREQUENCY, NAMES = "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "proc/cpuinfo"


@pytest.mark.parametrize(("files", "clock", "origin"), [
    ({FREQUENCY: "3700000\n", NAMES: "model name : X @ 2.10GHz\n"}, 3.7e9, "documented: Linux"),
    ({NAMES: "processor : 0\nmodel name : Xeon(R) @ 2.10GHz\ncpu MHz : 17.3\n"}, 2.1e9, "documented: the name"),
    ({FREQUENCY: "?", NAMES: "model name : AMD EPYC\ncpu MHz : 2596.1\n"}, GENERIC_CPU.clock, "guess: "),
    ({FREQUENCY: "0", NAMES: "model name : X @ 1.2.3GHz\n"}, GENERIC_CPU.clock, "guess: "),
    ({}, GENERIC_CPU.clock, "guess: "),
])
def test_the_clock(files: dict[str, str], clock: float, origin: str, tmp_path: Path) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found, told = detection.detect_clock(tmp_path)
    assert found == pytest.approx(clock)
    assert told.startswith(origin)


def test_a_detected_machine_says_where_its_clock_is_from() -> None:
    made = detection.detect("", "")
    assert dict(made.origins)["clock"].partition(":")[0] in ("documented", "guess")


@pytest.mark.parametrize(("cpu", "tiles", "dots"), [("znver5", False, True), ("sapphirerapids", True, True),
                                                    ("sapphirerapids", False, False), ("rocketlake", False, False)])
def test_dots_of_halves_where_they_are_faster(cpu: str, tiles: bool, dots: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Intel's vector instruction is slower than multiply-adds of f32."""
    monkeypatch.setattr(processors, "allow_tiles", lambda: tiles)
    made = detection.detect(cpu, "+avx512f,+avx512vl,+avx512bf16,+amx-tile,+amx-bf16")
    assert ("dot_bf16" in made.dots) == dots
    assert ("costs.arithmetic.pairs" in dict(made.origins)) == (cpu != "znver5")
