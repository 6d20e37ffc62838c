"""One kernel of the Loop AST as an OpenCL C function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from polytc.codegen import loops, prefetch
from polytc.codegen.emitter import Names
from polytc.machine import Machine
from polytc.targets.ctext import joined_digits
from polytc.targets.ctext.preamble import Preamble
from polytc.targets.ctext.work_groups import GroupWriter
from polytc.targets.opencl import prefetches, types
from polytc.targets.opencl.memory import Memory


class KernelWriter(GroupWriter):
    """See ctext/work_groups.py."""

    language = "opencl"

    def __init__(self, kernel: loops.Kernel, entry: str, preamble: Preamble, machine: Machine, open_: tuple[str, ...] = (),
                 notes: Mapping[str, str] | None = None) -> None:
        kernel = joined_digits.joined(kernel)
        names = Names(types.RESERVED, types.RESERVED_PREFIXES)
        places = Memory(kernel, names.buffer, machine.kind == "gpu", preamble.c)
        super().__init__(kernel, names, places, entry, preamble, "long", open_, notes)
        self.machine = machine
        self.enclosing = prefetch.OUTSIDE_LOOPS

    def head(self, arguments: Sequence[str]) -> Sequence[str]:
        """The attribute has the size of groups."""
        size = ", ".join(map(str, self.ndrange.items))
        return (f"__kernel __attribute__((reqd_work_group_size({size})))", f"void {self.entry}({', '.join(arguments)})")

    def argument(self, b: loops.Buffer, const: bool, restrict: bool) -> str:
        """`__global const float* restrict A`."""
        place = self.places.place(b)
        return f"__global {'const ' * const}{place.ctype}*{' restrict' * restrict} {place.name}"

    def local_id(self, axis: int) -> str:
        return f"get_local_id({axis})"

    def group_id(self, axis: int) -> str:
        return f"get_group_id({axis})"

    def barrier(self, all_memory: bool) -> str:
        return f"barrier(CLK_LOCAL_MEM_FENCE{' | CLK_GLOBAL_MEM_FENCE' * all_memory});"

    def begin(self) -> Iterable[str]:
        """Where a program is precise, products and sums stay two operations."""
        return ("#pragma OPENCL FP_CONTRACT OFF",) if self.kernel.precise else ()

    def plain_loop(self, s: loops.For) -> None:
        """With what asks for memory ahead, on CPUs."""
        if s.kind == "unroll":
            self.line(f"#pragma unroll{f' {s.copies}' if s.copies else ''}")
        elif s.kind == "rolled":
            self.line("#pragma unroll 1")
        around = self.enclosing
        if self.machine.kind == "cpu":
            self.enclosing, ahead = around.into(s, self.kernel, self.machine)
            self.loop(s, lambda: self.fetch(ahead))
        else:
            self.loop(s)
        if s.kind == "rolled":  # nor is the loop around made vectors
            self.line("mem_fence(CLK_LOCAL_MEM_FENCE);")
        self.enclosing = around

    def fetch(self, ahead: Iterable[prefetch.Prefetch]) -> None:
        """Ask for what comes later."""
        for a in ahead:
            for line in prefetches.lines(self.expressions, self.places.place(a.buffer).name, a):
                self.line(line)
