"""OpenCL C to built programs: by the device's compiler once, in a child process (see child.py), then from the disk cache,
where what it made lies beside the machine code of CPUs."""

from __future__ import annotations

import hashlib
import re
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from polytc import errors
from polytc.disk import cache
from polytc.targets.ctext.calls.word_dots import FEATURE
from polytc.targets.opencl.driver import child, devices, rounding
from polytc.targets.opencl.workarounds import WITHOUT_OPTIMISATION

if TYPE_CHECKING:
    from polytc.targets.opencl.driver.session import Session

errors.register(E506="the OpenCL compiler refuses a kernel", E509="the OpenCL compiler crashes or hangs")

MOST = 8
"""Lines of the compiler's log that an error quotes."""


def built(name: str, text: str, options: list[str], on: Session) -> Any:
    """The built program. name: for errors. Raises TargetError E506 with the compiler's words and the lines they speak of, E509
    for a compiler that crashes. One that crashes only where it optimises is a RuntimeWarning."""
    cl = devices.pyopencl()
    if "oclgrind" in on.device.platform.lower():
        # its simulation of optimised code is wrong for some branches
        options = [*options, WITHOUT_OPTIMISATION]
    options = rounding.options(_newest(options, text, on.device), text, on.device, on.context)
    key = _key(text, options, on.device)
    stored = cache.get(key)
    if stored is not None:
        try:
            return devices.load(on.context, on.device, stored, options)
        except cl.Error:  # of a driver that says it is the same, and is not
            cache.drop(key)
    made, options = _made(name, text, options, on.device)
    if made:
        cache.put(key, made)
        with suppress(cl.Error):  # of a driver that does not take what it made
            return devices.load(on.context, on.device, made, options)
    try:
        return devices.build(on.context, text, options)
    except cl.Error as e:
        raise _refused(name, text, str(e), on.device) from e


def _newest(options: list[str], text: str, device: devices.Device) -> list[str]:
    """The options with OpenCL C 3.0, in which compilers say that they have dot products of bytes, for a text that asks. Without
    it the text computes the same by multiply-adds."""
    version = re.match(r"OpenCL (\d+)\.", device.version)
    new = FEATURE in text and version is not None and int(version[1]) >= 3
    return ["-cl-std=CL3.0" if new and o == "-cl-std=CL1.2" else o for o in options]


def _made(name: str, text: str, options: list[str], device: devices.Device) -> tuple[bytes, list[str]]:
    """The binary that a child process made, for which the driver's compiler has survived the text (b'' if there can be none),
    and with which options it has."""
    if not child.available():
        return b"", options
    try:
        answer = child.ask(device, child.Build(text, tuple(options)))
    except child.CrashedError as e:
        answer, options = _unoptimised(name, text, options, device, str(e))
    if isinstance(answer, child.Refused):
        raise _refused(name, text, answer.log, device)
    return bytes(answer), options


def _unoptimised(name: str, text: str, options: list[str], device: devices.Device, crash: str) -> tuple[Any, list[str]]:
    """What the compiler that crashed answers where it does not optimise."""
    plain = [*dict.fromkeys((*options, WITHOUT_OPTIMISATION))]
    try:
        answer = child.ask(device, child.Build(text, tuple(plain)))
    except child.CrashedError:
        raise errors.fail("E509", f"the compiler of {device} crashes on '{name}': {crash}", kind=errors.TargetError, notes=[
            "this is a defect of the driver: try another version, another schedule or another device"]) from None
    warnings.warn(f"the compiler of {device} crashes on '{name}' where it optimises, so that it does not: kernels are slow; "
                  f"a defect of the driver ({crash.splitlines()[0]})", RuntimeWarning, stacklevel=2)
    return answer, plain


def _refused(name: str, text: str, log: str, device: devices.Device) -> errors.CompileError:
    notes = [*quoted(log, text), "this is a defect of polytc or of the driver; the source is in .text"]
    return errors.fail("E506", f"the compiler of {device} refuses '{name}'", kind=errors.TargetError, notes=notes)


def _key(text: str, options: list[str], device: devices.Device) -> str:
    """All that the compiler's result depends on."""
    d = device.handle
    told = (text, options, device.identity, d.max_compute_units, d.vendor_id)
    return hashlib.sha256(repr(("opencl program", *told)).encode("utf-8", "surrogatepass")).hexdigest()


def quoted(log: str, text: str) -> list[str]:
    """The errors of a compiler's log, each with the line of the source that it names: `3:14: error: ...`, PoCL's
    `error: file:3:14: ...` or `line 3: ...`."""
    lines, found = text.splitlines(), []
    for message in (m.strip() for m in log.splitlines() if "error" in m.lower()):
        found.append(message)
        place = re.search(r":(\d+):(?:\d+:)?\s*(?:fatal )?error|error: \S*?:(\d+):\d+:|\bline (\d+)", message)
        number = int(next(g for g in place.groups() if g)) if place else 0
        if 0 < number <= len(lines):
            found.append(f"line {number}: {lines[number - 1].strip()}")
    return found[:MOST]
