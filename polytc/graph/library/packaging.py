"""Files with which build systems find a model that was compiled ahead of time: CMake, pkg-config, and an assembler."""

from __future__ import annotations

from polytc.targets.llvm.standalone.chain import Chain


def texts(chain: Chain) -> dict[str, str]:
    """Name of each file -> its text."""
    name = chain.name
    return {f"{name}_weights.S": _assembler(name), f"{name}.pc": _pkg_config(chain), f"{name}Config.cmake": _cmake(name)}


def _assembler(name: str) -> str:
    """The weights as read-only data of the program."""
    return f"""\
/* cc -c {name}_weights.S, in this folder or with it as -I: the weights as a part of the program, for {name}_open_memory. */
#ifndef {name.upper()}_WEIGHTS_FILE
#define {name.upper()}_WEIGHTS_FILE "{name}.weights"
#endif
    .section .rodata
    .balign 64
    .globl {name}_weights
    .hidden {name}_weights
{name}_weights:
    .incbin {name.upper()}_WEIGHTS_FILE
    .byte 0
    .section .note.GNU-stack,"",%progbits
"""


def _pkg_config(chain: Chain) -> str:
    return f"""\
prefix=${{pcfiledir}}

Name: {chain.name}
Description: A model compiled by polytc
Version: {chain.maker.rpartition(' ')[2]}
Cflags: -I${{prefix}}
Libs: ${{prefix}}/{chain.name}.o -lm -lpthread
"""


def _cmake(name: str) -> str:
    return f"""\
# find_package({name} CONFIG REQUIRED PATHS <this folder>) and target_link_libraries(... {name}::{name}); the weights are
# ${{{name}_WEIGHTS}}.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
if(NOT TARGET {name}::{name})
    add_library({name}::{name} INTERFACE IMPORTED)
    set_target_properties({name}::{name} PROPERTIES
        INTERFACE_INCLUDE_DIRECTORIES "${{CMAKE_CURRENT_LIST_DIR}}"
        INTERFACE_COMPILE_DEFINITIONS "{name.upper()}_WEIGHTS_FILE=\\"${{CMAKE_CURRENT_LIST_DIR}}/{name}.weights\\""
        INTERFACE_LINK_LIBRARIES "${{CMAKE_CURRENT_LIST_DIR}}/{name}.o;Threads::Threads;m")
endif()
set({name}_WEIGHTS "${{CMAKE_CURRENT_LIST_DIR}}/{name}.weights")
"""
