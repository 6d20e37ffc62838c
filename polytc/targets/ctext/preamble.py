"""Functions that generated kernels need and C lacks: exact counterparts of numpy's operations.

Each is written into the source only if a kernel calls it, once for each type: `polytc_max_float4`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from polytc.program.scalars import F32, I64, U32, U64, DType
from polytc.targets.ctext import definitions
from polytc.targets.ctext.language import Language

_SCALAR: dict[str, tuple[int, str]] = {
    "min": (2, "return (a < b || a != a) ? a : b;"),
    "max": (2, "return (a > b || a != a) ? a : b;"),
    "sign": (1, "return a != a ? a : sign(a);"),
    "isign": (1, "return (T)((a > 0) - (a < 0));"),
    "div": (2, "if (b == 0) return 0; if (b == (T)-1) return NEG; return (T)(a / b);"),
    "rem": (2, "if (b == 0 || b == (T)-1) return 0; return (T)(a % b);"),
    "floordiv": (2, "if (b == 0) return 0; if (b == (T)-1) return NEG; T q = (T)(a / b); "
                    "return (T)(q - (a % b != 0 && (a < 0) != (b < 0)));"),
    "mod": (2, "if (b == 0 || b == (T)-1) return 0; T r = (T)(a % b); return (T)(r != 0 && (r < 0) != (b < 0) ? r + b : r);"),
    "udiv": (2, "return (T)(b == 0 ? 0 : a / b);"),
    "urem": (2, "return (T)(b == 0 ? 0 : a % b);"),
    "ffloordiv": (2, "if (b == 0) return a / b; T m = fmod(a, b); T d = (a - m) / b; if (m != 0 && (b < 0) != (m < 0)) d -= 1; "
                     "if (d == 0) return copysign((T)0, a / b); T f = floor(d); return d - f > (T)0.5 ? f + 1 : f;"),
    "fmodulo": (2, "T m = fmod(a, b); if (m == 0) return copysign((T)0, b); return (b < 0) != (m < 0) ? m + b : m;"),
    "shl": (2, "return (T)((U)b < BITS ? (U)a << (U)b : 0);"),
    "shr": (2, "return (T)(a >> ((U)b < BITS ? (U)b : BITS - 1));"),
    "ushr": (2, "return (T)((U)b < BITS ? a >> b : 0);"),
    "ldexp": (2, "if (b != b) return b; return ldexp(a, (int)(b > 9999 ? 9999 : b < -9999 ? -9999 : b));"),
    "ipow": (2, "if (b < 0) return (T)(a == 1 ? 1 : a == (T)-1 ? (b & 1 ? -1 : 1) : 0); U r = 1, x = (U)a; "
                "for (; b != 0; b >>= 1) { if (b & 1) r *= x; x *= x; } return (T)r;"),
    "upow": (2, "U r = 1, x = (U)a; for (; b != 0; b >>= 1) { if (b & 1) r *= x; x *= x; } return (T)r;"),
    "toulong": (1, "return a < (F)9223372036854775808.0f ? (U64)(I64)a : (U64)a;"),
    "tohalf": (1, "ushort h; vstore_half_rte(a, 0, (__private half*)&h); return vload_half(0, (const __private half*)&h);"),
    "tobfloat": (1, "uint u = as_uint(a); if (a != a) return a; "
                    "return as_float((u + 0x7fffu + ((u >> 16) & 1u)) & 0xffff0000u);"),
}
"""name -> number of arguments, body. T: the type; U: where its arithmetic wraps; BITS: its width; NEG: -a, wrapping; I64, U64,
U32, F32: those types."""

_VECTOR: dict[str, str] = {
    "min": "return select(a, select(b, a, a < b), a == a);",
    "max": "return select(a, select(b, a, a > b), a == a);",
    "sign": "return select(sign(a), a, a != a);",
}
"""Those that whole vectors do at once; the others go lane by lane. `a == a` behind the inner select: LLVM makes that a maximum
instruction then, under the mask of the test."""

_DIGITS = "0123456789abcdefghijklmnopqrstuv"
"""Those of the lanes of two vectors in the name of what shuffles them."""

_INDEX = {"floordiv": "return a / b - (a % b < 0);", "mod": "{T} r = a % b; return r < 0 ? r + b : r;",
          "min": "return a < b ? a : b;", "max": "return a > b ? a : b;"}


class Preamble:
    """Collects the functions that a source needs, in order of first use."""

    def __init__(self, language: Language) -> None:
        self.c = language
        self._texts: dict[str, str] = {}

    def __str__(self) -> str:
        return "\n".join(self._texts.values())

    def helper(self, name: str, dtype: DType, lanes: int) -> str:
        """The C name of function `name` on values of the type; its text is added."""
        spelled = f"polytc_{name}_{self.c.word(dtype, lanes)}"
        if spelled not in self._texts:
            text = self._scalar(name, spelled, dtype) if lanes == 1 else self._lanewise(name, spelled, dtype, lanes)
            for called in re.findall(r"\w+(?=\()", text):
                if called in self.c.words:
                    self.add(called, self.c.words[called])
            self._texts[spelled] = text
        return spelled

    def index_helper(self, name: str, ctype: str) -> str:
        """'min', 'max', or 'floordiv' and 'mod' by a positive number, of index arithmetic."""
        spelled = f"polytc_{name}_index"
        body = _INDEX[name]
        spelled += "" if ctype == "int" else f"_{ctype}".replace(" ", "_")
        self._texts.setdefault(spelled, self._function(spelled, ctype, 2, body.replace("{T}", ctype)))
        return spelled

    def add(self, spelled: str, text: str) -> str:
        """The name of a function whose text is given."""
        self._texts.setdefault(spelled, text)
        return spelled

    def define(self, spelled: str, result: str, argument: str, body: str, arity: int = 1) -> str:
        """A function of arguments `a`, `b`, `c` of one type with a given body."""
        self._texts.setdefault(spelled, self._function(spelled, result, arity, body, argument))
        return spelled

    def shuffle(self, dtype: DType, lanes: int, order: Sequence[int]) -> str:
        """The lanes `order` of two vectors, those of the second one counted on from the first's."""
        argument, result = self.c.vector(dtype, lanes), self.c.vector(dtype, len(order))
        spelled = f"polytc_shuffle_{self.c.word(dtype, lanes)}_{''.join(_DIGITS[i] for i in order)}"
        if self.c.vectors.lanewise:
            parts = [self.c.vectors.lane("ab"[i // lanes], i % lanes) for i in order]
            return self.define(spelled, result, argument, f"return {self.c.vectors.made(result, parts)};", 2)
        mask, numbers = f"u{self.c.mask(self.c.value_bits(dtype), len(order))}", ", ".join(map(str, order))
        # PoCL's shuffle2, like a vector put together from lanes, becomes an instruction for each lane of some
        self._texts.setdefault(spelled, f"""\
static inline {result} {spelled}(const {argument} a, const {argument} b)
{{
#ifdef __clang__
    return __builtin_shufflevector(a, b, {numbers});
#else
    return shuffle2(a, b, ({mask})({numbers}));
#endif
}}
""")
        return spelled

    def packed(self, ctype: str) -> str:
        """A structure of one vector, for accesses to vectors of which only the elements are aligned."""
        spelled = f"polytc_packed_{ctype}"
        self._texts.setdefault(spelled, f"typedef struct __attribute__((packed)) {{\n    {ctype} v;\n}} {spelled};\n")
        return spelled

    def _scalar(self, name: str, spelled: str, dtype: DType) -> str:
        arity, body = self.c.helpers.get(name) or definitions.function(name, self.c, dtype) or _SCALAR[name]
        t = self.c.scalar(dtype)
        words = {"T": t, "F": t, "U": self.c.unsigned(dtype) if dtype.is_int else t, "BITS": str(dtype.bits)}
        words["NEG"] = f"({t})(0 - ({words['U']})a)"
        words |= {d.name.upper(): self.c.scalar(d) for d in (I64, U64, U32, F32)}
        return self._function(spelled, words["U64"] if name == "toulong" else t, arity, _substitute(body, words), t)

    def _lanewise(self, name: str, spelled: str, dtype: DType, lanes: int) -> str:
        arity, t = (definitions.function(name, self.c, dtype) or _SCALAR[name])[0], self.c.vector(dtype, lanes)
        if name in _VECTOR and not self.c.vectors.lanewise:
            return self._function(spelled, t, arity, _VECTOR[name])
        one = self.helper(name, dtype, 1)
        calls = [f"{one}({', '.join(self.c.vectors.lane(x, k) for x in 'abc'[:arity])})" for k in range(lanes)]
        result = self.c.vector(U64, lanes) if name == "toulong" else t
        return self._function(spelled, result, arity, f"return {self.c.vectors.made(result, calls)};", t)

    def _function(self, name: str, result: str, arity: int, body: str, argument: str | None = None) -> str:
        args = ", ".join(f"{argument or result} {x}" for x in "abc"[:arity])
        return f"{self.c.function} {result} {name}({args})\n{{\n{_lines(body)}\n}}\n"


def _substitute(body: str, words: dict[str, str]) -> str:
    return re.sub(r"\b(T|F|U|BITS|NEG|I64|U64|U32|F32)\b", lambda m: words[m[0]], body)


def _lines(body: str) -> str:
    """Statements one on a line."""
    lines, level, depth = [""], 1, 0
    for c in body:
        depth += (c == "(") - (c == ")")
        if c == "}":
            level -= 1
            lines = [*lines[:-1], c, ""]
            lines[-2] = "    " * level + c
        elif c != " " or lines[-1]:
            lines[-1] += c if lines[-1] else "    " * level + c
        if c in ";{" and depth == 0:
            level += c == "{"
            lines.append("")
    return "\n".join(line for line in lines if line)
