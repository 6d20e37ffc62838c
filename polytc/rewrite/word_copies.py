"""Words are made where they are copied, of the bytes in memory, so that no kernel makes a tensor of them before.

    C[i] += i32(A[i,k])*i32(B[k])                       with i8 A[4096,4096], i8 B[4096] on gpu
    ->  C[i] += dot_i8i8(word(A[i, 4*k], ...), word(B[4*k], ...)) where k in 0:1024

Words whose bytes lie side by side in memory, at a multiple of four, are one access, wherever they are read. Others are put
together by the items that copy them to local memory or registers, which turns what does not lie along the sum; not for a matrix
unit (rewrite.gpu.matrix_tiles), whose copies pass no registers. What follows from constants stays as it is, as it is made once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from polytc.program import kinds
from polytc.program import program as pr
from polytc.program.calls.words import BYTES, WORD
from polytc.program.linear import linear, normalise
from polytc.program.sizes import Size
from polytc.rewrite.tidy import hoist


def inline(program: pr.Program) -> pr.Program:
    """The program with words in place of reads of tensors of words, which go where nothing reads them any more."""
    made = {s.target: s for s in program.statements if _word(s) is not None}
    writers, fixed = Counter(s.target for s in program.statements), hoist.constants(program)
    made = {name: s for name, s in made.items() if name in program.temporaries and name not in fixed and writers[name] == 1
            and _formal(program, s) is not None and not any(writers[r.tensor] for r in pr.reads(s))}
    if not made:
        return program
    multiplied = {r.tensor for s in program.statements if any(r.kind == kinds.MATRIX for r in s.ranges) for r in pr.reads(s)}
    statements = []
    for s in program.statements:
        free = {name for name, of in made.items() if _are_neighbours(program, of)}
        copied = made.keys() if _is_copy(s) and s.target not in multiplied else free
        statements.append(_inlined(program, s, {name: made[name] for name in copied}))
    read = {r.tensor for s in statements for r in pr.reads(s)}
    gone = made.keys() - read
    return replace(program, statements=tuple(s for s in statements if s.target not in gone),
                   tensors=tuple(t for t in program.tensors if t.name not in gone))


def _word(s: pr.Statement) -> pr.Call | None:
    """The word of bytes that a statement assigns, or flips the top bits of."""
    value = s.value.a if isinstance(s.value, pr.Binary) and s.value.op == "^" and isinstance(s.value.b, pr.Const) else s.value
    word = isinstance(value, pr.Call) and value.fn == WORD and len(value.args) == BYTES and all(
        isinstance(a, pr.Read) and a.default is None for a in value.args)
    plain = s.op is None and not s.where and not s.bounds and not s.loops
    return value if isinstance(value, pr.Call) and word and plain else None


def _formal(program: pr.Program, s: pr.Statement) -> tuple[str, ...] | None:
    """The index in each subscript of the target, where these are all of the statement's, each once."""
    forms = [linear(sub) for sub in s.subscripts]
    found = tuple(f.index for f in forms if f is not None and f.index is not None)
    whole = len(found) == len(s.subscripts) and len(set(found)) == len(found) and set(found) == set(s.indices)
    return found if whole else None


def _are_neighbours(program: pr.Program, s: pr.Statement) -> bool:
    """Do the bytes of a word lie side by side in memory, at a multiple of four?"""
    word = _word(s)
    reads = [a for a in word.args if isinstance(a, pr.Read)] if word is not None else []
    if not reads or not reads[0].subscripts:
        return False
    source, first = program.tensor(reads[0].tensor), linear(reads[0].subscripts[-1])
    if first is None or isinstance(source.shape[-1], Size):
        return False
    starts = (source.shape[-1], source.lower[-1], first.constant, *(c for _, c in first.terms))
    follow = [linear(r.subscripts[-1]) == replace(first, constant=first.constant + n)
              and r.subscripts[:-1] == reads[0].subscripts[:-1] and r.tensor == source.name for n, r in enumerate(reads)]
    return all(follow) and all(int(c) % BYTES == 0 for c in starts)


def _is_copy(s: pr.Statement) -> bool:
    """Does a statement copy words, where they exist?"""
    value = s.value.a if isinstance(s.value, pr.Select) and isinstance(s.value.b, pr.Const) else s.value
    return s.op is None and isinstance(value, pr.Read)


def _inlined(program: pr.Program, s: pr.Statement, made: dict[str, pr.Statement]) -> pr.Statement:
    def word(e: pr.Expr) -> pr.Expr:
        if not isinstance(e, pr.Read) or e.tensor not in made or e.default is not None:
            return e
        formal = _formal(program, made[e.tensor])
        assert formal is not None, "word copies: other subscripts"
        return normalise(pr.substitute(made[e.tensor].value, dict(zip(formal, e.subscripts, strict=True))))
    return replace(s, value=pr.map_expr(s.value, word))
