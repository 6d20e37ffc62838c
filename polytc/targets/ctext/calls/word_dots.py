"""Words of four bytes and their dot products (program.calls) in dialects of C: an instruction where the compiler has one.

    S + dot_i8i8(A_tile[k, i], B_tile[k, j])    ->  polytc_dot_i8i8(A_tile[k][i], B_tile[k][j], S)
    word(A[i, 4*k], ..., A[i, 4*k + 3])         ->  *(const unsigned int*)(A + i * 64 + k * 4)

Sums wrap, and none is saturated. What has no such instruction finds the same number by multiply-adds of the bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from polytc import errors
from polytc.codegen import addresses, loops, vector_lanes
from polytc.program.calls.words import BYTES, DOTS, WORD
from polytc.program.scalars import I8, I32, U8, U32
from polytc.targets.ctext.text import bare

if TYPE_CHECKING:
    from polytc.targets.ctext.expressions import Expressions

_AMD = {"dot_i8i8": "__builtin_amdgcn_sdot4((int)a, (int)b, c, 0)",
        "dot_u8u8": "(int)__builtin_amdgcn_udot4(a, b, {unsigned}c, 0)"}
_AMD_EITHER = "__builtin_amdgcn_sudot4({0}, (int)a, {1}, (int)b, c, 0)"
_ARCHITECTURES = ("906", "908", "90a", "940", "941", "942", "950", "1011", "1012", "1030", "1031", "1032", "1034", "1035",
                  "1036")
_OF_AMD = " \\\n    || ".join(" || ".join(f"defined(__gfx{n}__)" for n in _ARCHITECTURES[at:at + 5]) for at in (0, 5, 10))
_OF_AMD_EITHER = "defined(__GFX11__) || defined(__GFX12__)"
"""AMD's architectures with v_dot4_i32_i8 and v_dot4_u32_u8 (LLVM's dot1-insts), and with v_dot4_i32_iu8 (dot8-insts)."""
FEATURE = "__opencl_c_integer_dot_product_input_4x8bit_packed"
"""What compilers of OpenCL C define from -cl-std=CL3.0 on, where there are the functions of cl_khr_integer_dot_product."""
INSTRUCTION = 'asm("dp4a.{0}.{1} %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));'
"""NVIDIA's, in PTX."""


def functions(head: str, unsigned: str, first: Mapping[str, Sequence[tuple[str, Sequence[str]]]]) -> dict[str, str]:
    """The text of each function, by its name. head: what it begins with; unsigned: the type of a word; first: for each dot
    product the conditions under which a dialect has an instruction, and the lines with it."""
    made = {f"polytc_{name}": _function(name, head, unsigned, first[name]) for name in first}
    return {**made, "polytc_word": _word_function(head, unsigned)}


def signs(name: str, signed: str, unsigned: str) -> tuple[str, str]:
    """One of two words for each operand of a dot product, by its sign."""
    dot = DOTS[name]
    return (signed if dot.a == I8 else unsigned), (signed if dot.b == I8 else unsigned)


def _function(name: str, head: str, unsigned: str, first: Sequence[tuple[str, Sequence[str]]]) -> str:
    a, b = (f"({t}){x}" for t, x in zip(signs(name, "signed char", "unsigned char"), ("(a >> n)", "(b >> n)"), strict=True))
    either = _AMD_EITHER.format(*signs(name, "1", "0"))
    ways = [*first, (_OF_AMD_EITHER, (f"return {either};",))]
    ways += [(_OF_AMD, (f"return {_AMD[name].format(unsigned=f'({unsigned})')};",))] if name in _AMD else []
    chosen = (line for n, (condition, lines) in enumerate(ways)
              for line in (f"#{'el' * (n > 0)}if {condition}", *(f"    {x}" for x in lines)))
    return "\n".join([
        f"/* c and the products of the four bytes of a with those of b: of {DOTS[name].a} with {DOTS[name].b}. */",
        f"{head} int polytc_{name}(const {unsigned} a, const {unsigned} b, const int c)", "{",
        *chosen, "#else", f"    {unsigned} sum = ({unsigned})c;",
        f"    for (int n = 0; n < 32; n += 8) sum += ({unsigned})({a} * {b});", "    return (int)sum;", "#endif", "}", ""])


def _word_function(head: str, unsigned: str) -> str:
    """The text of the function that puts four bytes into a word."""
    a, b, c, d = (f"({unsigned})(unsigned char){x}" for x in "abcd")
    return (f"{head} {unsigned} polytc_word(const int a, const int b, const int c, const int d)\n{{\n"
            f"    return {a} | {b} << 8\n           | {c} << 16 | {d} << 24;\n}}\n")


def word(write: Expressions, e: loops.Call) -> str:
    """Bytes side by side in words: one access, if they are neighbours in memory; of vectors of bytes each, all at once."""
    known = write.memory.words(write, e)
    if known is not None:
        return known
    rows = all(isinstance(a, loops.Load) and a.lanes > 1 and write.memory.is_contiguous(a.indices) for a in e.args)
    if e.lanes > 1 and rows:
        name, c, of = _named(write, "polytc_word", e), write.c, e.args[0].dtype
        lanes = [f"{name}({', '.join(c.vectors.lane(x, k) for x in 'abcd')})" for k in range(e.lanes)]
        made, given = c.vector(U32, e.lanes), ", ".join(f"const {c.vector(of, e.lanes)} {x}" for x in "abcd")
        text = f"{c.function} {made} {name}_{of}_x{e.lanes}({given})\n{{\n    return {c.vectors.made(made, lanes)};\n}}\n"
        name = write.preamble.add(f"{name}_{of}_x{e.lanes}", text)
        return f"{name}({', '.join(bare(write.value(a)) for a in e.args)})"
    if e.lanes > 1:
        parts = [bare(word(write, one)) for k in range(e.lanes) if isinstance(one := vector_lanes.lane(e, k), loops.Call)]
        return write.c.vectors.made(write.c.vector(U32, e.lanes), parts)
    return f"{_named(write, 'polytc_word', e)}({', '.join(bare(write.value(a)) for a in e.args)})"


def added(write: Expressions, e: loops.Call, total: loops.Expr) -> str:
    """`total` and the dot product of two words in each lane."""
    name, c = _named(write, f"polytc_{e.fn}", e), write.c
    if e.lanes > 1:
        words, sums = c.vector(U32, e.lanes), c.vector(I32, e.lanes)
        lanes = [f"{name}({', '.join(c.vectors.lane(x, k) for x in 'abc')})" for k in range(e.lanes)]
        head = f"{c.function} {sums} {name}_x{e.lanes}(const {words} a, const {words} b, const {sums} c)"
        name = write.preamble.add(f"{name}_x{e.lanes}", f"{head}\n{{\n    return {c.vectors.made(sums, lanes)};\n}}\n")
    return f"{name}({', '.join(bare(write.value(x)) for x in (*e.args, total))})"


def _named(write: Expressions, name: str, e: loops.Call) -> str:
    """The function of words of that name, whose text is added. Raises TargetError E513 where the dialect has none."""
    if name not in write.c.dots or (e.fn == WORD and len(e.args) != BYTES):
        raise errors.fail("E513", f"'{e.fn}' of {e.args[0].dtype} has no counterpart in {write.c.name}",
                          kind=errors.TargetError)
    return write.preamble.add(name, write.c.dots[name])


def dot_of(e: loops.Expr) -> loops.Call | None:
    """The dot product of words that an expression is."""
    return e if isinstance(e, loops.Call) and e.fn in DOTS else None


def neighbours(e: loops.Expr) -> tuple[loops.Load, int] | None:
    """The first of the bytes that an expression of words has, if all of them lie side by side in memory, lane by lane; and how
    many there are."""
    if not isinstance(e, loops.Call) or e.fn != WORD or not all(isinstance(a, loops.Load) for a in e.args):
        return None
    loaded = [a for a in e.args if isinstance(a, loops.Load)]
    first = loaded[0]
    forms = [addresses.flatten(p.buffer, p.indices) for p in loaded]
    start = forms[0]
    if start is None or len({(p.buffer, p.lanes) for p in loaded}) > 1 or first.dtype not in (I8, U8):
        return None
    lanes = len(start.lanes) or 1
    dense = lanes == e.lanes and (not start.lanes or start.lanes == tuple(range(0, BYTES * lanes, BYTES)))
    if not dense or any(f != replace(start, constant=start.constant + n) for n, f in enumerate(forms)):
        return None
    return first, BYTES * lanes
