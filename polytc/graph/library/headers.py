"""The header of a model that was compiled ahead of time, and names as C takes them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from polytc.graph.ir import Graph, Value
from polytc.program.scalars import DTYPES, DType
from polytc.targets.llvm.standalone.chain import Argument, Chain, Status

_TYPES = {"f32": "float", "f64": "double", "f16": "uint16_t", "bf16": "uint16_t", "bool": "uint8_t",
          "c64": "float", "c128": "double"}
_KEYWORDS = frozenset("auto break case char const continue default do double else enum extern float for goto if inline int "
                      "long register restrict return short signed sizeof static struct switch typedef union unsigned void "
                      "volatile while main".split())
_OWN = ("model",)
"""What the functions call something themselves."""


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


def header(graph: Graph, chain: Chain) -> str:
    """Declarations of the functions, with the shape of each array."""
    owns = parameters([a.name for a in chain.arrays], _OWN)
    lines = [f" *   {own}: {_type(a, v)}{_alias(own, a.name)}"
             for own, a, v in zip(owns, chain.arrays, (*graph.inputs, *graph.outputs), strict=True)]
    pointers = [f"{c_type(DTYPES[a.dtype])} *{own}" for own, a in zip(owns, chain.arrays, strict=True)]
    const, out = [f"const {p}" for p in pointers[:len(chain.inputs)]], pointers[len(chain.inputs):]
    guard = f"{chain.name.upper()}_H"
    name = chain.name
    return f"""\
/* A model compiled by polytc. Arrays are row-major, without padding:
{chr(10).join(lines)}{_sizes(chain)}
 * Link with -lm -lpthread. */
#ifndef {guard}
#define {guard}
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {{
#endif

typedef struct {name}_model {name}_model;

/* What the functions return; {name}_meaning says it in words. */
enum {{ {', '.join(f'{name.upper()}_{s.name} = {s.value}' for s in Status)} }};

/* What a model takes memory and threads by. Memory begins at multiples of 64; start returns 0 if the thread runs. */
typedef struct {{
    void *context;
    void *(*allocate)(void *context, size_t bytes);
    void (*release)(void *context, void *memory);
    int (*start)(void *context, uint64_t *thread, void *(*work)(void *), void *argument);
    void (*join)(void *context, uint64_t thread);
}} {name}_hooks;

typedef struct {{
    const char *name, *type;
    size_t bytes, rank;
    const int64_t *shape;
}} {name}_array;

typedef struct {{
    const char *name;
    int64_t least, largest;
}} {name}_size;

/* Looks at the processor, reads the weights and looks at all of them. Takes {chain.arena + chain.scratch:,} bytes of memory,
 * {chain.thread_bytes:,} more for each thread, and threads - 1 threads: those of libc and pthread without hooks (NULL). */
int {name}_open({name}_model **model, const char *weights, int threads, const {name}_hooks *hooks);

/* The same for weights in memory, which begin at a multiple of 64, are not copied, and must outlive the model. Models may share
 * them. Of the bytes only the header is looked at. */
int {name}_open_memory({name}_model **model, const void *weights, size_t bytes, int threads, const {name}_hooks *hooks);

/* The weights of {name}_weights.S, where that is a part of the program. */
extern const unsigned char {name}_weights[];
#define {name.upper()}_WEIGHTS_BYTES {chain.weights}

/* One run. Models are independent of each other. One model runs once at a time: a second thread gets {name.upper()}_BUSY. */
int {name}_run({', '.join([f'{name}_model *model', *const, *out])});

/* The same for tables of pointers, in the order of {name}_inputs and {name}_outputs. */
int {name}_run_arrays({name}_model *model, const void *const *inputs, void *const *outputs);

/* The arrays of the next runs have these sizes, one for each of {name}_sizes in order: all are as
 * {name}_model_inputs and {name}_model_outputs say then. Takes microseconds and no memory.
 * {name.upper()}_BAD_SIZE changes nothing. Before, each size is the largest one. */
int {name}_resize({name}_model *model, const int64_t *sizes);
const {name}_array *{name}_model_inputs(const {name}_model *model), *{name}_model_outputs(const {name}_model *model);

/* Ends the threads and releases the memory; not during a run. */
void {name}_close({name}_model *model);

/* Facts: arrays for the largest sizes; the sizes that are open; who made this; what a status means. */
const {name}_array *{name}_inputs(size_t *count), *{name}_outputs(size_t *count);
const {name}_size *{name}_sizes(size_t *count);
const char *{name}_version(void), *{name}_meaning(int status);

#ifdef __cplusplus
}}
#endif
#endif
"""


def _alias(own: str, value: str) -> str:
    """The name in the model, where it is another one; nothing in it can end the comment."""
    return f"  ({_safe(value)})" if value != own else ""


def _type(a: Argument, v: Value) -> str:
    """An array with the names of its open sizes; what follows from them in another way is a `?`."""
    declared = v.shape if v.shape is not None and len(v.shape) == len(a.shape) else a.shape
    open_ = any(not isinstance(d, int) for d in declared)
    shape = [_safe(d) if isinstance(d, str) else "?" if d is None else str(d) for d in (declared if open_ else a.shape)]
    return f"{a.dtype}[{', '.join(shape)}]"


def _sizes(chain: Chain) -> str:
    rows = [f"\n *   {_safe(s.name)}: from {s.least} to {s.largest}" for s in chain.sizes]
    return f"\n * The sizes are open:{''.join(rows)}" if rows else ""


def _safe(text: str) -> str:
    """Nothing in it can end a comment."""
    return re.sub(r"[^A-Za-z0-9_.:\- ]", "?", text)[:80]
