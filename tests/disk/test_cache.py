"""The disk cache: what was stored is found; what is damaged, foreign or impossible to write never gets in the way."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from polytc import errors
from polytc.disk import cache

KEY, OTHER = "a" * 64, "b" * 64

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no owners of files on this system")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the entries of an empty cache."""
    monkeypatch.setenv("POLYTC_CACHE", "1")
    monkeypatch.setenv("POLYTC_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_STATE", cache._State())
    return tmp_path / "cache" / "code"


def entry(folder: Path, key: str = KEY) -> Path:
    return folder / f"{key}.bin"


def test_what_was_stored_is_found_by_its_key(folder: Path) -> None:
    assert cache.get(KEY) is None
    cache.put(KEY, b"code" * 1000)
    assert cache.get(KEY) == b"code" * 1000
    assert cache.get(OTHER) is None
    assert [p.name for p in folder.iterdir()] == [f"{KEY}.bin"]
    assert cache.fetch(KEY, lambda: pytest.fail("it is there")) == b"code" * 1000
    assert cache.fetch(OTHER, lambda: b"new") == b"new"
    assert cache.get(OTHER) == b"new"


def test_only_the_user_can_look_inside(folder: Path) -> None:
    cache.put(KEY, b"code")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry(folder).stat().st_mode) == 0o600


@pytest.mark.parametrize("damage", [lambda d: d[:-1], lambda d: d[:10], lambda d: b"", lambda d: d + b"x",
                                    lambda d: d[:-1] + bytes([d[-1] ^ 1]), lambda d: b"x" + d[1:]])
def test_a_damaged_entry_is_dropped(folder: Path, damage) -> None:
    cache.put(KEY, b"code")
    entry(folder).write_bytes(damage(entry(folder).read_bytes()))
    assert cache.get(KEY) is None
    assert not entry(folder).exists()


def test_an_entry_under_another_name_is_dropped(folder: Path) -> None:
    cache.put(KEY, b"code")
    entry(folder).rename(entry(folder, OTHER))
    assert cache.get(OTHER) is None
    assert not entry(folder, OTHER).exists()


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o777, 0o701])
def test_a_folder_that_others_can_enter_is_refused(folder: Path, mode: int) -> None:
    cache.put(KEY, b"code")
    folder.chmod(mode)
    with pytest.warns(RuntimeWarning, match="chmod 700"):
        assert cache.get(KEY) is None
    with warnings.catch_warnings():  # it is said once
        warnings.simplefilter("error")
        assert cache.get(KEY) is None
        cache.put(OTHER, b"more")
    assert not entry(folder, OTHER).exists()
    assert "chmod 700" in cache.info().problem


def test_a_folder_of_somebody_else_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.put(KEY, b"code")
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    with pytest.warns(RuntimeWarning, match="belongs to user"):
        assert cache.get(KEY) is None


def test_a_link_is_not_followed(folder: Path, tmp_path: Path) -> None:
    cache.put(KEY, b"code")
    elsewhere = tmp_path / "elsewhere"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere, target_is_directory=True)
    assert cache.get(KEY) is None
    folder.unlink()
    elsewhere.rename(folder)
    kept = tmp_path / "kept"
    entry(folder).rename(kept)
    entry(folder).symlink_to(kept)
    assert cache.get(KEY) is None
    assert kept.exists()


def test_a_file_that_others_can_write_is_dropped(folder: Path) -> None:
    cache.put(KEY, b"code")
    entry(folder).chmod(0o666)
    assert cache.get(KEY) is None
    cache.put(KEY, b"code")
    os.unlink(entry(folder))
    os.mkfifo(entry(folder), 0o600)
    assert cache.get(KEY) is None


@pytest.mark.parametrize("number", ["ENOSPC", "EROFS", "EACCES", "EDQUOT", "EIO"])
def test_without_the_disk_it_goes_on_with_one_warning(folder: Path, monkeypatch: pytest.MonkeyPatch, number: str) -> None:
    import errno
    code = getattr(errno, number)

    def refuse(*args: object, **options: object) -> int:
        raise OSError(code, os.strerror(code))

    cache.put(OTHER, b"before")
    monkeypatch.setattr(os, "rename", refuse)
    with pytest.warns(RuntimeWarning, match="POLYTC_CACHE=0") as caught:
        cache.put(KEY, b"code")
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put(KEY, b"code")
    assert [p.name for p in folder.iterdir()] == [f"{OTHER}.bin"]  # nothing half-written is left
    assert cache.get(OTHER) == b"before"


def test_a_place_that_cannot_be_made(folder: Path) -> None:
    folder.parent.write_text("a file where the folder should be")
    assert cache.get(KEY) is None
    with pytest.warns(RuntimeWarning, match="not kept"):
        cache.put(KEY, b"code")


def test_an_interrupt_leaves_nothing_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", interrupt)
    with pytest.raises(KeyboardInterrupt):
        cache.put(KEY, b"code")
    assert not list(folder.iterdir())


def test_the_least_recently_used_go_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLYTC_CACHE_SIZE", "100K")
    keys = [f"{n:064x}" for n in range(12)]
    for n, key in enumerate(keys):
        cache.put(key, bytes(10 << 10))
        os.utime(entry(folder, key), (1e9 + n, 1e9 + n))
        cache.get(keys[0])
    assert cache.info().bytes <= 100 << 10
    assert cache.get(keys[0]) is not None
    assert cache.get(keys[1]) is None
    assert cache.get(keys[-1]) is not None


def test_files_of_killed_processes_are_removed(folder: Path) -> None:
    cache.put(OTHER, b"code")
    old, young = folder / "x.1.tmp", folder / "x.2.tmp"
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    cache._STATE.unswept = None
    cache.put(KEY, b"code")
    assert not old.exists()
    assert young.exists()


def test_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"": 1 << 30, "0": 0, "1000": 1000, "2k": 2048, "500M": 500 << 20, "3 GiB": 3 << 30, "1TB": 1 << 40}
    for text, size in sizes.items():
        monkeypatch.setenv("POLYTC_CACHE_SIZE", text)
        assert cache.limit() == size
    for text in ("many", "-1", "1.5G", "1X", "٣"):
        monkeypatch.setenv("POLYTC_CACHE_SIZE", text)
        with pytest.raises(errors.ArgumentError, match="E410"):
            cache.limit()


def test_where_it_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("POLYTC_CACHE", "POLYTC_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache.place() == tmp_path / ".cache" / "polytc" / "code"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    assert cache.place() == tmp_path / ".cache" / "polytc" / "code"
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/x")
    assert cache.place() == Path("/var/x/polytc/code")
    monkeypatch.setenv("POLYTC_CACHE_DIR", str(tmp_path))
    assert cache.place() == tmp_path / "code"
    monkeypatch.setenv("POLYTC_CACHE", "0")
    assert cache.place() is None
    assert cache.info().folder is None
    cache.put(KEY, b"code")
    assert cache.get(KEY) is None


def test_clear(folder: Path) -> None:
    assert cache.clear() == 0
    cache.put(KEY, b"code")
    cache.put(OTHER, b"code")
    found = cache.info()
    assert (found.folder, found.entries, found.limit, found.problem) == (folder, 2, 1 << 30, "")
    assert cache.clear() == 2
    assert cache.info().entries == 0
    assert cache.get(KEY) is None


def test_many_processes_at_once(folder: Path) -> None:
    """Each writes and reads the same keys with contents that say what they belong to, while others clear and damage them."""
    program = """
import os, random, sys
from polytc.disk import cache
keys = [f"{n:064x}" for n in range(6)]
dice = random.Random(int(sys.argv[1]))
for _ in range(150):
    key = dice.choice(keys)
    what = dice.random()
    if what < 0.4:
        cache.put(key, key.encode() * dice.randrange(1, 400))
    elif what < 0.45:
        cache.clear()
    elif what < 0.5:
        try:
            with open(cache.place() / f"{key}.bin", "r+b") as file:
                file.truncate(dice.randrange(100))
        except OSError:
            pass
    else:
        found = cache.get(key)
        assert found is None or found == key.encode() * (len(found) // 64), (key, found)
"""
    command = [sys.executable, "-W", "error", "-c", program]
    started = [subprocess.Popen([*command, str(n)], stderr=subprocess.PIPE) for n in range(5)]
    for process in started:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said.decode()
    assert all(p.suffix == ".bin" for p in folder.iterdir())
