"""Which variant serves some sizes, and what follows from them, as LLVM IR.

    int NAME_resize(model, const int64_t *sizes)        one for each of NAME_sizes; BAD_SIZE changes nothing
    i32 choose(model, sizes)                            the same, of sizes that nobody else changes, while nothing runs

What follows from sizes lies in the model's memory for NUMBERS:

    words of kernels    bytes of copies    shapes of the caller's arrays, one behind another    their records (NAME_array)
"""

from __future__ import annotations

from dataclasses import dataclass

from polytc.program.scalars import DTYPES
from polytc.targets.llvm.standalone.chain import NUMBERS, SCRATCH, Chain, Place, Skip, Status, Step, Variant
from polytc.targets.llvm.standalone.checks import table
from polytc.targets.llvm.standalone.formulas import FLOOR, Formulas
from polytc.targets.llvm.standalone.record import LEVEL, POINTERS, ROWS, TEAM, VARIANT

RECORD = 40
"""Bytes of a NAME_array."""


@dataclass(frozen=True)
class Layout:
    """Where the parts of NUMBERS begin, in bytes, and where they end."""

    copies: int
    shapes: int
    records: int
    end: int


def layout(chain: Chain) -> Layout:
    """Of a chain."""
    copies = -(-chain.numbers // 8) * 8
    shapes = copies + 8 * max((len(v.copies) for v in chain.variants), default=0)
    records = shapes + 8 * sum(len(a.shape) for a in chain.arrays)
    return Layout(copies, shapes, records, records + RECORD * len(chain.arrays))


def text(chain: Chain) -> str:
    """The functions, and the tables of the variants."""
    found = [FLOOR, table("least", [s.least for s in chain.sizes]), table("largest", [s.largest for s in chain.sizes])]
    for k, v in enumerate(chain.variants):
        found += [_tables(chain, v, k), _fits(chain, v, k), _bind(chain, v, k)]
    return "".join((*found, _describe(chain), _ADOPT, _choose(chain), _resize(chain)))


def _tables(chain: Chain, v: Variant, number: int) -> str:
    """The steps, places and copies of a variant."""
    places, rows = list[Place](), list[str]()
    for step in v.steps:
        if isinstance(step, Skip):
            rows.append(f"%step {{ ptr null, i64 {len(places)}, i64 {int(step.wanted)}, i64 {step.count} }}")
            places.append(step.condition)
            continue
        parallel = 0 if chain.sources[step.source].options["parallel"] == "0" else 1
        rows.append(f"%step {{ ptr @{chain.name}.kernel{step.source}, i64 {len(places)}, i64 {step.arena}, i64 {parallel} }}")
        places += step.args
    cells = [f"%place {{ i64 {p.area}, i64 {p.offset} }}" for p in places]
    first = layout(chain).copies
    copies = [", ".join(f"%place {{ i64 {p.area}, i64 {p.offset} }}" for p in (c.source, c.target)) + f", i64 {first + 8 * k}"
              for k, c in enumerate(v.copies)]
    kinds = (("steps", "step", rows), ("places", "place", cells), ("copies", "copy", [f"%copy {{ {c} }}" for c in copies]))
    made = "".join(f"@{name}.{number} = internal constant [{len(of)} x %{kind}] [{', '.join(of)}]\n"
                   for name, kind, of in kinds)
    fields = ", ".join(f"ptr @{name}.{number}, i64 {len(of)}" for name, _, of in kinds)
    return f"{made}@variant.{number} = internal constant %variant {{ {fields} }}\n"


def counts(v: Variant) -> tuple[int, int]:
    """How many steps and places a variant has."""
    return len(v.steps), sum(len(s.args) if isinstance(s, Step) else 1 for s in v.steps)


def _formulas(chain: Chain) -> Formulas:
    """Formulas of the sizes in the array %sizes."""
    made = Formulas({s.name: f"%s{k}" for k, s in enumerate(chain.sizes)})
    for k in range(len(chain.sizes)):
        made.lines += [f"  %s{k}.p = getelementptr i64, ptr %sizes, i64 {k}\n", f"  %s{k} = load i64, ptr %s{k}.p\n"]
    return made


def _fits(chain: Chain, v: Variant, number: int) -> str:
    made = _formulas(chain)
    met = [made.met(g) for g in v.guards]
    for terms in (*(w.value for w in v.words), *(c.bytes for c in v.copies), *(n for shape in v.extents for n in shape)):
        made.value(terms)
    answer = made.all([*met, *made.divides()])
    return f"define internal i1 @fits.{number}(ptr %sizes) {{\n{''.join(made.lines)}  ret i1 {answer}\n}}\n"


def _bind(chain: Chain, v: Variant, number: int) -> str:
    """Writes what follows from the sizes."""
    made, at = _formulas(chain), layout(chain)
    stores: list[str] = []

    def store(offset: int, value: str, kind: str = "i64") -> None:
        k = len(stores)
        stores.append(f"  %to.{k} = getelementptr i8, ptr %numbers, i64 {offset}\n"
                      f"  store {kind} {value}, ptr %to.{k}, align 1\n")
    for word in v.words:
        store(word.offset, *made.converted(word.value, DTYPES[word.dtype]))
    for k, c in enumerate(v.copies):
        store(at.copies + 8 * k, made.value(c.bytes))
    place = at.shapes
    for k, (a, extents) in enumerate(zip(chain.arrays, v.extents, strict=True)):
        size = str(a.element)
        for n in extents:
            store(place, made.value(n))
            size = made.product([size, made.value(n)])
            place += 8
        store(at.records + RECORD * k + 16, size)
    return (f"define internal void @bind.{number}(ptr %model, ptr %sizes) {{\n"
            f"  %numbers = call ptr @field(ptr %model, i64 {NUMBERS})\n{''.join((*made.lines, *stores))}  ret void\n}}\n")


def _describe(chain: Chain) -> str:
    """Writes the records of the caller's arrays, but for their sizes."""
    at = layout(chain)
    place, lines = at.shapes, []
    kinds = [("inputs", k) for k in range(len(chain.inputs))] + [("outputs", k) for k in range(len(chain.outputs))]
    for n, ((kind, k), a) in enumerate(zip(kinds, chain.arrays, strict=True)):
        lines += [f"  %to.{n} = getelementptr i8, ptr %numbers, i64 {at.records + RECORD * n}\n",
                  f"  %from.{n} = getelementptr %array, ptr @{kind}, i64 {k}\n",
                  f"  call void @llvm.memcpy.p0.p0.i64(ptr %to.{n}, ptr %from.{n}, i64 {RECORD}, i1 false)\n",
                  f"  %shape.{n} = getelementptr i8, ptr %numbers, i64 {place}\n",
                  f"  %field.{n} = getelementptr %array, ptr %to.{n}, i64 0, i32 4\n  store ptr %shape.{n}, ptr %field.{n}\n"]
        place += 8 * len(a.shape)
    return (f"define internal void @describe(ptr %model) {{\n  %numbers = call ptr @field(ptr %model, i64 {NUMBERS})\n"
            f"{''.join(lines)}  ret void\n}}\n")


_ADOPT = f"""\
; Writes the table of the steps of a variant, as native/chain_walk.py reads it.
define internal void @adopt(ptr %model, ptr %variant) {{
  %kept = call ptr @word(ptr %model, i64 {VARIANT})
  store ptr %variant, ptr %kept
  %team.p = call ptr @word(ptr %model, i64 {TEAM})
  %threads = load i64, ptr %team.p
  %rows = call ptr @field(ptr %model, i64 {ROWS})
  %pointers = call ptr @field(ptr %model, i64 {POINTERS})
  %memory = call ptr @field(ptr %model, i64 {SCRATCH})
  %steps = load ptr, ptr %variant
  %count.p = getelementptr %variant, ptr %variant, i64 0, i32 1
  %count = load i64, ptr %count.p
  br label %next
next:
  %k = phi i64 [ 0, %0 ], [ %k1, %row ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %row, label %done
row:
  %step = getelementptr %step, ptr %steps, i64 %k
  %first.p = getelementptr %step, ptr %step, i64 0, i32 1
  %arena.p = getelementptr %step, ptr %step, i64 0, i32 2
  %parallel.p = getelementptr %step, ptr %step, i64 0, i32 3
  %entry = load ptr, ptr %step
  %first = load i64, ptr %first.p
  %arena = load i64, ptr %arena.p
  %parallel = load i64, ptr %parallel.p
  %skips = icmp eq ptr %entry, null
  %is = icmp ne i64 %parallel, 0
  %own.team = select i1 %is, i64 %threads, i64 1
  %team = select i1 %skips, i64 %parallel, i64 %own.team
  %at = mul i64 %k, 4
  %row.0 = getelementptr i64, ptr %rows, i64 %at
  %row.1 = getelementptr i64, ptr %row.0, i64 1
  %row.2 = getelementptr i64, ptr %row.0, i64 2
  %row.3 = getelementptr i64, ptr %row.0, i64 3
  %args = getelementptr ptr, ptr %pointers, i64 %first
  %wanted.as = inttoptr i64 %arena to ptr
  %kernel.memory = getelementptr i8, ptr %memory, i64 %arena
  %own.memory = select i1 %skips, ptr %wanted.as, ptr %kernel.memory
  store ptr %entry, ptr %row.0
  store ptr %args, ptr %row.1
  store ptr %own.memory, ptr %row.2
  store i64 %team, ptr %row.3
  %k1 = add i64 %k, 1
  br label %next
done:
  ret void
}}
"""


def _choose(chain: Chain) -> str:
    asked = "".join(f"""\
  %same.{k} = icmp eq i64 %level, {v.level}
  br i1 %same.{k}, label %ask.{k}, label %next.{k}
ask.{k}:
  %fits.{k} = call i1 @fits.{k}(ptr %sizes)
  br i1 %fits.{k}, label %take.{k}, label %next.{k}
take.{k}:
  call void @bind.{k}(ptr %model, ptr %sizes)
  call void @adopt(ptr %model, ptr @variant.{k})
  ret i32 {Status.OK}
next.{k}:
""" for k, v in enumerate(chain.variants))
    return f"""\
define internal i32 @choose(ptr %model, ptr %sizes) {{
  %level.p = call ptr @word(ptr %model, i64 {LEVEL})
  %level = load i64, ptr %level.p
{asked}  ret i32 {Status.BAD_SIZE}
}}
"""


def _resize(chain: Chain) -> str:
    count = len(chain.sizes)
    return f"""\
define i32 @{chain.name}_resize(ptr %model, ptr %given) {{
  %sizes = alloca i64, i64 {max(1, count)}
  %some = icmp ne ptr %given, null
  br i1 %some, label %next, label %refused
next:
  %k = phi i64 [ 0, %0 ], [ %k1, %good ]
  %more = icmp ult i64 %k, {count}
  br i1 %more, label %look, label %enter
look:
  %given.p = getelementptr i64, ptr %given, i64 %k
  %least.p = getelementptr i64, ptr @least, i64 %k
  %largest.p = getelementptr i64, ptr @largest, i64 %k
  %size.p = getelementptr i64, ptr %sizes, i64 %k
  %size = load i64, ptr %given.p
  %least = load i64, ptr %least.p
  %largest = load i64, ptr %largest.p
  store i64 %size, ptr %size.p
  %enough = icmp sge i64 %size, %least
  %within = icmp sle i64 %size, %largest
  %both = and i1 %enough, %within
  br i1 %both, label %good, label %refused
good:
  %k1 = add i64 %k, 1
  br label %next
refused:
  ret i32 {Status.BAD_SIZE}
enter:
  %alone = call i1 @enter(ptr %model)
  br i1 %alone, label %change, label %taken
taken:
  ret i32 {Status.BUSY}
change:
  %status = call i32 @choose(ptr %model, ptr %sizes)
  call void @leave(ptr %model)
  ret i32 %status
}}
"""
