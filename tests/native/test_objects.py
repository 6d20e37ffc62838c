"""The loader of object files: what it loads computes what LLVM's own loader makes of it, and what is broken is refused."""

from __future__ import annotations

import ctypes
import random
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from polytc.native import jit, linking, objects

pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").exists() or jit.host()[0] == "", reason="the loader is for Linux")

TEXT = """\
@table = internal constant [4 x double] [double 1.5, double 2.5, double -3.0, double 8.0]
declare double @fmod(double, double)
define internal double @inner(double %x) noinline {
  %y = call double @fmod(double %x, double 3.0)
  ret double %y
}
define double @look(i64 %n, double %x) {
  %p = getelementptr double, ptr @table, i64 %n
  %t = load double, ptr %p
  %y = call double @inner(double %x)
  %s = fadd double %t, %y
  ret double %s
}
define void @copy(ptr %to, ptr %from, i64 %bytes) {
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


def built(text: str) -> bytes:
    return jit.build(text, *jit.host(), jit.Tuning(slp=False, vectorize=False, level=1))


@pytest.fixture(scope="module")
def data() -> bytes:
    found = built(TEXT)
    try:
        objects.Image(found)
    except objects.Unsupported as why:
        if struct.unpack_from("<H", found, 18)[0] == 62 and sys.platform == "linux":
            raise
        pytest.skip(str(why))
    return found


def test_functions_constants_and_calls_outside(data: bytes) -> None:
    for code in (objects.Image(data), jit.Linked(data)):
        look = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64, ctypes.c_double)(code.address("look"))
        assert [look(n, 10.0) for n in range(4)] == [2.5, 3.5, -2.0, 9.0]
        copy = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(code.address("copy"))
        a, b = np.arange(1000.0), np.zeros(1000)
        copy(b.ctypes.data, a.ctypes.data, a.nbytes)
        np.testing.assert_array_equal(a, b)
        assert code.address("nothing") == 0


def test_memory_is_executable_or_writable_but_never_both(data: bytes) -> None:
    image = objects.Image(data)
    address = image.address("look")
    for line in Path("/proc/self/maps").read_text().splitlines():
        low, _, high = line.split()[0].partition("-")
        if int(low, 16) <= address < int(high, 16):
            assert line.split()[1] == "r-xp"
            return
    pytest.fail("the function is in no mapping")


def test_unknown_functions_are_refused() -> None:
    with pytest.raises(objects.Unsupported, match="polytc_has_no_such_function"):
        objects.Image(built("declare void @polytc_has_no_such_function()\n"
                            "define void @f() {\n  call void @polytc_has_no_such_function()\n  ret void\n}\n"))


def test_data_that_is_written_is_left_to_llvm() -> None:
    data = built("@state = internal global i64 5\ndefine i64 @next() {\n  %a = load i64, ptr @state\n  %b = add i64 %a, 1\n"
                 "  store i64 %b, ptr @state\n  ret i64 %b\n}\n")
    with pytest.raises(objects.Unsupported):
        objects.Image(data)
    code = linking.Code(data)
    call = ctypes.CFUNCTYPE(ctypes.c_int64)(code.address("next"))
    assert [call(), call()] == [6, 7]


def test_other_bytes_are_refused(data: bytes) -> None:
    for other in (b"", b"no object", data[:40], b"\x7fELF" + bytes(60), data[:18] + struct.pack("<H", 183) + data[20:]):
        with pytest.raises(objects.Unsupported):
            objects.Image(other)


def test_broken_objects_are_refused_or_loaded_but_never_crash(data: bytes) -> None:
    """In a process of its own: writing outside of the mapping would end it."""
    script = ("import random, sys\nfrom polytc.native import objects\ndata = sys.stdin.buffer.read()\nr = random.Random(7)\n"
              "refused = 0\n"
              "for n in range(3000):\n"
              "    b = bytearray(data[:r.randrange(len(data))] if n % 3 == 0 else data)\n"
              "    for _ in range(r.randrange(1, 6) * (n % 3 != 0)):\n"
              "        b[r.randrange(len(b))] = r.choice((0, 1, 127, 128, 255, r.randrange(256)))\n"
              "    try:\n        objects.Image(bytes(b))\n    except objects.Unsupported:\n        refused += 1\n"
              "print(refused)\n")
    done = subprocess.run([sys.executable, "-c", script], input=data, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    assert int(done.stdout) >= 1000  # all that are cut short


def test_relocations_stay_within_their_section(data: bytes) -> None:
    """Each relocation moved beyond the end of its section is refused."""
    moved = 0
    for at in range(len(data) - 24):
        offset, info, _ = struct.unpack_from("<QQq", data, at)
        if info & 0xffffffff == 1 and 0 < info >> 32 < 32 and offset < 4096:
            broken = bytearray(data)
            struct.pack_into("<Q", broken, at, 1 << random.Random(at).randrange(14, 63))
            try:
                objects.Image(bytes(broken))
            except objects.Unsupported:
                moved += 1
    assert moved >= 2


def test_addresses_in_sections_that_are_not_loaded_are_refused(data: bytes) -> None:
    """Each symbol moved into the table of symbols, which is no part of the program: nobody finds it, and no code may use it."""
    sections = list(objects._sections(data))
    number, table = next((n, s) for n, s in enumerate(sections) if s.type == 2)
    names, refused = sections[table.link].start, 0
    for at in range(table.start, table.start + table.size, 24):
        name_at, section = struct.unpack_from("<IBBH", data, at)[::3]
        if not 0 < section < len(sections):
            continue
        broken = bytearray(data)
        struct.pack_into("<H", broken, at + 6, number)
        name = data[names + name_at:data.index(b"\0", names + name_at)].decode()
        try:
            assert objects.Image(bytes(broken)).address(name) == 0
        except objects.Unsupported as why:
            refused += "not loaded" in str(why)
    assert refused >= 1  # the table
