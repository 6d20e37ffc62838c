"""The registry of targets: polytc's own, and those of other distributions, by name."""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any

from polytc import errors, extensions
from polytc.codegen.target import DescribedTarget, MultiDeviceTarget, Target

if TYPE_CHECKING:  # what runs code from the cache needs no record
    from polytc.machine import Machine

errors.register(E502="unknown target")

TARGETS = {
    "cpu": "polytc.targets.llvm.target:LLVMTarget",
    "opencl": "polytc.targets.opencl.target:OpenCLTarget",
    "cuda": "polytc.targets.cuda.target:CudaTarget",
    "c": "polytc.targets.c.target:CTarget",
    "interp": "polytc.targets.interp:InterpTarget",
}
"""The registry: name -> module and class, imported when first asked for."""


def target_names() -> tuple[str, ...]:
    """The names of all targets: polytc's own, and those of other distributions (see extensions.py)."""
    return (*TARGETS, *(n for n in extensions.names(extensions.TARGETS) if n not in TARGETS))


def runs_here(name: str | Target) -> bool:
    """Can this machine run what the target (of that name) makes? Some need a device, or only emit text."""
    try:
        target(name).here()
    except errors.TargetError:
        return False
    return True


def target(name: str | Target) -> Target:
    """The target of that name, or the one that is given; `opencl:1` and `opencl:NAME` are those of one device. Raises
    TargetError E502 with the names there are."""
    if not isinstance(name, str):
        return name
    kind, colon, device = name.partition(":")
    made = _target(kind) if kind in target_names() else None
    if made is not None and not colon:
        return made
    if isinstance(made, MultiDeviceTarget) and device:
        return made.on(device)
    notes = [f"the targets are {', '.join(target_names())}", "opencl:1 or opencl:NAME chooses a device"]
    if name == "evaluate":
        notes = ["'evaluate' runs programs without compiling them, so that there is no code of it", *notes]
    raise errors.fail("E502", f"there is no target {name!r}", kind=errors.TargetError, notes=notes)


def here(wanted: str | Target) -> Target:
    """The target that code is made for where it is to run: for a name the one for the device that is here, which knows most of
    it; a Target as it is, without what the device's driver compiles wrongly."""
    if isinstance(wanted, str):
        return target(wanted).here()
    return wanted.driven() if isinstance(wanted, MultiDeviceTarget) else wanted


def running(name: str | Target) -> Target:
    """The target whose code an Op runs, as the machine that is here has it if that can run it; 'evaluate' has the CPU's."""
    name = "cpu" if name == "evaluate" else name
    return here(name) if runs_here(name) else target(name)


def described(wanted: str | Target, machine: Machine) -> Target:
    """The target of that name, or the one that is given, for a machine that is described. Raises TargetError E541 where it
    takes none."""
    found = target(wanted)
    if isinstance(found, DescribedTarget):
        return found.described(machine)
    raise errors.fail("E541", f"the target {found.name!r} makes code for no other machine than its own",
                      kind=errors.TargetError, notes=["leave out machine="])


@functools.cache
def _target(kind: str) -> Target:
    if kind in TARGETS:
        module, _, cls = TARGETS[kind].partition(":")
        made: Target = getattr(importlib.import_module(module), cls)()
        return made
    made = _made(kind, extensions.load(extensions.TARGETS, kind))
    if isinstance(made, Target) and made.name == kind:
        return made
    raise extensions.refusal(extensions.TARGETS, kind, f"calls itself {made.name!r}" if isinstance(made, Target) else
                             "is no Target: it lacks a part of codegen.target.Target")


def _made(kind: str, found: Any) -> Any:
    """The target of another distribution: a Target itself, or what makes one."""
    if not callable(found):
        return found
    try:
        return found()
    except Exception as e:
        raise extensions.refusal(extensions.TARGETS, kind, f"cannot be made: {type(e).__name__}: {e}") from e
