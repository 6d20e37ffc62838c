"""The report as one static HTML file: no script or font from elsewhere, light and dark."""

from __future__ import annotations

import re
from importlib import resources
from string import Template

from polytc.explanation import graph
from polytc.explanation.markup import plain, statement, table, tag
from polytc.explanation.report import Report, cache_level, touched_bytes, why_not_parallel
from polytc.explanation.text import amount, duration, short, silent
from polytc.program import program as pr
from polytc.rewrite.pipeline import Record
from polytc.schedule.loop_report import Found, ReportedBand, ReportedLeaf, ReportedLoop


def to_html(r: Report) -> str:
    """The whole page."""
    template = Template(resources.files("polytc.explanation").joinpath("page.html").read_text(encoding="utf-8"))
    return template.substitute(
        title=plain(r.lowered.program.name), about=plain(_about(r)), cards=_cards(r), program=_code(r, r.lowered.program),
        rewrites=_rewrites(r), decisions=_decisions(r), tree=_tree(r, r.tree) + _grids(r), roofline=graph.roofline(r),
        costs=_costs(r), vectors=_vectors(r), graph=graph.dependences(r), apart=_apart(r), code=_sources(r))


def _about(r: Report) -> str:
    m = r.machine
    caches = " / ".join(f"{c.bytes >> 10} KiB" for c in m.caches)
    return (f"target {r.lowered.target.name}, {m.cpu or 'a generic processor'}, {m.vector_registers} vector registers of "
            f"{m.vector_bytes * 8} bits, caches {caches}. Schedule: {r.lowered.schedule.how or 'as given'}.")


def _cards(r: Report) -> str:
    c = r.written
    cards = [(", ".join(f"{n}={size}" for n, size in r.sizes), "typical sizes")] if r.sizes else []
    cards += [(amount(c.operations.value, ""), "operations"), (amount(c.compulsory, "B"), "inputs and outputs"),
             (amount(c.temporaries, "B"), "temporaries as written"), (f"{c.intensity:.3g}", "operations a byte")]
    if r.bound is not None:
        cards.append((duration(r.bound.seconds), f"at least, by {r.bound.limit}"))
    cards.append((duration(sum(r.lowered.seconds.values())), "to compile"))
    return "".join(tag("div", tag("b", plain(value)) + tag("span", plain(what)), "card") for value, what in cards)


def _code(r: Report, stage: object) -> str:
    """A printed stage, in which the names of statements can be pointed at."""
    names = {s.name for p in (r.lowered.program, r.lowered.rewritten) for s in p.statements}
    pattern = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    parts = re.split(rf"\b({pattern})\b", str(stage)) if names else [str(stage)]
    return "".join(statement(part) if n % 2 else plain(part) for n, part in enumerate(parts))


def _tree(r: Report, found: Found) -> str:
    if isinstance(found, ReportedLeaf):
        return "".join(tag("div", _statement(r, n), "leaf mono") for n in found.statements)
    inner = "".join(_tree(r, c) for c in found.children)
    if not isinstance(found, ReportedBand):
        return inner
    touched = ""
    if found.touched and any(isinstance(c, ReportedBand) for c in found.children):
        size = touched_bytes(r.lowered.rewritten, found)
        tensors = ", ".join(f"{n} {count}" for n, count in found.touched)
        touched = tag("div", f"an iteration touches {amount(size, 'B')}: stays in {cache_level(r.machine, size)}", "touched",
                      title=f"{tensors} elements")
    return tag("div", "".join(map(_loop, found.loops)) + touched + inner, f"band edge-{_style(found.loops[-1].kind)}")


def _grids(r: Report) -> str:
    starving = "".join(tag("div", "starves: " + _code(r, s), "why") for s in r.starving)
    starving += "".join(tag("div", _code(r, x), "why") for x in r.too_large)
    kernels = tag("pre", plain("\n".join(r.kernels))) if r.kernels else ""
    return "".join(tag("div", plain(str(g)), "extent") for g in r.grids) + starving + kernels


def _style(kind: str) -> str:
    return kind.rstrip("012")


def _loop(loop: ReportedLoop) -> str:
    counts = ", ".join(dict.fromkeys(short(text) for _, text in loop.rows))
    why = why_not_parallel(loop)
    parts = [tag("span", plain(loop.kind), f"kind {_style(loop.kind)}"), tag("code", plain(counts))]
    if loop.extent is not None:
        parts.append(tag("span", f"{loop.extent:,} iterations", "extent"))
    parts.append(tag("span", plain(loop.name), "extent"))
    if why:
        parts.append(tag("span", plain(why), "why"))
    return tag("div", "".join(parts), "loop")


def _statement(r: Report, name: str) -> str:
    s = next((s for s in r.lowered.rewritten.statements if s.name == name), None)
    return statement(name) + (plain(f": {pr.format_statement(s).split('  where ')[0]}") if s is not None else "")


def _costs(r: Report) -> str:
    rows = ((statement(w.statement), str(w.instances), str(w.arithmetic), str(w.intrinsics), str(w.operations))
            for w in r.written.work)
    return table(("statement", "instances", "arithmetic", "intrinsics", "operations"), rows, 4)


def _rewrites(r: Report) -> str:
    """A row for each step that had something to say; the program behind it unfolds."""
    def row(record: Record) -> tuple[str, str]:
        told = "<br>".join(_code(r, reason) for reason in record.reasons)
        behind = tag("details", tag("summary", "the program behind it") + tag("pre", _code(r, record.program)))
        return tag("b", plain(record.step)), told + (behind if record.acted else "")
    others = "; ".join(f"{why}: {', '.join(names)}" for why, names in silent(r.lowered.steps).items())
    return table(("step", "what it did, and why"), map(row, (s for s in r.lowered.steps if s.reasons))) + (
        tag("p", plain(others)) if others else "")


def _decisions(r: Report) -> str:
    return tag("pre", _code(r, r.lowered.decisions))


def _vectors(r: Report) -> str:
    def cell(along: str, why: tuple[str, ...]) -> str:
        if along:
            return "along " + tag("code", plain(short(along)))
        return "none" + "".join("<br>" + tag("span", plain(line), "extent") for line in why)
    return table(("statement", "vectors"), ((statement(v.statement), cell(v.along, v.why)) for v in r.vectors))


def _apart(r: Report) -> str:
    if not r.apart:
        return tag("p", "There are none.")
    rows = []
    for a in r.apart:
        witness = "<br>" + tag("span", plain(a.witness), "witness") if a.witness is not None else ""
        rows.append((f"{statement(a.first)} &rarr; {statement(a.second)}", " ".join(tag("span", k, "chip") for k in a.kinds),
                     str(a.shared), plain(a.why) + witness))
    return table(("statements", "dependences", "shared loops", "why no more"), rows)


def _sources(r: Report) -> str:
    panes = (("schedule tree (isl)", r.lowered.schedule), ("loops", r.lowered.loops),
             (f"source for {r.lowered.target.name}", r.lowered.source))
    return "".join(tag("div", tag("h3", plain(title)) + tag("pre", _code(r, stage))) for title, stage in panes)
