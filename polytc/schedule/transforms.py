"""Transformations of schedule trees. Each returns a new schedule; legality is proved on the result (`tree.checked`)."""

from __future__ import annotations

from collections.abc import Sequence

import islpy

from polytc import errors
from polytc.poly import marks
from polytc.poly.dependences import Dependences
from polytc.poly.marks import Mark
from polytc.schedule.tree import Schedule, checked

errors.register(E705="the schedule has no such band")


def tile(schedule: Schedule, band: str, sizes: Sequence[int], deps: Dependences) -> Schedule:
    """Split each member of `band` into a tile loop and a point loop.

        for i, j: S[i, j]   ->   for it, jt: for ip, jp: S[it*size + ip, jt*size + jp]

    band: the name its mark begins with; sizes: iterations per tile, outermost first, 1 leaves a member untiled. The tile
    loops keep the name and the kinds, the point loops become `NAME.tile`, sequential.
    Raises E705 for an unknown band or a wrong number of sizes, IllegalTransform (E701) with the violated dependence and two
    instances (Irigoin & Triolet, Supernode Partitioning, POPL 1988).
    """
    mark = _find(schedule, band)
    node = mark.child(0)
    if len(sizes) != node.band_n_member() or any(s < 1 for s in sizes):
        raise errors.fail("E705", f"band {band!r} has {node.band_n_member()} members, the sizes are {list(sizes)}",
                          notes=["give one positive size a member"])
    point = _split(node, sizes).child(0)
    kinds = tuple("sequential" for _ in sizes)
    tree = point.insert_mark(Mark(f"{band}.tile", kinds).id(node.get_ctx())).get_schedule()
    return checked(Schedule(tree, f"{schedule.how}; tile({band}, {list(sizes)})"), deps)


def interchange(schedule: Schedule, band: str, order: Sequence[int], deps: Dependences) -> Schedule:
    """Permute the members of `band`.

        for i, j: S[i, j]   ->   for j, i: S[i, j]        with order (1, 0)

    order: for each new position, the member that goes there. Kinds move with their members. Raises E705, and IllegalTransform
    if a dependence would run backwards (Allen & Kennedy, Automatic Loop Interchange, SIGPLAN 1984).
    """
    mark = _find(schedule, band)
    node = mark.child(0)
    if sorted(order) != list(range(node.band_n_member())):
        raise errors.fail("E705", f"{list(order)} is no permutation of the {node.band_n_member()} members of {band!r}",
                          notes=["name each member once, counting from 0"])
    partial = node.band_get_partial_schedule()
    flags = [node.band_member_get_coincident(i) for i in range(len(order))]
    permutable = node.band_get_permutable()
    members = [islpy.MultiUnionPwAff.from_union_pw_aff(partial.get_at(i)) for i in order]
    joined = members[0]
    for m in members[1:]:
        joined = joined.flat_range_product(m)
    node = node.delete().insert_partial_schedule(joined).band_set_permutable(int(permutable))
    for position, i in enumerate(order):
        node = node.band_member_set_coincident(position, int(flags[i]))
    given = marks.of(mark)
    above = node.parent().delete() if given.kinds else node
    tree = above.insert_mark(Mark(given.name, tuple(given.kind(i) for i in order)).id(above.get_ctx())).get_schedule()
    return checked(Schedule(tree, f"{schedule.how}; interchange({band}, {list(order)})"), deps)


def tile_outer_bands(schedule: Schedule, size: int) -> Schedule:
    """Tile each outermost permutable band with `size` in every member, mark its leading coincident tile loops parallel."""
    count = 0

    def visit(node: islpy.ScheduleNode) -> islpy.ScheduleNode:
        nonlocal count
        if node.get_type() == islpy.schedule_node_type.band:
            count += 1
            members = node.band_n_member()
            kinds = tuple("parallel" if c else "sequential" for c in _leading_coincident(node))
            if members > 1 and node.band_get_permutable():
                node = _split(node, [size] * members)
            return node.insert_mark(Mark(f"B{count}", kinds).id(node.get_ctx()))
        for i in range(node.n_children()):
            node = visit(node.child(i)).parent()
        return node

    return Schedule(visit(schedule.tree.get_root()).get_schedule(), schedule.how)


def _leading_coincident(band: islpy.ScheduleNode) -> list[bool]:
    flags = [bool(band.band_member_get_coincident(i)) for i in range(band.band_n_member())]
    return [all(flags[:i + 1]) for i in range(len(flags))]


def _split(band: islpy.ScheduleNode, sizes: Sequence[int]) -> islpy.ScheduleNode:
    values = islpy.MultiVal.zero(band.band_get_space())
    for i, size in enumerate(sizes):
        values = values.set_val(i, size)
    return band.band_tile(values)


def _find(schedule: Schedule, band: str) -> islpy.ScheduleNode:
    """The mark above a band, by the name it begins with."""
    names: list[str] = []
    found: list[islpy.ScheduleNode] = []

    def visit(node: islpy.ScheduleNode) -> None:
        if node.get_type() == islpy.schedule_node_type.mark:
            names.append(marks.of(node).name)
            if names[-1] == band and node.child(0).get_type() == islpy.schedule_node_type.band:
                found.append(node)
        for i in range(node.n_children()):
            visit(node.child(i))

    visit(schedule.tree.get_root())
    if not found:
        raise errors.fail("E705", f"the schedule has no band named {band!r}",
                          notes=[f"its marks are {', '.join(names) or 'none'}"])
    return found[0]
