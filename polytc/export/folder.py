"""What a folder is written from: the text of all kernels, and what is launched on what."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import prod

from polytc.codegen.target import Launch, Repeat
from polytc.compiler import Lowered
from polytc.export import commentary
from polytc.export.bundle import Argument, Bundle, Place, Step
from polytc.graph.library.headers import identifier
from polytc.graph.planning import memory
from polytc.graph.planning.memory import Slots
from polytc.poly import isl
from polytc.program import extents
from polytc.program.extents import Extent
from polytc.program.scalars import DType
from polytc.program.sizes import Size
from polytc.targets.ctext.library import Library, Part


@dataclass(frozen=True)
class Task:
    """A kernel launched once, or in loops of the host, which tasks of one step share (see Launch). places: of its arguments, in
    order; dtypes: of the arrays among them, None for a number."""

    launch: Launch
    places: tuple[Place, ...]
    dtypes: tuple[DType | None, ...]
    step: int


@dataclass(frozen=True)
class Folder:
    """What the hosts are written from. slots: the buffers that they make for intermediate values;
    buffers: bytes of each, formulas where sizes are not fixed. others: of the other variants, of the same library."""

    bundle: Bundle
    library: Library
    tasks: tuple[Task, ...]
    slots: Slots
    buffers: tuple[Extent, ...]
    others: tuple[Folder, ...] = ()

    @property
    def variants(self) -> tuple[Folder, ...]:
        """All, in the order of their numbers."""
        return (self, *self.others)

    @property
    def all_tasks(self) -> tuple[Task, ...]:
        """Of all variants."""
        return tuple(t for f in self.variants for t in f.tasks)

    def number(self, place: Place) -> int:
        """Of an argument, a weight, a buffer or a size."""
        return self.slots.numbers[place.key] if isinstance(place.key, str) else place.key

    @property
    def alignment(self) -> int:
        """Bytes that arrays begin at multiples of for the kernels of this variant; 1: of an element."""
        return max((self.library.alignments[t.launch.entry] for t in self.tasks), default=0) or 1

    @property
    def largest_group(self) -> int:
        """Work-items of the largest work-group."""
        return max((prod(t.launch.local_size) for t in self.all_tasks), default=1)

    @property
    def largest_local(self) -> int:
        """Bytes of local memory that a work-group uses at most."""
        return max(self.library.local_bytes.values(), default=0)


def prepare(bundle: Bundle, library: Callable[[Sequence[Part]], Library]) -> Folder:
    """The kernels' text, and what is launched on what. library: writes the text."""
    variants = bundle.variants
    parts = [part for n, v in enumerate(variants) for part in _parts(v, f"_v{n}" if bundle.others else "")]
    made, first, folders = library(parts), 0, []
    for v in variants:
        own = slice(first, first := first + len(v.units))
        folders.append(_folder(v, made, parts[own], made.launches[own]))
    return replace(folders[0], others=tuple(folders[1:]))


def _parts(bundle: Bundle, variant: str) -> list[Part]:
    """The modules of a bundle. variant: what the names of its kernels have behind that of the bundle."""
    parts = []
    for n, unit in enumerate(bundle.units, 1):
        label = identifier(unit.label)[:40] if len(bundle.units) > 1 else ""
        entry = f"{bundle.name}_{label}_{n}" if label else f"{bundle.name}{variant}"
        low = unit.lowered
        parts.append(Part(low.source.module, entry, commentary.about(low), commentary.statements(low)))
    return parts


def _folder(bundle: Bundle, made: Library, parts: Sequence[Part], launches: Sequence[tuple[Launch, ...]]) -> Folder:
    """parts, launches: of each unit."""
    dtypes = [{b.name: b.dtype for b in (*p.module.args, *p.module.scratch)} for p in parts]
    titled = [tuple(_titled(launch, unit.lowered) for launch in own) for own, unit in zip(launches, bundle.units, strict=True)]
    tasks = tuple(_task(launch, s, dtypes[s.unit], n) for n, s in enumerate(bundle.steps) for launch in titled[s.unit])
    if bundle.sizes:  # one step, in which all temporaries live
        slots = Slots({life.name: n for n, life in enumerate(bundle.lives)}, ())
        return Folder(bundle, made, tasks, slots, tuple(life.bytes for life in bundle.lives))
    slots = memory.share(bundle.lives)
    return Folder(bundle, made, tasks, slots, slots.bytes)


def _titled(launch: Launch, lowered: Lowered) -> Launch:
    """A launch with the sizes as the program calls them, where kernels cannot."""
    names = (*lowered.program.sizes, *(n for n, _ in lowered.source.module.products))
    titles = {spelled: Size.named(n, 1) for n in names if (spelled := isl.name(n)) != n}
    loops = tuple(replace(r, lower=extents.replaced(r.lower, titles), upper=extents.replaced(r.upper, titles))
                  for r in launch.loops)
    return replace(launch, global_size=tuple(extents.replaced(n, titles) for n in launch.global_size), loops=loops)


def _task(launch: Launch, step: Step, dtypes: Mapping[str, DType], number: int) -> Task:
    places = {**step.places, **{r.var: Place("counter", depth) for depth, r in enumerate(launch.loops)}}
    return Task(launch, tuple(places[a] for a in launch.args), tuple(map(dtypes.get, launch.args)), number)


def nested(tasks: Sequence[Task], depth: int = 0) -> Iterator[tuple[Repeat | None, tuple[Task, ...]]]:
    """Tasks in runs that share their loop of this depth; None: they have none there."""
    def around(t: Task) -> tuple[int, Repeat | None]:
        return t.step, t.launch.loops[depth] if len(t.launch.loops) > depth else None
    for (_, repeat), run in groupby(tasks, key=around):
        yield repeat, tuple(run)


def described(a: Argument) -> str:
    """`A: f32[3][4], input`. What is complex is told as C has it: `Z: f32[3][4][2], input, real and imaginary parts`."""
    part = a.type.dtype.part
    pair = ", real and imaginary parts" * a.type.dtype.is_complex
    shape = "".join(f"[{n}]" for n in (*a.type.shape, *(2,) * a.type.dtype.is_complex)) or " (one element)"
    return f"{a.name}: {part}{shape}, {a.role}{pair}{'' if a.title == a.name else f' ({a.title[:80]})'}"


def shown(folder: Folder, task: Task, place: Place) -> str:
    """How comments call a place of a task."""
    number = folder.number(place)
    if place.area == "counter":
        return task.launch.loops[number].var
    if place.area == "size":
        b = folder.bundle
        return (*b.sizes, *b.derived)[number]
    return folder.bundle.arguments[number].name if place.area == "argument" else (
        f"weight {number}" if place.area == "weight" else f"buffer {number}")
