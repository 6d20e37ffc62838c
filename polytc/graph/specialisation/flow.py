"""Control flow while a graph is specialised: what is known now becomes straight, the rest is left to a run.

An If over data whose branches are nothing but calls stays in the plan: both branches, each under its guard, with results in the
same memory.

    y = If(p) { then: a = relu(x) } { else: b = x * x }
    ->  if p: a = relu(x);  if not p: b = x * x          y is the memory of both a and b
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import copy
from typing import TYPE_CHECKING

from polytc.errors import CompileError, ModelError, fail
from polytc.graph.hosts import ENDLESS, Repeat, keeps_going
from polytc.graph.ir import REPEATED, Graph, Node, reads
from polytc.graph.operators.binding import Apply, NeedsValue
from polytc.graph.operators.refusals import refusal
from polytc.graph.plan import Array, Guard
from polytc.graph.specialisation import control as bodies
from polytc.graph.specialisation import unrolling

if TYPE_CHECKING:
    from polytc.graph.specialisation.specialise import Specialisation


def control(walk: Specialisation, node: Node) -> Sequence[Node]:
    """What takes the place of a node with bodies. An If whose condition is known is replaced by its branch; bodies that are
    repeated become hosts."""
    if node.op in REPEATED:
        if node.op == "Loop" and keeps_going(node.attributes["body"]):
            trips = walk.known.get(node.inputs[0])
            if not node.inputs[0] or trips is not None and trips.item() > ENDLESS:
                count = f"{trips.item()} iterations" if trips is not None else "no trip count"
                raise fail("E608", f"{node.label} never ends: it has {count}, and its condition stays true", kind=ModelError)
        straight = _unrolled(walk, node)
        if straight is None:
            walk.add(bodies.repeated(node, walk.known))
            return ()
        return walk.placed(straight)
    condition = node.inputs[0]
    if condition in walk.known:
        return walk.placed(bodies.branch(node, bool(walk.known[condition].item())))
    if walk.guards and condition in walk.types and _tried(walk, lambda: _guarded(walk, node)):
        return ()
    if condition not in walk.hosted and walk.by_value(condition, walk.sources(condition)):
        raise NeedsValue(refusal("E608", f"{node.label}: its condition is computed from the data"), condition,
                         walk.sources(condition))
    walk.late.add(condition)
    return walk.defer(node)


def _unrolled(walk: Specialisation, node: Node) -> bodies.Inlined | None:
    """The iterations of a loop as nodes in its place, if they are known and few."""
    if any(n in walk.hosted or walk.is_opaque(n) for n in reads(node)):
        return None
    if node.op == "Loop":
        return unrolling.unrolled_loop(node, walk.known)
    work = bodies.repeated(node, walk.known).work if node.op == "Scan" else None
    if not isinstance(work, Repeat) or not work.scanned:
        return None
    shapes = [walk.shape(n) or () for n in node.inputs[len(node.inputs) - work.scanned:]]
    return unrolling.unrolled_scan(node, work, work.length(shapes))


# ---- branches under guards

def _tried(walk: Specialisation, attempt: Callable[[], bool]) -> bool:
    """Make an attempt; where it returns False or raises CompileError, everything is as it was."""
    before = {k: copy(v) for k, v in vars(walk).items() if isinstance(v, dict | list | set)}
    with suppress(CompileError):
        if attempt():
            return True
    vars(walk).update(before)
    return False


def _guarded(walk: Specialisation, node: Node) -> bool:
    """Put both branches of an If into the plan. False, or CompileError, where that cannot be: where the condition is no single
    bool, where a branch needs more than calls, or gives a result of another type than the other branch does."""
    if walk.types[node.inputs[0]].bytes != 1:
        return False
    then, other = (_branch(walk, node, taken) for taken in (True, False))
    if then is None or other is None:
        return False
    for name, (a, own), (b, its) in zip(filter(None, node.outputs), then, other, strict=True):
        if own != its:
            return False
        walk.define(name, own, node.label)
        walk.aliases |= {a: name, b: name}
    return True


def _branch(walk: Specialisation, node: Node, taken: bool) -> list[tuple[str, Array]] | None:
    """Put a branch into the plan: for each result that has a name, a value that a call of the branch makes, and its type."""
    body: Graph = node.attributes["then_branch" if taken else "else_branch"]
    prefix = f"{next(filter(None, node.outputs))}/{'then' if taken else 'else'}"
    results = tuple(f"{prefix}/result{i}" if n else "" for i, n in enumerate(node.outputs))
    first = len(walk.calls)
    with walk.guarding(Guard(node.inputs[0], taken)):
        if not walk.inside(bodies.inlined(body, {}, results, prefix), results):
            return None
        return _owned(walk, [n for n in results if n], first)


def _owned(walk: Specialisation, results: Sequence[str], first: int) -> list[tuple[str, Array]] | None:
    """Values with memory of their own, which the calls from `first` on make, and the types that the results have: what is
    behind the results, or copies of it."""
    made = {walk.base(n) for call in walk.calls[first:] for n in call.outputs}
    found: dict[str, Array] = {}
    for name in results:
        shape = walk.shape(name) if name in walk.known or name in walk.types else None
        if shape is None or 0 in shape:
            return None
        base = name if name in walk.known else walk.base(name)
        if base not in made or base in found:
            base = f"{name}/copy"
            walk.apply(Node("Identity", "", (name,), (base,)), Apply("elementwise.Copy", (0,)), {})
        found[base] = Array(walk.types[base].dtype, shape)
    return list(found.items())
