"""The choice among variants in the text of C hosts: the estimate of each as a formula of the sizes, and the function that takes
the least; and the same in the description, for other hosts.

Both compute in the same order with the same doubles, so that all hosts choose alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from polytc.codegen.buffers import Buffer
from polytc.export import formula
from polytc.export.bundle import Bundle, Model
from polytc.export.folder import Folder
from polytc.export.templates import rendered
from polytc.machine import Machine
from polytc.program import extents
from polytc.program.extents import Extent, Product
from polytc.targets.ctext.work_groups import LARGEST_OPEN
from polytc.targets.opencl import counts
from polytc.targets.opencl.estimate import rates_of
from polytc.targets.opencl.launch_times import MOST_GROUPS, LaunchTime
from polytc.targets.opencl.warp_traffic import Traffic

COUNTED = ("operations", "passes", "moved", "waits")
"""What is estimated of a group, see warp_traffic.Traffic."""

DECLARED = '''\
/* Variants: several ways to run the same program, each right for all sizes. The one that a model of @MACHINE@ estimates to be
 * the fastest at the sizes runs:
@LISTED@ */
enum { @NAME@_VARIANTS = @COUNT@ };

/* The number of the variant that runs at these sizes: of the one that was forced, if it can, else of the fastest; -1 if there
 * is none for them. self: NULL means that none was forced. */
int @NAME@_variant(const @NAME@ *self@SIZES@);

/* Seconds that a variant takes at these sizes by the model; -1 where it does not run. */
double @NAME@_estimate(int variant@SIZES@);

/* From now on, @WHEN@, this variant runs and no other one; -1: the fastest. For tuning, and for tests. Nothing happens if there
 * is no such variant, and the result is @BAD@. */
int @NAME@_force(@NAME@ *self, int variant);

'''

ESTIMATES = '''\
static double real(int64_t n)
{
    return @REAL@;
}

/* Iterations of a loop. */
static double count(int64_t n)
{
    return n > 0 ? real(n) : 0.0;
}

/* a / b, rounded up. */
static int64_t turns(int64_t a, int64_t b)
{
    return a / b + (a % b > 0);
}

/* Seconds of a launch on @MACHINE@, which is busy with what takes it longest: arithmetic and local memory on the compute unit
 * that has most groups, what groups move, arrays from memory once, loads that wait for each other. resident: groups that a unit
 * holds at once; operations, passes, moved, waits: of a group; bytes: of the arrays. */
static double launch_seconds(int64_t groups, int64_t resident, double operations, double passes, double moved, double waits,
                             double bytes)
{
    const double busiest = real(turns(groups, @UNITS@)), rounds = real(turns(groups, @UNITS@ * resident));
    const double times[] = {bytes / @MEMORY@, moved * real(groups) / @CACHE@, operations * busiest / @LANES@,
                            passes * busiest / @CLOCK@, waits * @WAIT@ * rounds};
    double most = 0.0;
    int k;
    for (k = 0; k < 5; k++)
        if (times[k] > most) most = times[k];
    return groups > 0 ? @LAUNCH@ + most : 0.0;
}

/* Seconds of a variant at these sizes, which are at least 1; -1 where it has too many groups, or a buffer too many elements. */
static double estimate(int variant, const int64_t *sizes)
{
    double total = 0.0;
    int64_t groups;
    switch (variant) {
@CASES@    default: return -1.0;
    }
    return total;
}

'''

CHOICE = '''\
/* See @NAME@_variant. addresses: bits of those of the arrays, some of which may not begin where the accesses of a variant can;
 * 0: they do. */
static int choose(const @NAME@ *self, const int64_t *sizes, size_t addresses)
{
    static const size_t alignments[] = {@ALIGNMENTS@};
    double least = 0.0;
    int k, found = -1;
    if (@REFUSED@) return -1;
    for (k = 0; k < @NAME@_VARIANTS; k++) {
        double seconds;
        if ((self && self->forced >= 0 && self->forced != k) || addresses % alignments[k]) continue;
        seconds = estimate(k, sizes);
        if (seconds >= 0.0 && (found < 0 || seconds < least)) {
            found = k;
            least = seconds;
        }
    }
    return found;
}

int @NAME@_variant(const @NAME@ *self@SIZES@)
{
    const int64_t sizes[] = {@GIVEN@};
    return choose(self, sizes, 0);
}

double @NAME@_estimate(int variant@SIZES@)
{
    const int64_t sizes[] = {@GIVEN@};
    if (@REFUSED@) return -1.0;
    return estimate(variant, sizes);
}

int @NAME@_force(@NAME@ *self, int variant)
{
    if (variant < -1 || variant >= @NAME@_VARIANTS) return @BAD@;
    self->forced = variant;
    return 0;
}

'''


def declared(b: Bundle, machine: str, sizes: str, when: str, bad: str) -> str:
    """The functions about variants for a header. sizes: parameters behind another one; when: a variant that is forced runs from
    there on; bad: the code for a number of no variant."""
    rows = "".join(f" *   {n}: {_model(v).reasons[0]}\n" for n, v in enumerate(b.variants))
    return rendered(DECLARED, NAME=b.name, MACHINE=machine, LISTED=rows, COUNT=len(b.variants), SIZES=sizes, WHEN=when, BAD=bad)


def code(folder: Folder, machine: Machine, made_for: str, sizes: str, bad: str, real: str) -> str:
    """The functions about variants. machine: whose model decides; made_for: its name; real: `n` as a double."""
    b, rates = folder.bundle, rates_of(machine)
    alignments = ", ".join(str(f.alignment) for f in folder.variants)
    return rendered(ESTIMATES + CHOICE, NAME=b.name, MACHINE=made_for, SIZES=sizes, GIVEN=", ".join(b.sizes), BAD=bad,
                    REAL=real, UNITS=machine.cores, MEMORY=repr(rates.memory), CACHE=repr(rates.cache),
                    LANES=repr(rates.lanes * rates.clock), CLOCK=repr(rates.clock), WAIT=repr(rates.wait),
                    LAUNCH=repr(machine.costs.launches.launch), REFUSED=_refused(b), ALIGNMENTS=alignments,
                    CASES="".join(_case(n, f) for n, f in enumerate(folder.variants)))


def _model(b: Bundle) -> Model:
    assert b.model is not None, "each variant has a model"
    return b.model


def _values(b: Bundle) -> dict[str, str]:
    return formula.with_products(b, {n: f"sizes[{k}]" for k, n in enumerate(b.titles)})


def _refused(b: Bundle) -> str:
    """Where no variant can run: sizes, what they leave beyond the ends of arrays, and arrays that are too long."""
    values = _values(b)
    found = [f"sizes[{k}] < 1 || sizes[{k}] > INT32_MAX" for k in range(len(b.sizes))]
    found += formula.not_allowed(b.limits, values)
    elements = (_elements(a.type.shape) for a in b.arguments)
    found += [f"{formula.in_c(n, values)} > {LARGEST_OPEN}" for n in elements if type(n) is not int]
    return "\n        || ".join(found)


def _elements(shape: Sequence[int]) -> Extent:
    total: Extent = 1
    for n in shape:
        total = extents.times(total, n)
    return total


def _scratch(b: Bundle) -> tuple[Buffer, ...]:
    return b.units[0].lowered.source.module.scratch


def _case(number: int, folder: Folder) -> str:
    b, values = folder.bundle, _values(folder.bundle)
    lines = [f"case {number}: /* {_model(b).reasons[0]} */"]
    lines += [f"    if ({values[p.size]} % {p.divisor}) return -1.0;" for p in b.parts]
    lines += [f"    if ({formula.in_c(n, values)} > {LARGEST_OPEN}) return -1.0; /* {x.name} */"
              for x in _scratch(b) if type(n := _elements(x.shape)) is not int]
    for launch in _launches(folder):
        lines += [f"    {line}" for line in _launch(launch, values)]
    return "".join(f"    {line}\n" for line in [*lines, "    break;"])


def _launches(folder: Folder) -> Iterator[LaunchTime]:
    """The estimates, with the names that kernels have in the folder."""
    for x, t in zip(_model(folder.bundle).launches, folder.tasks, strict=True):
        yield replace(x, kernel=t.launch.entry)


def _launch(x: LaunchTime, values: Mapping[str, str]) -> list[str]:
    """The lines that add a launch to the total."""
    work = Product(tuple(f for n in x.work_items for f in (n.factors if isinstance(n, Product) else (n,))))
    lines = [f"groups = {formula.in_c(work, values)} / {x.items}; /* {x.kernel} */",
             f"if (groups > {MOST_GROUPS}) return -1.0;"]
    moved = " + ".join(f"real({formula.in_c(n, values)})" for n in x.arrays)
    repeats = f"{_count(x.repeats, values)} * " if x.repeats != 1 or isinstance(x.repeats, counts.Count) else ""

    def added(traffic: Traffic) -> str:
        numbers = ",\n        ".join(_count(getattr(traffic, n), values) for n in COUNTED)
        return f"total += {repeats}launch_seconds(groups, {x.resident},\n        {numbers},\n        {moved});"
    if x.near is None:
        return [*lines, *added(x.traffic).split("\n")]
    near = " && ".join(f"{values[n]} <= {most}" for n, most in x.small)
    return [*lines, f"if ({near})", *(f"    {line}" for line in added(x.near).split("\n")), "else",
            *(f"    {line}" for line in added(x.traffic).split("\n"))]


def _count(n: float, values: Mapping[str, str]) -> str:
    """A count as a double in C."""
    parts = ["*".join([repr(c), *(f"count({formula.in_c(f, values)})" for f in factors)]) for c, factors in counts.terms(n)]
    return " + ".join(parts).replace("+ -", "- ") or "0.0"


def described(machine: Machine) -> dict[str, object]:
    """The model for the description: its numbers, which are the same for all variants."""
    rates = rates_of(machine)
    return {"launch": machine.costs.launches.launch, "units": machine.cores, "memory": rates.memory, "cache": rates.cache,
            "operations": rates.lanes * rates.clock, "passes": rates.clock, "wait": rates.wait, "groups": MOST_GROUPS}


def row(folder: Folder) -> dict[str, object]:
    """The model of a variant for the description."""
    b, model = folder.bundle, _model(folder.bundle)
    return {"made_for": dict(model.typical), "why": list(model.reasons),
            "alignment": folder.alignment, "buffer_elements": [formula.row(_elements(x.shape)) for x in _scratch(b)],
            "estimate": [_row(x) for x in _launches(folder)]}


def _row(x: LaunchTime) -> dict[str, object]:
    def numbers(t: Traffic) -> dict[str, object]:
        return {n: terms(getattr(t, n)) for n in COUNTED}
    near = {"small": dict(x.small), "near": numbers(x.near)} if x.near is not None else {}
    return {"kernel": x.kernel, "repeats": terms(x.repeats), "work_items": formula.rows(x.work_items), "items": x.items,
            "resident": x.resident, **numbers(x.traffic), **near, "arrays": formula.rows(x.arrays)}


def terms(n: float) -> list[list[object]]:
    """A count as its terms: a coefficient, then factors, of which a negative one counts as 0."""
    return [[c, *(formula.row(f) for f in factors)] for c, factors in counts.terms(n)]
