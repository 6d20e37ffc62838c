"""Marks of tests that need an OpenCL device that works."""

from __future__ import annotations

import pytest

from polytc.errors import TargetError
from polytc.targets.opencl.driver import devices


def _missing() -> str | None:
    try:
        devices.choose()
    except TargetError as e:
        return str(e).splitlines()[0]
    return None


NEEDS_OPENCL = [pytest.mark.opencl, pytest.mark.skipif(_missing() is not None, reason=f"no OpenCL here: {_missing()}")]
