"""The host of an OpenCL folder in C99: NAME.h, NAME.c, a program that runs it, and CMakeLists.txt.

Tables say what is launched on what; the functions that walk them are the same in every folder.
"""

from __future__ import annotations

from collections.abc import Sequence

from polytc.codegen.opencl.kernel import LARGEST_OPEN
from polytc.codegen.opencl.text import safe
from polytc.export import formula
from polytc.export import opencl_main as main_templates
from polytc.export import opencl_templates as templates
from polytc.export.bundle import Bundle, Place, bytes_of, offsets
from polytc.export.folder import Folder, described
from polytc.graph.headers import c_type

_AREAS = {"argument": "ARGUMENT", "weight": "WEIGHT", "value": "BUFFER", "size": "SIZE"}


def _rendered(text: str, **values: object) -> str:
    """A template with @NAME@ in place of `{name}`, since C has braces of its own."""
    for key, value in values.items():
        text = text.replace(f"@{key}@", str(value))
    return text


def header(folder: Folder) -> str:
    """NAME.h."""
    b = folder.bundle
    listed = "\n".join(f" *   {safe(described(a))}" for a in b.arguments)
    return _rendered(templates.HEADER, NAME=b.name, GUARD=f"{b.name.upper()}_H", ARGUMENTS=listed, MEMS=_mems(b),
                     RESIZE=_rendered(templates.RESIZE_DECLARED, NAME=b.name, INTS=_ints(b)) if b.sizes else "",
                     SIZED=f"\n * Call {b.name}_resize first." if b.sizes else "",
                     WEIGHTS=f" and {b.name}.weights" if b.weights else "")


def _mems(b: Bundle) -> str:
    return ", ".join(f"cl_mem {a.name}" for a in b.arguments)


def _ints(b: Bundle) -> str:
    return ", ".join(f"cl_int {n}" for n in b.sizes)


def code(folder: Folder) -> str:
    """NAME.c."""
    b = folder.bundle
    starts = offsets(b.weights)
    copies = [f"{{{_place(folder, c.source)}, {c.target}, {c.bytes}u}}" for c in b.copies]
    tables = [_table("struct launch", "launches", _launches(folder), '{"", 0, 0, 0, {0}}'),
              _table("struct place", "places", _places(folder), "{0, 0}"),
              _table("size_t", "weight_offsets", [f"{at}u" for at in starts]),
              _table("size_t", "weight_bytes", [f"{w.nbytes}u" for w in b.weights]),
              _table("struct copy", "copies", copies, "{{0, 0}, 0, 0}")]
    counts = {"ARGUMENTS": b.arguments, "WEIGHTS": b.weights, "BUFFERS": folder.buffers, "LAUNCHES": folder.tasks,
              "COPIES": b.copies, "SIZES": b.sizes}
    resize = _rendered(templates.RESIZE, NAME=b.name, INTS=_ints(b), GIVEN=", ".join(b.sizes), LARGEST=LARGEST_OPEN)
    tables += [_table("size_t", "element_bytes", _elements(b))] if b.sizes else _measures(folder)
    return _rendered(templates.CODE, NAME=b.name, MEMS=_mems(b), TABLES="\n".join(tables),
                     COUNTS=", ".join(f"{n} = {len(rows)}" for n, rows in counts.items()),
                     MEASURE=_measure(folder), RESIZE=resize if b.sizes else "",
                     FLOORDIV=templates.FLOORDIV if "floordiv(" in _measure(folder) else "",
                     PREPARE="" if b.sizes else "    if (!error) error = make_buffers(self, context);\n"
                                                "    if (!error) error = set_arguments(self);\n",
                     GIVEN=", ".join(a.name for a in b.arguments), BUILD=folder.library.build,
                     TOO_SMALL=" || ".join(_limits(folder)))


def _limits(folder: Folder) -> list[str]:
    """Conditions under which a device cannot run the kernels."""
    found = [f"group < {folder.largest_group}u"]
    found += [f"local < {folder.largest_local}u"] if folder.largest_local else []
    return found + (["!doubles"] if folder.library.doubles else [])


def _launches(folder: Folder) -> list[str]:
    rows, first = [], 0
    for t in folder.tasks:
        local = ", ".join(map(str, (*t.launch.local_size, 1, 1)[:3]))
        rows.append(f'{{"{t.launch.entry}", {first}, {len(t.places)}, {len(t.launch.global_size)}, {{{local}}}}}')
        first += len(t.places)
    return rows


def _measures(folder: Folder) -> list[str]:
    """Tables of what is measured where sizes are fixed."""
    grids = ["{" + ", ".join(f"{n}u" for n in (*t.launch.global_size, 1, 1)[:3]) + "}" for t in folder.tasks]
    arguments = [f"{bytes_of(a.type.shape, a.type.dtype)}u" for a in folder.bundle.arguments]
    return [_table("size_t", "grids", grids, "{0, 0, 0}").replace("grids[]", "grids[][3]"),
            _table("size_t", "argument_bytes", arguments),
            _table("size_t", "buffer_bytes", [f"{n}u" for n in folder.buffers])]


def _elements(b: Bundle) -> list[str]:
    """Bytes of an element of each argument, then of each buffer."""
    scratch = b.units[0].lowered.source.module.scratch
    return [f"{d.bytes}u" for d in (*(a.type.dtype for a in b.arguments), *(x.dtype for x in scratch))]


def _measure(folder: Folder) -> str:
    """The statements that find NDRanges and bytes."""
    b = folder.bundle
    if not b.sizes:
        return ("    memcpy(self->grids, grids, sizeof grids);\n    memcpy(self->argument_bytes, argument_bytes, "
                "sizeof argument_bytes);\n    memcpy(self->buffer_bytes, buffer_bytes, sizeof buffer_bytes);")
    titles = folder.bundle.units[0].lowered.program.sizes
    values = {n: f"(int64_t)self->sizes[{k}]" for k, n in enumerate(titles)}
    lines = [f"self->grids[{k}][{axis}] = (size_t)({formula.in_c(n, values)});"
             for k, t in enumerate(folder.tasks) for axis, n in enumerate((*t.launch.global_size, 1, 1)[:3])]
    lines += [f"self->argument_bytes[{k}] = (size_t)({formula.in_c(bytes_of(a.type.shape, a.type.dtype), values)});"
              for k, a in enumerate(b.arguments)]
    lines += [f"self->buffer_bytes[{k}] = (size_t)({formula.in_c(n, values)});" for k, n in enumerate(folder.buffers)]
    return "\n".join(f"    {line}" for line in lines)


def _places(folder: Folder) -> list[str]:
    return [f"{_place(folder, p)}" for t in folder.tasks for p in t.places]


def _place(folder: Folder, place: Place) -> str:
    return f"{{{_AREAS[place.area]}, {folder.number(place)}}}"


def _table(ctype: str, name: str, rows: Sequence[str], empty: str = "0") -> str:
    """A constant table, with the row `empty` where it would be empty, which C does not allow."""
    body = ",\n    ".join(_filled(rows or [empty]))
    return f"static const {ctype} {name}[] = {{\n    {body}\n}};"


def _filled(rows: Sequence[str]) -> list[str]:
    """Short rows several to a line."""
    lines = [""]
    for row in rows:
        if lines[-1] and len(lines[-1]) + len(row) > 100:
            lines.append("")
        lines[-1] += f", {row}" if lines[-1] else row
    return lines


def main(folder: Folder) -> str:
    """main.c."""
    b = folder.bundle
    rows = [f'{{"{a.name}", {int(a.role != "output")}, {int(a.role != "input")}, '
            f"{_FORMATS.get(c_type(a.type.dtype), 'BYTES')}}}" for a in b.arguments]
    values = "".join(f", arguments[{k}]" for k in range(len(b.arguments)))
    table = _table("struct argument", "about", rows, '{"", 0, 0, BYTES}')
    sizes = "".join(f", atoi(argv[{k + 2}])" for k in range(len(b.sizes)))
    resize = f"    if (!error) error = {b.name}_resize(self{sizes});\n" if b.sizes else ""
    return _rendered(main_templates.MAIN, NAME=b.name, ROWS=table, COUNT=len(b.arguments), VALUES=values, SIZES=len(b.sizes),
                     RESIZE=resize if b.sizes else "", USAGE="".join(f" {n}" for n in b.sizes))


_FORMATS = {"float": "FLOAT", "double": "DOUBLE", "int32_t": "INT", "int64_t": "LONG"}


def cmake(name: str) -> str:
    """CMakeLists.txt."""
    return _rendered(main_templates.CMAKE, NAME=name)
