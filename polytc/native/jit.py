"""Machine code from LLVM IR text: `build` makes an object file, which can be kept and which linking.py loads, and `Linked` with
LLVM.

One engine per module; its code lives as long as the Linked object.
"""

from __future__ import annotations

import ctypes.util
import functools
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import llvmlite
import llvmlite.binding as llvm
from llvmlite.binding import newpassmanagers

from polytc.native import mask_moves

VERSION = f"{llvmlite.__version__} {'.'.join(map(str, llvm.llvm_version_info))}"
_LOCK = threading.RLock()
"""Held by who makes code."""

_CALLS: Any = getattr(llvm.ffi.lib, "_lock", _LOCK)
"""llvmlite's own lock, held during each call of LLVM, among them those that free modules whenever Python finds them unused."""


def _before_fork() -> None:
    """Wait until no thread is inside of LLVM: in the child it would stay there for ever, and keep the locks."""
    _LOCK.acquire()
    _CALLS.__enter__()


def _after_fork() -> None:
    _CALLS.__exit__(None, None, None)
    _LOCK.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)


@functools.cache
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    if not llvm.address_of_symbol("expf"):
        library = ctypes.util.find_library("m")  # starts other programs to find out
        if library:
            llvm.load_library_permanently(library)


@functools.cache
def host() -> tuple[str, str]:
    """LLVM's name of this processor and its features, e.g. ('znver3', '+avx2,-avx512f,...')."""
    _initialize()
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@dataclass(frozen=True)
class Tuning:
    """How much the optimiser does. level: of effort, 0 to 3. slp: packs neighbouring scalar operations into vectors; vectorize:
    vectorises loops. Code that shall stay as it is, neither of the two, gets the first half of LLVM's pipeline, or a few passes
    of it, see `_simplify`."""

    slp: bool = True
    vectorize: bool = True
    level: int = 3
    few: bool = False


def _target_machine(cpu: str, features: str, level: int, triple: str, jit: bool) -> Any:
    """LLVM's of a processor, see `optimize`."""
    _initialize()
    if triple:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(triple or llvm.get_default_triple())
    kind = {"jit": True} if jit else {"reloc": "pic", "codemodel": "default"}
    return target.create_target_machine(cpu=cpu, features=features, opt=min(3, level), **kind)


def _emittable(module: Any, machine: Any, cpu: str, features: str, level: int, triple: str = "", jit: bool = True
               ) -> tuple[Any, Any]:
    """The module and the machine whose code for it is right, see mask_moves.py."""
    text = str(module)
    if not mask_moves.suspected(text, machine.triple, features):
        return module, machine
    return mask_moves.avoided(text, lambda fewer: _target_machine(cpu, features + fewer, level, triple, jit))


def optimize(text: str, cpu: str, features: str, tuning: Tuning, triple: str = "", jit: bool = True, context: Any = None
             ) -> tuple[Any, Any]:
    """Parse and optimise (under POLYTC_CHECK=1, verify in between); a module and its target machine. triple: of the system to
    make code for, e.g. 'aarch64-unknown-linux-gnu'; '' is this one. jit: for this process, else for a linker. context: that of
    modules to link it with; else one of its own, as LLVM keeps the constants and names of a context until that ends."""
    machine = _target_machine(cpu, features, tuning.level, triple, jit)
    module = llvm.parse_assembly(text, context or llvm.create_context())
    if triple or not jit:
        module.triple, module.data_layout = triple or llvm.get_default_triple(), str(machine.target_data)
    if os.environ.get("POLYTC_CHECK") == "1":
        module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=tuning.level)
    options.slp_vectorization = tuning.slp
    options.loop_vectorization = tuning.vectorize
    builder = llvm.create_pass_builder(machine, options)
    if tuning.slp or tuning.vectorize:
        _run(builder.getModulePassManager(), [module], builder)
    else:
        _simplify(module, builder, _few() if tuning.few else builder.getFunctionPassManager())
    return module, machine


def _few() -> Any:
    """The passes that code needs whose vectors, tiles and invariants are ours: variables become registers, sums of addresses
    constants, loops have one test. What the others of LLVM's first half find in it (common subexpressions, invariants of loops,
    induction variables), those behind instruction selection find as well; they took four fifths of the time."""
    passes = llvm.create_new_function_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_loop_rotate_pass()
    passes.add_instruction_combine_pass()
    return passes


def _simplify(module: Any, builder: Any, simplification: Any) -> None:
    """LLVM's pipeline without its second half, the transformations of loops: on code that is vectorised and unrolled already
    they change nothing, and the analysis of its many accesses (loop-load-elim) takes time quadratic in their number.
    simplification: the passes in place of its first half."""
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_global_dead_code_eliminate_pass()
    _run(passes, [module], builder)
    _run(simplification, [f for f in module.functions if not f.is_declaration], builder)


def _run(passes: Any, over: Sequence[Any], builder: Any) -> None:
    """Run passes over modules or functions, and end them. llvmlite's own end of pass managers does nothing (an empty method of
    another base class comes first), and keeps 35 kB a compilation for ever."""
    try:
        for each in over:
            passes.run(each, builder)
    finally:
        newpassmanagers.NewPassManager._dispose(passes)
        passes.detach()                                               # ended: not once more, should llvmlite learn it


def counts_places(architecture: str) -> bool:
    """Are loops of code that gets few passes made without LLVM's loop-strength-reduce, as it counts the places that they walk
    over itself (targets.llvm.walks)? The addresses of other processors have no room for a pointer, a number and a distance."""
    return architecture == "x86_64"


def _made(emit: Callable[[Any], Any], module: Any, machine: Any, few: bool) -> Any:
    """Machine code of a module. The option is of all of LLVM in this process: nobody else makes code until it is set back."""
    if not few or not counts_places(machine.triple.partition("-")[0]):
        return emit(module)
    with _CALLS:
        llvm.set_option("polytc", "-disable-lsr=true")
        try:
            return emit(module)
        finally:
            llvm.set_option("polytc", "-disable-lsr=false")


def assembly(text: str, cpu: str, features: str, tuning: Tuning, triple: str = "") -> str:
    """Optimised assembly text of a module."""
    with _LOCK:
        module, machine = optimize(text, cpu, features, tuning, triple)
        module, machine = _emittable(module, machine, cpu, features, tuning.level, triple)
        return str(_made(machine.emit_assembly, module, machine, tuning.few))


def build(text: str, cpu: str, features: str, tuning: Tuning) -> bytes:
    """The optimised object file of a module."""
    with _LOCK:
        module, machine = optimize(text, cpu, features, tuning)
        module, machine = _emittable(module, machine, cpu, features, tuning.level)
        return bytes(_made(machine.emit_object, module, machine, tuning.few))


def link(texts: Sequence[tuple[str, Tuning]], cpu: str, features: str, triple: str = "") -> bytes:
    """One object file of several modules, optimised each in its own way, for a linker: position-independent, no JIT."""
    with _LOCK:
        whole, machine, context = None, None, llvm.create_context()
        for text, tuning in texts:
            module, machine = optimize(text, cpu, features, tuning, triple, jit=False, context=context)
            if whole is None:
                whole = module
            else:
                whole.link_in(module)
        assert machine is not None, "no modules"
        whole, machine = _emittable(whole, machine, cpu, features, texts[-1][1].level, triple, jit=False)
        return bytes(_made(machine.emit_object, whole, machine, all(tuning.few for _, tuning in texts)))


class Linked:
    """Native functions of an object file that `build` made, as LLVM links it."""

    def __init__(self, data: bytes) -> None:
        with _LOCK:
            _initialize()
            machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
            self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
            self._engine.add_object_file(llvm.ObjectFileRef.from_data(data))
            self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Where a function starts; 0 if there is none."""
        with _LOCK:
            return int(self._engine.get_function_address(name))
