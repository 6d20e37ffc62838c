"""Prefetches (codegen.prefetch) in OpenCL C, for CPUs.

OpenCL's own `prefetch` is a function call on Intel's runtime and nothing on PoCL; the compilers of both know that of clang.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

from polytc.codegen import addresses, loops, prefetch
from polytc.targets.ctext.expressions import Expressions
from polytc.targets.ctext.text import bare

NAME = "polytc_fetch"


def _macro(name: str, arguments: str) -> str:
    return f"""#if defined(__OPTIMIZE__) && defined(__has_builtin)
#if __has_builtin(__builtin_prefetch)
#define {name}(p) __builtin_prefetch(p, {arguments})
#endif
#endif
#ifndef {name}
#define {name}(p)
#endif
"""


MACROS = {False: (NAME, _macro(NAME, "0, 2")), True: (f"{NAME}_to_write", _macro(f"{NAME}_to_write", "1, 3"))}
"""write -> what asks for the line of an address: to read, into the second cache; to write, into the first. Nothing where a
compiler cannot. Without optimisation there is none either: oclgrind, which never optimises, does not know the instruction."""


def lines(write: Expressions, name: str, ahead: prefetch.Prefetch) -> Iterator[str]:
    """The statements at the start of an iteration. name: of the array's pointer; terms are added to it one by one, since their
    sum may leave the range of the index type."""
    line = prefetch.LINE // ahead.buffer.dtype.bytes
    place = [name, *(bare(write.index(_product(atom, c)), "+") for atom, c in ahead.start.terms)]
    if ahead.passed.terms:
        if not isinstance(ahead.repetitions, int) or ahead.distance * ahead.repetitions >= 2**31:
            return                                                     # a division by a variable costs more than it saves
        repetitions = loops.binary("//", _sum(ahead.passed), loops.const(line * ahead.repetitions))
        place.append(bare(write.index(_product(repetitions, line)), "+"))
    for k in range(ahead.each):
        told = " + ".join([*place, str(ahead.start.constant + ahead.distance + line * k)])
        yield f"{write.preamble.add(*MACROS[ahead.write])}({told});"


def _sum(form: addresses.Address) -> loops.Expr:
    terms = [_product(atom, c) for atom, c in form.terms]
    return reduce(lambda a, b: loops.binary("+", a, b), [*terms, *([loops.const(form.constant)] if form.constant else [])])


def _product(e: loops.Expr, factor: int) -> loops.Expr:
    return e if factor == 1 else loops.binary("*", e, loops.const(factor))
