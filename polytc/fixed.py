"""FixedOp: an Op some of whose inputs are arrays that do not change between calls, such as weights.

What follows from them alone, packed panels and transformed weights among it, is computed once for each combination of the other
arrays' shapes, and kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from polytc.arguments import given_outputs
from polytc.codegen.target import Executable
from polytc.native import forks
from polytc.native.threads import default_threads
from polytc.op import Op
from polytc.program.scalars import DType
from polytc.runtime.arrays import argument_error, as_input, dtype_of, output_buffers
from polytc.runtime.libraries import library
from polytc.runtime.lru_cache import LRUCache
from polytc.runtime.packages import keep
from polytc.shown import Shown

if TYPE_CHECKING:
    from polytc.compiler import Lowered
    from polytc.decisions import Record
    from polytc.explanation import Explanation
    from polytc.program.program import Program


@dataclass(frozen=True)
class _Ready:
    """Code for one combination of shapes of the free inputs. order: their names, in the order of the code."""

    program: Program
    executable: Executable
    order: tuple[str, ...]
    outputs: tuple[tuple[tuple[int, ...], np.dtype], ...]


class FixedOp(Shown):
    """An Op with values for some of its inputs; call it on the others, by position or by name.

        layer = polytc.compile("Y[n,m] += X[n,k]*W[m,k]", constants={"W": weights})
        y = layer(x)

    inputs: the names that are left, in order. The constants are copied: changing the arrays later changes nothing. Calls from
    several threads are safe.
    """

    def __init__(self, op: Op, constants: Mapping[str, Any]) -> None:
        if not isinstance(constants, Mapping):
            raise argument_error("E410", f"constants is a dict of names and arrays, not {constants!r}")
        unknown = [str(n) for n in constants if n not in op.inputs]
        if unknown:
            raise argument_error("E401", f"constants names {', '.join(unknown)}, which is no input of {op.name}",
                                 f"the inputs are: {', '.join(op.inputs)}")
        if op.inouts:
            raise argument_error("E410", f"{op.name} writes {', '.join(op.inouts)} in place, and takes no constants=",
                                 "pass all arrays in each call")
        self._op = op
        self._constants = {n: np.array(as_input(n, a), copy=True, order="C") for n, a in constants.items()}
        self.inputs = tuple(n for n in op.inputs if n not in self._constants)
        self.outputs, self.name = op.outputs, op.name
        self.text, self._entry, self.__doc__ = op.text, op._entry, op.text
        self._ready: LRUCache[tuple[Any, ...], _Ready] = LRUCache(64)
        self._latest: Program | None = None
        self._lock = forks.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return FixedOp, (self._op, self._constants)

    def __repr__(self) -> str:
        return f"<polytc.FixedOp {self.name}({', '.join(self.inputs)}) with {', '.join(self._constants)} constant>"

    def __call__(self, /, *args: Any, out: Any = None, **named: Any) -> Any:
        """Run on the arrays that are left. out: the array to write (a tuple for several outputs).

        Raises ArgumentError E401-E409 where an argument does not fit, CompileError where the program does not fit the shapes.
        """
        arrays, turn = self._arrays(args, named), library((*args, *named.values())) if out is None else None
        ready = self._specialised(arrays)
        inputs = [arrays[n] for n in ready.order]
        given = [None] * len(ready.outputs) if out is None else given_outputs(out, self.outputs)
        results, copies = output_buffers(self.outputs, given, ready.outputs, ready.order, inputs)
        ready.executable.run([*inputs, *results])
        for place, made in copies:
            np.copyto(place, made)
        results = results if turn is None else [turn(a) for a in results]
        return out if out is not None else results[0] if len(results) == 1 else tuple(results)

    def _arrays(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, np.ndarray]:
        given = dict(zip(self.inputs, args))
        wrong = [n for n in named if n in given or n not in self.inputs]
        if len(args) > len(self.inputs) or wrong or len(given) + len(named) < len(self.inputs):
            raise argument_error("E401", f"{self.name} takes {', '.join(self.inputs) or 'no array'}, each once",
                                 f"constants are: {', '.join(self._constants)}")
        return {n: as_input(n, a) for n, a in (given | dict(named)).items()}

    def _specialised(self, arrays: dict[str, np.ndarray]) -> _Ready:
        key = tuple((n, a.shape, a.dtype) for n, a in sorted(arrays.items()))
        found = self._ready.get(key)
        if found is None:
            with self._lock:
                found = self._ready.get(key) or self._ready.put(key, self._compiled(arrays))
                self._latest = found.program
        return found

    def _compiled(self, arrays: dict[str, np.ndarray]) -> _Ready:
        everything = arrays | self._constants
        dtypes: dict[str, DType] = {n: dtype_of(n, a.dtype) for n, a in everything.items()}
        program = replace(self._op.program({n: a.shape for n, a in everything.items()}, dtypes),
                          constants=tuple(self._constants))
        order = tuple(n for n in program.inputs if n not in self._constants)
        executable = self._op.load(program)
        fixed = {k: self._constants[n] for k, n in enumerate(program.inputs) if n in self._constants}
        outputs = tuple((t.shape, t.dtype.numpy) for t in map(program.tensor, program.outputs))
        return _Ready(program, keep(executable, fixed, len(program.inputs) + len(outputs)), order, outputs)

    @property
    def decisions(self) -> Record:
        """What was decided for the shapes that were compiled last, with the constants as such; see `Op.decisions`."""
        return self._lowered().decisions

    def explain(self, *, roofline: bool = True) -> Explanation:
        """Why its code for the shapes that were compiled last is as it is, see `polytc.explain`."""
        from polytc.explanation import explain

        lowered = self._lowered()
        return explain(lowered, self._op._threads or default_threads(lowered.target.machine.cores), roofline)

    def _lowered(self) -> Lowered:
        from polytc.targets import registry

        if self._latest is None:
            raise argument_error("E401", "the shapes are not given", "call it first")
        return self._op.lower(self._latest, registry.running(self._op.target))
