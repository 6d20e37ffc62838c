"""NVRTC, NVIDIA's compiler as a library: it needs no GPU. PTX for an architecture, or code of its processors."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from typing import Any

from polytc import errors

errors.register(E524="no CUDA here", E525="NVIDIA's compiler refuses a kernel")

CURE = "pip install 'polytc[cuda]' has NVIDIA's compiler; the driver comes with the system"


def bindings(name: str) -> Any:
    """`driver` or `nvrtc` of cuda-python. Raises TargetError E524 without it."""
    try:
        return importlib.import_module(f"cuda.bindings.{name}")
    except ImportError as e:
        raise errors.fail("E524", f"cuda-python is not here: {e}", kind=errors.TargetError, notes=[CURE]) from None


def compiled(text: str, architecture: str, options: Sequence[str] = (), ptx: bool = True) -> bytes:
    """The PTX of CUDA C, or code (a cubin). architecture: 'sm_90'. options: compiler flags.

    Raises TargetError E524 without NVRTC, E525 with its words where it refuses.
    """
    nvrtc = _nvrtc()
    program = _checked(nvrtc.nvrtcCreateProgram(text.encode(), b"polytc.cu", 0, None, None))
    given = [f"--gpu-architecture={architecture}".encode(), *(x.encode() for x in options)]
    refused = nvrtc.nvrtcCompileProgram(program, len(given), given)[0]
    log = _read(nvrtc, "ProgramLog", program).decode(errors="replace").strip("\0\n")
    if int(refused):
        raise errors.fail("E525", f"NVRTC refuses the kernels for {architecture}:\n{log}", kind=errors.TargetError,
                          notes=["this is a mistake of polytc, if the architecture is one that NVRTC knows"])
    made = _read(nvrtc, "PTX" if ptx else "CUBIN", program)
    nvrtc.nvrtcDestroyProgram(program)
    return made


def for_device(text: str, compute: int, options: Sequence[str] = ()) -> bytes:
    """Code for a device of a compute capability, 90 of 9.0; PTX of the newest architecture before it, where the compiler is
    older than the device. Raises what `compiled` raises."""
    known = architectures()
    if compute in known:
        return compiled(text, f"sm_{compute}", options, ptx=False)
    return compiled(text, f"compute_{max([n for n in known if n < compute] or known)}", options)


def architectures() -> tuple[int, ...]:
    """Those that NVRTC makes code for: 80, 90, ..."""
    nvrtc = _nvrtc()
    count = _checked(nvrtc.nvrtcGetNumSupportedArchs())
    return tuple(map(int, _checked(nvrtc.nvrtcGetSupportedArchs())))[:count]


@functools.cache
def _nvrtc() -> Any:
    found = bindings("nvrtc")
    try:
        _checked(found.nvrtcVersion())
    except Exception as e:  # what says that the library is missing differs from version to version
        raise errors.fail("E524", f"NVRTC is not here: {e}", kind=errors.TargetError, notes=[CURE]) from None
    return found


def _read(nvrtc: Any, what: str, program: Any) -> bytes:
    buffer = bytes(_checked(getattr(nvrtc, f"nvrtcGet{what}Size")(program)))
    _checked(getattr(nvrtc, f"nvrtcGet{what}")(program, buffer))
    return buffer


def _checked(result: Any) -> Any:
    """What a call gave behind its code. Raises TargetError E524 for a failure."""
    code, *rest = result
    if int(code):
        raise errors.fail("E524", f"NVRTC failed: {code}", kind=errors.TargetError, notes=[CURE])
    return rest[0] if rest else None
