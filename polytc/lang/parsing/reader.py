"""lark's tree to the syntax tree."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from polytc import errors
from polytc.errors import Span
from polytc.lang.parsing import operators, syntax
from polytc.lang.parsing.lists import Lists
from polytc.lang.parsing.mistakes import end, token_span
from polytc.program.scalars import C_NAMES

if TYPE_CHECKING:
    from lark import Token, Tree

errors.register(E004="empty program", E008="precise and fast at once", E115="tuple reduction of the wrong form",
                E116="label or declaration of the wrong form")

_WHOLE = "write `(A, B) = f(X)`, and read what you need of A and B in another statement"

IN_PLACE = frozenset(("/", "//", "%", "<<", ">>"))
"""Operators that combine nothing: `T[i] /= e` is `T[i] = T[i] / (e)`."""

LONGEST = 400
"""Operators of a row: each is a level of the tree that it becomes."""
_DIGITS = 400
"""Digits of an integer literal; what is too large for its type is refused where the type is known."""


class Reader:
    """One method for a rule of the grammar, by the rule's name. text: for diagnostics, which are raised as CompileError."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.blocks = 0
        self.lists = Lists(text)

    def span(self, tree: Tree[Token]) -> Span:
        meta = tree.meta
        return Span(0, 1, 1, 1) if meta.empty else Span(meta.start_pos, meta.end_pos, meta.line, meta.column)

    def program(self, tree: Tree[Token]) -> tuple[syntax.Function, ...]:
        items = [c for c in tree.children if c.data != "result"]
        results = [c for c in tree.children if c.data == "result"]
        functions = [self.visit(c) for c in items if c.data in ("def_", "op_")]
        rest = [c for c in items if c.data not in ("def_", "op_")]
        if not items:
            raise errors.fail("E004", "there is no statement", end(self.text), ["the least program is `C[i] = A[i]`"],
                              source=self.text)
        if functions and not (rest or results):
            return tuple(functions)
        outputs = self.visit(results[0].children[0]) if results else None
        span = self.span((rest or results)[0] if functions else tree)
        body, temporaries = self.body(self.flat(rest))
        return (*functions, syntax.Function("bare", "program", (), (), outputs, body, False, span,
                                             temporaries=temporaries))

    def visit(self, tree: Any) -> Any:
        return getattr(self, "read_" + tree.data)(tree, tree.children)

    def read_def_(self, tree: Any, c: list[Any]) -> syntax.Function:
        marks = [x for x in c if getattr(x, "type", "") in ("PRECISE", "FAST", "DIRECT")]
        words = {x.type for x in marks}
        if len(words) < len(marks) or {"PRECISE", "FAST"} <= words:
            raise errors.fail("E008", f"`{' '.join(marks)}` is one word too many", token_span(marks[1]), [
                "`precise def` rounds each operation as it is written, `fast def` lets them be reordered: keep one"],
                source=self.text)
        name, *params, tail = c[len(marks):]
        body, temporaries = self.body(self.visit(tail))
        outputs = self.visit(params.pop()) if params and params[-1].data == "outputs" else None
        return syntax.Function("def", str(name), (), tuple(map(self.visit, params)), outputs, body, "PRECISE" in words,
                               token_span(name), "FAST" in words, temporaries, "DIRECT" in words)

    def read_op_(self, tree: Any, c: list[Any]) -> syntax.Function:
        name, attributes, *params, outputs, body = c
        statements, temporaries = self.body(self.visit(body))
        if temporaries:
            raise errors.fail("E116", "an `op` declares no temporaries", temporaries[0].span,
                              ["their shapes follow from the statements"], source=self.text)
        return syntax.Function("op", str(name), tuple(map(self.visit, attributes.children)), tuple(map(self.visit, params)),
                               self.visit(outputs), statements, False, token_span(name))

    def read_attribute(self, tree: Any, c: list[Any]) -> syntax.Attribute:
        return syntax.Attribute(str(c[0]), self.constant(c[1]) if len(c) > 1 else None, token_span(c[0]))

    def constant(self, tree: Any) -> Any:
        if tree.data == "numbers":
            return tuple(self.constant(t) for t in tree.children)
        if tree.data == "word":
            words = {"true": True, "false": False, "inf": float("inf"), "nan": float("nan")}
            if str(tree.children[0]) not in words:
                raise errors.fail("E001", f"`{tree.children[0]}` is not a number", self.span(tree), [
                    "attributes and defaults of parameters are literals: `0.5`, `-1`, `true`, `inf`"], source=self.text)
            return words[str(tree.children[0])]
        value = self.number(tree.children[-1])
        return -value if len(tree.children) == 2 else value

    def read_outputs(self, tree: Any, c: list[Any]) -> tuple[syntax.Param, ...]:
        return tuple(map(self.visit, c))

    def read_body(self, tree: Any, c: list[Any]) -> tuple[syntax.Item | syntax.Param, ...]:
        return self.flat(c)

    def body(self, items: tuple[syntax.Item | syntax.Param, ...]) -> tuple[tuple[syntax.Item, ...], tuple[syntax.Param, ...]]:
        """Statements, and the temporaries that are declared among them. A label is that of one statement (E104)."""
        known: set[str] = set()
        for s in items:
            label = s.label if isinstance(s, syntax.Statement) else None
            if label is not None and label.name in known:
                raise errors.fail("E104", f"two statements are called `{label.name}`", label.span, source=self.text)
            known |= {label.name} if label is not None else set()
        return ((*self.lists.written(), *(s for s in items if not isinstance(s, syntax.Param))),
                tuple(s for s in items if isinstance(s, syntax.Param)))

    def flat(self, items: list[Any]) -> tuple[syntax.Item | syntax.Param, ...]:
        """Statements in order, those of blocks among them; a tuple reduction is several."""
        found: list[syntax.Item | syntax.Param] = []
        for item in items:
            found += self.block(item) if item.data == "loop" else \
                self.tuple_update(item) if item.data == "tuple_update" else [self.visit(item)]
        return tuple(found)

    def block(self, tree: Any) -> list[syntax.Item | syntax.Param]:
        """The statements of a `for` block. A label before it is for the reader of the text."""
        _, index, *bounds, body = [c for c in tree.children if getattr(c, "data", "") != "label"]
        self.blocks += 1
        low, high, *step = map(self.visit, bounds)
        loop = syntax.Loop(f"L{self.blocks}", str(index), token_span(index))
        clause = syntax.RangeClause(loop.index, low, high, step[0] if step else None, False, token_span(index))
        inside = self.visit(body)
        return [replace(s, loops=(loop, *s.loops), clauses=(clause, *s.clauses))
                if isinstance(s, syntax.Statement | syntax.CallStatement) else s for s in inside]

    def read_assumption(self, tree: Any, c: list[Any]) -> syntax.Assumption:
        return syntax.Assumption(self.visit(c[0]), self.span(tree))

    def read_tuple_call(self, tree: Any, c: list[Any]) -> syntax.CallStatement:
        *targets, assign, value = c
        for t in targets:
            if len(t.children) > 1:
                raise errors.fail("E121", "a call gives whole tensors", self.span(t), [_WHOLE], source=self.text)
        call = self.visit(value)
        if not isinstance(call, syntax.Call):
            raise errors.fail("E001", "the value of `(A, B) = ...` must be a call", token_span(assign), [], source=self.text)
        return syntax.CallStatement(tuple((str(t.children[0]), self.span(t)) for t in targets), call, (), self.span(tree))

    def read_bare_call(self, tree: Any, c: list[Any]) -> syntax.CallStatement:
        """`f(A)`: a call for what it writes in place."""
        args = self.visit(c[1])
        for a in args:
            if isinstance(a, syntax.Pack):
                raise errors.fail("E110", "a whole tensor is given by its name", a.span, source=self.text)
        return syntax.CallStatement((), syntax.Call(str(c[0]), args, self.span(tree)), (), self.span(tree))

    def tuple_update(self, tree: Any) -> Iterator[syntax.Statement]:
        """`(M[i], J[i]) argmax= (X[i,j], j)`: one statement a target."""
        c = tree.children
        at = next(k for k, t in enumerate(c) if getattr(t, "type", "") in ("ASSIGN", "UPDATE"))
        symbol, targets = str(c[at]), c[:at]
        clauses = tuple(map(self.visit, c[-1].children)) if c[-1].data == "where" else ()
        values = tuple(self.visit(v) for v in c[at + 1:] if v.data != "where")
        if not symbol.startswith("arg"):
            raise errors.fail("E115", f"`{symbol}` does not take tuples", token_span(c[at]),
                              ["`argmin=` and `argmax=` do; write one statement for each tensor"], source=self.text)
        if len(values) != len(targets):
            raise errors.fail("E115", f"{len(targets)} targets and {len(values)} values", self.span(tree),
                              ["`(M[i], J[i]) argmax= (X[i,j], j)`: the first value decides, the others go with it"],
                              source=self.text)
        for k, (left, value) in enumerate(zip(targets, values, strict=True)):
            subscripts = self.visit(left.children[1]) if len(left.children) > 1 else ()
            yield syntax.Statement(str(left.children[0]), subscripts, symbol[3:6], symbol.endswith("!"), value, clauses,
                                   left.data == "call_target", self.span(left), self.span(tree), values, k)

    # ---- parameters

    def param(self, tree: Any, c: list[Any], dtype: Any, dims: Any, name: Any) -> syntax.Param:
        return syntax.Param(str(name), None if dtype is None else str(dtype), None if dims is None else self.visit(dims),
                            any(getattr(t, "type", "") == "INOUT" for t in c), token_span(name))

    def read_bare_param(self, tree: Any, c: list[Any]) -> syntax.Param:
        c, default = self.default(c)
        return replace(self.param(tree, c, None, None, c[-1]), default=default)

    def read_generic_param(self, tree: Any, c: list[Any]) -> syntax.Param:
        return self.param(tree, c, None, c[-1], c[-2])

    def read_typed_scalar(self, tree: Any, c: list[Any]) -> syntax.Param:
        c, default = self.default(c)
        return replace(self.param(tree, c, c[-2], None, c[-1]), default=default)

    def default(self, c: list[Any]) -> tuple[list[Any], Any]:
        """What a declaration is made of, and the number behind its `=`."""
        if getattr(c[-1], "data", "") != "default":
            return c, None
        value = self.constant(c[-1].children[1])
        if isinstance(value, tuple):
            raise errors.fail("E116", "a default is one number", self.span(c[-1].children[1]), ["write `f32 a = 0.5`"],
                              source=self.text)
        return c[:-1], value

    def read_typed_param(self, tree: Any, c: list[Any]) -> syntax.Param:
        return self.param(tree, c, c[-3], c[-2], c[-1])

    def read_temporary(self, tree: Any, c: list[Any]) -> syntax.Param:
        found: syntax.Param = self.visit(c[1])
        if found.dtype is None or found.dims is None or found.inout:
            raise errors.fail("E116", "this declares no temporary", self.span(tree), ["write `temp f32[N] T`"],
                              source=self.text)
        return found

    def read_extents(self, tree: Any, c: list[Any]) -> tuple[syntax.Expr, ...]:
        return tuple(map(self.visit, c))

    def read_interval(self, tree: Any, c: list[Any]) -> syntax.Interval:
        return syntax.Interval(self.visit(c[0]), self.visit(c[1]), self.span(tree))

    # ---- statements

    def read_label(self, tree: Any, c: list[Any]) -> syntax.Label:
        """`S1` or `S1[i, k]`. A digit or `_` keeps a name apart from the words that sets of instances are written with."""
        name, *rest = c[0].children
        indices = self.visit(rest[0]) if rest else ()
        plain = all(isinstance(e, syntax.Name) for e in indices) and c[0].data == "target"
        if not plain or str(name).rstrip("_").isalpha():
            raise errors.fail("E116", "this is no label", self.span(tree), [
                "a label is a name with a digit or `_` in it, and may list the indices: `S1:` or `S1[i, k]:`"],
                source=self.text)
        return syntax.Label(str(name), tuple(e.id for e in indices), self.span(tree))

    def read_statement(self, tree: Any, c: list[Any]) -> syntax.Statement:
        label, c = (self.visit(c[0]), c[1:]) if c[0].data == "label" else (None, c)
        accumulator, c = (str(c[0].children[1]), c[1:]) if c[0].data == "accumulator" else (None, c)
        left, assign, value = c[:3]
        symbol = str(assign)
        if symbol.startswith("arg"):
            raise errors.fail("E115", f"`{symbol}` needs tuples", token_span(assign),
                              ["write `(M[i], J[i]) argmax= (X[i,j], j)`: the largest value, and what belongs to it"],
                              source=self.text)
        of = self.visit(value)
        if symbol.startswith("-"):
            symbol, of = "+" + symbol[1:], syntax.Unary("-", of, of.span)
        op = None if assign.type == "ASSIGN" else symbol.rstrip("!").removesuffix("=")
        clauses = tuple(map(self.visit, c[3].children)) if len(c) > 3 else ()
        target, subscripts = str(left.children[0]), self.visit(left.children[1]) if len(left.children) > 1 else ()
        if op in IN_PLACE:
            of = syntax.Binary(op, syntax.Access(target, subscripts, self.span(left)), of, of.span)
        return syntax.Statement(target, subscripts, None if op in IN_PLACE else op, symbol.endswith("!"), of, clauses,
                                left.data == "call_target", self.span(left), self.span(tree), accumulator=accumulator,
                                label=label, in_place=op if op in IN_PLACE else None)

    def read_range_clause(self, tree: Any, c: list[Any]) -> syntax.RangeClause:
        bounds = [self.visit(e) for e in c[1:]]
        return syntax.RangeClause(str(c[0]), bounds[0], bounds[1], bounds[2] if len(bounds) > 2 else None, False,
                                  self.span(tree))

    def read_pack_range_clause(self, tree: Any, c: list[Any]) -> syntax.RangeClause:
        bounds = [self.visit(e) for e in c[2:]]
        return syntax.RangeClause(str(c[1]), bounds[0], bounds[1], bounds[2] if len(bounds) > 2 else None, True,
                                  self.span(tree))

    def read_let_clause(self, tree: Any, c: list[Any]) -> syntax.LetClause:
        return syntax.LetClause(str(c[0]), self.visit(c[2]), self.span(tree))

    def read_exists(self, tree: Any, c: list[Any]) -> syntax.Condition:
        """`exists A(i, j)`: the indices for which A has an element, `0 <= i < A.shape[0] && 0 <= j < A.shape[1]`."""
        span, found = self.span(tree), list[syntax.Expr]()
        for axis, e in enumerate(self.visit(c[1])):
            ends = syntax.Number(0, span), syntax.Extent(str(c[0]), axis, span)
            found.append(syntax.ChainedComparison((ends[0], e, ends[1]), ("<=", "<"), span))
        if not found:
            raise errors.fail("E114", "`exists` names an element", span, [f"write `exists {c[0]}(i)`"], source=self.text)
        return syntax.Condition(functools.reduce(lambda a, b: syntax.Binary("&&", a, b, span), found), span)

    def read_condition(self, tree: Any, c: list[Any]) -> syntax.Condition:
        return syntax.Condition(self.visit(c[0]), self.span(tree))

    # ---- expressions

    def read_slots(self, tree: Any, c: list[Any]) -> tuple[syntax.Expr, ...]:
        return tuple(map(self.visit, c))

    def read_optional(self, tree: Any, c: list[Any]) -> syntax.Pack:
        return syntax.Pack(self.visit(c[0]), self.span(tree), optional=True, single=True)

    def read_pack_slot(self, tree: Any, c: list[Any]) -> syntax.Pack:
        return syntax.Pack(syntax.Name(str(c[1]), token_span(c[1])), self.span(tree), optional=len(c) > 2)

    def read_pack_expr(self, tree: Any, c: list[Any]) -> syntax.Pack:
        return syntax.Pack(self.visit(c[1]), self.span(tree))

    def read_guarded(self, tree: Any, c: list[Any]) -> syntax.Guarded:
        default = self.visit(c[1])
        whole = isinstance(default, syntax.Name) and default.id == "identity"
        return syntax.Guarded(self.visit(c[0]), None if whole else default, self.span(tree))

    def read_ternary(self, tree: Any, c: list[Any]) -> syntax.Ternary:
        return syntax.Ternary(self.visit(c[0]), self.visit(c[1]), self.visit(c[2]), self.span(tree))

    def read_row(self, tree: Any, c: list[Any]) -> syntax.Expr:
        if len(c) > 2 * LONGEST:
            raise errors.fail("E006", f"a row of {len(c) // 2} operators is nested too deeply", self.span(c[2 * LONGEST]),
                              ["put a part of it into a temporary"], source=self.text)
        return operators.grouped([(self.visit(x), self.span(x)) for x in c[::2]], list(map(str, c[1::2])))

    def read_unary(self, tree: Any, c: list[Any]) -> syntax.Unary:
        return syntax.Unary(str(c[0]), self.visit(c[1]), self.span(tree))

    def read_parens(self, tree: Any, c: list[Any]) -> syntax.Expr:
        return self.visit(c[0])

    def read_number(self, tree: Any, c: list[Any]) -> syntax.Number:
        return syntax.Number(self.number(c[0]), self.span(tree))

    def read_name(self, tree: Any, c: list[Any]) -> syntax.Name:
        return syntax.Name(str(c[0]), self.span(tree))

    def read_read(self, tree: Any, c: list[Any]) -> syntax.Access:
        return syntax.Access(str(c[0]), self.visit(c[1]), self.span(tree))

    def read_listed(self, tree: Any, c: list[Any]) -> syntax.Access:
        return self.lists.read(self.visit(c[0]), self.visit(c[1]), self.span(c[0]), self.span(tree))

    def read_rows(self, tree: Any, c: list[Any]) -> tuple[Any, ...]:
        return tuple(map(self.visit, c))

    def read_call(self, tree: Any, c: list[Any]) -> syntax.Call:
        return syntax.Call(C_NAMES.get(str(c[0]), str(c[0])), tuple(map(self.visit, c[1:])), self.span(tree))

    def read_attributed_call(self, tree: Any, c: list[Any]) -> syntax.Call:
        given = tuple(self.visit(g) for g in c[1:] if g.data == "given")
        return syntax.Call(str(c[0]), tuple(self.visit(a) for a in c[1:] if a.data != "given"), self.span(tree), given)

    def read_given(self, tree: Any, c: list[Any]) -> syntax.Given:
        several = c[2].data in ("rows", "empty")
        numbers = c[2].children if several else [c[2]]
        for x in numbers:
            if x.data == "rows":
                raise errors.fail("E001", "an attribute is a number, or a list of numbers", self.span(x), [
                    f"write `{c[0]}=[1, 2]`"], source=self.text)
        return syntax.Given(str(c[0]), tuple(map(self.visit, numbers)), several, self.span(tree))

    def read_shape(self, tree: Any, c: list[Any]) -> syntax.Extent:
        if str(c[1]) != "shape":
            raise errors.fail("E001", f"`.{c[1]}` is unknown", token_span(c[1]), ["an extent is written `A.shape[0]`"],
                              source=self.text)
        return syntax.Extent(str(c[0]), int(self.constant(c[2])), self.span(tree))

    def read_shape_number(self, tree: Any, c: list[Any]) -> syntax.Extent:
        return syntax.Extent(str(c[0]), int(self.number(c[1])), self.span(tree))

    def number(self, token: Any) -> Any:
        """An int, in decimal, `0xff` or `0b11`, a float, or the complex number that `2.5j` is."""
        text = str(token)
        if text[1:2] in ("x", "X", "b", "B"):
            return int(text, 0)
        if text.endswith("j"):
            return complex(text)
        if not text.isdigit():
            return float(text)
        if len(text) > _DIGITS:
            raise errors.fail("E306", f"a number of {len(text)} digits fits no type", token_span(token),
                              ["integers have 64 bits, floats reach 1.8e308"], source=self.text)
        return int(text)
