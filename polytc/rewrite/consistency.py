"""What holds of every Program, whoever made it: the invariant behind each step (POLYTC_CHECK=1)."""

from __future__ import annotations

from polytc.program import program as pr
from polytc.program.scalars import BOOL


def consistent(program: pr.Program) -> pr.Program:
    """The program. Raises AssertionError where names are not unique, a tensor or an index is not declared, an access has
    another rank or type than its tensor, an index is called as an open size is, a condition is no condition, or the statements
    of a loop are no neighbours."""
    tensors = {t.name: t for t in program.tensors}
    _unique([t.name for t in program.tensors], "tensors")
    _unique([s.name for s in program.statements], "statements")
    for name in (*program.inputs, *program.outputs, *program.constants):
        assert name in tensors, f"{name} is no tensor"
    for t in program.tensors:
        assert len(t.shape) == len(t.lower), f"{t.name} has {len(t.shape)} extents and {len(t.lower)} beginnings"
    for s in program.statements:
        _statement(s, tensors)
        assert not set(s.indices) & set(program.sizes), f"{s.name} has an index that is called as a size is"
    left = list[str]()
    for before, s in zip((None, *program.statements), program.statements, strict=False):
        gone = [label for label in (before.loops if before is not None else ()) if label not in s.loops]
        left += gone
        assert not set(left) & set(s.loops), f"{s.name} is in a loop that was over before it: {s.loops}"
    return program


def _unique(names: list[str], what: str) -> None:
    assert len(set(names)) == len(names), f"{what} have one name: {sorted({n for n in names if names.count(n) > 1})}"


def _statement(s: pr.Statement, tensors: dict[str, pr.Tensor]) -> None:
    _unique(list(s.indices), f"indices of {s.name}")
    assert s.target in tensors, f"{s.name} writes {s.target}, which is no tensor"
    assert len(s.subscripts) == len(tensors[s.target].shape), f"{s.name} writes {s.target} with {len(s.subscripts)} subscripts"
    assert len(s.loops) <= len(s.ranges), f"{s.name} has fewer indices than loops"
    conditions = (*s.where, *pr.within(s.bounds))
    for top in (*s.subscripts, s.value, *conditions):
        for e in pr.walk(top):
            if isinstance(e, pr.Index):
                assert e.name in s.indices, f"{s.name} uses the index {e.name}, which it has not"
            if isinstance(e, pr.Read):
                assert e.tensor in tensors, f"{s.name} reads {e.tensor}, which is no tensor"
                t = tensors[e.tensor]
                assert len(e.subscripts) == len(t.shape), f"{s.name} reads {e.tensor} with {len(e.subscripts)} subscripts"
                assert e.dtype == t.dtype, f"{s.name} reads {e.tensor} of {t.dtype} as {e.dtype}"
    assert all(c.dtype == BOOL for c in conditions), f"{s.name} has a condition that is no bool"
