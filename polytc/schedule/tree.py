"""Schedule: when each instance runs, as an isl schedule tree whose YAML text is the whole truth."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import islpy

from polytc import errors
from polytc.decisions import Entry
from polytc.poly import isl, legality, marks
from polytc.poly.dependences import Dependences
from polytc.poly.scop import Scop
from polytc.program.kinds import GROUPS, IN_ORDER, ITEMS, KINDS
from polytc.schedule import yaml

errors.register(E701="the schedule breaks a dependence", E702="the text is not a schedule",
                E703="the schedule belongs to another program", E704="a loop cannot run its iterations at once")

_SOURCE = re.compile(r"^call to \w+ failed: | in \S+:\d+$")
"""What isl's errors say about isl's own sources."""


@dataclass(frozen=True)
class Schedule:
    """tree: bands under marks (poly.marks); how: one line on who made it, for `explain`; decisions: that it is made of, none of
    a given one."""

    tree: islpy.Schedule
    how: str = ""
    decisions: tuple[Entry, ...] = ()

    def __str__(self) -> str:
        return to_yaml(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (to_yaml(self), self.how)


def _again(text: str, how: str) -> Schedule:
    """A copied or unpickled schedule."""
    return Schedule(islpy.Schedule.read_from_str(isl.new_context(), text), how)


def to_yaml(schedule: Schedule) -> str:
    """isl's YAML in block style; `from_yaml` reads it back."""
    printer = islpy.Printer.to_str(schedule.tree.get_ctx()).set_yaml_style(islpy.yaml_style.BLOCK)
    return str(printer.print_schedule(schedule.tree).get_str()).rstrip()


def from_yaml(text: str, scop: Scop, deps: Dependences) -> Schedule:
    """Read a schedule that a user saved or wrote.

    Raises E702 if it is no schedule, E703 if its domain is not the program's, E701 if it is illegal.
    """
    tree = read(text, scop)
    if not tree.get_domain().is_equal(scop.domain):
        raise errors.fail("E703", "the schedule was made for another program",
                          notes=_differences(tree.get_domain(), scop.domain))
    return checked(Schedule(tree, "given as YAML"), deps)


def read(text: str, scop: Scop) -> islpy.Schedule:
    """The schedule tree of a text, which is well-formed for whatever domain it has (E702)."""
    try:
        return islpy.Schedule.read_from_str(scop.ctx, yaml.well_formed(text, scop.ctx))
    except (islpy.Error, yaml.Malformed) as e:
        why = _SOURCE.sub("", str(e).partition("\n")[0])
        raise errors.fail("E702", f"this is no schedule in isl's YAML: {why}",
                          notes=["print a schedule with `polytc emit --stage schedule` to see the form"]) from None


def _differences(given: islpy.UnionSet, domain: islpy.UnionSet) -> list[str]:
    """The statements whose instances are not the same, at most three."""
    ours, theirs = ({s.get_tuple_name(): s for s in isl.sets(d)} for d in (domain, given))
    notes = []
    for name in sorted({*ours, *theirs}):
        if name not in ours:
            notes.append(f"the program has no statement {name}")
        elif name not in theirs:
            notes.append(f"the schedule does not run the program's statement {name}")
        elif not ours[name].get_space().is_equal(theirs[name].get_space()) or not ours[name].is_equal(theirs[name]):
            notes.append(f"the schedule runs {theirs[name]}, the program {ours[name]}")
    return notes[:3]


def made_for(text: str, scop: Scop) -> bool:
    """Is the text a schedule of exactly this program's instances?"""
    try:
        domain = read(text, scop).get_domain()
    except errors.CompileError:
        return False
    return bool(domain.is_equal(scop.domain))


@dataclass(frozen=True)
class Refusal:
    """Why a schedule is illegal. code: E701 or E704; loop: the kind, the band's name and the member of the loop that carries
    the dependence, or None where the order is wrong; reduces: the loop is a reduce loop that does something else."""

    code: str
    broken: legality.Violation
    loop: tuple[str, str, int] | None = None
    reduces: bool = False


def refusal(schedule: Schedule, deps: Dependences) -> Refusal | None:
    """What is illegal about a schedule: a dependence that it breaks, or one that a loop carries whose iterations may run at
    once. None if nothing is."""
    broken = legality.violation(schedule.tree, deps.order, deps.accesses)
    if broken is not None:
        return Refusal("E701", broken)
    met = dict[str, tuple[int, str]]()
    for node, kinds in marked_bands(schedule.tree):
        _known(node, kinds)
        _told_apart(node, kinds, met)
        carried = {k: legality.Carried(node, deps.kept_apart(k), deps.accesses) for k in set(map(_apart, kinds))}
        for member, kind in enumerate(kinds):
            if kind in (*IN_ORDER, "unroll"):
                continue
            conflict = legality.apart(node, member, deps.reducible) if kind == "reduce" else carried[_apart(kind)].by(member)
            if conflict is not None:
                return Refusal("E704", conflict, (kind, marks.of(node.parent()).name, member), kind == "reduce")
    return None


def _apart(kind: str) -> str:
    """The first of the kinds whose loops must not carry the same dependences."""
    return next((k for k in (GROUPS[0], ITEMS[0]) if kind[:-1] == k[:-1]), "")


def checked(schedule: Schedule, deps: Dependences) -> Schedule:
    """The schedule itself, if it respects every dependence and each parallel or vector member carries none.

    Raises IllegalTransform (E701, E704) with the dependence and two instances.
    """
    found = refusal(schedule, deps)
    if found is None:
        return schedule
    if found.loop is None:
        raise errors.fail("E701", f"this schedule is illegal: {found.broken}", kind=errors.IllegalTransform,
                          notes=["both instances touch one element and at least one of them writes it"])
    kind, _, member = found.loop
    if found.reduces:
        raise errors.fail("E704", f"the reduce member {member} of its band does more than reduce into one element: "
                          f"{found.broken.source} and {found.broken.sink}", kind=errors.IllegalTransform,
                          notes=["a reduce loop holds one update whose instances meet in one element and commute"])
    raise errors.fail("E704", f"the {kind} member {member} of its band carries a dependence: {found.broken}",
                      kind=errors.IllegalTransform,
                      notes=["run the member sequentially, or make another one parallel"])


def _known(band: islpy.ScheduleNode, kinds: tuple[str, ...]) -> None:
    """Raises E702 if a mark names kinds that there are not, or more than its band has members."""
    strange = [k for k in kinds if k not in KINDS]
    if strange or len(kinds) > band.band_n_member():
        raise errors.fail("E702", f"a mark gives the kinds {' '.join(kinds)} to a band of {band.band_n_member()} members",
                          notes=[f"the kinds are {', '.join(KINDS)}"])


def _told_apart(band: islpy.ScheduleNode, kinds: tuple[str, ...], met: dict[str, tuple[int, str]]) -> None:
    """Raises E702 if a mark stands at two depths, or above other loops over items: code generation finds these by its text.
    met: mark -> its depth, and the band where items matter."""
    mark = str(marks.of(band.parent()))
    own = band.get_schedule_depth(), str(band.band_get_partial_schedule()) if any(k.startswith("thread") for k in kinds) else ""
    if met.setdefault(mark, own) != own:
        raise errors.fail("E702", f"two bands have the mark `{mark}`", notes=["give one of them another name"])


def marked_bands(tree: islpy.Schedule) -> list[tuple[islpy.ScheduleNode, tuple[str, ...]]]:
    """Each band below a mark, with the loop kinds that the mark names."""
    found: list[tuple[islpy.ScheduleNode, tuple[str, ...]]] = []

    def visit(node: islpy.ScheduleNode) -> None:
        if node.get_type() == islpy.schedule_node_type.mark:
            below = node.child(0)
            if below.get_type() == islpy.schedule_node_type.band:
                found.append((below, marks.of(node).kinds))
        for i in range(node.n_children()):
            visit(node.child(i))

    visit(tree.get_root())
    return found
