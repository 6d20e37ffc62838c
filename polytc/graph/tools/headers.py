"""The C side of a model that was compiled ahead of time: its header, and a program that runs it."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence

from polytc.graph.plan import Array, Plan
from polytc.program.scalars import DType
from polytc.targets.llvm.standalone import Chain

_TYPES = {"f32": "float", "f64": "double", "f16": "uint16_t", "bf16": "uint16_t", "bool": "uint8_t",
          "c64": "float", "c128": "double"}
_KEYWORDS = frozenset("auto break case char const continue default do double else enum extern float for goto if inline int "
                      "long register restrict return short signed sizeof static struct switch typedef union unsigned void "
                      "volatile while main".split())
_OWN = ("model",)
"""What the functions and the program below call something themselves."""


def identifier(name: str) -> str:
    """A name as C takes it."""
    found = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")[:60] or "model"
    return f"m_{found}" if found[0].isdigit() or found in _KEYWORDS else found


def parameters(names: Sequence[str], reserved: Collection[str] = ()) -> list[str]:
    """Names as C takes them, no two alike and none reserved."""
    found: list[str] = []
    for name in names:
        own = identifier(name)
        own = f"{own}_" if own in _KEYWORDS or own in reserved else own
        k = 2
        while own in found:
            own, k = f"{identifier(name)}_{k}", k + 1
        found.append(own)
    return found


def c_type(dtype: DType) -> str:
    """f16, bf16: their bits; bool: a byte that is 0 or 1; complex numbers: the type of their parts, which lie side by side."""
    return _TYPES.get(dtype.name, f"{'u' if dtype.kind == 'u' else ''}int{dtype.bits}_t")


def header(plan: Plan, chain: Chain) -> str:
    """Declarations of the three functions, with the shape of each array."""
    inputs, outputs = _arrays(plan)
    named = list(zip(parameters([*plan.inputs, *plan.outputs], _OWN), [*plan.inputs, *plan.outputs], strict=True))
    lines = [f" *   {own}: {plan.types[value]}{_alias(own, value)}" for own, value in named]
    const = [f"const {c_type(t.dtype)} *{own}" for (own, _), t in zip(named, inputs)]
    out = [f"{c_type(t.dtype)} *{own}" for (own, _), t in zip(named[len(inputs):], outputs)]
    guard = f"{chain.name.upper()}_H"
    return f"""\
/* A model compiled by polytc. Arrays are row-major, without padding:
{chr(10).join(lines)}
 * Link with -lm -lpthread. */
#ifndef {guard}
#define {guard}
#include <stdint.h>
#ifdef __cplusplus
extern "C" {{
#endif

/* Reads the weights, makes {chain.arena + chain.scratch:,} bytes of memory, {chain.thread_bytes:,} more for each thread, and
 * threads - 1 threads. NULL if there is no memory, or if the file cannot be read or is not that of this code. */
void *{chain.name}_open(const char *weights, int threads);

/* One run; 0, or 1 without a run where an array is NULL or an output shares memory with another. A model runs
 * once at a time; open it again to run it twice at once. */
int {chain.name}_run(void *model, {', '.join(const + out)});

void {chain.name}_close(void *model);

#ifdef __cplusplus
}}
#endif
#endif
"""


def _alias(own: str, value: str) -> str:
    """The name in the model, where it is another one; nothing in it can end the comment."""
    safe = re.sub(r"[^A-Za-z0-9_.:\- ]", "?", value)
    return f"  ({safe[:80]})" if value != own else ""


def _arrays(plan: Plan) -> tuple[list[Array], list[Array]]:
    return [plan.types[n] for n in plan.inputs], [plan.types[n] for n in plan.outputs]


def main(plan: Plan, chain: Chain) -> str:
    """A program that reads the inputs from raw files, or takes zeros, and prints the first elements of each output."""
    inputs, outputs = _arrays(plan)
    names = parameters([*plan.inputs, *plan.outputs], _OWN)
    sizes = [math.prod(t.shape) for t in (*inputs, *outputs)]
    declared = "\n".join(f"static {c_type(t.dtype)} {n}[{max(1, size)}];"
                         for n, t, size in zip(names, (*inputs, *outputs), sizes, strict=True))
    count = len(inputs)
    reads = "\n".join(f"    if (argc > {k + 3} && !fill(argv[{k + 3}], {n}, sizeof {n})) return 1;"
                      for k, n in enumerate(names[:count]))
    prints = "\n".join(map(_printing, names[count:], outputs, sizes[count:]))
    return f"""\
/* {chain.name} [WEIGHTS [THREADS [INPUT.raw ...]]]: runs the model once; inputs without a file are zeros.
 * cc -O2 main.c {chain.name}.o -lm -lpthread -o {chain.name} */
#include <stdio.h>
#include <stdlib.h>
#include "{chain.name}.h"

{declared}

static int fill(const char *path, void *to, size_t bytes) {{
    FILE *file = fopen(path, "rb");
    size_t got = file ? fread(to, 1, bytes, file) : 0;
    if (file) fclose(file);
    if (got != bytes) fprintf(stderr, "%s: %zu bytes are needed\\n", path, bytes);
    return got == bytes;
}}

int main(int argc, char **argv) {{
    void *model = {chain.name}_open(argc > 1 ? argv[1] : "{chain.name}.weights", argc > 2 ? atoi(argv[2]) : 1);
    if (!model) {{ fprintf(stderr, "the weights cannot be read\\n"); return 1; }}
{reads}
    if ({chain.name}_run(model, {', '.join(names)})) {{ fprintf(stderr, "the arrays share memory\\n"); return 1; }}
{prints}
    {chain.name}_close(model);
    return 0;
}}
"""


def _printing(name: str, t: Array, size: int) -> str:
    """Prints what may be numbers; the bits of halves as they are."""
    form, cast = ("%.9g", "(double)") if t.dtype.kind == "f" and t.dtype.bits >= 32 else ("%lld", "(long long)")
    return (f'    printf("{name}");\n    for (int i = 0; i < {min(size, 8)}; i++) printf(" {form}", {cast}{name}[i]);\n'
            '    printf("\\n");')
