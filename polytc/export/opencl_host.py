"""The host of an OpenCL folder in C99: NAME.h, NAME.c, and a program that runs it.

Tables say what is launched on what; the functions that walk them are the same in every folder.
"""

from __future__ import annotations

from itertools import accumulate

from polytc.codegen import weight_file
from polytc.export import formula, opencl_builds, opencl_repeats, variant_text
from polytc.export import opencl_main as main_templates
from polytc.export import opencl_templates as templates
from polytc.export.bundle import Bundle, Place, bytes_of
from polytc.export.folder import Folder, described
from polytc.export.templates import SATURATED, common, quotients, rendered, table, weight_check
from polytc.machine import Machine
from polytc.targets.ctext.text import safe
from polytc.targets.ctext.work_groups import LARGEST_OPEN
from polytc.targets.opencl.driver.rounding import FLAG, LOOSE

_AREAS = {"argument": "ARGUMENT", "weight": "WEIGHT", "value": "BUFFER", "size": "SIZE", "counter": "COUNTER"}


def header(folder: Folder, made_for: str) -> str:
    """NAME.h. made_for: the name of the machine whose model chooses among variants."""
    b = folder.bundle
    when = f"when {b.name}_resize is called next"
    listed = "\n".join(f" *   {safe(described(a))}" for a in b.arguments)
    return rendered(templates.HEADER, NAME=b.name, GUARD=f"{b.name.upper()}_H", ARGUMENTS=listed, MEMS=_mems(b),
                     RESIZE=rendered(templates.RESIZE_DECLARED, NAME=b.name, INTS=_ints(b)) if b.sizes else "",
                     SIZED=f"\n * Call {b.name}_resize first." if b.sizes else "", BUILDS=_builds(b),
                     VARIANTS=variant_text.declared(b, made_for, _more_ints(b), when, "CL_INVALID_VALUE") if b.others else "")


def _builds(b: Bundle) -> str:
    """What makes objects, declared."""
    return rendered(opencl_builds.DECLARED, NAME=b.name, WEIGHTS=f" and {b.name}.weights" if b.weights else "",
                    UNREAD=f", which is {b.name}_NO_WEIGHTS" if b.weights else "", SHARED=" and weights" if b.weights else "",
                    CLONED=" Its sizes are not set." if b.sizes else "")


def rounded(options: str) -> str:
    """Compiler flags for devices that round quotients and roots correctly."""
    return options if LOOSE in options else f"{options} {FLAG}"


def _mems(b: Bundle) -> str:
    return ", ".join(f"cl_mem {a.name}" for a in b.arguments)


def _ints(b: Bundle) -> str:
    return ", ".join(f"cl_int {n}" for n in b.sizes)


def _more_ints(b: Bundle) -> str:
    return "".join(f", cl_int {n}" for n in b.sizes)


def code(folder: Folder, machine: Machine, made_for: str) -> str:
    """NAME.c. machine: whose model chooses among variants; made_for: its name."""
    b = folder.bundle
    starts = [weight_file.BYTES + at for at in weight_file.offsets(b.weights)]
    copies = [f"{{{_place(folder, c.source)}, {c.target}, {c.bytes}u}}" for c in b.copies]
    tables = [table("struct launch", "launches", _launches(folder), '{"", 0, 0, 0, {0}}'),
              table("struct place", "places", _places(folder), "{0, 0}"),
              table("int", "firsts", _firsts(folder)),
              table("int", "buffer_counts", [str(len(f.buffers)) for f in folder.variants]),
              table("size_t", "weight_offsets", [f"{at}u" for at in starts]),
              table("size_t", "weight_bytes", [f"{w.nbytes}u" for w in b.weights]),
              table("struct copy", "copies", copies, "{{0, 0}, 0, 0}"),
              table("char", "written", [str(int(a.role != "input")) for a in b.arguments]),
              table("char", "given_values", [str(int(a.role != "output")) for a in b.arguments])]
    counts = {"ARGUMENTS": len(b.arguments), "WEIGHTS": len(b.weights), "BUFFERS": _most_buffers(folder),
              "LAUNCHES": len(folder.all_tasks), "COPIES": len(b.copies), "SIZES": len(b.sizes),
              "PRODUCTS": max(len(v.derived) for v in b.variants)}
    resize = rendered(templates.RESIZE, NAME=b.name, INTS=_ints(b), GIVEN=", ".join(b.sizes), LARGEST=LARGEST_OPEN,
                      LIMITS=_refused_sizes(b) if b.sizes else "", CHOOSE=templates.CHOOSE if b.others else "")
    resize = rendered(resize, NAME=b.name, GIVEN=", ".join(b.sizes))
    tables += [table("size_t", "element_bytes", _elements(folder))] if b.sizes else _measures(folder)
    looped = opencl_repeats.has_loops(folder)
    run = opencl_repeats.run(folder, [_values(v) for v in b.variants])
    choice = variant_text.code(folder, machine, made_for, _more_ints(b), "CL_INVALID_VALUE", "(double)n") if b.others else ""
    texts = _measure(folder) + run + choice
    prepare = "" if b.sizes else ("    measure(self);\n    if (!error) error = make_buffers(self, context);\n"
                                  "    if (!error) error = set_arguments(self);\n    self->ready = !error;\n")
    create = rendered(opencl_builds.CREATE, PREPARE=prepare)
    return rendered(templates.CODE, BUILD_FUNCTIONS=opencl_builds.FUNCTIONS, CREATE=create, START=opencl_builds.START,
                     CHECK=templates.CHECK if b.weights else "", WEIGHTS=weight_check(b), RUN=run,
                     ENQUEUE=opencl_repeats.IN_LOOPS if looped else opencl_repeats.ONCE,
                     COUNTER=", COUNTER" if looped else "", COUNTED=", or where a loop around its launch is" if looped else "",
                     NAME=b.name, BELOW=formula.below(b.limits).replace(" is below", " being below"), MEMS=_mems(b),
                     TABLES="\n".join(tables),
                     COUNTS=", ".join(f"{n} = {count}" for n, count in counts.items()),
                     MEASURE=_measure(folder), RESIZE=resize if b.sizes else "",
                     FLOORDIV=quotients(texts), SATURATED=SATURATED if "saturated(" in texts else "", CHOICE=choice,
                     GIVEN=", ".join(a.name for a in b.arguments), BUILD=folder.library.build,
                     ROUNDED=rounded(folder.library.build),
                     TOO_SMALL=" || ".join(_limits(folder)), NEEDED=_needed(folder))


def _limits(folder: Folder) -> list[str]:
    """Conditions under which a device cannot run the kernels."""
    found = [f"group < {folder.largest_group}u"]
    found += [f"local < {folder.largest_local}u"] if folder.largest_local else []
    return found + (["!doubles"] if folder.library.doubles else [])


def _needed(folder: Folder) -> str:
    """What a device must have, in words."""
    local = f", {folder.largest_local} bytes of local memory" if folder.largest_local else ""
    return f"groups of {folder.largest_group} work-items{local}{', f64' if folder.library.doubles else ''}"


def _launches(folder: Folder) -> list[str]:
    rows, first = [], 0
    for t in folder.all_tasks:
        local = ", ".join(map(str, (*t.launch.local_size, 1, 1)[:3]))
        rows.append(f'{{"{t.launch.entry}", {first}, {len(t.places)}, {len(t.launch.global_size)}, {{{local}}}}}')
        first += len(t.places)
    return rows


def _firsts(folder: Folder) -> list[str]:
    """The number of the first launch of each variant, and how many there are."""
    return [str(n) for n in accumulate((len(f.tasks) for f in folder.variants), initial=0)]


def _most_buffers(folder: Folder) -> int:
    """Of a variant."""
    return max(len(f.buffers) for f in folder.variants)


def _measures(folder: Folder) -> list[str]:
    """Tables of what is measured where sizes are fixed."""
    grids = ["{" + ", ".join(f"{n}u" for n in (*t.launch.global_size, 1, 1)[:3]) + "}" for t in folder.tasks]
    arguments = [f"{bytes_of(a.type.shape, a.type.dtype)}u" for a in folder.bundle.arguments]
    return [table("size_t", "grids", grids, "{0, 0, 0}").replace("grids[]", "grids[][3]"),
            table("size_t", "argument_bytes", arguments),
            table("size_t", "buffer_bytes", [f"{n}u" for n in folder.buffers])]


def _refused_sizes(b: Bundle) -> str:
    """The test that sizes leave every access inside of its array."""
    found = formula.not_allowed(b.limits, {n: f"(int64_t)sizes[{k}]" for k, n in enumerate(b.titles)})
    return f"    if ({' || '.join(found)}) return CL_INVALID_VALUE;\n" if found else ""


def _elements(folder: Folder) -> list[str]:
    """Bytes of an element of each argument, then of each buffer of each variant, for which there is as much room."""
    b, most = folder.bundle, _most_buffers(folder)
    rows = [a.type.dtype.part.bytes for a in b.arguments]
    for v in b.variants:
        own = [x.dtype.bytes for x in v.units[0].lowered.source.module.scratch]
        rows += own + [1] * (most - len(own))
    return [f"{n}u" for n in rows]


def _measure(folder: Folder) -> str:
    """The statements that find NDRanges and bytes."""
    b = folder.bundle
    if not b.sizes:
        return ("    memcpy(self->grids, grids, sizeof grids);\n    memcpy(self->argument_bytes, argument_bytes, "
                "sizeof argument_bytes);\n    memcpy(self->buffer_bytes, buffer_bytes, sizeof buffer_bytes);")
    values = _values(b)
    lines = [f"self->argument_bytes[{k}] = (size_t)({formula.in_c(bytes_of(a.type.shape, a.type.dtype), values)});"
             for k, a in enumerate(b.arguments)]
    if not b.others:
        return "\n".join(f"    {line}" for line in (*_grids(folder, 0), *lines))
    lines.append("switch (self->variant) {")
    for n, (f, first) in enumerate(zip(folder.variants, map(int, _firsts(folder)), strict=False)):
        lines += [f"case {n}:", *(f"    {line}" for line in _grids(f, first)), "    break;"]
    return "\n".join(f"    {line}" for line in [*lines, "}"])


def _grids(folder: Folder, first: int) -> list[str]:
    """The statements that find the NDRanges, products and bytes of buffers of a variant. first: number of its first launch."""
    b, values = folder.bundle, _values(folder.bundle)
    lines = [f"self->grids[{first + k}][{axis}] = (size_t)({formula.in_c(n, values)});"
             for k, t in enumerate(folder.tasks) for axis, n in enumerate((*t.launch.global_size, 1, 1)[:3])]
    lines += [f"self->sizes[SIZES + {k}] = (cl_int)({values[name]});" for k, name in enumerate(b.derived)]
    return lines + [f"self->buffer_bytes[{k}] = (size_t)({formula.room(n, values)});" for k, n in enumerate(folder.buffers)]


def _values(b: Bundle) -> dict[str, str]:
    """The sizes in C, by their names in formulas."""
    found = {n: f"(int64_t)self->sizes[{k}]" for k, n in enumerate(b.titles)}
    return formula.with_products(b, found)


def _places(folder: Folder) -> list[str]:
    return [f"{_place(f, p)}" for f in folder.variants for t in f.tasks for p in t.places]


def _place(folder: Folder, place: Place) -> str:
    return f"{{{_AREAS[place.area]}, {folder.number(place)}}}"


def main(folder: Folder) -> str:
    """main.c."""
    b = folder.bundle
    values = "".join(f", arguments[{k}]" for k in range(len(b.arguments)))
    sizes = "".join(f", atoi(argv[{k + 2}])" for k in range(len(b.sizes)))
    resize = f"    if (!error) error = {b.name}_resize(self{sizes});\n" if b.sizes else ""
    return rendered(main_templates.MAIN, COMMON=common(b), NAME=b.name, VALUES=values,
                     RESIZE=resize if b.sizes else "", USAGE="".join(f" {n}" for n in b.sizes))
