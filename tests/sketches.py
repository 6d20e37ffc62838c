"""Sketches in docstrings: a program before a step and what stands in its place behind it, checked as doctests are.

    T[i] = A[i] + 1                     with f32 A[9]
    Y[i] = T[i]*2
    ->  Y[i] = (A[i] + 1.0)*2.0

A sketch is an indented paragraph with a line that begins with `->`. Before it stands the text of a program, the inputs that its
text alone does not tell behind `with`, and the machine where it matters (`with A[9] on neon`); sizes with names stay open.
Behind it stands what the step made, as `polytc emit --stage NAME` prints it, without labels and, where they are as one expects,
without ranges. Statements that stay as they were, and those that fill a tensor with a number before it is updated, need not be
shown; `...` stands for statements, or parts of one, that are not.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import ModuleType

from polytc import stages
from polytc.program.program import Program
from tests.rewrite.equal import with_open_sizes

_CONTINUED = re.compile(r"(?<=[-+*/,(\[<>=?:&|])[ ]*\n\s*|\n\s*(?=[-+*/<>=?:&|)\]]|where\b|else\b)")
"""Line breaks that end no statement."""
INPUT = re.compile(r"(?:(inout|constant|scratch)\s+)?(?:(\w+)\s+)?(\w+)(?:\[([^\]]*)\])?")


@dataclass(frozen=True)
class Sketch:
    """place: the module or function in whose docstring it stands. inputs, machine: what `with` and `on` say, or ''."""

    place: str
    before: str
    inputs: str
    machine: str
    after: str

    def __str__(self) -> str:
        return f"{self.place.removeprefix('polytc.')}: {' '.join(self.before.split())[:40]}"

    def program(self) -> Program:
        """The program before the step."""
        found = list(INPUT.finditer(self.inputs))
        text = re.sub(r";\s+", "\n", self.before)
        is_open = any(n.strip().isidentifier() for m in found for n in (m[4] or "").split(","))
        if is_open or any(m[1] == "inout" for m in found):
            made = f" -> ({text.splitlines()[-1].split('[')[0].strip()})" if is_open else ""
            text = f"def f({', '.join(m[0].removeprefix('constant') for m in found)}){made} {{\n{text}\n}}"
        if is_open:
            return with_open_sizes(text, {})
        shapes = {m[3]: tuple(int(n) for n in m[4].split(",") if n) for m in found if m[4] is not None}
        program = stages.build(text, shapes, {m[3]: m[2] for m in found if m[2]})
        return replace(program, constants=tuple(m[3] for m in found if m[1] == "constant"))


def sketches(package: ModuleType) -> list[Sketch]:
    """Those in the docstrings of a module, or of the modules of a package, and of their functions."""
    inside = pkgutil.walk_packages(package.__path__, f"{package.__name__}.") if hasattr(package, "__path__") else ()
    names = [m.name for m in inside] or [package.__name__]
    return [s for name in sorted(names) for place, doc in _docstrings(importlib.import_module(name)) for s in of(place, doc)]


def _docstrings(module: ModuleType) -> Iterator[tuple[str, str]]:
    tree = ast.parse(inspect.getsource(module))
    for node in (tree, *tree.body):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef):
            place = module.__name__ + (f".{node.name}" if not isinstance(node, ast.Module) else "")
            doc = ast.get_docstring(node, clean=False) or ""
            yield place, doc.replace("\n" + " " * node.body[0].col_offset, "\n")


def of(place: str, doc: str) -> Iterator[Sketch]:
    """The sketches of a docstring."""
    for paragraph in _indented(doc):
        if re.search(r"\n->", paragraph):
            yield _sketch(place, paragraph)


def arrows(package: ModuleType) -> list[str]:
    """The places of indented paragraphs with arrows that make no sketch."""
    names = [m.name for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    return [place for name in names for place, doc in _docstrings(importlib.import_module(name)) for paragraph in _indented(doc)
            if "->" in paragraph and not re.search(r"\n->", paragraph)]


def _indented(doc: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", doc.rstrip()):
        if all(line.startswith("    ") for line in paragraph.split("\n")):
            yield "\n".join(line[4:] for line in paragraph.split("\n"))


def _sketch(place: str, text: str) -> Sketch:
    before, after = re.split(r"^->", text, maxsplit=1, flags=re.MULTILINE)
    inputs, machine = "", ""
    said = re.search(r"\s+with ((?:[^\n]*,\n)*[^\n]*?)(?: on (\w+))?$", before, re.MULTILINE)
    if said is not None:
        inputs, machine = said[1].strip(), said[2] or ""
        before = before[:said.start()] + before[said.end():]
    return Sketch(place, before.strip(), inputs, machine, after)


# ---- comparing

@dataclass(frozen=True)
class Line:
    """A statement, or the head or end of a loop, without spaces; and what `where` says of it, unordered."""

    text: str
    clauses: frozenset[str]

    @property
    def fills(self) -> bool:
        """Does it fill a tensor with a number?"""
        return re.fullmatch(r"\w+(\[[^\]]*\])?=(-?[\d.]+(e[-+]?\d+)?|-?inf|\w+\(-?[\d.]+\))", self.text) is not None


def printed(program: Program) -> list[Line]:
    """The lines of a program without its head, declarations and labels."""
    lines = [line.strip() for line in str(program).split("\n")[1:-1]]
    return [_line(re.sub(r"^\w+(\[[^\]]*\])?: ", "", x)) for x in lines if not x.startswith(("temp ", "#"))]


def shown(text: str) -> list[Line]:
    """The lines of the right side of a sketch."""
    parts = (part.strip() for part in re.split(r";|\n|(?<=\{)|(?=\})", _CONTINUED.sub(" ", text)))
    return [_line(part) for part in parts if part]


def _line(text: str) -> Line:
    statement, _, clauses = text.partition(" where ")
    return Line("".join(statement.split()), frozenset("".join(c.split()) for c in _apart(clauses) if c.strip()))


def _apart(text: str) -> list[str]:
    """The parts between commas outside of brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return parts


def difference(sketch: Sketch, before: Program, after: Program) -> str:
    """What the step made that the sketch does not show, or the other way round; '' if it shows what happens."""
    old, made, wanted = printed(before), printed(after), shown(sketch.after)
    skipping = False
    for line in wanted:
        if line.text == "...":
            skipping = True
            continue
        while made and not _shows(line, made[0]):
            if not (skipping or made[0] in old or made[0].fills):
                return _told(f"not shown: {made[0]}", after)
            made.pop(0)
        if not made:
            return _told(f"not made: {line}", after)
        made.pop(0)
        skipping = False
    left = [line for line in made if not (skipping or line in old or line.fills)]
    return _told(f"not shown: {left[0]}", after) if left else ""


def _shows(line: Line, made: Line) -> bool:
    pattern = ".*".join(map(re.escape, line.text.split("...")))
    return re.fullmatch(pattern, made.text) is not None and line.clauses <= made.clauses


def _told(what: str, after: Program) -> str:
    return f"{what}\nthe step made\n{after}"
