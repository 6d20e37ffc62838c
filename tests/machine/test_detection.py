"""The processor as the system tells it: its clock, and what LLVM does not find of Arm's."""

from __future__ import annotations

import platform
import struct
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


NEOVERSE_N1, GRAVITON3 = (0x119FFF, 0), (0x87FFFFFF, 1 << 13 | 1 << 14)
"""Linux's words of two processors: fp, asimd, ..., fphp, asimdhp, ..., asimddp; and i8mm, bf16."""


def _tells(root: Path, words: tuple[int, int]) -> Path:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/auxv").write_bytes(struct.pack("=8Q", 6, 4096, 16, words[0], 26, words[1], 0, 0))
    return root


@pytest.mark.parametrize(("words", "features"), [
    ((0x8FF, 0), ["+neon", "-fullfp16", "-dotprod", "-i8mm", "-bf16"]),
    (NEOVERSE_N1, ["+neon", "+fullfp16", "+dotprod", "-i8mm", "-bf16"]),
    (GRAVITON3, ["+neon", "+fullfp16", "+dotprod", "+i8mm", "+bf16"])])
def test_features_of_arm(words: tuple[int, int], features: list[str], tmp_path: Path) -> None:
    assert detection.arm_features(_tells(tmp_path, words)) == features


def test_other_systems_tell_no_features_of_arm(tmp_path: Path) -> None:
    assert detection.arm_features(tmp_path) == ["+neon"]


@pytest.mark.parametrize("llvm_says", ["+aes,+crc,+fp-armv8,+lse,+neon,-sve", ""])
@pytest.mark.parametrize(("words", "dots"), [(GRAVITON3, ("dot_u8i8", "dot_i8i8", "dot_u8u8")), ((0x8FF, 0), ())])
def test_an_arm_processor_has_its_dot_products(words: tuple[int, int], dots: tuple[str, ...], llvm_says: str, tmp_path: Path,
                                               monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM's list for a Graviton 3 has '+neon' and no dot products; on macOS it may have neither."""
    told = detection.arm_features(_tells(tmp_path, words))
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    monkeypatch.setattr(detection, "arm_features", lambda: told)
    made = detection.detect("neoverse-v1", llvm_says)
    assert made.dots == dots
    assert made.architecture == "aarch64"
    assert made.features.split(",").count("+neon") == 1
