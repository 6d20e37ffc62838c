"""Several Loop AST modules -> one CUDA C text to read and to ship: the functions that kernels need once, each kernel under a
comment."""

from __future__ import annotations

from collections.abc import Sequence

from polytc.codegen import loops
from polytc.machine import Machine
from polytc.targets.ctext.launched import uses_double
from polytc.targets.ctext.library import Library, Part, commented
from polytc.targets.ctext.preamble import Preamble
from polytc.targets.cuda.emit import around, build_options, written
from polytc.targets.cuda.language import CUDA
from polytc.targets.cuda.memory import ALIGNED


def library(parts: Sequence[Part], machine: Machine) -> Library:
    """One text of all parts; raises what `emit` raises."""
    preamble, texts, launches = Preamble(CUDA), [], []
    local_bytes: dict[str, int] = {}
    aligned = False
    for part in parts:
        _, writers = written(part.module, machine, preamble, part.named, part.notes)
        launches.append(tuple(w.launch for w in writers))
        local_bytes |= {w.entry: w.local_bytes for w in writers}
        aligned = aligned or any(w.places.needs_alignment for w in writers)
        texts += [commented(part, w.lines, first=n == 0) for n, w in enumerate(writers)]
    modules = [p.module for p in parts]
    build = build_options(loops.Module("all", (), (), (), tuple(k for m in modules for k in m.kernels)))
    text = "\n".join([*around(preamble, texts), *texts])
    return Library(text, tuple(launches), local_bytes, build, any(map(uses_double, modules)), ALIGNED if aligned else 0)
