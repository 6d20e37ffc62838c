"""Words that hold a value and say that it is there."""

from __future__ import annotations

import numpy as np
import pytest

from polytc import errors
from polytc.program.calls import published
from polytc.program.program import Binary, Call, Const, Index, Range, Read, Statement
from polytc.program.scalars import BF16, BOOL, DTYPES, F32, F64, I64, U8, DType
from polytc.targets.interp import support

VALUES: dict[str, list[float]] = {
    "f": [0.0, -0.0, 1.5, -2e30, np.inf, -np.inf, np.nan], "i": [0, -1, 5, -100], "u": [0, 1, 255]}


@pytest.mark.parametrize("dtype", published.AWAITED.values(), ids=str)
def test_a_value_comes_out_of_its_words_as_it_went_in(dtype: DType) -> None:
    """Bit for bit; at the ends of its type, too."""
    ends = [np.iinfo(dtype.numpy).min, np.iinfo(dtype.numpy).max] if dtype.is_int else []
    given = np.array([*VALUES[dtype.kind], *ends], dtype.numpy)
    words = [published.apply(fn, [given]) for fn in published.PUBLISHED[:published.parts(dtype)]]
    assert all((w >> 32 == 1).all() for w in words)
    assert published.apply(f"awaited_{dtype}", words).tobytes() == given.tobytes()
    assert published.is_there(words)


def test_a_word_without_its_mark_is_waited_for() -> None:
    """By the interpreter, whose groups run one after another, in vain."""
    one = published.apply("published", [np.float64(2.5)])
    assert not published.is_there([one, np.int64(0)])
    assert support.NAMESPACE["_fn_awaited_f64"](one, published.apply("published_high", [np.float64(2.5)])) == 2.5
    with pytest.raises(errors.TargetError, match="that none before it publishes"):
        support.NAMESPACE["_fn_awaited_f64"](one, np.int64(0))


def test_types_of_calls() -> None:
    assert {t.name for t in published.AWAITED.values()} == {n for n, t in DTYPES.items() if n[0] in "fiu" and not t.is_half}
    assert published.fits("published", [F32], I64)
    assert not published.fits("published", [F32], F32)
    assert not published.fits("published_high", [F32], I64)
    assert published.fits("published_high", [F64], I64)
    assert published.fits("awaited_f64", [I64, I64], F64)
    assert not published.fits("awaited_f64", [I64], F64)
    assert not published.fits("awaited_u8", [F32], U8)
    assert not any(published.fits("published", [t], I64) for t in (BF16, BOOL))


def test_what_is_awaited() -> None:
    """Tensors of which no element is read otherwise."""
    i, r = Index("i"), (Range("i", 0, 4),)
    word = Read("w", (i,), I64)
    waits = Call("awaited_f32", (word,), F32)
    assert published.awaited(Statement("S", "x", (i,), None, waits, r)) == {"w"}
    both = Binary("+", waits, Call("awaited_f32", (Read("v", (Const(0, I64),), I64),), F32), F32)
    assert published.awaited(Statement("S", "x", (i,), None, both, r)) == {"w", "v"}
    assert published.awaited(Statement("S", "x", (word,), None, waits, r)) == frozenset()
    make = Call("published", (Read("x", (i,), F32),), I64)
    assert published.publishes(Statement("S", "w", (i,), None, make, r))
    assert not published.publishes(Statement("S", "w", (i,), "+", make, r))
    assert not published.publishes(Statement("S", "w", (i,), None, word, r))
