"""Expressions of the Loop AST in a dialect of C.

Two ways to write one. `index` (see ctext/indexing.py): arithmetic on loop variables. `value`: everything else, in exactly the
type of the node (see opencl/types.py): C's promotions are undone by casts, and signed arithmetic is done unsigned, because it
wraps here and is undefined in C.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from polytc import errors
from polytc.codegen import intervals, linear_forms, loops, traverse, vector_lanes
from polytc.program.calls.published import AWAITED
from polytc.program.calls.words import WORD
from polytc.program.scalars import BOOL, I32, I64, INTRINSICS, DType
from polytc.targets.ctext.calls import published_words, word_dots
from polytc.targets.ctext.indexing import Indexing
from polytc.targets.ctext.memory import Memory
from polytc.targets.ctext.preamble import Preamble
from polytc.targets.ctext.text import bare, choice, is_whole, operation

errors.register(E512="a vector width that OpenCL C does not have")

_PREDICATES = frozenset(name for name, row in INTRINSICS.items() if row.result == "bool")
_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


class Expressions(Indexing):
    """Writes the expressions of one kernel. Only the scalars of OpenCL C are those of C, too: C has no vectors."""

    def __init__(self, preamble: Preamble, memory: Memory, spell: Callable[[str], str], itype: str) -> None:
        super().__init__(preamble, spell, itype)
        self.memory = memory

    # ---- values

    def value(self, e: loops.Expr) -> str:
        """A value of type Language.vector(e.dtype, e.lanes)."""
        if e in self.known:
            own = self.c.scalar(e.dtype)
            return f"({own}){self.known[e]}" if intervals.is_index(e) and self.itype != own else self.known[e]
        if e.lanes not in self.c.lanes:
            raise errors.fail("E512", f"{self.c.name} has no vectors of {e.lanes} lanes", kind=errors.TargetError,
                              notes=["vectors have 2, 4, 8 or 16 lanes"])
        if e.dtype == BOOL and e.lanes > 1 and not isinstance(e, loops.Load):
            return self.mask(e, 8)
        match e:
            case loops.Var():
                return f"({self.c.scalar(e.dtype)}){self.spell(e.name)}"
            case loops.Const():
                return self._spread(self.c.constant(e.value, e.dtype), e)
            case loops.Ramp():
                return self._converted(e.dtype, e.lanes, self.index(replace(e, dtype=I64))) \
                    if intervals.is_index(e) else self._by_lane(e)
            case loops.Broadcast():
                return self._spread(bare(self.value(e.a)), e)
            case loops.Unary():
                return self._unary(e)
            case loops.Binary():
                return self._binary(e)
            case loops.Call():
                return self._call(e)
            case loops.Cast():
                return self._cast(e)
            case loops.Select():
                return self._select(e)
            case loops.Load():
                return self._load(e)
            case loops.Reduce():
                return self._reduce(e)
            case loops.Shuffle():
                return self._shuffle(e)

    def _shuffle(self, e: loops.Shuffle) -> str:
        name = self.preamble.shuffle(e.dtype, e.a.lanes, e.order)
        return f"{name}({bare(self.value(e.a))}, {bare(self.value(e.b))})"

    def condition(self, e: loops.Expr) -> str:
        """A scalar condition, for `if` and `?:`."""
        return bare(self.value(e))

    def _spread(self, text: str, e: loops.Expr) -> str:
        return text if e.lanes == 1 else self.c.vectors.made(self.c.vector(e.dtype, e.lanes), [bare(text)])

    def _converted(self, dtype: DType, lanes: int, text: str) -> str:
        return self.c.vectors.convert(self.c.vector(dtype, lanes), text)

    def _masked(self, bits: int, lanes: int, text: str) -> str:
        """A mask with lanes of so many bits."""
        return self.c.vectors.convert(self.c.mask(bits, lanes), bare(text))

    def _by_lane(self, e: loops.Expr) -> str:
        """A vector put together from scalars."""
        parts = [bare(self.value(vector_lanes.lane(e, k))) for k in range(e.lanes)]
        if e.dtype == BOOL:
            parts = [f"-({p})" for p in parts]
        return self.c.vectors.made(self.c.vector(e.dtype, e.lanes), parts)

    def mask(self, e: loops.Expr, bits: int) -> str:
        """A vector condition as lanes of `bits` that are 0 or -1."""
        match e:
            case loops.Binary() if e.op in _COMPARISONS:
                width, text = self._compare(e)
                return text if width == bits else self._masked(bits, e.lanes, text)
            case loops.Binary():
                op = {"&&": "&", "||": "|", "*": "&", "+": "|", "-": "^"}.get(e.op, e.op)
                return f"({self.mask(e.a, bits)} {op} {self.mask(e.b, bits)})"
            case loops.Unary():
                return f"(~{self.mask(e.a, bits)})"
            case loops.Broadcast() | loops.Const():
                one = bare(self.value(e.a)) if isinstance(e, loops.Broadcast) else self.c.constant(e.value, BOOL)
                return self.c.vectors.made(self.c.mask(bits, e.lanes), [f"-({one})"])
            case _:
                text = {loops.Cast: self._cast, loops.Call: self._call, loops.Select: self._select,
                        loops.Load: self._load}[type(e)](e)  # type: ignore[operator]
                return text if bits == 8 else self._masked(bits, e.lanes, text)

    def _compare(self, e: loops.Binary) -> tuple[int, str]:
        """The width of the lanes of a vector comparison as C gives it, and its text."""
        if intervals.is_index(e):
            return (32 if self.itype == "int" else 64), f"({self.index(e.a)} {e.op} {self.index(e.b)})"
        a, b = self.value(e.a), self.value(e.b)
        if e.a.dtype == BOOL:
            # masks are 0 and -1, so that true is the lesser one
            a, b = b, a
        return self.c.value_bits(e.a.dtype), f"({a} {e.op} {b})"

    def _unary(self, e: loops.Unary) -> str:
        a = self.value(e.a)
        if e.dtype == BOOL:
            return f"(!{a})"
        if e.dtype.is_float:
            return f"(-{a})"
        t, u = self.c.vector(e.dtype, e.lanes), self.c.unsigned(e.dtype, e.lanes)
        if e.op == "~":
            return f"(({t})(~{a}))" if e.lanes == 1 else f"(~{a})"
        return f"(({t})(0 - ({u}){a}))" if e.lanes == 1 else f"{self.c.vectors.bits(t)}(-{self.c.vectors.bits(u)}({bare(a)}))"

    def _binary(self, e: loops.Binary) -> str:
        if e.op in _COMPARISONS or e.op in ("&&", "||"):
            if intervals.is_index(e) and e.op in _COMPARISONS:
                op, a, b = _compared(e)
                return operation(op, self.index(a), self.index(b))
            if e.op in _COMPARISONS and (both := self._narrow_sides(e)) is not None:
                return operation(e.op, *both)
            return operation(e.op, self.value(e.a), self.value(e.b))
        if e.op in ("//", "%", "/") and e.dtype.is_int:
            return self._divide(e)
        if e.op == "+":
            for product, other in ((e.b, e.a), (e.a, e.b)):
                if (dot := word_dots.dot_of(product)) is not None:
                    return word_dots.added(self, dot, other)
        if e.op in ("//", "%"):
            name = "ffloordiv" if e.op == "//" else "fmodulo"
            call = f"{self.preamble.helper(name, e.dtype, e.lanes)}({bare(self.value(e.a))}, {bare(self.value(e.b))})"
            return self._half(call, e.dtype, e.lanes)
        if e.op in ("<<", ">>"):
            return self._shift(e)
        return self.combine(e.op, e.dtype, e.lanes, self._operand(e, e.a, e.b), self._operand(e, e.b, e.a))

    def _narrow_sides(self, e: loops.Binary) -> tuple[str, str] | None:
        """The sides of a comparison of a number in memory with an index, in `int` where both fit."""
        if not intervals.is_index(e.b) or e.lanes > 1 or not intervals.interval(e.b, self.env).fits32:
            return None
        a = self._narrow(e.a)
        return (a, self.index(e.b)) if a is not None else None

    def _operand(self, e: loops.Binary, side: loops.Expr, other: loops.Expr) -> str:
        """One side of arithmetic; C repeats a scalar in all lanes by itself where the other side is a vector of floats."""
        scalar = isinstance(side, loops.Broadcast) and not isinstance(other, loops.Broadcast | loops.Const)
        return self.value(side.a if scalar and e.dtype.is_float and isinstance(side, loops.Broadcast) else side)

    def combine(self, op: str, dtype: DType, width: int, a: str, b: str) -> str:
        """`a op b` of two values of one type: arithmetic that wraps, or a reduction operator."""
        if op in ("min", "max"):
            return self._apply(op, dtype, width, [a, b])
        if dtype == BOOL:
            return f"({a} {({'*': '&', '+': '|', '-': '^'}).get(op, op)} {b})"
        t, u = self.c.vector(dtype, width), self.c.unsigned(dtype, width)
        if dtype.is_float or dtype.kind == "u" and (dtype.bits >= 32 or width > 1):
            return self._half(operation(op, a, b), dtype, width)
        if op in "&|^":
            return f"({a} {op} {b})" if width > 1 or dtype.bits >= 32 else f"(({t})({a} {op} {b}))"
        if width == 1:
            return f"(({t}){operation(op, _bits(a, f'({t})', f'({u})'), _bits(b, f'({t})', f'({u})'))})"
        signed, unsigned = self.c.vectors.bits(t), self.c.vectors.bits(u)
        return f"{signed}{operation(op, _bits(a, signed, unsigned), _bits(b, signed, unsigned))}"

    def _divide(self, e: loops.Binary) -> str:
        a, b = self.value(e.a), self.value(e.b)
        divisor = intervals.interval(e.b, self.env)
        natural = intervals.interval(e.a, self.env).is_natural
        if divisor.low > 0 and (natural or e.op == "/"):
            op = "%" if e.op == "%" else "/"
            return f"({a} {op} {b})" if e.lanes > 1 or e.dtype.bits >= 32 else f"(({self.c.scalar(e.dtype)})({a} {op} {b}))"
        if e.dtype.kind == "u":
            name = "urem" if e.op == "%" else "udiv"
        else:
            name = {"//": "floordiv", "%": "mod", "/": "div"}[e.op]
        return f"{self.preamble.helper(name, e.dtype, e.lanes)}({bare(a)}, {bare(b)})"

    def _shift(self, e: loops.Binary) -> str:
        a, t = self.value(e.a), self.c.vector(e.dtype, e.lanes)
        amount = traverse.repeated(e.b)
        if isinstance(amount, loops.Const) and 0 <= amount.value < e.dtype.bits and e.lanes == 1:
            count = int(amount.value)
            return f"(({t})(({self.c.unsigned(e.dtype)}){a} << {count}))" if e.op == "<<" else f"(({t})({a} >> {count}))"
        b = self.value(e.b) if e.b.dtype == e.dtype else self._cast(loops.Cast(e.b, e.dtype, e.lanes))
        name = "shl" if e.op == "<<" else "ushr" if e.dtype.kind == "u" else "shr"
        return f"{self.preamble.helper(name, e.dtype, e.lanes)}({bare(a)}, {bare(b)})"

    # ---- calls, casts, selections

    def _call(self, e: loops.Call) -> str:
        if e.fn == WORD:
            return word_dots.word(self, e)
        if word_dots.dot_of(e) is not None:
            return word_dots.added(self, e, loops.Const(0, e.dtype, e.lanes))
        if e.fn in AWAITED:
            return published_words.awaited(self, e)
        of = e.args[0].dtype
        text = self._apply(e.fn, of, e.lanes, [self.value(a) for a in e.args])
        if e.dtype == BOOL and of.is_float and e.lanes > 1:
            return self._masked(8, e.lanes, text)
        return text

    def _apply(self, fn: str, of: DType, width: int, args: list[str]) -> str:
        """An intrinsic on values of type `of`."""
        if width > 1 and of != BOOL and self.c.vectors.lanewise:
            return self._for_each_lane(fn, of, width, args)
        tables = {"f": (self.c.floats,), "i": (self.c.integers,), "u": (self.c.unsigneds, self.c.integers),
                  "b": (self.c.booleans,)}[of.kind]
        row = next((table[fn] for table in tables if fn in table), None)
        if row is None:
            raise errors.fail("E513", f"'{fn}' of {of} has no counterpart in {self.c.name}", kind=errors.TargetError,
                              notes=["cast the arguments to a float type first"] if of.kind != "f" else [])
        t = self.c.vector(of, width)
        if re.fullmatch(r"@?\w+", row):
            row += "(" + ", ".join(f"{{{k}}}" for k in range(len(args))) + ")"
            args = [bare(a) for a in args]
        row = re.sub(r"@(\w+)", lambda m: self.preamble.helper(m[1], of, width), row)
        row = row.replace("ONE", self.c.constant(1, of) if width == 1 else self.c.vectors.made(t, [self.c.constant(1, of)]))
        row = row.replace("AS", f"({t})") if width == 1 else row.replace("AS", self.c.vectors.bits(t))
        text = row.format(*args)
        if of.kind == "b" and width == 1:
            return f"({text} & 1)"
        return text if fn in _PREDICATES else self._half(text, of, width)

    def _for_each_lane(self, fn: str, of: DType, width: int, args: list[str]) -> str:
        """An intrinsic that is a function of scalars, on vectors; what is true or not becomes a mask of bytes."""
        t, lane = self.c.vector(of, width), self.c.vectors.lane
        one = [bare(self._apply(fn, of, 1, [lane(x, k) for x in "abc"[:len(args)]])) for k in range(width)]
        predicate = fn in _PREDICATES
        result = self.c.mask(8, width) if predicate else t
        body = f"return {self.c.vectors.made(result, [f'-({x})' for x in one] if predicate else one)};"
        word = f"{fn}_{of.name}" if of.is_half else fn
        name = self.preamble.define(f"polytc_each_{word}_{self.c.word(of, width)}", result, t, body, len(args))
        return f"{name}({', '.join(map(bare, args))})"

    def _half(self, text: str, dtype: DType, width: int) -> str:
        """A result of arithmetic on halves, done in float, rounded; other results as they are."""
        name = {"f16": "tohalf", "bf16": "tobfloat"}.get(dtype.name)
        return f"{self.preamble.helper(name, dtype, width)}({bare(text)})" if name else text

    def _cast(self, e: loops.Cast) -> str:
        to, of, width = e.dtype, e.a.dtype, e.lanes
        if to == of:
            return self.value(e.a)
        t = self.c.vector(to, width)
        if to == BOOL:
            zero = self.c.constant(0, of)
            if width == 1:
                return f"({self.value(e.a)} != {zero})"
            text = f"({self.value(e.a)} != {self.c.vectors.made(self.c.vector(of, width), [zero])})"
            return text if self.c.value_bits(of) == 8 else self._masked(8, width, text)
        if intervals.is_index(e.a) and not to.is_half:
            return f"({t}){self.index(e.a)}" if width == 1 else self.c.vectors.convert(t, self.index(e.a))
        a = self.value(e.a)
        if of == BOOL and width > 1:
            return self.c.vectors.convert(t, f"{a} & (char)1")
        if of.is_float and to.is_int:
            return self._float_to_int(bare(a), of, to, width)
        if self.c.vector(of, width) != t:
            a = f"({t}){a}" if width == 1 else self.c.vectors.convert(t, bare(a))
        return self._half(a, to, width)

    def _float_to_int(self, a: str, of: DType, to: DType, width: int) -> str:
        """Towards zero; a value outside of the type goes through a wider one first, as C compilers do for numpy."""
        if to.name == "u64":
            return f"{self.preamble.helper('toulong', of, width)}({a})"
        wider = I64 if to.name == "u32" else I32 if to.bits < 32 else to
        through, target = self.c.scalar(wider), self.c.scalar(to)
        if width == 1:
            return f"({target})({a})" if through == target else f"({target})({through})({a})"
        first = self._converted(wider, width, a)
        return first if through == target else self._converted(to, width, first)

    def _select(self, e: loops.Select) -> str:
        cond = traverse.repeated(e.cond)
        if cond.lanes == 1:
            # `?:` evaluates one side only, so that a guarded load is not performed
            text = choice(self.value(cond), self.value(e.a), self.value(e.b))
            return f"(({self.c.scalar(e.dtype)}){text})" if e.lanes == 1 and e.dtype.is_int and e.dtype.bits < 32 else text
        if vector_lanes.has_load(e.a) or vector_lanes.has_load(e.b):
            return self._by_lane(e)
        mask, a, b = self.mask(cond, self.c.value_bits(e.dtype)), self.value(e.a), self.value(e.b)
        return self.c.vectors.choose(bare(mask), bare(a), bare(b))

    # ---- memory and reductions

    def _load(self, e: loops.Load) -> str:
        place = self.memory.place(e.buffer)
        if e.lanes > 1 and not self.memory.is_contiguous(e.indices):
            return self.memory.gather(self, e) or self._by_lane(e)
        if place.lanes > 1:
            whole, last = place.element(self.memory.vector_offset(self, e.buffer, e.indices)), e.indices[-1]
            if e.lanes > 1:
                return whole
            assert isinstance(last, loops.Const), "opencl: a lane of a private vector has a number"
            return self.c.vectors.lane(whole, int(last.value) % place.lanes)
        if e.lanes == 1:
            if place.half:
                return self.memory.load_half(self, e)
            element = self.memory.element(self, e.buffer, e.indices)
            return f"({element} != 0)" if e.dtype == BOOL else element
        text = self.memory.load_vector(self, e)
        return f"({text} != {self.c.vectors.made(self.c.byte(e.lanes), ['0'])})" if e.dtype == BOOL else text

    def _reduce(self, e: loops.Reduce) -> str:
        dtype, width = e.a.dtype, e.a.lanes
        a = bare(self.value(e.a))
        if width == 1:
            return a
        if dtype == BOOL:
            if e.op == "^":
                return f"(({' ^ '.join(self.c.vectors.lane(f'({a})', k) for k in range(width))}) & 1)"
            return self.c.vectors.test(e.op not in ("+", "|", "max"), a)
        words = {"+": "sum", "*": "product", "&": "and", "|": "or", "^": "xor"}
        t = self.c.vector(dtype, width)
        half = self.c.vector(dtype, width // 2)
        if width == 2:
            body = f"return {bare(self.combine(e.op, dtype, 1, *(self.c.vectors.lane('a', k) for k in range(2))))};"
        else:
            folded = self.combine(e.op, dtype, width // 2, *(self.c.vectors.half("a", last) for last in (False, True)))
            inner = self._reduce_name(e.op, dtype, width // 2)
            body = f"{half} h = {bare(folded)}; return {inner}(h);"
        name = f"polytc_reduce_{words.get(e.op, e.op)}_{self.c.word(dtype, width)}"
        return f"{self.preamble.define(name, self.c.scalar(dtype), t, body)}({a})"

    def _reduce_name(self, op: str, dtype: DType, width: int) -> str:
        """The function that reduces half as many lanes; written first."""
        probe = loops.Reduce(op, loops.Const(0, dtype, width), dtype)
        return self._reduce(probe).split("(", 1)[0]


def _bits(text: str, signed: str, unsigned: str) -> str:
    """A signed value as an unsigned one; what was computed unsigned is so again. signed, unsigned: casts, or functions."""
    function = not signed.startswith("(")
    head, end = (signed, len(text)) if function else (f"({signed}", len(text) - 1)
    inner = text[len(head):end]
    if text.startswith(f"{head}({unsigned}") and is_whole(inner):
        return inner
    return f"{unsigned}({bare(text)})" if function else f"{unsigned}{text}"


def _compared(e: loops.Binary) -> tuple[str, loops.Expr, loops.Expr]:
    """A comparison of indices as people write it: `a < b + 1` is `a <= b`."""
    a, b = _sides(e)
    if e.op == "<" and isinstance(b, loops.Binary) and (b.op, b.b) == ("+", loops.const(1)):
        return "<=", a, b.a
    return e.op, a, b


def _sides(e: loops.Binary) -> tuple[loops.Expr, loops.Expr]:
    """The sides of a comparison of indices, without negative terms: `1 < 70 - a` is `a + 1 < 70`."""
    negative = any(c < 0 for side in (e.a, e.b) if side.lanes == 1 for c in linear_forms.linear(side).values())
    terms = linear_forms.linear(loops.binary("-", e.a, e.b)) if negative else {}
    if not negative or not linear_forms.small(terms):
        return e.a, e.b
    left, right = ({t: sign * c for t, c in terms.items() if sign * c > 0} for sign in (1, -1))
    return linear_forms.build(left), linear_forms.build(right)
