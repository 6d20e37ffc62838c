"""The invariant of the Loop AST, checked under POLYTC_CHECK=1: an AssertionError names the node that breaks it.

Types and lanes of operands agree, variables and buffers are in scope, ranks fit, kernels write what they say, and an index that
is a constant outside of any condition lies inside of its buffer.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

from polytc.codegen import loops, traverse
from polytc.program import scalars
from polytc.program.calls import matrix_rows, published, words
from polytc.program.scalars import BOOL, F32, I64, U32
from polytc.program.sizes import Size

_BOOLEAN = (*scalars.COMPARISONS, *scalars.LOGICAL)


@dataclass(frozen=True)
class _Scope:
    """variables: of the loops around; buffers: by name; writable: names that may be stored to; guarded: under a condition;
    at_once: of loops around, over threads or lanes of a processor."""

    variables: frozenset[str]
    buffers: Mapping[str, loops.Buffer]
    writable: frozenset[str]
    guarded: bool = False
    at_once: bool = False


def verify(module: loops.Module) -> loops.Module:
    """The module itself, if it keeps the invariant."""
    known = {b.name: b for b in (*module.args, *module.scratch)}
    assert len(known) == len(module.args) + len(module.scratch), f"module {module.name}: two buffers with one name"
    assert set(module.outputs) <= {b.name for b in module.args}, f"module {module.name}: an output is no argument"
    names = [k.name for k in module.kernels]
    assert len(set(names)) == len(names), f"module {module.name}: two kernels with one name"
    for k in module.kernels:
        for b in k.args:
            assert known.get(b.name) == b, f"kernel {k.name}: argument {b.name} is not a buffer of the module"
        verify_kernel(k, module.sizes)
    return module


def verify_kernel(k: loops.Kernel, sizes: tuple[str, ...] = ()) -> loops.Kernel:
    """The kernel itself, if it keeps the invariant. sizes: variables that it does not make itself."""
    buffers = {b.name: b for b in k.args}
    assert len(buffers) == len(k.args), f"kernel {k.name}: an argument twice"
    assert set(k.writes) <= set(buffers), f"kernel {k.name}: writes {k.writes}, which are not all arguments"
    _statement(k.body, _Scope(frozenset(sizes), buffers, frozenset(k.writes)))
    for shared in k.shares:
        _shared(k, shared)
    return k


def _shared(k: loops.Kernel, shared: loops.Shared) -> None:
    """Arrays that share storage are used one after another: in the order in which stores are met, what touches the one comes
    before all that touches the next, and items meet in between, once barriers are there. Loops count as one place."""
    name, places = shared.name, list[tuple[int, str]]()
    barriers, place = list[int](), 0

    def visit(s: loops.Stmt, inside: bool) -> None:
        nonlocal place
        place += not inside
        match s:
            case loops.Barrier():
                barriers.append(place)
            case loops.Store():
                loaded = any(e.buffer.name == name for top in traverse.expressions(s) for e, _ in traverse.loads(top))
                places.extend((place, old.name) for old in shared.members
                              if s.buffer.name == name and s.origin in old.stores or loaded and s.origin in old.loads)
            case _:
                repeated = inside or isinstance(s, loops.For) and s.kind != "block"
                for x in traverse.children(s):
                    visit(x, repeated)
    visit(k.body, inside=False)
    ends = [([n for n, x in places if x == old.name] or [-1], old.name) for old in shared.members]
    for (before, one), (after, other) in itertools.pairwise(ends):
        assert max(before) < min(after) or min(after) < 0, f"kernel {k.name}: {one} and {other} are alive in {name} at once"
        met = any(max(before) < n <= min(after) for n in barriers)
        assert met or not barriers or min(after) < 0, f"kernel {k.name}: no barrier between {one} and {other} in {name}"


def _need(condition: bool, what: str, node: loops.Expr | loops.Stmt) -> None:
    if condition:
        return
    match node:
        case loops.For() | loops.If() | loops.Store() | loops.Block() | loops.Alloc() | loops.Barrier():
            text = "\n".join(loops.format_stmt(node))
        case _:
            text = loops.format_expr(node)
    raise AssertionError(f"{what}: {text}")


def _statement(s: loops.Stmt, scope: _Scope) -> None:
    match s:
        case loops.For():
            for bound in (s.lower, s.upper):
                _expression(bound, scope)
                _need(bound.dtype == I64 and bound.lanes == 1, "a bound is an i64", s)
            _need(s.step > 0, "a step is positive", s)
            _need(s.var not in scope.variables, f"loop variable {s.var} is taken", s)
            at_once = scope.at_once or s.kind in ("parallel", "vector", "reduce")
            _statement(s.body, replace(scope, variables=scope.variables | {s.var}, guarded=True, at_once=at_once))
        case loops.If():
            _expression(s.cond, scope)
            _need(s.cond.dtype == BOOL and s.cond.lanes == 1, "a condition is one bool", s)
            inside = replace(scope, guarded=True)
            _statement(s.then, inside)
            if s.orelse is not None:
                _statement(s.orelse, inside)
        case loops.Store():
            _store(s, scope)
        case loops.Block():
            for x in s.stmts:
                _statement(x, scope)
        case loops.Alloc():
            b = s.buffer
            _need(b.space in ("local", "private"), "an allocation is local or private", s)
            _need(b.name not in scope.buffers, f"buffer {b.name} is taken", s)
            _statement(s.body, replace(scope, buffers={**scope.buffers, b.name: b}, writable=scope.writable | {b.name}))
        case loops.Barrier():
            pass


def _store(s: loops.Store, scope: _Scope) -> None:
    _access(s, s.buffer, s.indices, scope)
    _expression(s.value, scope)
    _need(s.buffer.name in scope.writable, f"{s.buffer.name} is not among the buffers written", s)
    _need(s.value.dtype == s.buffer.dtype, f"a {s.value.dtype} into a buffer of {s.buffer.dtype}", s)
    lanes = max((i.lanes for i in s.indices), default=1)
    if s.atomic:
        _need(not scope.at_once and lanes == 1, "items of a group alone have atomic updates", s)
        _need(loops.update(s) is not None, "an atomic update combines an element with a whole number of 32 bits", s)
    _need(s.value.lanes in (1, lanes), f"{s.value.lanes} lanes into {lanes}", s)


def _access(node: loops.Load | loops.Store, b: loops.Buffer, indices: tuple[loops.Expr, ...], scope: _Scope) -> None:
    _need(scope.buffers.get(b.name) == b, f"no buffer {b.name} of this shape in scope", node)
    _need(len(indices) == len(b.shape), f"{len(indices)} indices into {len(b.shape)} dimensions", node)
    for index, extent in zip(indices, b.shape, strict=True):
        _expression(index, scope)
        _need(index.dtype.is_int, "an index is an integer", node)
        if isinstance(index, loops.Const) and not isinstance(extent, Size) and not scope.guarded:
            _need(0 <= index.value < extent, f"index {index.value} of extent {extent}", node)


def _expression(e: loops.Expr, scope: _Scope) -> None:
    if isinstance(e, loops.Select):
        _expression(e.cond, scope)
        _expression(e.a, replace(scope, guarded=True))
        _expression(e.b, replace(scope, guarded=True))
    elif not isinstance(e, loops.Load):
        for x in traverse.operands(e):
            _expression(x, scope)
    _need(e.lanes >= 1, "lanes are positive", e)
    match e:
        case loops.Var():
            _need(e.name in scope.variables, f"no loop variable {e.name} in scope", e)
            _need(e.lanes == 1 and e.dtype == I64, "a loop variable is one i64", e)
        case loops.Load():
            _access(e, e.buffer, e.indices, scope)
            _need(e.dtype == e.buffer.dtype, f"a {e.dtype} from a buffer of {e.buffer.dtype}", e)
            _lanes(e, e.indices)
        case loops.Ramp():
            _need(e.base.lanes == 1 and e.base.dtype == e.dtype and e.dtype.is_int, "a ramp has a scalar integer base", e)
            _need(not isinstance(e.active, int) or 0 < e.active < e.lanes, "some lanes of a ramp are active, not all", e)
            _need(e.active is None or isinstance(e.active, int) or (e.active.dtype == BOOL and e.active.lanes == e.lanes),
                  "active lanes are a number or a mask", e)
        case loops.Broadcast():
            _need(e.a.lanes == 1 and e.a.dtype == e.dtype, "a broadcast repeats a scalar", e)
        case loops.Reduce():
            _need(e.lanes == 1 and e.a.dtype == e.dtype, "a reduction gives a scalar of its type", e)
            _need(e.op in scalars.REDUCTIONS, f"no reduction {e.op}", e)
        case loops.Shuffle():
            _need(e.a.dtype == e.b.dtype == e.dtype and e.a.lanes == e.b.lanes, "a shuffle of two vectors of its type", e)
            _need(len(e.order) == e.lanes and all(0 <= i < 2 * e.a.lanes for i in e.order), "an order of their lanes", e)
        case loops.Const():
            _need(isinstance(e.value, (bool, int, float)), f"a constant is a Python number, not {type(e.value).__name__}", e)
            _need(e.dtype.is_float or isinstance(e.value, (bool, int)), f"a constant of {e.dtype} is whole", e)
        case _:
            _operator(e)


def _operator(e: loops.Unary | loops.Binary | loops.Call | loops.Cast | loops.Select) -> None:
    """Nodes that work lane by lane."""
    _lanes(e, traverse.operands(e))
    match e:
        case loops.Unary():
            _need(e.op in scalars.UNARY, f"no operator {e.op}", e)
            _need(e.a.dtype == e.dtype, "an operand of another type", e)
        case loops.Binary():
            _need(e.op in (*scalars.ARITHMETIC, *_BOOLEAN), f"no operator {e.op}", e)
            _need(e.a.dtype == e.b.dtype, f"operands {e.a.dtype} and {e.b.dtype}", e)
            expected = BOOL if e.op in _BOOLEAN else e.a.dtype
            _need(e.dtype == expected, f"a {e.dtype} from {e.a.dtype}", e)
        case loops.Call():
            _call(e)
        case loops.Select():
            _need(e.cond.dtype == BOOL, "a condition is bool", e)
            _need(e.a.dtype == e.dtype and e.b.dtype == e.dtype, "arms of another type", e)
        case loops.Cast():
            pass


def _call(e: loops.Call) -> None:
    if words.is_word_call(e.fn):
        _word_call(e)
        return
    if published.is_published_call(e.fn):
        fit = published.fits(e.fn, [a.dtype for a in e.args], e.dtype)
        _need(fit and e.lanes == 1, "a value in words of an element, or out of them", e)
        return
    if matrix_rows.is_rows_call(e.fn):
        _need(matrix_rows.fits(e.fn, [a.dtype for a in e.args], e.dtype), "a row, and as many terms as columns", e)
        return
    row = scalars.INTRINSICS.get(e.fn)
    _need(row is not None or e.fn == "muladd", f"no intrinsic {e.fn}", e)
    _need(len(e.args) == (row.arity if row else 3), "the number of arguments", e)
    dtype = e.args[0].dtype
    _need(all(a.dtype == dtype for a in e.args), "arguments of several types", e)
    _need(e.dtype == (BOOL if row and row.result == "bool" else dtype), f"a {e.dtype} from {dtype}", e)
    needs_float = row is None or row.result == "float"
    _need(dtype.is_float or not needs_float, f"{e.fn} of {dtype}", e)


def _word_call(e: loops.Call) -> None:
    dot = words.DOTS.get(e.fn)
    if dot is not None:
        fit = len(e.args) == dot.operands and all(a.dtype == U32 for a in e.args) and e.dtype == dot.result
        _need(fit, "a dot product of words", e)
        return
    if e.fn in words.PARTS:
        _need(len(e.args) == 2 and all(a.dtype == F32 for a in e.args) and e.dtype == U32, "a word of parts of two f32", e)
        return
    same = len({a.dtype for a in e.args}) == 1
    _need(same and e.dtype == U32 and len(e.args) * e.args[0].dtype.bits == U32.bits, "a word of equal parts", e)


def _lanes(e: loops.Expr, parts: tuple[loops.Expr, ...]) -> None:
    _need(all(p.lanes in (1, e.lanes) for p in parts), f"{[p.lanes for p in parts]} lanes in a value of {e.lanes}", e)
