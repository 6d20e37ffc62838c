"""Mark of tests that need NVRTC, NVIDIA's compiler as a library. It needs no GPU."""

from __future__ import annotations

import pytest

from polytc.errors import TargetError
from polytc.targets.cuda import nvrtc


def _missing() -> str | None:
    try:
        nvrtc.architectures()
    except TargetError as e:
        return str(e).splitlines()[0]
    return None


NEEDS_NVRTC = [pytest.mark.nvrtc, pytest.mark.skipif(_missing() is not None, reason=f"no NVRTC here: {_missing()}")]
