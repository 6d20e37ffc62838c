"""The Loop AST from text, as it prints or shorter: braces in place of indentation, precedence in place of brackets.

    vector for i in 0:n { if i < 4 { Y[i] = select(i == 0, 1.0, X[i] * 2) } else { Y[i] = x8(s[]) } }

Numbers take the type of what stands beside them. `x8(e)` is a broadcast, `ramp(base, stride, lanes, active n)` a vector of
indices, `reduce_+(e)` a horizontal sum, `shuffle(a, b, 0, 4)` lanes of two vectors; `alloc local f32 T[32, 32]` holds for what
follows it in its block. `host for` are loops around a kernel; `...` stands for statements that are not shown.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from polytc.codegen import loops as L
from polytc.program.scalars import DTYPES, F32, I64, DType, named

_TOKEN = re.compile(r"""\s*(reduce_\S+?(?=\() | \d+\.\d*(?:e[-+]?\d+)? | \d+(?:e[-+]?\d+)? | [A-Za-z_][\w.]* |
                            \|\| | && | [<>=!]= | // | \.\.\. | [-+*/%<>!=\[\](){},:;] )""", re.VERBOSE)
_KINDS = frozenset("host parallel vector reduce unroll rolled block0 block1 block2 thread0 thread1 thread2".split())
ANYTHING = L.Buffer("...", I64, ())
"""What `...` stores to: it stands for any statements."""
_LEVELS = (("||",), ("&&",), ("==", "!=", "<", "<=", ">", ">="), ("+", "-"), ("*", "/", "//", "%"))


def statements(text: str, buffers: Mapping[str, L.Buffer]) -> L.Stmt:
    """The statements of a text over these buffers."""
    parser = _Parser(text, dict(buffers))
    found = parser.block("")
    assert parser.at == len(parser.tokens), f"left: {parser.tokens[parser.at:]}"
    return found


class _Parser:
    def __init__(self, text: str, buffers: dict[str, L.Buffer]) -> None:
        continued = re.sub(r"(?<=[-+*/%<>=&|,(])[ ]*\n\s*|\n\s*(?=[-+*/%<>=&|,)]|else\b)", " ", text.strip())
        self.tokens = _TOKEN.findall(continued.replace("\n", ";"))
        assert "".join(self.tokens) == re.sub(r"\s+", "", continued.replace("\n", ";")), f"unknown characters in {text!r}"
        self.buffers, self.at = buffers, 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        found = self.peek()
        assert not expected or found == expected, f"{expected!r} expected at {self.tokens[self.at:self.at + 6]}"
        self.at += 1
        return found

    def taken(self, token: str) -> bool:
        if self.peek() != token:
            return False
        self.at += 1
        return True

    # ---- statements

    def block(self, end: str) -> L.Stmt:
        """The statements up to a token."""
        found = []
        while self.peek() != end:
            if self.taken(";"):
                continue
            if self.taken("alloc"):
                found.append(self.alloc(end))
                break
            found.append(self.statement())
        return L.block(*found)

    def alloc(self, end: str) -> L.Stmt:
        space = self.take()
        buffer = replace(self.declared(), space=space)
        self.buffers[buffer.name] = buffer
        return L.Alloc(buffer, self.block(end))

    def declared(self) -> L.Buffer:
        dtype, name, shape = named(self.take()), self.take(), []
        self.take("[")
        while not self.taken("]"):
            shape.append(int(self.take()))
            self.taken(",")
        return L.Buffer(name, dtype, tuple(shape))

    def body(self) -> L.Stmt:
        if not self.taken("{"):
            return self.statement()
        found = self.block("}")
        self.take("}")
        return found

    def statement(self) -> L.Stmt:
        if self.taken("barrier"):
            return L.Barrier()
        if self.taken("..."):
            return L.Store(ANYTHING, (), L.const(0))
        if self.taken("if"):
            cond, then = self.expr(), self.body()
            return L.If(cond, then, self.body() if self.taken("else") else None)
        if self.peek() in _KINDS or self.peek() == "for":
            return self.loop()
        buffer = self.buffers[self.take()]
        indices = self.indices()
        self.take("=")
        return L.Store(buffer, indices, typed(self.expr(), buffer.dtype))

    def loop(self) -> L.Stmt:
        kind = self.take() if self.peek() != "for" else "sequential"
        self.take("for")
        var = self.take()
        self.take("in")
        lower = self.expr()
        self.take(":")
        upper = self.expr()
        step = int(self.take()) if self.taken(":") else 1
        axis = int(kind[-1]) if kind[-1].isdigit() else 0
        return L.For(var, lower, upper, step, self.body(), kind.rstrip("012"), axis)  # type: ignore[arg-type]

    # ---- expressions

    def indices(self) -> tuple[L.Expr, ...]:
        self.take("[")
        found = []
        while not self.taken("]"):
            found.append(self.expr())
            self.taken(",")
        return tuple(found)

    def expr(self, level: int = 0) -> L.Expr:
        if level == len(_LEVELS):
            return self.unary()
        found = self.expr(level + 1)
        while self.peek() in _LEVELS[level]:
            op = self.take()
            found = L.binary(op, *alike(found, self.expr(level + 1)))
        return found

    def unary(self) -> L.Expr:
        if self.peek() in ("-", "!"):
            op, a = self.take(), self.unary()
            return replace(a, value=-a.value) if op == "-" and isinstance(a, L.Const) else L.Unary(op, a, a.dtype, a.lanes)
        return self.primary()

    def primary(self) -> L.Expr:
        token = self.take()
        if token == "(":
            found = self.expr()
            self.take(")")
            return found
        if token[0].isdigit():
            return L.const(int(token)) if token.isdigit() else L.Const(float(token), F32)
        if token in self.buffers and self.peek() == "[":
            indices, buffer = self.indices(), self.buffers[token]
            return L.Load(buffer, indices, buffer.dtype, max((i.lanes for i in indices), default=1))
        return self.call(token) if self.peek() == "(" else L.Var(token)

    def call(self, name: str) -> L.Expr:
        args, active = [], None
        self.take("(")
        while not self.taken(")"):
            if self.taken("active"):
                active = self.expr()
            else:
                args.append(self.expr())
            self.taken(",")
        first = args[0]
        lanes = max(a.lanes for a in args)
        if re.fullmatch(r"x\d+", name):
            wide = int(name[1:])
            return replace(first, lanes=wide) if isinstance(first, L.Const) else L.Broadcast(first, wide, first.dtype)
        if name.startswith("reduce_"):
            return L.Reduce(name.removeprefix("reduce_"), first, first.dtype)
        if name == "ramp":
            stride, count = (a.value for a in args[1:] if isinstance(a, L.Const))
            return L.Ramp(first, int(stride), int(count), I64, active.value if isinstance(active, L.Const) else active)
        if name == "shuffle":
            a, b = alike(first, args[1])
            order = tuple(int(n.value) for n in args[2:] if isinstance(n, L.Const))
            return L.Shuffle(a, b, order, a.dtype, len(order))
        if name == "select":
            a, b = alike(args[1], args[2])
            return L.Select(first, a, b, a.dtype, lanes)
        if name in DTYPES:
            return L.Cast(first, named(name), lanes)
        dtype = next((a.dtype for a in args if not isinstance(a, L.Const)), first.dtype)
        return L.Call(name, tuple(typed(a, dtype) for a in args), dtype, lanes)


def typed(e: L.Expr, dtype: DType) -> L.Expr:
    """A number of that type; other expressions have theirs."""
    if not isinstance(e, L.Const) or e.dtype == dtype:
        return e
    return replace(e, value=float(e.value) if dtype.kind == "f" else e.value, dtype=dtype)


def alike(a: L.Expr, b: L.Expr) -> tuple[L.Expr, L.Expr]:
    return (typed(a, b.dtype), b) if isinstance(a, L.Const) else (a, typed(b, a.dtype))
