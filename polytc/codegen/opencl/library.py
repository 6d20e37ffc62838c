"""Several Loop AST modules -> one OpenCL C text to read and to ship: the functions that kernels need once, each kernel under
a comment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polytc.codegen import loops
from polytc.codegen.opencl.emit import DOUBLES, build_options, uses_double, written
from polytc.codegen.opencl.kernel import KernelWriter
from polytc.codegen.opencl.preamble import Preamble
from polytc.codegen.opencl.text import comment
from polytc.codegen.target import Launch
from polytc.machine import ALIGNMENT, Machine


@dataclass(frozen=True)
class Part:
    """A module, as a target's source has it. entry: what the names of its kernels begin with. about: lines on what it computes,
    written above its first kernel. tensors: buffer -> lines on the statements that write it, written above each kernel that
    does."""

    module: loops.Module
    entry: str
    about: tuple[str, ...]
    tensors: dict[str, tuple[str, ...]]

    def named(self, number: int, kernel: loops.Kernel) -> str:
        """The name of a kernel, from its number."""
        return f"{self.entry}_{number}"


@dataclass(frozen=True)
class Library:
    """text: without a head comment. launches: of each part, in order; local_bytes: by entry. build: compiler flags. doubles:
    does it compute with f64? alignment: bytes, as of codegen.opencl.emit.emit."""

    text: str
    launches: tuple[tuple[Launch, ...], ...]
    local_bytes: dict[str, int]
    build: str
    doubles: bool
    alignment: int


def library(parts: Sequence[Part], machine: Machine) -> Library:
    """One text of all parts; raises what `emit` raises."""
    preamble, texts, launches = Preamble(), [], []
    local_bytes: dict[str, int] = {}
    aligned = False
    for part in parts:
        _, writers = written(part.module, machine, preamble, part.named)
        launches.append(tuple(w.launch for w in writers))
        local_bytes |= {w.entry: w.local_bytes for w in writers}
        aligned = aligned or any(w.memory.needs_alignment for w in writers)
        texts += [_kernel(part, w, first=n == 0) for n, w in enumerate(writers)]
    modules = [p.module for p in parts]
    doubles = any(map(uses_double, modules))
    build = build_options(loops.Module("all", (), (), (), tuple(k for m in modules for k in m.kernels)))
    head = [DOUBLES] if doubles else []
    head += [str(preamble)] if str(preamble) else []
    return Library("\n".join([*head, *texts]), tuple(launches), local_bytes, build, doubles, ALIGNMENT if aligned else 0)


def _kernel(part: Part, w: KernelWriter, first: bool) -> str:
    about = [*part.about, ""] if first and part.about else []
    says = [line for name in w.kernel.writes for line in part.tensors.get(name, ())]
    return (comment([*about, *says]) if about or says else "") + "\n".join(w.lines) + "\n"
