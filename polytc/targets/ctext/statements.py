"""Statements of the Loop AST in a dialect of C: what all targets that print C write alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import ClassVar

from polytc.codegen import intervals, loops, traverse
from polytc.codegen.emitter import Emitter, Names
from polytc.program.scalars import I64, DType
from polytc.targets.ctext import common_subexpressions, intrinsic_calls, intrinsic_nests
from polytc.targets.ctext.expressions import Expressions
from polytc.targets.ctext.memory import Memory
from polytc.targets.ctext.preamble import Preamble
from polytc.targets.ctext.text import bare, safe


class Statements(Emitter):
    """Writes the statements of one kernel. Subclasses write loops and stores, and say which buffers have declarations.

    itype: of index arithmetic. shared: variables of loops that have no scope of their own. notes: what to call statements in
    comments, else by their names. scope: what ends with the braces around. waiting: variables of one element that are declared
    where they are first used; beginning: the one whose first assignment is being written; alone: is the statement being
    written all that its braces hold?
    """

    def __init__(self, kernel: loops.Kernel, names: Names, memory: Memory, preamble: Preamble, itype: str, open_: Sequence[str],
                 notes: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.kernel, self.names, self.memory, self.itype = kernel, names, memory, itype
        used = {e.name for s in traverse.walk_stmt(kernel.body) for top in traverse.expressions(s)
                for e in traverse.walk_expr(top) if isinstance(e, loops.Var)} if open_ else set()
        self.sizes = tuple(n for n in open_ if n in used)
        self.expressions = Expressions(preamble, memory, names.variable, itype)
        self.env: dict[str, intervals.Interval] = {}
        self.shared: frozenset[str] = frozenset()
        self.notes = notes or {}
        self.noted = ""
        self.alone = False
        self.scope = ExitStack()
        self.waiting: list[loops.Buffer] = []
        self.beginning: loops.Buffer | None = None

    language: ClassVar[str]
    """Of intrinsics' texts: one of program.intrinsics.LANGUAGES."""

    def is_variable(self, b: loops.Buffer) -> bool:
        """Is a buffer a variable of one element?"""
        raise NotImplementedError

    def is_array(self, b: loops.Buffer) -> bool:
        """Is a buffer an array that is declared where it is allocated?"""
        raise NotImplementedError

    def store(self, s: loops.Store) -> None:
        """The lines of a store, which may use names of what it repeats."""
        raise NotImplementedError

    def emit(self, s: loops.Stmt) -> None:
        """Write a statement; variables that begin with it are declared where it is reached."""
        if not (isinstance(s, loops.Alloc | loops.Block) or isinstance(s, loops.For) and s.var in self.shared):
            self.declare(s)
        nest = intrinsic_nests.nest_of(s, self.kernel, self.language) if isinstance(s, loops.For) else None
        if nest is not None:
            intrinsic_calls.write(self, nest, self.language)
        else:
            super().emit(s)

    def declare(self, s: loops.Stmt) -> None:
        """Declare the variables that a statement uses and none before it did; one that it sets, with its value."""
        for b in [b for b in self.waiting if _uses(s, b)]:
            self.waiting.remove(b)
            if isinstance(s, loops.Store) and s.buffer == b and not _loads(s, b):
                self.beginning = b
            else:
                self.line(self.memory.place(b).declaration())

    def emit_block(self, s: loops.Block) -> None:
        before = dict(self.expressions.known)
        ranges = dict.fromkeys((*self.shared, *self.sizes), intervals.ANYTHING) | self.env
        made = common_subexpressions.of_block(s, ranges, before, self.expressions.c.lanes)
        for k, part in enumerate(s.stmts):
            # declarations of one part must not be seen by the next
            if self.declares(part) and len(s.stmts) > 1:
                self.declare(part)
                self.scoped(partial(self.emit, part))
                continue
            if k in made:
                self.note(part)
                self.name(made[k])
            self.emit(part)
        self.expressions.known = before

    def name(self, made: Sequence[loops.Expr]) -> None:
        """Lines that compute index expressions and loads; nothing else has their names until the braces around close."""
        write = self.expressions
        for e in made:
            text = bare(write.value(e) if isinstance(e, loops.Load) else write.index(e))
            ctype = write.c.vector(e.dtype, e.lanes) if isinstance(e, loops.Load) else self.itype
            title = common_subexpressions.title(e, write.known, self.names.variable)
            name = self.scope.enter_context(self.names.bound(f"{ctype} {text}", title))
            begin = len(self.lines)
            self.line(f"const {ctype} {name} = {text};")
            self.scope.callback(self.drop_unused, name, begin, len(self.lines))
            write.known[e] = name

    def drop_unused(self, name: str, begin: int, end: int) -> None:
        """Without the lines that compute a name, where no other says it: others may have been named in its place."""
        said = re.compile(rf"\b{re.escape(name)}\b")
        if not any(map(said.search, self.lines[end:])):
            del self.lines[begin:end]

    def note(self, s: loops.Stmt) -> None:
        """A comment that says which statement of the program follows."""
        if isinstance(s, loops.Store) and s.origin and s.origin != self.noted:
            self.line(f"/* {safe(self.notes.get(s.origin, s.origin))} */")
            self.noted = s.origin

    def declares(self, s: loops.Stmt) -> bool:
        """Does a statement's text begin with declarations?"""
        while isinstance(s, loops.For) and s.var in self.shared:
            s = s.body
        return isinstance(s, loops.Alloc) or isinstance(s, loops.For) and s.kind in ("block", "thread") or (
            isinstance(s, loops.Block) and any(map(self.declares, s.stmts)))

    def scoped(self, write: Callable[[], None], head: str = "{") -> None:
        """Lines between braces."""
        self.line(head)
        outer = self.scope
        with self.deeper(), ExitStack() as self.scope:
            write()
        self.scope = outer
        self.line("}")

    def body(self, s: loops.Stmt) -> None:
        """A statement that has braces of its own."""
        self.alone = isinstance(s, loops.Store)
        self.emit(s)
        self.alone = False

    def loop(self, s: loops.For, begin: Callable[[], None] = lambda: None) -> None:
        """A loop that is one in C, too. begin: writes what each iteration begins with."""
        def inside() -> None:
            begin()
            self.body(s.body)
        outer = self.env
        lower, upper = bare(self.index(s.lower)), bare(self.index(s.upper), "+")
        with self.names.bound(s.var, s.title) as var:
            step = f"++{var}" if s.step == 1 else f"{var} += {s.step}"
            self.enter({**outer, s.var: intervals.of_loop(s, outer)})
            self.noted = ""
            self.scoped(inside, f"for ({self.itype} {var} = {lower}; {var} < {upper}; {step}) {{")
            self.noted = ""
        self.enter(outer)

    def enter(self, env: Mapping[str, intervals.Interval]) -> None:
        self.env = dict(env)
        self.expressions.env = self.env

    def index(self, e: loops.Expr) -> str:
        return self.expressions.index(e)

    def emit_if(self, s: loops.If) -> None:
        self.scoped(lambda: self.body(s.then), f"if ({self.expressions.condition(s.cond)}) {{")
        orelse = s.orelse
        if orelse is not None:
            del self.lines[-1]
            self.scoped(lambda: self.body(orelse), "} else {")

    def emit_store(self, s: loops.Store) -> None:
        intrinsic_nests.check_alone(s, self.kernel, self.language)
        self.note(s)
        own = common_subexpressions.of_store(s, self.expressions.known) if s.buffer.space != "private" else []
        if own and not self.alone:
            self.scoped(lambda: self.named_store(s, own))
        else:
            self.named_store(s, own)

    def named_store(self, s: loops.Store, own: list[loops.Expr]) -> None:
        """A store behind names for what it repeats."""
        before = dict(self.expressions.known)
        self.name(own)
        self.store(s)
        self.expressions.known = before

    def assign(self, s: loops.Store, element: str, text: str) -> None:
        """The assignment as people write it: with `+=`, or as part of the declaration."""
        place, value = self.memory.place(s.buffer), s.value
        if self.beginning == s.buffer:
            self.beginning = None
            self.line(place.declaration().replace(";", f" = {text};"))
        elif isinstance(value, loops.Binary) and value.op in "+-*/" and text.startswith(f"{element} {value.op} ") and (
                _plain(value.dtype) and isinstance(value.a, loops.Load)):
            self.line(f"{element} {value.op}= {bare(text[len(element) + 3:])};")
        else:
            self.line(f"{element} = {text};")

    def emit_alloc(self, s: loops.Alloc) -> None:
        if self.is_variable(s.buffer):
            self.waiting.append(s.buffer)
        elif self.is_array(s.buffer):
            self.line(self.memory.place(s.buffer).declaration())
        self.emit(s.body)
        if s.buffer in self.waiting:
            self.waiting.remove(s.buffer)


def _plain(dtype: DType) -> bool:
    """Is arithmetic of the type what C does with its values?"""
    return dtype.kind == "f" and not dtype.is_half or dtype.kind == "u" and dtype.bits >= 32


def _uses(s: loops.Stmt, b: loops.Buffer) -> bool:
    """Does a statement load or store a buffer?"""
    return any(isinstance(x, loops.Store) and x.buffer == b or _loads(x, b) for x in traverse.walk_stmt(s))


def _loads(s: loops.Stmt, b: loops.Buffer) -> bool:
    return any(e.buffer == b for top in traverse.expressions(s) for e, _ in traverse.loads(top))


def allocated(kernel: loops.Kernel) -> tuple[loops.Buffer, ...]:
    """The kernel's own buffers, each once, in order of allocation."""
    return tuple(dict.fromkeys(s.buffer for s in traverse.walk_stmt(kernel.body) if isinstance(s, loops.Alloc)))


def index_type(kernel: loops.Kernel, wide: str) -> str:
    """'int' if no index, bound or offset of the kernel can leave 32 bits, else `wide`."""
    narrow = all(b.size < 2**31 for b in (*kernel.args, *allocated(kernel))) and _fits(kernel.body, {})
    return "int" if narrow else wide


def _fits(s: loops.Stmt, env: Mapping[str, intervals.Interval]) -> bool:
    if not all(_expr_fits(e, env, False) for e in traverse.expressions(s)):
        return False
    match s:
        case loops.For():
            values = intervals.of_loop(s, env)
            # the variable steps once beyond its last value
            if not (values.fits32 and intervals.Interval(values.low, values.high + s.step).fits32):
                return False
            return _fits(s.body, {**env, s.var: values})
        case loops.If():
            return all(_fits(part, env) for part in (s.then, s.orelse) if part is not None)
        case loops.Block():
            return all(_fits(part, env) for part in s.stmts)
        case loops.Alloc():
            return _fits(s.body, env)
        case _:
            return True


def _expr_fits(e: loops.Expr, env: Mapping[str, intervals.Interval], as_index: bool) -> bool:
    """as_index: `e` is written as an index, whatever it is; pure index arithmetic always is."""
    if (as_index or intervals.is_index(e)) and e.dtype == I64 and not intervals.interval(e, env).fits32:
        return False
    if isinstance(e, loops.Load):
        return all(_expr_fits(i, env, True) for i in e.indices)
    return all(_expr_fits(o, env, False) for o in traverse.operands(e))
