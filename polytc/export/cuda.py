"""A bundle as a CUDA folder, or a HIP folder, whose source differs in the calls of the host.

    NAME.cu (or NAME.hip)  NAME.h  main.c  CMakeLists.txt  NAME.json  NAME.weights (of a model)

NAME.cu has the kernels and the host; NVRTC takes it as it is, and sees the kernels alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import polytc
from polytc.codegen import weight_file
from polytc.codegen.target import Repeat
from polytc.export import c_host, formula, launches, variant_text
from polytc.export import cuda_templates as templates
from polytc.export.bundle import Bundle, Place
from polytc.export.folder import Folder, Task, described, nested, prepare
from polytc.export.templates import SATURATED, quotients, rendered, weight_check
from polytc.machine import Machine
from polytc.program.extents import Extent
from polytc.targets.ctext.launched import sizes_text
from polytc.targets.ctext.text import comment, safe
from polytc.targets.ctext.work_groups import LARGEST_OPEN
from polytc.targets.cuda.library import library

ALIGNMENT = 256
"""Bytes that buffers between kernels begin at, as what the device allocates."""


@dataclass(frozen=True)
class Dialect:
    """api: what calls of the host begin with. precise: the flag of the compiler against contraction. attributes: the
    structure of what is known of a pointer."""

    api: str
    language: str
    ending: str
    runtime: str
    rtc: str
    rtc_macro: str
    precise: str
    architectures: str
    attributes: str


CUDA = Dialect("cuda", "CUDA", "cu", "cuda_runtime.h", "NVRTC", "__CUDACC_RTC__", "--fmad=false", "80;90",
               "cudaPointerAttributes")
HIP = Dialect("hip", "HIP", "hip", "hip/hip_runtime.h", "hipRTC", "__HIPCC_RTC__", "-ffp-contract=off", "gfx90a;gfx1100",
              "hipPointerAttribute_t")


def write(bundle: Bundle, machine: Machine, to: Path, dialect: Dialect = CUDA) -> list[Path]:
    """Write the folder, which is made if it is not there; the files, in the order of the list above."""
    if dialect is HIP:
        machine = replace(machine, matrix_unit=None)  # its instructions are NVIDIA's
    folder = prepare(bundle, lambda parts: library(parts, machine))
    name = bundle.name
    texts = {f"{name}.{dialect.ending}": code(folder, dialect, machine), f"{name}.h": header(bundle, dialect, machine),
             "main.c": c_host.main(bundle), "CMakeLists.txt": _cmake(folder, dialect),
             f"{name}.json": description(folder, machine, dialect)}
    to.mkdir(parents=True, exist_ok=True)
    for file, text in texts.items():
        (to / file).write_text(text, encoding="ascii")
    written = [to / file for file in texts]
    return [*written, weight_file.write(bundle.weights, to / f"{name}.weights")] if bundle.weights else written


def header(b: Bundle, dialect: Dialect, machine: Machine) -> str:
    """NAME.h, which is C and needs no header of CUDA. machine: whose model chooses among variants."""
    variants = variant_text.declared(b, launches.made_for(machine), c_host.parameters(b), "with the next run",
                                     f"{b.name}_BAD_SIZE") if b.others else ""
    listed = "\n".join(f" *   {safe(described(a))}" for a in b.arguments)
    return rendered(templates.HEADER, NAME=b.name, VERSION=polytc.__version__, GUARD=f"{b.name.upper()}_H", ARGUMENTS=listed,
                    BELOW=formula.below(b.limits), VARIANTS=variants,
                    SIZES=c_host.parameters(b), POINTERS=c_host.pointers(b), API=dialect.api, LANGUAGE=dialect.language,
                    ZERO="; 0 where the sizes are none of an array" if b.sizes else "",
                    WEIGHTS=f", with {b.name}.weights from the folder" if b.weights else "",
                    SHARED=" of the same weights" if b.weights else "",
                    UNREAD=", or if the weights cannot be read" if b.weights else "")


def code(folder: Folder, dialect: Dialect, machine: Machine) -> str:
    """NAME.cu. machine: whose model chooses among variants."""
    b = folder.bundle
    measured = replace(folder, buffers=()) if b.others else folder         # each variant measures its own
    measure, run = c_host.measure(measured), _runs(folder)
    choice = variant_text.code(folder, machine, launches.made_for(machine), c_host.parameters(b), f"{b.name}_BAD_SIZE",
                               "static_cast<double>(n)") if b.others else ""
    texts = measure + run + choice
    read = templates.NO_WEIGHTS
    if b.weights:
        read = rendered(templates.READ, BYTES=weight_file.BYTES + weight_file.offsets(b.weights)[-1])
    return rendered(templates.CODE, HEAD=_head(folder, dialect, machine), KERNELS=folder.library.text, READ=read,
                    MEASURE=measure, BELOW=formula.below(b.limits),
                    RUN=run, CHOICE=choice,
                    CHOSEN=templates.ALIGNED + rendered(templates.VARIANT, PLACES="places") if b.others else "",
                    VARIANT=rendered(templates.VARIANT, PLACES="0") if b.others else "",
                    ENQUEUED="variant, " if b.others else "", NAME=b.name,
                    SIZES=c_host.parameters(b), POINTERS=c_host.pointers(b),
                    GIVEN_POINTERS=", ".join(f"const_cast<void *>(static_cast<const void *>({a.name}))" for a in b.arguments)
                    or "NULL", SIZE_NAMES=", ".join(b.sizes) or "0", GIVEN="".join(f", {n}" for n in b.sizes),
                    COUNT=len(b.arguments), MEASURED=c_host.measured(measured), TOO_LARGE=_too_large(b),
                    WRITTEN=", ".join(str(int(a.role != "input")) for a in b.arguments) or "0",
                    WEIGHTS=weight_check(b), ALIGNMENT=min(f.alignment for f in folder.variants),
                    FLOORDIV=quotients(texts), SATURATED=SATURATED if "saturated(" in texts else "",
                    API=dialect.api, ATTRIBUTES=dialect.attributes, RUNTIME=dialect.runtime, RTC=dialect.rtc,
                    RTC_MACRO=dialect.rtc_macro)


def _head(folder: Folder, dialect: Dialect, machine: Machine) -> str:
    """The comment with all that calling the kernels takes."""
    def launch(t: Task) -> str:
        return (f"{' x '.join(_grid(t))} / {sizes_text(t.launch.local_size)}, "
                f"{folder.library.local_bytes[t.launch.entry]} bytes")
    flags = f"; compiler flags: {_flags(folder, dialect)}" if _flags(folder, dialect) else ""
    return comment([f"{folder.bundle.name}: {dialect.language} by polytc {polytc.__version__}{flags}",
                    "Arrays are row-major; unsigned short has the bits of f16 and bf16, unsigned char bool as 0 or 1.",
                    *launches.comment_lines(
                        folder, "Launches, one after another in one stream (grid / block, shared memory):", launch, machine)])


def _flags(folder: Folder, dialect: Dialect) -> str:
    return dialect.precise if folder.library.build else ""


def _grid(t: Task) -> list[str]:
    """Blocks on each axis, formulas in Python where sizes are not fixed."""
    return [str(n // k) if type(n) is int else f"({n})//{k}"
            for n, k in zip(t.launch.global_size, t.launch.local_size, strict=True)]


def _too_large(b: Bundle) -> str:
    """The condition under which arrays of open sizes have more elements than kernels count, or a size does."""
    if not b.sizes:
        return ""
    limits = [f"bytes[{k}] > {LARGEST_OPEN * a.type.dtype.bytes}u" for k, a in enumerate(b.arguments)]
    scratch = b.units[0].lowered.source.module.scratch if not b.others else ()   # which the estimates look at
    limits += [f"bytes[{len(limits) + k}] > {LARGEST_OPEN * x.dtype.bytes}u" for k, x in enumerate(scratch)]
    return "".join(f" || {x}" for x in [*limits, *(f"{n} > INT32_MAX" for n in b.sizes)])


def _runs(folder: Folder) -> str:
    """The function that launches, and those of variants."""
    if not folder.others:
        return rendered(templates.ENQUEUE, RUN=_run(folder), SUFFIX="")
    own = "".join(rendered(templates.ENQUEUE, RUN=_run(f), SUFFIX=f"_{n}") for n, f in enumerate(folder.variants))
    cases = "".join(f"    case {n}: return enqueue_{n}(self, stream, given, sizes, bytes);\n"
                    for n in range(1, len(folder.variants)))
    return own + rendered(templates.ENQUEUE_VARIANT, CASES=cases)


def _run(folder: Folder) -> str:
    """The body of a function that launches."""
    b = folder.bundle
    lines: list[str] = []
    if folder.buffers:
        count, first = len(folder.buffers), len(b.arguments)
        if b.model is not None:
            own = (f"static_cast<size_t>({formula.room(n, _values(b))})" for n in folder.buffers)
            lines += [f"const size_t own[] = {{{', '.join(own)}}};", "bytes = own;"]
            first = 0
        lines += [f"size_t places[{count + 1}]; /* of buffers */", "places[0] = 0;", f"for (int k = 0; k < {count}; k++)",
                  f"    places[k + 1] = places[k] + (bytes[{first} + k] + {ALIGNMENT - 1}) / {ALIGNMENT} * {ALIGNMENT};"]
        lines += rendered(templates.RESERVE, COUNT=count).replace("\n    ", "\n").strip().split("\n")
    lines += _launches(folder, folder.tasks, 0, _values(b))
    for c in b.copies:
        lines.append(f"if (!error) error = code_of(@API@MemcpyAsync(given[{c.target}], {_pointer(folder, c.source)}, "
                     f"{c.bytes}u, @API@MemcpyDeviceToDevice, stream));")
    return "".join(f"    {line}\n" for line in lines)


def _values(b: Bundle) -> dict[str, str]:
    return formula.with_products(b, {n: f"sizes[{k}]" for k, n in enumerate(b.titles)})


def _launches(folder: Folder, tasks: tuple[Task, ...], depth: int, values: dict[str, str]) -> list[str]:
    """The launches, in the loops of the host that are around them."""
    lines: list[str] = []
    for repeat, run in nested(tasks, depth):
        if repeat is None:
            for t in run:
                lines += _launch(folder, t, values)
        else:
            inside = _launches(folder, run, depth + 1, values | {repeat.var: f"n{depth}"})
            lines += [_loop(repeat, depth, values), *(f"    {line}" for line in inside), "}"]
    return lines


def _loop(repeat: Repeat, depth: int, values: dict[str, str]) -> str:
    lower, upper = (formula.in_c(n, values) for n in (repeat.lower, repeat.upper))
    return (f"for (int64_t n{depth} = {lower}; n{depth} < {upper} && !error; n{depth} += {repeat.step}) {{ "
            f"/* {safe(repeat.var)} */")


def _launch(folder: Folder, t: Task, values: dict[str, str]) -> list[str]:
    """The lines of one launch."""
    own, given = [], []
    for k, p in enumerate(t.places):
        number = folder.number(p)
        if p.area in ("size", "counter"):
            value = formula.size(folder.bundle, number, values) if p.area == "size" else f"n{number}"
            own.append(f"int p{k} = static_cast<int>({value});")
        else:
            own.append(f"void *p{k} = {_pointer(folder, p)};")
        given.append(f"&p{k}")
    block = (*t.launch.local_size, 1, 1)[:3]
    grid = [_blocks(n, k, values) for n, k in zip(t.launch.global_size, t.launch.local_size, strict=True)]
    return ["if (!error) {", *(f"    {line}" for line in own),
            f"    void *arguments[] = {{{', '.join(given) or 'NULL'}}};",
            f'    error = launch(self, "{t.launch.entry}", reinterpret_cast<const void *>({t.launch.entry}), '
            f"{', '.join((*grid, '1', '1')[:3])}, dim3({', '.join(map(str, block))}), arguments, stream);", "}"]


def _blocks(n: Extent, block: int, values: dict[str, str]) -> str:
    """How many blocks there are along an axis with so many threads."""
    return str(n // block) if type(n) is int else f"{formula.in_c(n, values)} / {block}"


def _pointer(folder: Folder, p: Place) -> str:
    """Where an array lies on the device."""
    number = folder.number(p)
    if p.area == "argument":
        return f"given[{number}]"
    if p.area == "weight":
        return f"self->weights + {weight_file.BYTES + weight_file.offsets(folder.bundle.weights)[number]}"
    return f"self->memory + places[{number}]"


def _cmake(folder: Folder, dialect: Dialect) -> str:
    flags = _flags(folder, dialect)
    text = templates.CMAKE.replace("add_library", templates.ARCHITECTURES + "add_library", 1)
    return rendered(text, NAME=folder.bundle.name, LANGUAGE=dialect.language, FILE=f"{folder.bundle.name}.{dialect.ending}",
                    ARCHITECTURES=dialect.architectures,
                    FLAGS=f"target_compile_options({folder.bundle.name} PRIVATE {flags})\n" if flags else "")


def description(folder: Folder, machine: Machine, dialect: Dialect) -> str:
    """The .json. Grids in blocks, axis x first."""
    def launch(t: Task) -> dict[str, object]:
        grid = [int(n) if n.isdigit() else n for n in _grid(t)]
        return {"grid": grid, "block": t.launch.local_size, "shared_bytes": folder.library.local_bytes[t.launch.entry]}
    return launches.description(folder, machine, f"{folder.bundle.name}.{dialect.ending}", launch)
