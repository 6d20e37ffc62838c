"""The CPU target: Loop AST -> LLVM IR -> machine code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from polytc import errors, processors
from polytc import machine as machines
from polytc.codegen import loops, traverse
from polytc.codegen.target import Binary, Launch, Source
from polytc.machine import Machine
from polytc.native import jit
from polytc.program.scalars import BF16, F16
from polytc.targets.llvm import modules, statements
from polytc.targets.llvm.executable import Executable

errors.register(E530="f16 needs a processor that converts it", E531="code for another processor cannot run here")

LEVELS = {32: "avx2,bmi2,f16c,fma", 64: "avx2,avx512bw,avx512cd,avx512dq,avx512f,avx512vl,bmi2,f16c,fma"}
"""What x86-64 processors have to have for vectors of so many bytes: the levels v3 and v4, but for what all of them have."""

TRIPLES = {"aarch64": "aarch64-unknown-linux-gnu", "x86_64": "x86_64-unknown-linux-gnu"}
"""Architecture -> LLVM's name of a system, for code that is made for another one than this."""

SVE_UNIT, MOST_SVE_UNITS = 16, 16
"""Registers of Arm's scalable vectors (SVE) are 1 to 16 times as many bytes. How many times, the processor alone knows: LLVM is
told the least, as code for exactly so many writes too much where they are longer."""


def features_of(machine: Machine) -> set[str]:
    """What a processor must have, as LLVM calls it, to run code for a machine."""
    asked = {f[1:] for f in machine.features.split(",") if f.startswith("+")}
    if machine.architecture == "x86_64":
        asked |= set(LEVELS.get(machine.vector_bytes, "").split(","))
    return asked - {""}


@dataclass(frozen=True)
class LLVMTarget:
    """given: emit for this machine instead of the one we run on."""

    given: Machine | None = None
    name: str = "cpu"
    takes_sizes: bool = False
    forkable: bool = True

    @cached_property
    def machine(self) -> Machine:
        """The processor; found out at first use."""
        return self.given if self.given is not None else machines.detect(*jit.host())

    def here(self) -> LLVMTarget:
        """This target: it is made for the processor that we run on, or for the one that was given."""
        return self

    def described(self, machine: Machine) -> LLVMTarget:
        """The target for a machine. Raises TargetError E541 for a device of OpenCL."""
        if machine.kind != "cpu" or machine.max_work_group:
            raise errors.fail("E541", "the machine is a device of OpenCL, and the target 'cpu' is for processors",
                              kind=errors.TargetError, notes=["target='opencl' takes it"])
        return replace(self, given=machine)

    def emit(self, module: loops.Module) -> Source:
        """LLVM IR, not yet optimised. Its one entry is `run(buffers, arena, launch, pool, threads)`, see modules.py."""
        self._refuse_halves(module)
        ours = module.once or any(traverse.has_vectors(k.body) for k in module.kernels)
        scalar = not module.once and any(traverse.has_scalar_loops(k.body) for k in module.kernels)
        few = ours and not scalar
        text, arena, parallel = modules.emit_module(module, self.machine, few and jit.counts_places(self.machine.architecture))
        header = [f"; module {module.name}", f"@arena.bytes = internal constant i64 {arena}"]
        launches = tuple(Launch(statements.entry_of(k), tuple(b.name for b in k.args)) for k in module.kernels)
        # LLVM 22 ends the process, as two of its estimates differ, where it makes vectors for AArch64 of some loops over bf16
        halves = self.machine.architecture == "aarch64" and any(b.dtype == BF16 for b in (*module.args, *module.scratch))
        options = {"arena_bytes": str(arena), "slp": "0" if ours or halves else "1", "parallel": str(parallel),
                   "passes": "few" if few else "all"}
        return Source(self.name, text.render(header, self._attributes()), launches, module, options)

    def build(self, source: Source) -> Binary:
        """Optimised machine code, as an object file. Raises TargetError E531 for another architecture: LLVM, which is asked for
        code that this process loads, would end it."""
        if self.given is not None and self.given.architecture != machines.detect(*jit.host()).architecture:
            self._refuse_foreign()
        cpu, features = self._processor()
        return Binary.of(source, jit.build(source.text, cpu, features, self._tuning(source)))

    def load(self, binary: Binary, threads: int) -> Executable:
        """Machine code in this process. threads: how many may run a parallel loop. Raises TargetError E531 where this processor
        does not have what the code was made for."""
        self._refuse_foreign()
        return Executable(binary, max(1, threads))

    def standalone(self, sources: Sequence[tuple[str, Source | None]], triple: str = "") -> bytes:
        """One position-independent object file of several texts of LLVM IR, with the source that says how each is tuned. What
        does not say in its attributes for which processor it is runs on all of them."""
        plain = jit.Tuning(slp=False, vectorize=False, level=2)
        texts = [(text, self._tuning(source) if source is not None else plain) for text, source in sources]
        return jit.link(texts, "", "", triple)

    def assembly(self, source: Source) -> str:
        """The optimised machine code as text, also that of another architecture."""
        foreign = self.machine.architecture != machines.detect(*jit.host()).architecture
        triple = TRIPLES[self.machine.architecture] if foreign else ""
        return jit.assembly(source.text, *self._processor(), self._tuning(source), triple)

    def _refuse_halves(self, module: loops.Module) -> None:
        """Raises TargetError E530 where the processor does not convert f16: software would need functions we do not ship."""
        m = self.machine
        able = m.vector_bytes >= 32 or "+f16c" in m.features or m.architecture == "aarch64"
        if not able and any(b.dtype == F16 for b in (*module.args, *module.scratch)):
            raise errors.fail("E530", "this processor has no instructions for f16", kind=errors.TargetError,
                              notes=["use f32, or target='opencl'"])

    def lacks(self) -> str:
        """What this processor lacks of what the target's machine has; '' if it runs the code."""
        if self.given is None:
            return ""
        host = machines.detect(*jit.host())
        if self.given.kind != "cpu" or self.given.architecture != host.architecture:
            return f"the machine is of kind {self.given.kind!r}, {self.given.architecture}"
        missing = sorted(f for f in features_of(self.given) if not host.has(f))
        if self.given.has("sve") and processors.scalable_bytes() < self.given.vector_bytes:
            missing.append(f"registers of {self.given.vector_bytes} bytes")
        return ", ".join(missing)

    def _refuse_foreign(self) -> None:
        if lacks := self.lacks():
            raise errors.fail("E531", f"this processor cannot run code for the machine that the target names: {lacks}",
                              kind=errors.TargetError,
                              notes=["polytc.lower(..., target=target) gives its stages without running it",
                                     "target='cpu' makes code for this processor"])

    # Where our passes have made the vectors, the least effort gives the same code as the most; and what runs once takes less
    # time than the most effort.
    def _tuning(self, source: Source) -> jit.Tuning:
        scalar = source.options["slp"] == "1"
        return jit.Tuning(slp=scalar, vectorize=scalar, level=3 if scalar else 1, few=source.options["passes"] == "few")

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
            parts.append(f"vscale_range({self.machine.vector_bytes // SVE_UNIT},{MOST_SVE_UNITS})")
        parts += [f'"target-cpu"="{cpu}"'] if cpu else []
        parts += [f'"target-features"="{features}"'] if features else []
        return " ".join(parts)
