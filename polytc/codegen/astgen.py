"""Schedule -> Loop AST, through isl's AST generation. The only code that sees an isl AST.

Loop kinds come from the marks above the bands: a mark's band begins at a known schedule depth, and isl names loops by their
depth (codegen.iterators), so the kind of a loop follows from its name alone, even where loops of one iteration vanish.

isl drops from the ends of a loop what follows from the loops around: items of `i mod 8`, where i is in k+1:8*b+8 and k in
8*b:8*b+8, begin at k - 8*b + 1. That these are 7 at most no interval of the ends tells, and launches count their items by
intervals. Where they would count too many, the ends say again what isl knows: max(1, k - 8*b + 1).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias, cast

import islpy

from polytc import errors
from polytc.codegen import iterators, loop_names, loops, lower, traverse
from polytc.codegen.passes import simplify
from polytc.poly import isl, marks, storage_folding, twins
from polytc.poly.scop import Scop
from polytc.program import program as pr
from polytc.program.kinds import Kind, kind
from polytc.program.scalars import BOOL, I64
from polytc.schedule.tree import Schedule
from polytc.schedule.user.loopnest import BandName

errors.register(E528="what is to be prefetched cannot be")

_COMPARE = {islpy.ast_expr_op_type.eq: "==", islpy.ast_expr_op_type.le: "<=", islpy.ast_expr_op_type.lt: "<",
            islpy.ast_expr_op_type.ge: ">=", islpy.ast_expr_op_type.gt: ">"}
_LOGIC = {islpy.ast_expr_op_type.and_: "&&", islpy.ast_expr_op_type.and_then: "&&",
          islpy.ast_expr_op_type.or_: "||", islpy.ast_expr_op_type.or_else: "||"}
_ARITHMETIC = {islpy.ast_expr_op_type.add: "+", islpy.ast_expr_op_type.sub: "-", islpy.ast_expr_op_type.mul: "*",
               islpy.ast_expr_op_type.div: "//", islpy.ast_expr_op_type.fdiv_q: "//", islpy.ast_expr_op_type.pdiv_q: "//",
               islpy.ast_expr_op_type.pdiv_r: "%", islpy.ast_expr_op_type.zdiv_r: "%"}
_CONDITIONAL = (islpy.ast_expr_op_type.cond, islpy.ast_expr_op_type.select)
_SEQUENTIAL = kind("sequential")
_CHOICE = {islpy.ast_expr_op_type.min: "min", islpy.ast_expr_op_type.max: "max"}


@dataclass(frozen=True)
class _Member:
    """A member of the band below a mark. kind: how it runs."""

    kind: Kind
    mark: islpy.ScheduleNode
    number: int

    def values(self) -> tuple[int, int] | None:
        """The smallest and the largest value that it has; None where sizes or isl's budget leave that open."""
        def ends() -> tuple[islpy.Val, islpy.Val]:
            band = self.mark.child(0)
            rows = band.band_get_partial_schedule().get_at(self.number).intersect_domain(band.get_domain())
            return isl.ends(rows)
        try:
            low, high = isl.bounded(self.mark.get_ctx(), isl.BUDGET, ends)
        except isl.QuotaExceeded:
            return None
        return (low.to_python(), high.to_python()) if low.is_int() and high.is_int() else None


_Marked: TypeAlias = tuple[int, tuple[_Member, ...]]
"""The schedule depth of a marked band, and its members."""


@dataclass(frozen=True)
class _Around:
    """What is known at a place: the members of the marked bands around, by the name of their loops; loops of one iteration, by
    name; what the loops around lie between."""

    members: dict[str, _Member]
    values: dict[str, loops.Expr]
    known: dict[str, simplify.Interval]


@dataclass(frozen=True)
class _Walk:
    """What the translation of one kernel needs: the statements by isl name, their lowering, the members of marked bands
    (mark text -> (schedule depth, members)), whether instances are to be guarded by the statements' conditions, and twins."""

    statements: dict[str, pr.Statement]
    lowering: lower.Lowering
    marks: dict[str, _Marked]
    guarded: bool
    twins: dict[str, tuple[str, ...]]
    instances: list[dict[str, loops.Expr]] = field(default_factory=list)
    """What each instance written so far takes for its indices."""

    def each(self, place: str) -> Iterator[_Walk]:
        """The walk, and one for each twin of the statement below the place (see twins.py), which stands for that."""
        yield self
        first, *others = self.twins.get(place, ("",))
        for other in others:
            yield replace(self, statements=self.statements | {first: self.statements[other]})


def generate(scop: Scop, schedule: Schedule, operations: int = isl.BUDGET) -> loops.Module:
    """The module of a scheduled program: one kernel a child of the tree's top sequence, or one for all.

    Raises isl.QuotaExceeded if the AST takes isl more operations than that.
    """
    lowering = lower.Lowering.of(scop.program, storage_folding.found(scop, schedule.tree))
    statements = {isl.name(s.name): s for s in scop.program.statements}
    shown = twins.found(scop, schedule.tree)
    walk = _Walk(statements, lowering, _marks(shown.tree), bool(scop.boxed), shown.behind)
    known = f"{isl.parameters(scop.program)}{{ : {isl.facts(scop.program)} }}"
    build = islpy.AstBuild.from_context(islpy.Set.read_from_str(scop.ctx, known))
    root = isl.bounded(scop.ctx, operations, lambda: build.node_from_schedule(_unshifted(shown.tree)))
    whole = _node(root, walk, _Around({}, {isl.name(n): lower.size_variable(n) for n in scop.program.sizes}, {}))
    parts = whole.stmts if isinstance(whole, loops.Block) else (whole,)
    return replace(lowering.module(parts, _asked(scop.program, schedule.tree)), sizes=tuple(map(isl.name, scop.program.sizes)),
                   products=scop.program.products)


def _asked(program: pr.Program, tree: islpy.Schedule) -> tuple[loops.Asked, ...]:
    """What statements are to be fetched ahead, with the variables of the loops. Raises TargetError E528 where there is no such
    loop."""
    wanted = [(s.name, a) for s in program.statements for a in s.ahead]
    found = dict[tuple[str, str], str]()
    for text, (depth, _) in (_marks(tree) if wanted else {}).items():
        band = BandName.read(marks.read(text).name)
        for n, titles in enumerate(band.titles):
            each = titles * len(band.statements) if len(titles) == 1 else titles
            found |= {(x, title): iterators.name(depth + n) for x, title in zip(band.statements, each, strict=True)}
    for statement, a in wanted:
        if (statement, a.loop) not in found:
            raise errors.fail("E528", f"{statement} has no loop {a.loop}, in which {a.tensor} is to be prefetched",
                              kind=errors.TargetError, notes=["name the loop in the marks of the schedule, or prefetch last"])
    return tuple(loops.Asked(statement, found[statement, a.loop], a) for statement, a in wanted)


_STRIDES = re.compile(r"\bmod\b|\bexists\b|(?<!\w)[2-9]\d*[A-Za-z_(]|(?<!\w)1\d+[A-Za-z_(]")
"""In the text of a schedule tree: a remainder, or a multiple of an index."""


def _unshifted(tree: islpy.Schedule) -> islpy.Schedule:
    """The tree with a guard that always holds at each leaf, where instances may lie a stride apart.

    Where the instances of statements lie a stride apart with other remainders (2i and 2i + 1), isl moves them to the same ones.
    It compares all statements with the first of them, and only at those values of the outer loops at which that one has
    instances: at others it executes instances out of order. The loop that it adds also shifts the names by which `_marks` tells
    loops. It does not move what has a node below that may refer to outer loops, such as a guard.
    """
    if not _STRIDES.search(str(tree)):
        return tree

    def guarded(node: islpy.ScheduleNode) -> islpy.ScheduleNode:
        if node.get_type() != islpy.schedule_node_type.leaf:
            return node
        return node.insert_guard(islpy.Set.universe(node.get_prefix_schedule_multi_union_pw_aff().get_space()))
    return tree.get_root().map_descendant_bottom_up(guarded).get_schedule()


def _marks(tree: islpy.Schedule) -> dict[str, _Marked]:
    found: dict[str, _Marked] = {}

    def visit(node: islpy.ScheduleNode) -> None:
        if node.get_type() == islpy.schedule_node_type.mark:
            mark = marks.of(node)
            members = tuple(_Member(kind(k), node, n) for n, k in enumerate(mark.kinds))
            found[str(mark)] = node.get_schedule_depth(), members
        for i in range(node.n_children()):
            visit(node.child(i))

    visit(tree.get_root())
    return found


def _node(node: islpy.AstNode, walk: _Walk, around: _Around) -> loops.Stmt:
    match node.get_type():
        case islpy.ast_node_type.mark:
            place = str(marks.of(node))
            depth, members = walk.marks[place]
            named = replace(around, members=around.members | {iterators.name(depth + m.number): m for m in members})
            kinds = tuple(m.kind for m in members)
            return loops.block(*(_grouped(_node(node.mark_get_node(), w, named), kinds, depth) for w in walk.each(place)))
        case islpy.ast_node_type.for_:
            return _for(node, walk, around)
        case islpy.ast_node_type.if_:
            other = _node(node.if_get_else_node(), walk, around) if node.if_has_else_node() else None
            return loops.If(_condition(node.if_get_cond(), around.values), _node(node.if_get_then_node(), walk, around), other)
        case islpy.ast_node_type.block:
            children = node.block_get_children()
            return loops.block(*(_node(children.get_at(i), walk, around) for i in range(children.n_ast_node())))
        case _:
            call = node.user_get_expr()
            return loops.block(*(_instance(call, w, around.values) for w in walk.each(_called(call))))


def _grouped(s: loops.Stmt, kinds: tuple[Kind, ...], depth: int) -> loops.Stmt:
    """The statement of a band; where isl has left out loops over work-groups of one iteration, which are kernels all the same,
    with a loop over that group; where it has left out all those over items, with loops over that item."""
    first = kinds[0].name if kinds else ""
    if first != "block" and {k.name for k in kinds} != {"thread"}:
        return s
    if any(isinstance(x, loops.For) and x.kind == first for x in traverse.walk_stmt(s)):
        return s
    for k, marked in reversed(list(enumerate(kinds if first == "thread" else kinds[:1]))):
        s = loops.For(iterators.name(depth + k), loops.const(0), loops.const(1), 1, s, *_of(marked))
    return s


def _of(marked: Kind) -> tuple[loops.LoopKind, int]:
    """The kind and the axis of a loop of ours."""
    return cast(loops.LoopKind, marked.name), marked.axis or 0


def _for(node: islpy.AstNode, walk: _Walk, around: _Around) -> loops.Stmt:
    name = node.for_get_iterator().get_id().get_name()
    lower_bound = _expr(node.for_get_init(), around.values)
    if node.for_is_degenerate():
        return _node(node.for_get_body(), walk, replace(around, values=around.values | {name: lower_bound}))
    step = node.for_get_inc().get_val().to_python()
    upper = _upper(node.for_get_cond(), name, around.values)
    member = around.members.get(name)
    if member is not None and member.kind.name == "thread" and step == 1:
        lower_bound, upper = _limited(lower_bound, upper, member, around.known)
    how, axis = _of(member.kind if member is not None else _SEQUENTIAL)
    empty = loops.For(name, lower_bound, upper, step, loops.Block(()), how, axis)
    first = len(walk.instances)
    body = _node(node.for_get_body(), walk, replace(around, known=around.known | {name: simplify.values(empty, around.known)}))
    title = loop_names.title(name, how, walk.instances[first]) if first < len(walk.instances) else ""
    return replace(empty, body=body, title=title)


def _limited(lower_bound: loops.Expr, upper: loops.Expr, member: _Member, known: dict[str, simplify.Interval]
             ) -> tuple[loops.Expr, loops.Expr]:
    """The ends of a loop over items, with the numbers that these lie between where intervals would tell more items."""
    low, high = simplify.interval(lower_bound, known)[0], simplify.interval(upper, known)[1]
    if isinstance(lower_bound, loops.Const) and isinstance(upper, loops.Const) or (values := member.values()) is None:
        return lower_bound, upper
    least, most = values
    if low is not None and high is not None and high - low <= most + 1 - least:
        return lower_bound, upper
    return (lower_bound if low is not None and low >= least else loops.Call("max", (lower_bound, loops.const(least)), I64),
            upper if high is not None and high <= most + 1 else loops.Call("min", (upper, loops.const(most + 1)), I64))


def _upper(cond: islpy.AstExpr, name: str, values: dict[str, loops.Expr]) -> loops.Expr:
    """The exclusive upper bound of a loop from its condition `name <= e` or `name < e`."""
    op = cond.get_op_type()
    assert op in (islpy.ast_expr_op_type.le, islpy.ast_expr_op_type.lt), "astgen: unexpected loop condition"
    assert cond.get_op_arg(0).get_id().get_name() == name, "astgen: loop condition on another variable"
    bound = _expr(cond.get_op_arg(1), values)
    return bound if op == islpy.ast_expr_op_type.lt else loops.binary("+", bound, loops.const(1))


def _instance(call: islpy.AstExpr, walk: _Walk, values: dict[str, loops.Expr]) -> loops.Stmt:
    s = walk.statements[_called(call)]
    arguments = [_expr(call.get_op_arg(1 + i), values) for i in range(len(s.ranges))]
    named = dict(zip(s.indices, arguments, strict=True))
    walk.instances.append(named)
    store = walk.lowering.statement(s, named)
    conditions = (*(s.where if walk.guarded else ()), *pr.within(s.bounds))
    return loops.If(lower.conjunction([walk.lowering.expr(c, named) for c in conditions]), store) if conditions else store


def _called(call: islpy.AstExpr) -> str:
    name: str = call.get_op_arg(0).get_id().get_name()
    return name


def _condition(e: islpy.AstExpr, values: dict[str, loops.Expr]) -> loops.Expr:
    """A condition; isl writes 1 and 0 for true and false."""
    found = _expr(e, values)
    return loops.Const(bool(found.value), BOOL) if isinstance(found, loops.Const) else found


def _expr(e: islpy.AstExpr, values: dict[str, loops.Expr]) -> loops.Expr:
    match e.get_type():
        case islpy.ast_expr_type.int:
            return loops.const(e.get_val().to_python())
        case islpy.ast_expr_type.id:
            name = e.get_id().get_name()
            return values.get(name, loops.Var(name))
    op = e.get_op_type()
    conditions = e.get_op_n_arg() if op in _LOGIC else 1 if op in _CONDITIONAL else 0
    args = [(_condition if i < conditions else _expr)(e.get_op_arg(i), values) for i in range(e.get_op_n_arg())]
    if op in _CHOICE:
        result = args[0]
        for other in args[1:]:
            result = loops.Call(_CHOICE[op], (result, other), I64)
        return result
    if op == islpy.ast_expr_op_type.minus:
        return loops.Unary("-", args[0], I64)
    if op in _CONDITIONAL:
        return loops.Select(args[0], args[1], args[2], args[1].dtype)
    if op in _ARITHMETIC:
        return loops.binary(_ARITHMETIC[op], args[0], args[1])
    assert op in _COMPARE or op in _LOGIC, f"astgen: unexpected isl operator {op}"
    return loops.binary(_COMPARE.get(op) or _LOGIC[op], args[0], args[1], BOOL)
