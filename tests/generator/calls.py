"""Calls as users make them: arrays of any layout between canaries, inputs given before, results in arrays of the caller."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from polytc import api
from polytc.program.program import Program
from tests import guarded
from tests.generator import gpus
from tests.generator.case import Case


@dataclass(frozen=True)
class Laid:
    """An array of some layout. whole: the memory that it is a part of; before: what that held; own: may the call write it?"""

    name: str
    memory: guarded.Guarded
    whole: np.ndarray
    view: np.ndarray
    before: bytes
    own: bool

    def check(self) -> None:
        """Raises Stray where what is not to be written was."""
        self.memory.check()
        kept = np.frombuffer(bytearray(self.before), self.whole.dtype).reshape(self.whole.shape)
        if self.own:
            at = self.view.__array_interface__["data"][0] - self.whole.ctypes.data
            part = np.ndarray(self.view.shape, self.view.dtype, kept, at, self.view.strides)
            part[...] = self.view
        if kept.tobytes() != self.whole.tobytes():
            raise guarded.Stray(f"{'the memory around' if self.own else 'the input'} {self.name} was written")


def laid(name: str, a: np.ndarray, layout: str, side: str, own: bool) -> Laid:
    """A copy of an array in memory of its own."""
    shape, at = a.shape, tuple(slice(None) for _ in a.shape)
    if layout == "steps":
        shape, at = (*shape[:-1], 2 * shape[-1]), (*at[:-1], slice(None, None, 2))
    elif layout == "offset":
        shape, at = tuple(n + 2 for n in shape), tuple(slice(1, n + 1) for n in shape)
    elif layout == "reversed":
        at = tuple(slice(None, None, -1) for _ in shape)
    memory = guarded.guarded(name, int(np.prod(shape, dtype=np.int64)) * a.itemsize, side)
    whole = memory.array.view(a.dtype).reshape(shape[::-1] if layout == "transposed" else shape)
    view = whole.T if layout == "transposed" else whole[at] if shape else whole
    view[...] = a
    return Laid(name, memory, whole, view, whole.tobytes(), own)


def called(case: Case, program: Program, arrays: dict[str, np.ndarray], side: str, op: api.Op | None = None
           ) -> dict[str, np.ndarray]:
    """The results of a call. op: of open sizes. Raises Stray; what the call refuses."""
    constants = {n: arrays[n] for n in case.constants}
    inouts = {n for n in program.inputs if n in program.outputs}
    made = op or api.compile(case.text, gpus.named(case.target), dtypes={x.name: x.dtype for x in case.inputs},
                             scalars=dict(case.scalars),
                             threads=case.threads, schedule=None if case.schedule == "automatic" else case.schedule,
                             constants=constants or None)  # type: ignore[call-overload]
    given = [laid(x.name, arrays[x.name], "" if x.name in inouts else x.layout, side, x.name in inouts)
             for x in case.inputs if x.name not in constants]
    names = [n for n in program.outputs if n not in inouts]
    outs = [laid(n, np.full(program.tensor(n).shape, 77, program.tensor(n).dtype.numpy), "", side, True) for n in names]
    out = {"out": {x.name: x.view for x in outs}} if case.out and not inouts else {}
    found = made(**{x.name: x.view for x in given}, **out)
    for x in (*given, *outs):
        x.check()
    results = found if isinstance(found, tuple) else (found,)
    returned = list(program.outputs)
    got = dict(zip(returned, results, strict=False)) | {x.name: x.view for x in given if x.name in inouts}
    return got | ({x.name: x.view for x in outs} if out else {})
