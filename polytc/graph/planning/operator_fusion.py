"""Which calls share a program: element-wise work joins the kernel that makes or needs its data.

    conv -> bias -> relu                     becomes one program
    matmul -> add -> gelu                    becomes one program
    add -> softmax                           becomes one program
    conv -> dequantize, add (elsewhere)      becomes conv, and dequantize -> add
    matmul -> add -> softmax -> matmul       becomes one program, with the transpositions around it, if all of it is done for
                                             many heads: the scores of one head then never leave the caches

Only the grouping is decided here; loops are fused, and inner values contracted, by the compiler.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from polytc.graph.plan import Call, Plan
from polytc.graph.planning import branch_guards
from polytc.graph.planning.call_accesses import (
    Shape,
    has_plain_subscripts,
    is_batched,
    only_moves_elements,
    reads_same_rows,
    shape_of,
    tensors_of_value,
)
from polytc.graph.planning.rematerialisation import recompute
from polytc.program import program as pr
from polytc.program.compose import Part, concatenate
from polytc.program.traces.traced import same_extents

LARGEST_GROUP = 16
"""Statements: beyond this a program takes longer to schedule than fusion saves."""
LARGEST_PRODUCT_CHAIN = 32
"""Statements of a chain of products."""


@dataclass
class Group:
    """Calls that will be one program. light: all reductions in it read each element once (softmax, means), or there are none.

    size: elements of the largest domain of a light group. product_chain: products one after another, see _Fusion.link.
    """

    number: int
    calls: list[Call] = field(default_factory=list)
    light: bool = True
    reduces: bool = False
    size: int = 0
    product_chain: bool = False

    @property
    def statements(self) -> int:
        return sum(len(c.program.statements) for c in self.calls)

    @property
    def products(self) -> list[Call]:
        """The calls that combine each element of an operand several times."""
        return [c for c in self.calls if not shape_of(c.program).light]


def fuse(plan: Plan) -> Plan:
    """The plan with fewer, larger calls, in an order in which every value is computed before it is used. Calls of a branch
    share programs with none outside of it."""
    return branch_guards.change_branches(plan, lambda piece: _Fusion(piece).run())


def _readers(plan: Plan, calls: Iterable[Call]) -> dict[str, int]:
    """How many calls read each value, or a view of it."""
    return dict(Counter(plan.base(name) for call in calls for name in dict.fromkeys(call.inputs)))


class _Fusion:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.maker: dict[str, Group] = {}
        self.groups: list[Group] = []
        self.readers = _readers(plan, plan.calls)
        self.kept = {plan.base(n) for n in plan.lasting}

    def run(self) -> Plan:
        for call in self.plan.calls:
            shape = shape_of(call.program)
            group = self.host(call, shape) or self.fresh()
            self.add(group, call, shape)
            if shape.light and not shape.pointwise:
                self.pull(group, call)
            if not shape.light:
                self.link(group, call)
        self.plan = recompute(self.plan, [g.calls for g in self.groups])
        self.maker = {n: g for g in self.groups for c in g.calls for n in c.outputs}
        self.readers = _readers(self.plan, [c for g in self.groups for c in g.calls])
        calls = tuple(self.merge(g) for g in self.order())
        return replace(self.plan, calls=calls)

    def fresh(self) -> Group:
        self.groups.append(Group(len(self.groups)))
        return self.groups[-1]

    def add(self, group: Group, call: Call, shape: Shape) -> None:
        group.calls.append(call)
        group.reduces |= any(s.op is not None for s in call.program.statements)
        group.light &= shape.light
        group.size = max(group.size, shape.size)
        for name in call.outputs:
            self.maker[name] = group

    # ---- joining the group of a producer

    def host(self, call: Call, shape: Shape) -> Group | None:
        """The group that the call may join: of the latest producer that suits."""
        makers = {self.maker[n].number: self.maker[n] for n in call.inputs if n in self.maker}
        for number in sorted(makers, reverse=True):
            group = makers[number]
            most = LARGEST_PRODUCT_CHAIN if group.product_chain else LARGEST_GROUP
            full = group.statements + len(call.program.statements) > most
            if not full and self.suits(call, shape, group) and not self.circular(call, group):
                return group
        return None

    def suits(self, call: Call, shape: Shape, group: Group) -> bool:
        inner = [n for n in call.inputs if self.maker.get(n) is group]
        if shape.pointwise and all(self.same_place(call, n, group) for n in inner):
            return True
        if group.product_chain and only_moves_elements(call.program) and all(
                self.readers[n] == 1 and n not in self.kept for n in inner):
            return True
        rows = group.light and group.reduces and shape.light
        return rows and shape.size in (group.size, *(self.elements(n) for n in inner)) and all(
            reads_same_rows(call, n) for n in inner)

    def elements(self, name: str) -> int:
        n = 1
        for extent in self.plan.types[name].shape:
            n *= extent
        return n

    def same_place(self, call: Call, name: str, group: Group) -> bool:
        """Does the call read `name` exactly where it writes, and was it written index by index?"""
        maker = next(c for c in group.calls if name in c.outputs)
        written = maker.program.outputs[maker.outputs.index(name)]
        if not all(has_plain_subscripts(s.subscripts) for s in maker.program.statements if s.target == written):
            return False
        reads = all(r.subscripts == s.subscripts and r.default is None for t in tensors_of_value(call, name)
                    for s in call.program.statements for r in pr.reads(s) if r.tensor == t)
        return reads and same_extents(self.plan.types[call.outputs[0]].shape, self.plan.types[name].shape)

    def circular(self, call: Call, group: Group) -> bool:
        """Would the group then need something that needs the group? A view of its own values counts: it must lie in memory."""
        for name in call.inputs:
            other = self.maker.get(self.plan.base(name))
            if other is group and name in self.plan.aliases:
                return True
            if other is not None and other is not group and group.number in self.ancestors(other):
                return True
        return False

    def ancestors(self, group: Group) -> set[int]:
        """Numbers of all groups that `group` needs, itself included."""
        seen: set[int] = set()
        todo = [group]
        while todo:
            g = todo.pop()
            if g.number not in seen:
                seen.add(g.number)
                todo += self.needs(g)
        return seen

    def needs(self, group: Group) -> list[Group]:
        found = {self.maker[b].number: self.maker[b] for c in group.calls for n in c.inputs
                 if (b := self.plan.base(n)) in self.maker}
        found.pop(group.number, None)
        return list(found.values())

    # ---- taking in element-wise producers

    def pull(self, group: Group, call: Call) -> None:
        """Join the element-wise groups whose only reader is this call, which reads each of their elements once."""
        for name in dict.fromkeys(call.inputs):
            maker = self.maker.get(name)
            if maker is None or maker is group or maker.reduces or not reads_same_rows(call, name):
                continue
            if not self.private(name, maker) or maker.size > group.size or maker.statements + group.statements > LARGEST_GROUP:
                continue
            self.take(group, maker)

    def private(self, name: str, maker: Group) -> bool:
        """Is `name` all that leaves the group that makes it, for one reader?"""
        results = [n for c in maker.calls for n in c.outputs if self.leaves(n, maker)]
        return results == [name] and self.readers[name] == 1 and name not in self.kept

    def take(self, group: Group, maker: Group) -> None:
        """Put the calls of `maker` before those of the group."""
        group.calls = maker.calls + group.calls
        for c in maker.calls:
            self.maker |= dict.fromkeys(c.outputs, group)
        maker.calls = []

    # ---- chains of products

    def link(self, group: Group, call: Call) -> None:
        """Take in what stands before a product for many heads: rows that only it reads (softmax), the product that they come
        from, and transpositions of the operands."""
        for name in dict.fromkeys(call.inputs):
            rows = self.maker.get(name)
            if rows is None or not (rows.light and rows.reduces) or not self.private(name, rows) or not is_batched(call, name):
                continue
            inner = dict.fromkeys(n for c in rows.calls for n in c.inputs if n in self.maker and self.maker[n] is not rows)
            scores = [n for n in inner if not self.maker[n].light and self.private(n, self.maker[n])]
            total = group.statements + rows.statements + sum(self.maker[n].statements for n in scores)
            if len(scores) != 1 or total > LARGEST_PRODUCT_CHAIN or len(self.maker[scores[0]].products) != 1:
                continue
            self.take(group, rows)
            self.take(group, self.maker[scores[0]])
            group.product_chain, group.light = True, False
            self.take_moves(group)
            return

    def take_moves(self, group: Group) -> None:
        """Take in the transpositions whose only reader is a product of the group."""
        for name in dict.fromkeys(n for c in group.calls if not shape_of(c.program).light for n in c.inputs):
            maker = self.maker.get(name)
            if maker is not None and maker is not group and all(only_moves_elements(c.program) for c in maker.calls) \
                    and self.private(name, maker) and group.statements + maker.statements <= LARGEST_PRODUCT_CHAIN:
                self.take(group, maker)

    def leaves(self, name: str, group: Group) -> bool:
        """Is a value of the group needed outside of it?"""
        inside = sum(name in c.inputs for c in group.calls)
        return name in self.kept or self.readers.get(name, 0) > inside

    # ---- the result

    def order(self) -> list[Group]:
        """Groups after all that they need; otherwise in the order in which they began."""
        done: set[int] = set()
        result: list[Group] = []

        def visit(g: Group) -> None:
            if g.number in done:
                return
            done.add(g.number)
            for other in sorted(self.needs(g), key=lambda x: x.number):
                visit(other)
            result.append(g)

        for g in self.groups:
            if g.calls:
                visit(g)
        return result

    def merge(self, group: Group) -> Call:
        """One call; values are called v0, v1, ... in it, so that equal groups have equal texts."""
        made = [n for c in group.calls for n in c.outputs]
        inputs = tuple(dict.fromkeys(n for c in group.calls for n in c.inputs if n not in made))
        outputs = tuple(n for n in made if self.leaves(n, group)) or tuple(made[-1:])
        short = {n: f"v{k}" for k, n in enumerate(dict.fromkeys((*inputs, *made)))}
        parts = []
        for c in group.calls:
            tensors = dict(zip((*c.program.inputs, *c.program.outputs), (*c.inputs, *c.outputs), strict=True))
            parts.append(Part(c.program, {t: short[n] for t, n in tensors.items()}))
        label = "_".join([k for k, _ in itertools.groupby(c.label for c in group.calls)][:6])
        program = concatenate(parts, [short[n] for n in inputs], [short[n] for n in outputs], label)
        return Call(program, inputs, outputs, label)
