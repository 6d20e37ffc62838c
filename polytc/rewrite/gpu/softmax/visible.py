"""Which keys a block of rows sees: the blocks of keys in parts, and whether a row sees any.

Of 64 rows i and 32 keys j at a time, where j <= i, all keys count for all rows where 32*j_block + 31 <= 64*i_group, and nothing
is tested; j <= i is tested in the other blocks for which 32*j_block <= 64*i_group + 63; those beyond are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from polytc.program import program as pr
from polytc.program.affine import Affine, Linear, interval
from polytc.program.linear import collected, expression
from polytc.program.scalars import BOOL, I64, OPPOSITES
from polytc.rewrite.gpu import tile_conditions
from polytc.rewrite.gpu.softmax.chain import Chain
from polytc.rewrite.gpu.tiled_indices import TiledIndex, is_ragged


@dataclass(frozen=True)
class Part:
    """Some of the blocks of keys. where: the conditions, on groups and blocks, under which a block is one of them; tested:
    those on rows and keys under which a key counts there."""

    where: tuple[pr.Expr, ...]
    tested: tuple[pr.Expr, ...] = ()


def parts(chain: Chain, cuts: Mapping[str, TiledIndex], block: pr.Range, keys: int) -> Iterator[Part]:
    """All blocks that a group sees, each in one part; first those in which all keys count for all rows. block: the loop over
    blocks of so many keys."""
    conditions = tuple(dict.fromkeys((*chain.conditions, *chain.hides)))
    of_keys = chain.score.by_index[chain.key]
    ragged, at = is_ragged(of_keys.extent, keys), pr.Index(block.index)
    end = (pr.Binary("<", pr.Index(chain.key), pr.Const(of_keys.upper, I64), BOOL),) if ragged else ()
    last = pr.Const(of_keys.extent // keys, I64)
    seen = tile_conditions.reached(conditions, cuts)
    cut, open_ = list[Part](), False
    for c in conditions:
        all_ = tile_conditions.reached((c,), cuts, all_=True)
        if all_:
            cut.append(Part((*seen, _negated(all_[0])), (*conditions, *end)))
            seen += all_
        elif not _always(c, chain):
            open_ = True
    if open_:
        yield Part(seen, (*conditions, *end))
    elif not ragged:
        yield Part(seen)
    else:
        if last.value:
            yield Part((*seen, pr.Binary("<", at, last, BOOL)))
        yield Part((*seen, *((pr.Binary(">=", at, last, BOOL),) if last.value else ())), end)
    yield from cut


def _always(c: pr.Expr, chain: Chain) -> bool:
    """Does a comparison hold for all rows and keys?"""
    form = tile_conditions.form_of(c)
    assert form is not None, "visible keys: no comparison"
    assert isinstance(c, pr.Binary), "visible keys: no comparison"
    low, high = interval(form, chain.score.box)
    return {"<": high < 0, "<=": high <= 0, ">": low > 0, ">=": low >= 0}[c.op]


def _negated(c: pr.Expr) -> pr.Expr:
    """That a comparison does not hold."""
    assert isinstance(c, pr.Binary), "visible keys: no comparison"
    return replace(c, op=OPPOSITES[c.op])


def sees_any(chain: Chain) -> tuple[pr.Expr, ...]:
    """The conditions under which a row has a key that counts: every least key is below every largest one."""
    keys, box = chain.score.by_index[chain.key], chain.score.box
    low: list[Linear] = [Affine(keys.lower, ())]
    high: list[Linear] = [Affine(keys.upper - 1, ())]
    for c in chain.conditions:
        form = tile_conditions.form_of(c)
        assert form is not None, "visible keys: no comparison"
        assert isinstance(c, pr.Binary), "visible keys: no comparison"
        sign = 1 if c.op in ("<", "<=") else -1                       # sign * form + strict <= 0
        each = sign * form.coefficient(chain.key)
        rest = collected(((i, -sign * each * x) for i, x in form.terms if i != chain.key),
                         -each * (sign * form.constant + (c.op in ("<", ">"))))
        (high if each > 0 else low).append(rest)
    found = (collected((*a.terms, *((i, -x) for i, x in b.terms)), a.constant - b.constant) for a in low for b in high)
    return tuple(pr.Binary("<=", expression(f), pr.Const(0, I64), BOOL) for f in found if interval(f, box)[1] > 0)
