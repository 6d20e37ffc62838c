"""Files as arrays: what they show, what they weigh, and what is said when somebody writes to them."""

from __future__ import annotations

import mmap
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from polytc.disk.mapped import changed, file_of, mapped, release


def resident() -> int:
    """Bytes of mapped files that this process has in memory."""
    (line,) = [x for x in Path("/proc/self/status").read_text().splitlines() if x.startswith("RssFile")]
    return int(line.split()[1]) * 1024


def test_arrays_show_the_file(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(bytes(range(200)) * 100)
    part = mapped(path)[3:11].view("<u4").reshape(2, 1)
    assert part.tolist() == [[0x06050403], [0x0A090807]]
    assert not part.flags.writeable
    assert file_of(part) is not None
    assert file_of(part.copy()) is None
    assert file_of(np.frombuffer(b"abc", np.uint8)) is None


def test_a_file_without_bytes_and_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert mapped(tmp_path / "empty").size == 0
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(OSError, match=r"."):
            mapped(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a plain file"):
        mapped(tmp_path / "pipe")


@pytest.mark.skipif(sys.platform != "linux" or not hasattr(mmap, "MADV_DONTNEED"), reason="needs Linux")
def test_memory_is_given_back_and_contents_remain(tmp_path: Path) -> None:
    path = tmp_path / "f"
    numbers = np.arange(1 << 22, dtype=np.float64)
    path.write_bytes(b"12345" + numbers.tobytes())
    data = mapped(path)[5:].view(np.float64)
    before = resident()
    total = data.sum()
    assert resident() - before > 30 << 20
    release(data[100:-100])
    assert resident() - before < 1 << 20
    assert data.sum() == total == numbers.sum()
    release(data[:0])
    release(numbers)
    assert numbers[-1] == len(numbers) - 1


def test_files_that_were_written_to(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(bytes(100))
    data = mapped(path)
    assert changed([np.zeros(3), data[5:]]) is None
    (tmp_path / "new").write_bytes(b"x" * 50)
    (tmp_path / "new").rename(path)
    assert changed([data]) is None
    assert not data.any()
    path.unlink()
    assert changed([data]) is None
    path.write_bytes(bytes(100))
    data = mapped(path)
    with path.open("ab") as file:
        file.write(b"more")
    assert changed([data[5:]]) == path
