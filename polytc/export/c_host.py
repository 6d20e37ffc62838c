"""A bundle as a C folder for CPUs.

    NAME.c  NAME.h  main.c  CMakeLists.txt  NAME.json  NAME.weights (of a model)

NAME.c has the kernels and one function that runs them in order; it needs a compiler of C99 and libm.
"""

from __future__ import annotations

from pathlib import Path

import polytc
from polytc.codegen import weight_file
from polytc.export import c_templates as templates
from polytc.export import formula
from polytc.export.bundle import Bundle, Place, bytes_of
from polytc.export.description import SCHEMA, arguments, rows, weights
from polytc.export.folder import Folder, described, prepare
from polytc.export.templates import SATURATED, cmake, common, quotients, rendered, weight_check
from polytc.graph.library.headers import c_type
from polytc.machine import ALIGNMENT
from polytc.targets.c.emit import library
from polytc.targets.ctext.text import comment, safe


def write(bundle: Bundle, to: Path) -> list[Path]:
    """Write the folder, which is made if it is not there; the files, in the order of the list above."""
    folder = prepare(bundle, library)
    name = bundle.name
    texts = {f"{name}.c": code(folder), f"{name}.h": header(bundle), "main.c": main(bundle),
             "CMakeLists.txt": cmake(name, templates.FIND, templates.LINK, FLAGS=_flags(folder)),
             f"{name}.json": description(folder)}
    to.mkdir(parents=True, exist_ok=True)
    for file, text in texts.items():
        (to / file).write_text(text, encoding="ascii")
    written = [to / file for file in texts]
    return [*written, weight_file.write(bundle.weights, to / f"{name}.weights")] if bundle.weights else written


def _flags(folder: Folder) -> str:
    return " ".join(f for f in folder.library.build.split() if f.startswith("-f"))


def header(b: Bundle) -> str:
    """NAME.h."""
    listed = "\n".join(f" *   {safe(described(a))}" for a in b.arguments)
    return rendered(templates.HEADER, NAME=b.name, VERSION=polytc.__version__, GUARD=f"{b.name.upper()}_H", ARGUMENTS=listed,
                    BELOW=formula.below(b.limits),
                    SIZES=parameters(b), POINTERS=pointers(b),
                    ZERO="; 0 where the sizes are none of an array" if b.sizes else "",
                    WEIGHTS=f", with {b.name}.weights from the folder" if b.weights else "",
                    UNREAD=", or if the weights cannot be read" if b.weights else "")


def parameters(b: Bundle) -> str:
    """Those of the sizes, behind another."""
    return "".join(f", int64_t {n}" for n in b.sizes)


def pointers(b: Bundle) -> str:
    """The parameters of the arrays."""
    return ", ".join(f"{'const ' if a.role == 'input' else ''}{c_type(a.type.dtype)} *{a.name}" for a in b.arguments)


def code(folder: Folder) -> str:
    """NAME.c."""
    b = folder.bundle
    head = comment([f"{b.name}: C99 by polytc {polytc.__version__}; flags: {folder.library.build}", "", "Arguments:",
                    *(f"  {described(a)}" for a in b.arguments)])
    read = "    (void)folder;\n"
    if b.weights:
        read = rendered(templates.READ, NAME=b.name, BYTES=weight_file.BYTES + weight_file.offsets(b.weights)[-1])
    sizes, run = measure(folder), _run(folder)
    return rendered(templates.CODE, NAME=b.name, HEAD=head, BELOW=formula.below(b.limits), READ=read, SIZES=parameters(b),
                    POINTERS=pointers(b),
                    COUNT=len(b.arguments), MEASURE=sizes, MEASURED=measured(folder),
                    GIVEN="".join(f", {n}" for n in b.sizes),
                    WRITTEN=", ".join(str(int(a.role != "input")) for a in b.arguments) or "0",
                    POINTER_NAMES=", ".join(a.name for a in b.arguments) or "NULL", RUN=run,
                    ALIGNED=templates.ALIGNED if b.weights or folder.buffers else "", WEIGHTS=weight_check(b),
                    FLOORDIV=quotients(sizes + run), SATURATED=SATURATED if "saturated(" in sizes else "",
                    KERNELS=folder.library.text)


_LARGEST_SIZE = 1 << 40
"""Of a size: sums of a few of them, and their products with small numbers, stay far below 64 bits."""


def measured(folder: Folder) -> int:
    """How many arrays and buffers are measured; at least 1, which C wants of an array."""
    return max(1, len(folder.bundle.arguments) + len(folder.buffers))


def measure(folder: Folder) -> str:
    """The function that finds how many bytes arguments and buffers have."""
    b = folder.bundle
    extents = [formula.in_c(bytes_of(a.type.shape, a.type.dtype), values(b)) for a in b.arguments]
    found = ", ".join([*extents, *(formula.room(n, values(b)) for n in folder.buffers)]) or "0"
    none = " || ".join([*(f"{n} < 1 || {n} > INT64_C({_LARGEST_SIZE})" for n in b.sizes),
                        *formula.not_allowed(b.limits, values(b))])
    return rendered(templates.MEASURE, SIZES=parameters(b), BYTES=found, MEASURED=measured(folder),
                    NONE=f"    if ({none}) return 1;\n" if none else "")


def values(b: Bundle) -> dict[str, str]:
    """Size of the program -> parameter."""
    return formula.with_products(b, dict(zip(b.titles, b.sizes, strict=True)))


def _run(folder: Folder) -> str:
    """The body of the function that runs the kernels."""
    b = folder.bundle
    lines: list[str] = []
    if folder.buffers:
        count, first = len(folder.buffers), len(b.arguments)
        lines += [f"size_t places[{count + 1}]; /* of buffers, each on cache lines of its own */", "char *memory;", "int k;",
                  "places[0] = 0;", f"for (k = 0; k < {count}; k++)",
                  f"    places[k + 1] = places[k] + (bytes[{first} + k] + {ALIGNMENT - 1}) / {ALIGNMENT} * {ALIGNMENT};"]
        reserve = rendered(templates.RESERVE, BYTES=f"places[{count}]", NAME=b.name)
        lines += reserve.replace("\n    ", "\n").strip().split("\n")
    lines += [f"(void){n};" for n in _unused(folder)]
    for task in folder.tasks:
        args = [_argument(folder, p, c_type(dtype) if dtype else "") for p, dtype in zip(task.places, task.dtypes, strict=True)]
        lines.append(f"{task.launch.entry}({', '.join(args)});")
    for c in b.copies:
        target = b.arguments[c.target]
        lines.append(f"memcpy({target.name}, {_argument(folder, c.source, 'void')}, {c.bytes}u);")
    return "".join(f"    {line}\n" for line in lines)


def _unused(folder: Folder) -> list[str]:
    """The parameters of the function that nothing in it names."""
    b = folder.bundle
    places = [*(p for task in folder.tasks for p in task.places), *(c.source for c in b.copies)]
    used = {folder.number(p) for p in places if p.area == "argument"} | {c.target for c in b.copies}
    own = bool(folder.buffers) or any(p.area == "weight" for p in places)
    return ["self"] * (not own) + [a.name for k, a in enumerate(b.arguments) if k not in used]


def _argument(folder: Folder, p: Place, ctype: str) -> str:
    """What a kernel gets for a place."""
    number = folder.number(p)
    match p.area:
        case "argument":
            return folder.bundle.arguments[number].name
        case "size":
            return formula.size(folder.bundle, number, values(folder.bundle))
        case "weight":
            at = weight_file.BYTES + weight_file.offsets(folder.bundle.weights)[number]
            return f"(const {ctype} *)(aligned(self->weights) + {at})"
    return f"({ctype} *)(memory + places[{number}])"


def main(b: Bundle) -> str:
    """main.c."""
    sizes = "".join(f", atoll(argv[{k + 2}])" for k in range(len(b.sizes)))
    values = "".join(f", (void *)data[{k}]" for k in range(len(b.arguments)))
    return rendered(templates.MAIN, COMMON=common(b), NAME=b.name, SIZES=sizes, VALUES=values,
                    USAGE="".join(f" {n}" for n in b.sizes))


def description(folder: Folder) -> str:
    """NAME.json; what is not fixed is a formula of the sizes in Python."""
    b = folder.bundle
    found = {"schema": SCHEMA, "name": b.name, "generator": f"polytc {polytc.__version__}", "source": f"{b.name}.c",
             "build_options": folder.library.build, "sizes": b.titles,
             **({"products": formula.rows_of_products(b)} if b.products else {}),
             "arguments": arguments(b), "weights": weights(b),
             "buffers": formula.rows(folder.buffers), "functions": [t.launch.entry for t in folder.tasks]}
    return rows(found) + "\n"
