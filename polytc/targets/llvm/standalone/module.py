"""A chain of kernels as one object file without Python: the kernels, the thread pool, and the functions around them.

    int NAME_open(NAME_model **model, const char *weights, int threads, const NAME_hooks *hooks);
    int NAME_open_memory(NAME_model **model, const void *weights, size_t bytes, int threads, const NAME_hooks *hooks);
    int NAME_run(NAME_model *model, const T *in..., T *out...);
    int NAME_run_arrays(NAME_model *model, const void *const *inputs, void *const *outputs);
    void NAME_close(NAME_model *model);
    const NAME_array *NAME_inputs(size_t *count);           NAME_outputs as well
    const char *NAME_version(void), *NAME_meaning(int status);

It needs libc, libm and pthread. Every argument of a kernel is a place in one of several areas: the weights, the arena of
intermediate values, the scratch memory that all kernels share, or one of the caller's arrays. A run turns places into pointers,
then walks the steps as the JIT does (native/chain_walk.py). Each function returns a Status.
"""

from __future__ import annotations

import re

from polytc.codegen.target import Source
from polytc.machine import Machine
from polytc.machine.records import is_arm
from polytc.native import chain_walk, parallel_regions, subnormals
from polytc.targets.llvm.standalone import checks, facts, lifetime, processor, record, runs
from polytc.targets.llvm.standalone.chain import Chain, Place, Skip, Step
from polytc.targets.llvm.target import LLVMTarget


def object_file(chain: Chain, target: LLVMTarget, triple: str = "") -> bytes:
    """The object file. triple: of the system it is for, '' for this one."""
    architecture = target.machine.architecture
    kernels = [(_renamed(s, f"{chain.name}.kernel{k}"), s) for k, s in enumerate(chain.sources)]
    walk = chain_walk.text(architecture).removeprefix(subnormals.declarations(architecture))  # those of the pool's part
    support = _internal(parallel_regions.text(architecture)) + _internal(walk)
    readable = is_arm() == (architecture == "aarch64")                # LLVM reads assembly of this machine's kind alone
    return target.standalone([(support + driver(chain, target.machine if readable else None), None), *kernels], triple)


def _renamed(source: Source, name: str) -> str:
    """The kernel's module with another name for its one entry, which the linker shows to nobody else."""
    return re.sub(r"@run\(", f"@{name}(", re.sub(r"^define (?=void @run\()", "define hidden ", source.text, flags=re.MULTILINE))


def _internal(text: str) -> str:
    return re.sub(r"^define (?!internal)", "define internal ", text, flags=re.MULTILINE)


def driver(chain: Chain, machine: Machine | None = None) -> str:
    """The tables of the chain and its functions, as LLVM IR. machine: that the kernels are for, which `open` looks for."""
    places: list[Place] = []
    rows = []
    for step in chain.steps:
        if isinstance(step, Skip):
            rows.append(f"%step {{ ptr null, i64 {len(places)}, i64 {int(step.wanted)}, i64 {step.count} }}")
            places.append(step.condition)
            continue
        parallel = 0 if chain.sources[step.source].options["parallel"] == "0" else 1
        rows.append(f"%step {{ ptr @{chain.name}.kernel{step.source}, i64 {len(places)}, i64 {step.arena}, i64 {parallel} }}")
        places += step.args
    cells = [f"%place {{ i64 {p.area}, i64 {p.offset} }}" for p in places]
    used = sorted({s.source for s in chain.steps if isinstance(s, Step)})
    declared = "".join(f"declare hidden void @{chain.name}.kernel{k}(ptr, ptr, ptr, ptr, i64)\n" for k in used)
    tables = (f"@steps = internal constant [{len(rows)} x %step] [{', '.join(rows)}]\n"
              f"@places = internal constant [{len(cells)} x %place] [{', '.join(cells)}]\n")
    return "".join((record.TEXT, processor.text(machine), checks.text(chain), declared, tables,
                    lifetime.text(chain, len(rows), len(cells)), runs.text(chain, len(rows), len(cells)), facts.text(chain)))
