"""The account of what kernels use on a GPU, read from what compilers are known to say: no compiler is needed here."""

from __future__ import annotations

from pathlib import Path

import pytest

from polytc.codegen import loops as L
from polytc.codegen.target import Source
from polytc.errors import TargetError
from polytc.machine import DEVICES
from polytc.program.scalars import F32
from polytc.targets.opencl import kernel_table, static
from polytc.targets.opencl.target import OpenCLTarget
from tests.codegen import loop_programs as P

PTXAS = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '{entry}' for 'sm_90'
ptxas info    : Function properties for {entry}
    0 bytes stack frame, {spilled} bytes spill stores, 8 bytes spill loads
ptxas info    : Used {registers} registers, used 1 barriers, {local} bytes smem, 400 bytes cmem[0]
"""
PTX = """.visible .entry {entry}(
	ld.global.v4.f32 	{{%f1, %f2, %f3, %f4}}, [%rd1];
	ld.global.nc.v2.b64 	{{%rd3, %rd4}}, [%rd1];
	ld.global.v2.f32 	{{%f1, %f2}}, [%rd1];
	ld.global.f32 	%f1, [%rd1];
	st.global.v4.b32 	[%rd2], {{%r1, %r2, %r3, %r4}};
$L__BB0_1:
	ld.shared.f32 	%f5, [%r1];
	fma.rn.f32 	%f6, %f5, %f5, %f6;
	@%p1 bra 	$L__BB0_1;
	fma.rn.f32 	%f6, %f5, %f5, %f6;
	fma.rn.f32 	%f6, %f5, %f5, %f6;
	ld.shared.v4.f32 	{{%f1, %f2, %f3, %f4}}, [%r1];
	ld.shared.f32 	%f5, [%r1];
	ld.shared.f32 	%f5, [%r1];
	bar.sync 	0;
	fma.rn.f32 	%f6, %f5, %f5, %f6;
	ret;
"""
REMARKS = """k.cl:1:0: remark: Function Name: {entry} [-Rpass-analysis=kernel-resource-usage]
k.cl:1:0: remark:     TotalSGPRs: 18 [-Rpass-analysis=kernel-resource-usage]
k.cl:1:0: remark:     VGPRs: {registers} [-Rpass-analysis=kernel-resource-usage]
k.cl:1:0: remark:     ScratchSize [bytes/lane]: {spilled} [-Rpass-analysis=kernel-resource-usage]
k.cl:1:0: remark:     Occupancy [waves/SIMD]: {waves} [-Rpass-analysis=kernel-resource-usage]
k.cl:1:0: remark:     LDS Size [bytes/block]: {local} [-Rpass-analysis=kernel-resource-usage]
"""
GCN = """
{entry}:
	global_load_dwordx4 v[0:3], v4, s[0:1]
	global_load_dwordx4 v[0:3], v4, s[0:1]
	global_load_dwordx2 v[0:1], v4, s[0:1]
	global_store_dwordx4 v4, v[0:3], s[2:3]
.LBB0_1:
	ds_read_b32 v1, v2
	v_fmac_f32_e32 v3, v1, v1
	s_cbranch_scc1 .LBB0_1
	v_pk_fma_f32 v[4:5], v[4:5], v[4:5], v[4:5]
	v_fma_f32 v3, v1, v1, v3
	ds_read_b128 v[0:3], v2
	s_barrier
	v_fmac_f32_e32 v3, v1, v1
	s_endpgm
"""
X, Y = L.Buffer("X", F32, (4096,)), L.Buffer("Y", F32, (1024,))


def copies(device: str, items: int = 64, kernels: int = 1) -> Source:
    """Y[items * b + t] = X[2 * t + 64 * b] for 4 groups."""
    t = L.Var("t")
    store = L.Store(Y, (P.add(P.scaled("b", items), t),), P.load(X, P.add(P.scaled("t", 2), P.scaled("b", 64))))
    body = P.loop("b", 4, P.loop("t", items, store, "thread"), "block")
    return OpenCLTarget(DEVICES[device]).emit(P.module("m", (X, Y), ("Y",), *[body] * kernels))


COMPILER = """#!/bin/sh
for word in "$@"; do
    [ "$last" = -o ] && out="$word"
    [ "$last" = -S ] && { /bin/grep -q __kernel "$word" || exit 3; }
    last="$word"
done
/bin/cat "$0.code" > "$out"
/bin/cat "$0.log" >&2
exit $(/bin/cat "$0.status")
"""


def compilers_that_say(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str, log: str, status: int = 0) -> None:
    """In the place of clang, which writes this code, and ptxas; both say this."""
    for name in ("clang", "ptxas"):
        (folder / name).write_text(COMPILER)
        (folder / name).chmod(0o755)
        (folder / f"{name}.code").write_text(code)
        (folder / f"{name}.log").write_text(log)
        (folder / f"{name}.status").write_text(str(status))
    monkeypatch.setenv("PATH", str(folder))


@pytest.mark.parametrize(("registers", "local", "items", "occupancy"), [
    (32, 0, 256, 1.0),               # 8 groups of 8 warps: as many as there are places for
    (64, 0, 256, 0.5),               # 65536 registers are 4 groups of 256 items
    (65, 0, 256, 3 * 8 / 64),        # 72 are allotted: 3 groups
    (32, 100_000, 256, 2 * 8 / 64),  # 2 groups of 101024 bytes
    (16, 0, 32, 32 / 64),            # 32 groups of one warp
    (255, 49152, 40, 4 * 2 / 64)])   # 40 items are two warps; 4 groups of 50176 bytes, 4 of 16384 registers
def test_what_ptxas_says(registers: int, local: int, items: int, occupancy: float, tmp_path: Path,
                         monkeypatch: pytest.MonkeyPatch) -> None:
    source = copies("nvidia-sm90", items, 2)
    first, second = (launch.entry for launch in source.launches)
    log = PTXAS.format(entry=first, registers=registers, spilled=12, local=local) + \
        PTXAS.format(entry=second, registers=7, spilled=0, local=3)
    idle = PTX.format(entry=second).partition("$L__BB0_1")[0]
    compilers_that_say(tmp_path, monkeypatch, PTX.format(entry=first) + idle, log)
    found = static.nvidia(source)
    assert found[first] == static.Resources(registers, 12, local, pytest.approx(occupancy), (2, 1), (2, 3))
    assert (found[second].registers, found[second].spilled, found[second].local_bytes) == (7, 0, 3)
    assert (found[second].vector_accesses, found[second].hot) == ((2, 1), (0, 0))


def test_each_kernel_has_its_own_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ptxas says nothing of shared memory where there is none."""
    source = copies("nvidia-sm90", 64, 2)
    first, second = (launch.entry for launch in source.launches)
    log = PTXAS.format(entry=first, registers=9, spilled=0, local=0).replace(" 0 bytes smem,", "") + \
        PTXAS.format(entry=second, registers=7, spilled=0, local=512)
    compilers_that_say(tmp_path, monkeypatch, PTX.format(entry=first) + PTX.format(entry=second), log)
    assert [x.local_bytes for x in static.nvidia(source).values()] == [0, 512]


def test_what_clang_says_of_amd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = copies("amd-gfx90a", 64, 2)
    first, second = (launch.entry for launch in source.launches)
    log = REMARKS.format(entry=first, registers=40, spilled=16, waves=6, local=512) + \
        REMARKS.format(entry=second, registers=8, spilled=0, waves=8, local=0)
    compilers_that_say(tmp_path, monkeypatch, GCN.format(entry=first) + f"\n{second}:\n\ts_endpgm\n", log)
    assert static.amd(source) == {first: static.Resources(40, 16, 512, 0.75, (2, 1), (2, 1)),
                                  second: static.Resources(8, 0, 0, 1.0, (0, 0), (0, 0))}


def test_calls_are_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = copies("amd-gfx90a")
    (entry,) = (launch.entry for launch in source.launches)
    calls = "\ts_add_u32 s4, s4, sinf@rel32@lo+4\n\ts_add_u32 s4, s4, cosf@rel32@lo+4\n"
    compilers_that_say(tmp_path, monkeypatch, f"\n{entry}:\n{calls}\ts_endpgm\n",
                       REMARKS.format(entry=entry, registers=1, spilled=0, waves=8, local=0))
    with pytest.raises(TargetError) as info:
        kernel_table.table(source, "amd-gfx90a")
    assert info.value.code == "E515"
    assert info.value.notes == (f"error: {entry} calls cosf, sinf, whose registers are not known",)


@pytest.mark.parametrize("device", ["nvidia-sm90", "amd-gfx90a"])
def test_what_a_compiler_refuses_is_told(device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "k.cl:3:1: warning: odd\nk.cl:4:2: error: wrong\nk.cl:5:2: fatal: too wrong\n"
    compilers_that_say(tmp_path, monkeypatch, "", said, status=1)
    with pytest.raises(TargetError) as info:
        kernel_table.table(copies(device), device)
    assert info.value.notes == ("k.cl:4:2: error: wrong", "k.cl:5:2: fatal: too wrong")


def test_a_line_of_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    source = copies("nvidia-sm90")
    monkeypatch.setattr(static, "missing", lambda device: "")
    monkeypatch.setitem(static.CHECKS, "nvidia-sm90", lambda source: {
        launch.entry: static.Resources(24, 4, 512, 0.5, (3, 2), (64, 8)) for launch in source.launches})
    (line,) = kernel_table.table(source, "nvidia-sm90")
    asked, moved = 2 * 32 * 4, 64 * 4 + 32 * 4                                  # by a warp: every other word is loaded
    whole = f"{4 * 2 * moved / (4 * (4096 + 1024)):.2f}"
    assert line.split()[1:-2] == ["4", "x", "64", "24", "4", "512", "0.50", "3+2", "64:8", f"{asked / moved:.2f}", "0.00", "0",
                                  whole, "1.00"]
    assert line.split()[-2:] == ["0.4", "waiting"]
    assert len(line[:kernel_table.HEAD.index("  bound")]) == len(kernel_table.HEAD) - len("  bound")


def test_the_table_tells_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    here: set[str] = set()
    monkeypatch.setattr(static.shutil, "which", lambda name: f"/bin/{name}" if name in here else None)
    monkeypatch.setattr(static.importlib.util, "find_spec", lambda name: None)
    assert [static.missing(d) for d in ("nvidia-sm90", "amd-gfx90a")] == ["clang", "clang"]
    here.add("clang-20")
    assert static.clang() == "/bin/clang-20"
    assert [static.missing(d) for d in ("nvidia-sm90", "amd-gfx90a")] == ["ptxas", ""]
    here |= {"ptxas", "clang-22", "clang"}
    assert static.clang() == "/bin/clang-22"
    assert [static.missing(d) for d in ("nvidia-sm90", "amd-gfx90a")] == ["", ""]
