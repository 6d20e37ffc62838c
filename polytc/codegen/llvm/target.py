"""The CPU target: Loop AST -> LLVM IR -> machine code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from polytc import errors
from polytc import machine as machines
from polytc.codegen import loops
from polytc.codegen.llvm import modules, statements
from polytc.codegen.llvm.executable import Executable
from polytc.codegen.target import Binary, Launch, Source
from polytc.lang.scalars import F16
from polytc.machine import Machine
from polytc.runtime import jit

errors.register(E530="f16 needs a processor that converts it")


@dataclass(frozen=True)
class LLVMTarget:
    """given: emit for this machine instead of the one we run on."""

    given: Machine | None = None
    name: str = "cpu"
    takes_sizes: bool = False

    @cached_property
    def machine(self) -> Machine:
        """The processor; found out at first use."""
        return self.given if self.given is not None else machines.detect(*jit.host())

    def here(self) -> LLVMTarget:
        """This target: it is made for the processor that we run on, or for the one that was given."""
        return self

    def emit(self, module: loops.Module) -> Source:
        """LLVM IR, not yet optimised. Its one entry is `run(buffers, arena, launch, pool, threads)`, see modules.py."""
        self._refuse_halves(module)
        text, arena, parallel = modules.emit_module(module, self.machine)
        header = [f"; module {module.name}", f"@arena.bytes = internal constant i64 {arena}"]
        launches = tuple(Launch(statements.entry_of(k), tuple(b.name for b in k.args)) for k in module.kernels)
        vectors = any("<" in line and " x " in line for f in text.functions for line in f.lines)
        options = {"arena_bytes": str(arena), "slp": "0" if vectors else "1", "parallel": str(parallel)}
        return Source(self.name, text.render(header, self._attributes()), launches, module, options)

    def build(self, source: Source) -> Binary:
        """Optimised machine code, as an object file."""
        cpu, features = self._processor()
        return Binary.of(source, jit.build(source.text, cpu, features, self._tuning(source)))

    def load(self, binary: Binary, threads: int) -> Executable:
        """Machine code in this process. threads: how many may run a parallel loop."""
        return Executable(binary, max(1, threads))

    def standalone(self, sources: Sequence[tuple[str, Source | None]], triple: str = "") -> bytes:
        """One position-independent object file of several texts of LLVM IR, with the source that says how each is tuned."""
        plain = jit.Tuning(slp=False, vectorize=False, level=2)
        texts = [(text, self._tuning(source) if source is not None else plain) for text, source in sources]
        return jit.link(texts, *self._processor(), triple)

    def assembly(self, source: Source) -> str:
        """The optimised machine code as text."""
        cpu, features = self._processor()
        return jit.assembly(source.text, cpu, features, self._tuning(source))

    def _refuse_halves(self, module: loops.Module) -> None:
        """Raises TargetError E530 where the processor does not convert f16: software would need functions we do not ship."""
        m = self.machine
        able = m.vector_bytes >= 32 or "+f16c" in m.features or m.architecture == "aarch64"
        if not able and any(b.dtype == F16 for b in (*module.args, *module.scratch)):
            raise errors.fail("E530", "this processor has no instructions for f16", kind=errors.TargetError,
                              notes=["use f32, or target='opencl'"])

    # Where our passes have made the vectors, the least effort gives the same code as the most.
    def _tuning(self, source: Source) -> jit.Tuning:
        scalar = source.options["slp"] == "1"
        return jit.Tuning(slp=scalar, vectorize=scalar, level=3 if scalar else 1)

    def _processor(self) -> tuple[str, str]:
        """LLVM's CPU and features; for a machine that does not say, the x86-64 level with its vectors."""
        m = self.machine
        if m.cpu or m.architecture != "x86_64":
            return m.cpu, m.features
        return {32: "x86-64-v3", 64: "x86-64-v4"}.get(m.vector_bytes, "x86-64"), m.features

    def _attributes(self) -> str:
        cpu, features = self._processor()
        parts = ["nounwind", '"no-trapping-math"="true"', f'"prefer-vector-width"="{self.machine.vector_bytes * 8}"']
        if self.machine.has("sve"):
            parts.append(f"vscale_range({self.machine.vector_bytes // 16},{self.machine.vector_bytes // 16})")
        parts += [f'"target-cpu"="{cpu}"'] if cpu else []
        parts += [f'"target-features"="{features}"'] if features else []
        return " ".join(parts)
