"""Several Loop AST modules -> one OpenCL C text to read and to ship: the functions that kernels need once, each kernel under
a comment."""

from __future__ import annotations

from collections.abc import Sequence

from polytc.codegen import loops
from polytc.machine import ALIGNMENT, Machine
from polytc.targets.ctext.launched import uses_double
from polytc.targets.ctext.library import Library, Part, commented
from polytc.targets.ctext.preamble import Preamble
from polytc.targets.opencl.emit import DOUBLES, build_options, written
from polytc.targets.opencl.language import OPENCL


def library(parts: Sequence[Part], machine: Machine) -> Library:
    """One text of all parts; raises what `emit` raises."""
    preamble, texts, launches = Preamble(OPENCL), [], []
    local_bytes: dict[str, int] = {}
    aligned = False
    for part in parts:
        _, writers = written(part.module, machine, preamble, part.named, part.notes)
        launches.append(tuple(w.launch for w in writers))
        local_bytes |= {w.entry: w.local_bytes for w in writers}
        aligned = aligned or any(w.places.needs_alignment for w in writers)
        texts += [commented(part, w.lines, first=n == 0) for n, w in enumerate(writers)]
    modules = [p.module for p in parts]
    doubles = any(map(uses_double, modules))
    build = build_options(loops.Module("all", (), (), (), tuple(k for m in modules for k in m.kernels)))
    head = [DOUBLES] if doubles else []
    head += [str(preamble)] if str(preamble) else []
    return Library("\n".join([*head, *texts]), tuple(launches), local_bytes, build, doubles, ALIGNMENT if aligned else 0)
