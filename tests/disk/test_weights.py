"""Bytes of a model's files: copies in the user's cache or memory, which nobody else writes to."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from polytc.disk import folder, mapped, stamps, weights

pytestmark = pytest.mark.skipif(not folder.SUPPORTED, reason="no owners of files here")

R = np.random.default_rng(3)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A large file and a cache of its own."""
    monkeypatch.setenv("POLYTC_CACHE", "1")
    monkeypatch.setenv("POLYTC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(stamps, "SETTLED", -1000.0)
    monkeypatch.setattr(weights, "LARGE", 1000)
    path = tmp_path / "w.bin"
    path.write_bytes(R.bytes(200_000))
    return path


def copies(file: Path) -> list[Path]:
    return sorted((file.parent / "cache" / "weights").glob("*"))


def test_a_copy_is_made_once_and_outlives_the_file(file: Path) -> None:
    data = file.read_bytes()
    first = weights.contents(file)
    (copy,) = copies(file)
    second = weights.contents(file)
    assert copies(file) == [copy]
    assert (copy.stat().st_mode & 0o077) == 0
    with file.open("r+b") as f:  # as somebody who overwrites it in place, and then cuts it
        f.write(b"\0" * 1000)
        f.truncate(1000)
    assert first.tobytes() == second.tobytes() == data
    assert weights.contents(file).tobytes() == b"\0" * 1000
    found = mapped.origin(first)
    assert found is not None
    assert (found.path, found.live, found.lasting) == (file, False, True)
    mapped.release(first)
    assert first.tobytes() == data


def test_equal_files_share_a_copy_and_changed_ones_do_not(file: Path) -> None:
    other = file.with_name("other.bin")
    shutil.copy(file, other)
    weights.contents(file)
    weights.contents(other)
    assert len(copies(file)) == 1
    other.write_bytes(b"x" * 200_000)
    assert weights.contents(other).tobytes() == b"x" * 200_000
    assert len(copies(file)) == 2


@pytest.mark.parametrize("case", ["off", "small", "limit", "full", "unwritable", "not ours", "no room"])
def test_memory_where_there_is_no_place_for_a_copy(file: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = file.read_bytes()
    if case == "off":
        monkeypatch.setenv("POLYTC_CACHE", "0")
    elif case == "small":
        monkeypatch.setattr(weights, "LARGE", 1 << 20)
    elif case == "limit":
        monkeypatch.setenv("POLYTC_WEIGHTS_SIZE", "100K")
    elif case == "full":
        def full(*_: object) -> None:
            raise OSError(errno.ENOSPC, "no space left on device")
        monkeypatch.setattr(os, "fsync", full)
    elif case == "unwritable":
        (file.parent / "cache").write_text("not a folder")
    elif case == "not ours":
        (file.parent / "cache" / "weights").mkdir(parents=True, mode=0o777)
        (file.parent / "cache" / "weights").chmod(0o777)
    else:
        monkeypatch.setattr(weights, "_free", lambda _: 300_000)
    found = weights.contents(file)
    file.write_bytes(b"")
    assert found.tobytes() == data
    assert not found.flags.writeable
    origin = mapped.origin(found[5:])
    assert origin is not None
    assert not origin.lasting
    mapped.release(found)
    assert found.tobytes() == data
    assert case in ("unwritable",) or not copies(file)


def test_an_interrupt_leaves_nothing_behind(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            weights.contents(file)
    assert not copies(file)
    assert weights.contents(file).tobytes() == file.read_bytes()


def test_copies_that_are_cut_or_of_another_mode_are_made_again(file: Path) -> None:
    weights.contents(file)
    (copy,) = copies(file)
    copy.chmod(0o600)
    copy.write_bytes(b"short")
    assert weights.contents(file).tobytes() == file.read_bytes()
    copy.chmod(0o666)
    assert weights.contents(file).tobytes() == file.read_bytes()
    copy.unlink()
    copy.symlink_to(file)
    assert weights.contents(file).tobytes() == file.read_bytes()
    assert weights.clear() == 1


def test_the_oldest_copies_go_when_the_limit_is_reached(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYTC_WEIGHTS_SIZE", "500K")
    kept = []
    for k in range(4):
        path = file.with_name(f"w{k}.bin")
        path.write_bytes(R.bytes(200_000))
        kept.append((weights.contents(path), path.read_bytes()))
        for age, copy in enumerate(sorted(copies(file), key=os.path.getmtime, reverse=True)):
            os.utime(copy, (1e9 - age, 1e9 - age))
    assert len(copies(file)) == 2
    assert all(a.tobytes() == b for a, b in kept)


def test_a_file_that_changes_while_it_is_read_is_refused(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.pread

    def cut(descriptor: int, size: int, at: int) -> bytes:
        os.truncate(file, 100)
        return before(descriptor, size, at)
    monkeypatch.setattr(os, "pread", cut)
    with pytest.raises(OSError, match="written to while it was read"):
        weights.contents(file)
    assert not copies(file)


def test_in_place(file: Path) -> None:
    found = mapped.origin(weights.contents(file, in_place=True))
    assert found is not None
    assert found.live
    assert not copies(file)


def test_large_arrays_become_parts_of_a_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "LEAST", 100)
    a, b = R.standard_normal((30, 7)), R.integers(0, 99, 333).astype(np.int8)
    arrays = {"a": a, "again": a, "b": b, "little": np.ones(3), "turned": a.T, "swapped": a.astype(">f8"),
              "mapped": weights.contents(file)[:1000], "objects": np.array([None] * 40)}
    before = len(copies(file))
    found = weights.to_file(arrays)
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
    moved = {n for n in arrays if found[n] is not arrays[n]}
    assert moved == {"a", "again", "b"}
    assert len(copies(file)) == before + 1
    for name in moved:
        origin = mapped.origin(found[name])
        assert origin is not None
        assert origin.own
        assert found[name].ctypes.data % 64 == 0
        assert not found[name].flags.writeable
        mapped.release(found[name])
        np.testing.assert_array_equal(found[name], arrays[name])
    assert mapped.offset(found["a"]) == mapped.offset(found["again"])
    whole = mapped.origin(found["a"])
    assert whole is not None
    name, size = whole.path.name, whole.status.st_size
    assert weights.made(name, size) is not None
    assert weights.made(name, size + 1) is None
    assert weights.made("../weights/" + name, size) is None
    weights.to_file(arrays)
    assert len(copies(file)) == before + 1  # it is there already
    weights.to_file({"a": a + 1, "b": b})
    assert len(copies(file)) == before + 2


@pytest.mark.parametrize("case", ["small", "off", "full"])
def test_arrays_stay_where_there_is_no_place_for_a_file(file: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "LEAST", 1)
    if case == "off":
        monkeypatch.setenv("POLYTC_CACHE", "0")
    if case == "full":
        monkeypatch.setenv("POLYTC_WEIGHTS_SIZE", "1K")
    a = R.standard_normal(100 if case == "small" else 1000)
    assert weights.to_file({"a": a})["a"] is a
    assert not copies(file)
