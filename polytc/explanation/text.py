"""The report as text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from polytc.explanation.report import Report, cache_level, touched_bytes, why_not_parallel
from polytc.explanation.roofline import DATA_SHEET
from polytc.program import program as pr
from polytc.rewrite.pipeline import Record
from polytc.schedule.loop_report import Found, ReportedBand, ReportedLeaf, ReportedLoop


def to_text(r: Report) -> str:
    """All sections, for a terminal."""
    parts = (("Program", str(r.lowered.program)), ("Cost", "\n".join(_costs(r))), ("Rewrites", "\n".join(_rewrites(r))),
             ("Decisions", str(r.lowered.decisions)),
             ("Loops", "\n".join(_tree(r, r.tree, 0))), ("Launches", "\n".join(map(str, r.grids))),
             ("Kernels, counted and by a model", "\n".join(r.kernels)),
             ("Temporaries that local memory has no room for", "\n".join(map(str, r.too_large))),
             ("Copies to local memory ahead of their use", "\n".join(map(str, r.fetched))),
             ("Lines of caches ahead of their use", "\n".join(map(str, r.lines))),
             ("Temporaries in rings", "\n".join(map(str, r.folds))),
             ("Launches that starve", "\n".join(map(str, r.starving))),
             ("Vectors", "\n".join(_vectors(r))), ("Statements that depend on each other", "\n".join(_apart(r))))
    return "\n\n".join(f"{title}\n{'=' * len(title)}\n{body}" for title, body in parts if body)


def amount(n: float, unit: str) -> str:
    """1536 bytes as '1.5 kB'; powers of 1000."""
    for prefix in ("", "k", "M", "G"):
        if n < 1000:
            return f"{n:.3g} {prefix}{unit}"
        n /= 1000
    return f"{n:.3g} T{unit}"


def duration(seconds: float) -> str:
    return f"{seconds * 1e6:.3g} us" if seconds < 1e-3 else f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def short(text: str) -> str:
    """isl's `floor((o)/64)` as `floor(o/64)`."""
    return re.sub(r"\((\w+)\)(?=[/ ]|$)", r"\1", text)


def _costs(r: Report) -> Iterator[str]:
    if r.sizes:
        yield f"counted at   {', '.join(f'{n}={size}' for n, size in r.sizes)}"
    for w in r.written.work:
        yield f"{w.statement:12} {w.instances!s:>16} instances x {w.arithmetic} operations" + (
            f" and {w.intrinsics} intrinsics" if w.intrinsics else "")
    c = r.written
    yield f"operations   {c.operations!s:>16}"
    yield f"bytes        {c.compulsory:>16,} of inputs and outputs, moved once; {c.temporaries:,} of temporaries"
    yield f"intensity    {c.intensity:>16.2f} operations a byte"
    if r.bound is not None:
        b = r.bound
        on = b.roofs.kind if b.roofs.kind == DATA_SHEET else f"{b.threads} thread{'s' if b.threads > 1 else ''}"
        yield (f"bound        {duration(b.seconds):>16} by {b.limit} ({duration(b.arithmetic)} of arithmetic, "
               f"{duration(b.memory)} of memory traffic; {on})")
    yield f"schedule     {r.lowered.schedule.how}"
    spent = ", ".join(f"{name} {1e3 * seconds:.1f}" for name, seconds in r.lowered.seconds.items())
    yield f"compile ms   {spent}"


def _rewrites(r: Report) -> Iterator[str]:
    """What each step of rewriting did, and why it did not; those that found nothing to do in one line."""
    yield from (str(record) for record in r.lowered.steps if record.reasons)
    for why, names in silent(r.lowered.steps).items():
        yield f"{why}: {', '.join(names)}"


def silent(steps: Sequence[Record]) -> dict[str, list[str]]:
    """The steps that have no reasons to tell, by what kept them from it."""
    found: dict[str, list[str]] = {}
    for record in steps:
        if not record.reasons:
            why = f"left out, as {record.skipped}" if record.skipped else "nothing to do"
            found.setdefault(why, []).append(record.step)
    return found


def loop_line(loop: ReportedLoop) -> str:
    """`parallel b in 22: floor(b/6) [S1, S2]`."""
    counts = dict.fromkeys(short(text) for _, text in loop.rows)
    extent = f" x{loop.extent}" if loop.extent is not None else ""
    return f"{loop.kind} {loop.name}{extent}: {', '.join(counts)}"


def band_line(r: Report, band: ReportedBand) -> str:
    """What one iteration of a band touches, and where that stays."""
    size = touched_bytes(r.lowered.rewritten, band)
    return f"an iteration touches {amount(size, 'B')}: {cache_level(r.machine, size)}" if band.touched else ""


def _tree(r: Report, found: Found, depth: int) -> Iterator[str]:
    margin = "  " * depth
    if isinstance(found, ReportedLeaf):
        for name in found.statements:
            s = next((s for s in r.lowered.rewritten.statements if s.name == name), None)
            yield f"{margin}{name}: {pr.format_statement(s).split('  where ')[0]}" if s is not None else f"{margin}{name}"
        return
    if not isinstance(found, ReportedBand):
        for child in found.children:
            yield from _tree(r, child, depth)
        return
    for loop in found.loops:
        why = why_not_parallel(loop)
        yield f"{margin}{loop_line(loop)}" + (f"    # {why}" if why else "")
    inside = any(isinstance(c, ReportedBand) for c in found.children)
    if inside and (line := band_line(r, found)):
        yield f"{margin}  # {line}"
    for child in found.children:
        yield from _tree(r, child, depth + 1)


def _vectors(r: Report) -> Iterator[str]:
    for v in r.vectors:
        if v.along:
            yield f"{v.statement}: along {short(v.along)}"
        else:
            yield f"{v.statement}: none"
            yield from (f"    {line}" for line in v.why)


def _apart(r: Report) -> Iterator[str]:
    for a in r.apart:
        shared = f"share {a.shared} loop{'s' if a.shared != 1 else ''}" if a.shared else "share no loop"
        why = f"; {a.why}" if a.why else ""
        yield f"{a.first} -> {a.second} ({', '.join(a.kinds)}): {shared}{why}" + (f": {a.witness}" if a.witness else "")
