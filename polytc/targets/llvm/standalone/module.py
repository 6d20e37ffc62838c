"""A chain of kernels as one object file without Python: the kernels, the thread pool, and the functions around them.

    int NAME_open(NAME_model **model, const char *weights, int threads, const NAME_hooks *hooks);
    int NAME_open_memory(NAME_model **model, const void *weights, size_t bytes, int threads, const NAME_hooks *hooks);
    int NAME_run(NAME_model *model, const T *in..., T *out...);
    int NAME_run_arrays(NAME_model *model, const void *const *inputs, void *const *outputs);
    void NAME_close(NAME_model *model);
    const NAME_array *NAME_inputs(size_t *count);           NAME_outputs as well
    const NAME_array *NAME_model_inputs(const NAME_model *model);           NAME_model_outputs as well
    const NAME_size *NAME_sizes(size_t *count);
    int NAME_resize(NAME_model *model, const int64_t *sizes);
    const char *NAME_version(void), *NAME_meaning(int status);

It needs libc, libm and pthread. Every argument of a kernel is a place in one of several areas: the weights, the arena of
intermediate values, the scratch memory that all kernels share, numbers that follow from sizes, or one of the caller's arrays.
A chain has a variant of its steps for each kind of processor and region of sizes; `open` and `resize` choose. A run turns
places into pointers, then walks the steps as the JIT does (native/chain_walk.py). Each function returns a Status.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from polytc.codegen.target import Source
from polytc.machine.records import is_arm
from polytc.native import chain_walk, parallel_regions, subnormals
from polytc.targets.llvm.standalone import checks, facts, lifetime, processor, record, runs, sizes
from polytc.targets.llvm.standalone.chain import Chain, Step
from polytc.targets.llvm.target import LLVMTarget


def object_file(chain: Chain, targets: Sequence[LLVMTarget], triple: str = "") -> bytes:
    """The object file. targets: for the kinds of processors of the chain; triple: of the system it is for, '' for this one."""
    architecture = targets[0].machine.architecture
    kernels = [(_renamed(s, f"{chain.name}.kernel{k}"), s) for k, s in enumerate(chain.sources)]
    walk = chain_walk.text(architecture).removeprefix(subnormals.declarations(architecture))  # those of the pool's part
    support = _internal(parallel_regions.text(architecture)) + _internal(walk)
    return targets[-1].standalone([(support + driver(chain), None), *kernels], triple)


def _renamed(source: Source, name: str) -> str:
    """The kernel's module with another name for its one entry, which the linker shows to nobody else."""
    return re.sub(r"@run\(", f"@{name}(", re.sub(r"^define (?=void @run\()", "define hidden ", source.text, flags=re.MULTILINE))


def _internal(text: str) -> str:
    return re.sub(r"^define (?!internal)", "define internal ", text, flags=re.MULTILINE)


def driver(chain: Chain) -> str:
    """The tables of the chain and its functions, as LLVM IR."""
    used = sorted({s.source for v in chain.variants for s in v.steps if isinstance(s, Step)})
    declared = "".join(f"declare hidden void @{chain.name}.kernel{k}(ptr, ptr, ptr, ptr, i64)\n" for k in used)
    # LLVM reads assembly of this machine's kind alone; without it nothing is asked of the processor.
    readable = [m if m is not None and is_arm() == (m.architecture == "aarch64") else None for m in chain.levels]
    return "".join((record.TEXT, processor.level(readable), checks.text(chain), declared, sizes.text(chain),
                    lifetime.text(chain), runs.text(chain), facts.text(chain)))
