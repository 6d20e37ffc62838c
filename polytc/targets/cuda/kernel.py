"""One kernel of the Loop AST as a CUDA C function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from polytc.codegen import loops, traverse
from polytc.codegen.emitter import Names
from polytc.targets.ctext import joined_digits
from polytc.targets.ctext.preamble import Preamble
from polytc.targets.ctext.work_groups import GroupWriter
from polytc.targets.cuda import language, memory, types


class KernelWriter(GroupWriter):
    """See ctext/work_groups.py."""

    def __init__(self, kernel: loops.Kernel, entry: str, preamble: Preamble, open_: tuple[str, ...] = (),
                 notes: Mapping[str, str] | None = None) -> None:
        kernel = joined_digits.joined(kernel)
        names = Names(types.RESERVED, types.RESERVED_PREFIXES)
        places = memory.Memory(kernel, names.buffer, True, preamble.c)
        super().__init__(kernel, names, places, entry, preamble, types.LONG, open_, notes)
        for half, lanes in _halves(kernel):
            for name, text in memory.half_words(half, lanes, language.WORDS).items():
                preamble.add(name, text)

    def head(self, arguments: Sequence[str]) -> Sequence[str]:
        """Named as it is here, for those who look it up by its name."""
        return (f'extern "C" __global__ void __launch_bounds__({prod(self.ndrange.items)})',
                f"{self.entry}({', '.join(arguments)})")

    def argument(self, b: loops.Buffer, const: bool, restrict: bool) -> str:
        """`const float* __restrict__ A`."""
        place = self.places.place(b)
        return f"{'const ' * const}{place.ctype}*{' __restrict__' * restrict} {place.name}"

    def local_id(self, axis: int) -> str:
        return f"threadIdx.{'xyz'[axis]}"

    def group_id(self, axis: int) -> str:
        return f"blockIdx.{'xyz'[axis]}"

    def barrier(self, all_memory: bool) -> str:
        """Global memory, too."""
        return "__syncthreads();"

    def plain_loop(self, s: loops.For) -> None:
        if s.kind in ("unroll", "rolled"):
            self.line("#pragma unroll" if s.kind == "unroll" else "#pragma unroll 1")
        self.loop(s)


def _halves(kernel: loops.Kernel) -> list[tuple[str, int]]:
    """dtype and lanes of what a kernel loads and stores of halves in its arguments."""
    found: dict[tuple[str, int], None] = {}
    for s in traverse.walk_stmt(kernel.body):
        if isinstance(s, loops.Store) and s.buffer.dtype.is_half and s.buffer.space == "global":
            found[s.buffer.dtype.name, max([1, *(i.lanes for i in s.indices)])] = None
        for top in traverse.expressions(s):
            for e, _ in traverse.loads(top):
                if e.buffer.dtype.is_half and e.buffer.space == "global":
                    found[e.buffer.dtype.name, e.lanes] = None
    return list(found)
