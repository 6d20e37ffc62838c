"""Loop AST modules -> C99: the functions of kernels, to read and to ship."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from polytc.codegen import loops
from polytc.codegen.emitter import identifier
from polytc.codegen.passes import unrolling
from polytc.codegen.target import Launch, Source
from polytc.targets.c import language
from polytc.targets.c.kernel import KernelWriter
from polytc.targets.ctext.library import Library, Part, commented
from polytc.targets.ctext.preamble import Preamble

HEADERS = "#include <math.h>\n#include <stdint.h>\n#include <tgmath.h>\n#undef I\n"
"""<tgmath.h> defines I, which programs have as a name."""


def emit(module: loops.Module) -> Source:
    """The source of a module; raises what expressions raise for what C does not have."""
    made = library([Part(module, identifier(f"polytc_{module.name}"), (), {})])
    return Source("c", f"{HEADERS}\n{made.text}", made.launches[0], module, {"build": made.build})


def library(parts: Sequence[Part]) -> Library:
    """The functions of all parts. Sizes that are not fixed are arguments of them, of type int64_t, behind the arrays."""
    preamble, texts, launches = Preamble(language.C99), [], []
    for part in parts:
        straight = [replace(k, body=unrolling.written_out(k.body)) for k in part.module.kernels]
        writers = [KernelWriter(k, part.named(n, k), preamble, part.module.sizes, part.notes)
                   for n, k in enumerate(straight, 1)]
        for n, w in enumerate(writers):
            w.write()
            texts.append(commented(part, w.lines, first=n == 0))
        launches.append(tuple(Launch(w.entry, w.args) for w in writers))
    kernels = [k for p in parts for k in p.module.kernels]
    parallel = [language.PARALLEL] if any("PARALLEL\n" in text for text in texts) else []
    head = [*parallel, *([str(preamble)] if str(preamble) else [])]
    # sums are contracted as in all other targets; not where the program asks for precision
    contract = "off" if any(k.precise for k in kernels) else "fast"
    return Library("\n".join([*head, *texts]), tuple(launches), {}, f"-std=c99 -O3 -ffp-contract={contract}", False, 0, {})
