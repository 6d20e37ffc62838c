"""Values that work-groups wait for: words of 64 bits that hold one, or half of one, and say that it is there.

    published(x)            the word with the 32 bits of x, or the lower half of 64, and a mark above them
    published_high(x)       that with the upper half
    awaited_f32(w)          the f32 of a word, when it has its mark; awaited_f64(lower, upper) one of 64 bits; and so on

A word without a mark is 0. It is stored and loaded in one piece, so that whoever sees the mark sees the value, in whatever
order memory does the rest. No text can call them: `rewrite.gpu.look_back` writes them, for machines
whose groups may wait for others (`Machine.waiting_groups`). Elements are written once after they were 0 (I-structures: Arvind,
Nikhil & Pingali, I-Structures: Data Structures for Parallel Computing, 1989), by groups whose iterations come before those that
wait, so that the order of the text waits for nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from polytc.program import program as pr
from polytc.program.scalars import DTYPES, I64, DType

PUBLISHED = ("published", "published_high")
"""The calls that make words, by the half of the value that they hold."""
AWAITED = {f"awaited_{t.name}": t for t in DTYPES.values() if t.kind in "fiu" and not t.is_half}
"""The calls that take values out of words, and their types."""
HALF, MARK = (1 << 32) - 1, 1 << 32


def parts(dtype: DType) -> int:
    """Words of a value."""
    return 2 if dtype.bits > 32 else 1


def is_published_call(fn: str) -> bool:
    """Is it a call of this module?"""
    return fn in PUBLISHED or fn in AWAITED


def fits(fn: str, args: list[DType], result: DType) -> bool:
    """Are these the types of such a call?"""
    if fn in PUBLISHED:
        return len(args) == 1 and args[0] in AWAITED.values() and result == I64 and PUBLISHED.index(fn) < parts(args[0])
    return result == AWAITED[fn] and args == [I64] * parts(result)


def apply(fn: str, args: list[Any]) -> Any:
    """The reference: such a call on numpy scalars or arrays. What has no mark yet is what its bits are."""
    if fn in PUBLISHED:
        x = np.asarray(args[0])
        wide = np.int64 if x.dtype.kind in "iu" and x.dtype.itemsize < 4 else x.dtype
        bits = x.astype(wide).view(f"u{np.dtype(wide).itemsize}").astype(np.uint64) >> np.uint64(32 * PUBLISHED.index(fn))
        return (bits & np.uint64(HALF) | np.uint64(MARK)).astype(np.int64)
    halves = [np.asarray(w).astype(np.uint64) & np.uint64(HALF) for w in args]
    bits, dtype = halves[0] if len(halves) == 1 else halves[0] | halves[1] << np.uint64(32), AWAITED[fn]
    return bits.astype(f"u{dtype.bytes}").view(dtype.numpy)


def is_there(words: list[Any]) -> bool:
    """Have all words their marks?"""
    return all(bool(np.all(np.asarray(w).astype(np.uint64) & np.uint64(MARK))) for w in words)


def publishes(s: pr.Statement) -> bool:
    """Does a statement publish elements?"""
    return s.op is None and isinstance(s.value, pr.Call) and s.value.fn in PUBLISHED


def awaited(s: pr.Statement) -> frozenset[str]:
    """The tensors of which a statement reads no element before it is there."""
    whole = [e for top in (s.value, *s.subscripts, *(x for b in s.bounds for x in (b.lower, b.upper))) for e in pr.walk(top)]
    every = Counter(e.tensor for e in whole if isinstance(e, pr.Read))
    waits = Counter(a.tensor for e in whole if isinstance(e, pr.Call) and e.fn in AWAITED for a in e.args
                    if isinstance(a, pr.Read))
    return frozenset(name for name, count in every.items() if waits[name] == count)
