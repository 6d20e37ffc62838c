"""The part of a C host that launches kernels, in loops of the host where there are such."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polytc.export import formula
from polytc.export.folder import Folder, Task, nested
from polytc.export.templates import rendered

ONCE = '''\
        if (!error) error = start(self, queue, k);
    }
'''
"""How each of the launches is enqueued where none is in a loop."""

IN_LOOPS = '''\
    }
    if (!error) error = run(self, queue);
'''

RUN = '''\
/* The launches from the first up to the last one, in iteration `at` of the loops around them. */
static cl_int launch(@NAME@ *self, cl_command_queue queue, int first, int last, const cl_int *at)
{
    cl_int error = CL_SUCCESS;
    int k, a;
    for (k = first; k <= last && !error; k++) {
        const struct launch *l = &launches[k];
        for (a = 0; a < l->count && !error; a++) {
            const struct place *p = &places[l->first + a];
            if (p->area == COUNTER) error = clSetKernelArg(self->kernels[k], (cl_uint)a, sizeof(cl_int), &at[p->number]);
        }
        if (!error) error = start(self, queue, k);
    }
    return error;
}

@VARIANTS@/* All launches, one after another. */
static cl_int run(@NAME@ *self, cl_command_queue queue)
{
@ALL@}

'''

ALL = '''\
    cl_int error = CL_SUCCESS, at[@DEPTH@] = {0};
@LINES@
    return error;
'''
"""The launches of a variant, as the body of a function."""


def has_loops(folder: Folder) -> bool:
    """Are there launches in loops?"""
    return any(t.launch.loops for t in folder.all_tasks)


def run(folder: Folder, values: Sequence[Mapping[str, str]]) -> str:
    """The functions `launch` and `run`; '' where all launches are made once. values: of the sizes in C, in each variant."""
    if not has_loops(folder):
        return ""
    depth, name = max(len(t.launch.loops) for t in folder.all_tasks), folder.bundle.name
    bodies, first = [], 0
    for f, known in zip(folder.variants, values, strict=True):
        bodies.append(rendered(ALL, DEPTH=depth, LINES="\n".join(_lines(f.tasks, first, 0, known))))
        first += len(f.tasks)
    if len(bodies) == 1:
        return rendered(RUN, NAME=name, VARIANTS="", ALL=bodies[0])
    own = "".join(f"static cl_int run_{n}({name} *self, cl_command_queue queue)\n{{\n{body}}}\n\n"
                  for n, body in enumerate(bodies))
    cases = "".join(f"    case {n}: return run_{n}(self, queue);\n" for n in range(1, len(bodies)))
    return rendered(RUN, NAME=name, VARIANTS=own,
                    ALL=f"    switch (self->variant) {{\n{cases}    default: return run_0(self, queue);\n    }}\n")


def _lines(tasks: Sequence[Task], first: int, depth: int, values: Mapping[str, str]) -> list[str]:
    """first: number of the first launch."""
    lines: list[str] = []
    pad = "    " * (depth + 1)
    for repeat, run_ in nested(tasks, depth):
        if repeat is None:
            lines.append(f"{pad}if (!error) error = launch(self, queue, {first}, {first + len(run_) - 1}, at);")
        else:
            name, known = f"n{depth}", dict(values)
            lower, upper = (formula.in_c(n, known) for n in (repeat.lower, repeat.upper))
            lines.append(f"{pad}for (int64_t {name} = {lower}; {name} < {upper} && !error; {name} += {repeat.step}) {{"
                         f" /* {repeat.var} */")
            lines.append(f"{pad}    at[{depth}] = (cl_int){name};")
            lines += _lines(run_, first, depth + 1, known | {repeat.var: name})
            lines.append(f"{pad}}}")
        first += len(run_)
    return lines
