"""Values that groups wait for (program.calls) in dialects of C that can say so.

    x_sums[b] = published(x)        ->  polytc_publish_f32(&x_sums[b], x);
    awaited_f32(x_sums[b])          ->  polytc_awaited_f32(&x_sums[b])

A group of a kernel that waits has the number that it takes from a counter, not that of its place in the grid: those with
smaller numbers have begun, and go on, so that nobody waits for a group that has no room before others end. The counter is the
lower half of the first element of the array that is published, and is 0 again when all groups have taken theirs. (Merrill &
Garland, Single-pass Parallel Prefix Scan with Decoupled Look-back, NVIDIA NVR-2016-002.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from polytc import errors
from polytc.codegen import loops, traverse
from polytc.program.calls.published import AWAITED, PUBLISHED, parts
from polytc.program.scalars import DType
from polytc.targets.ctext.text import bare

if TYPE_CHECKING:
    from polytc.targets.ctext.expressions import Expressions


def of(e: loops.Expr) -> loops.Call | None:
    """The word that an expression makes."""
    return e if isinstance(e, loops.Call) and e.fn in PUBLISHED else None


def publish(write: Expressions, s: loops.Store, word: loops.Call) -> str:
    """The line that stores a word."""
    name = _named(write, word.fn.replace("published", "publish"), word.args[0].dtype)
    return f"{name}(&{write.memory.element(write, s.buffer, s.indices)}, {bare(write.value(word.args[0]))});"


def awaited(write: Expressions, e: loops.Call) -> str:
    """The value of words, of which each has its mark."""
    places = [f"&{write.memory.element(write, w.buffer, w.indices)}" for w in e.args if isinstance(w, loops.Load)]
    assert len(places) == len(e.args), "what is awaited lies elsewhere"
    return f"{_named(write, 'awaited', AWAITED[e.fn])}({', '.join(places)})"


def counter(kernel: loops.Kernel) -> loops.Buffer | None:
    """The array whose first element counts the groups of a kernel that have begun; None if they wait for none."""
    for s in traverse.walk_stmt(kernel.body):
        for top in traverse.expressions(s):
            for e in traverse.walk_expr(top):
                if isinstance(e, loops.Call) and e.fn in AWAITED and isinstance(e.args[0], loops.Load):
                    return e.args[0].buffer
    return None


def functions(head: str, unsigned: str, bits: Mapping[str, tuple[str, str, str]]) -> dict[str, str]:
    """The text of each function, by its name. head: what it begins with; unsigned: the type of 64 bits; bits: for each type of
    numbers its spelling, that of its bits from a number `x`, and of the number from `bits`."""
    made = {"polytc_publish": f"/* Stored whole: who sees the mark above it sees the value. */\n{head} void polytc_publish("
                              f"long long* place, const unsigned int value)\n{{\n"
                              f"    *(volatile {unsigned}*)place = ({unsigned})1 << 32 | value;\n}}\n",
            "polytc_awaited": f"/* The value of a word, when it has its mark. */\n{head} unsigned int polytc_awaited("
                              f"const long long* place)\n{{\n    {unsigned} word;\n    do {{\n"
                              f"        word = *(const volatile {unsigned}*)place;\n    }} while (word >> 32 == 0);\n"
                              f"    return (unsigned int)word;\n}}\n"}
    for t in AWAITED.values():
        spelled, out, back = bits[t.name]
        halves = [f"(unsigned int)({out} >> {32 * n})" if n else f"(unsigned int){out}" for n in range(parts(t))]
        for n, half in enumerate(halves):
            name = f"polytc_{PUBLISHED[n].replace('published', 'publish')}_{t}"
            made[name] = (f"{head} void {name}(long long* place, const {spelled} x)\n{{\n"
                          f"    polytc_publish(place, {half});\n}}\n")
        words = [f"const long long* {x}" for x in "ab"[:len(halves)]]
        whole = "polytc_awaited(a)" if len(halves) == 1 else f"polytc_awaited(a) | ({unsigned})polytc_awaited(b) << 32"
        result = back.replace("bits", whole if len(halves) == 1 else f"({whole})")
        made[f"polytc_awaited_{t}"] = (f"{head} {spelled} polytc_awaited_{t}({', '.join(words)})\n{{\n"
                                       f"    return {result};\n}}\n")
    return made


def _named(write: Expressions, call: str, dtype: DType) -> str:
    """The function of that name and type, whose text is added. Raises TargetError E513 where the dialect has none."""
    name = f"polytc_{call}_{dtype}"
    if name not in write.c.published:
        raise errors.fail("E513", f"'{call}' of {dtype} has no counterpart in {write.c.name}", kind=errors.TargetError,
                          notes=["it does not say that groups go on while others wait for them"])
    for needed in ("polytc_publish", "polytc_awaited"):
        if f"{needed}(" in write.c.published[name]:
            write.preamble.add(needed, write.c.published[needed])
    return write.preamble.add(name, write.c.published[name])
