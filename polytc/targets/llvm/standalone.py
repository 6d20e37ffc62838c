"""A chain of kernels as one object file without Python: the kernels, the thread pool, and three functions around them.

    void *NAME_open(const char *weights, int threads);      reads the weights, makes memory and threads; NULL if it cannot
    int NAME_run(void *model, const T *in..., T *out...);   one run; one at a time for each `model`; 1 for bad arrays
    void NAME_close(void *model);

It needs libc, libm and pthread. Every argument of a kernel is a place in one of several areas: the weights, the arena of
intermediate values, the scratch memory that all kernels share, or one of the caller's arrays. `run` turns places into pointers,
then walks the steps as the JIT does (native/chain_walk.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from polytc.codegen import weight_file
from polytc.codegen.target import Source
from polytc.native import chain_walk, parallel_regions, subnormals
from polytc.targets.llvm import standalone_checks
from polytc.targets.llvm.target import LLVMTarget

WEIGHTS, ARENA, SCRATCH = 0, 1, 2
"""The areas that the model owns; those of the caller's arrays follow."""
OWN = 3
ALIGN = 64


@dataclass(frozen=True)
class Place:
    """area: WEIGHTS, ARENA, SCRATCH, or OWN + number of the caller's array. offset: bytes."""

    area: int
    offset: int = 0


@dataclass(frozen=True)
class Step:
    """One kernel source run once. source: its number. args: where its arrays and then its scratch buffers lie. arena: bytes
    into SCRATCH where the threads' own memory starts."""

    source: int
    args: tuple[Place, ...]
    arena: int


@dataclass(frozen=True)
class Skip:
    """A condition, one bool: the next `count` steps are skipped unless it is `wanted`."""

    condition: Place
    wanted: bool
    count: int


@dataclass(frozen=True)
class Copy:
    """Bytes that are copied after the last step: an output that is another value, too."""

    source: Place
    target: Place
    bytes: int


@dataclass(frozen=True)
class Chain:
    """name: prefix of the functions, a C identifier. header: the words that the file of weights begins with. arena, scratch:
    bytes; thread_bytes: what each thread adds to scratch. inputs, outputs: bytes of each array that the caller gives."""

    name: str
    sources: tuple[Source, ...]
    steps: tuple[Step | Skip, ...]
    copies: tuple[Copy, ...]
    header: tuple[int, ...]
    arena: int
    scratch: int
    thread_bytes: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def weights(self) -> int:
        """Bytes of the file of weights; 0 if there are none."""
        return weight_file.BYTES + self.header[weight_file.BYTES_WORD] if self.header else 0

    @property
    def arrays(self) -> int:
        """How many the caller gives."""
        return len(self.inputs) + len(self.outputs)


def object_file(chain: Chain, target: LLVMTarget, triple: str = "") -> bytes:
    """The object file. triple: of the system it is for, '' for this one."""
    architecture = target.machine.architecture
    kernels = [(_renamed(s.text, f"{chain.name}.kernel{k}"), s) for k, s in enumerate(chain.sources)]
    walk = chain_walk.text(architecture).removeprefix(subnormals.declarations(architecture))  # those of the pool's part
    support = _internal(parallel_regions.text(architecture)) + _internal(walk)
    return target.standalone([(support + driver(chain), None), *kernels], triple)


def _renamed(text: str, name: str) -> str:
    """The kernel's module with another name for its one entry."""
    return re.sub(r"@run\(", f"@{name}(", text)


def _internal(text: str) -> str:
    return re.sub(r"^define (?!internal)", "define internal ", text, flags=re.MULTILINE)


_WORDS = 8
"""Of the model's record: weights, arena, scratch, steps, pointers, pool, threads, their number."""


def driver(chain: Chain) -> str:
    """The tables of the chain and its three functions, as LLVM IR."""
    places: list[Place] = []
    rows = []
    for step in chain.steps:
        if isinstance(step, Skip):
            rows.append(f"%step {{ ptr null, i64 {len(places)}, i64 {int(step.wanted)}, i64 {step.count} }}")
            places.append(step.condition)
            continue
        parallel = 0 if chain.sources[step.source].options["parallel"] == "0" else 1
        rows.append(f"%step {{ ptr @{chain.name}.kernel{step.source}, i64 {len(places)}, i64 {step.arena}, i64 {parallel} }}")
        places += step.args
    cells = [f"%place {{ i64 {p.area}, i64 {p.offset} }}" for p in places]
    used = sorted({s.source for s in chain.steps if isinstance(s, Step)})
    declared = "".join(f"declare void @{chain.name}.kernel{k}(ptr, ptr, ptr, ptr, i64)\n" for k in used)
    tables = (f"@steps = internal constant [{len(rows)} x %step] [{', '.join(rows)}]\n"
              f"@places = internal constant [{len(cells)} x %place] [{', '.join(cells)}]\n")
    checks = standalone_checks.text(chain.header, chain.inputs, chain.outputs)
    return (_TYPES + checks + declared + tables + _open(chain, len(rows), len(cells)) + _run(chain, len(rows), len(cells))
            + _close(chain))


_TYPES = """\
%step = type { ptr, i64, i64, i64 }
%place = type { i64, i64 }
@mode = internal constant [3 x i8] c"rb\\00"
declare ptr @fopen(ptr, ptr)
declare i64 @fread(ptr, i64, i64, ptr)
declare i32 @fclose(ptr)
declare i32 @fgetc(ptr)
declare ptr @aligned_alloc(i64, i64)
declare ptr @calloc(i64, i64)
declare void @free(ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define internal ptr @start(ptr %what) {
  %pool = load ptr, ptr %what
  %slot.p = getelementptr i64, ptr %what, i64 1
  %slot = load i64, ptr %slot.p
  call void @worker(ptr %pool, i64 %slot)
  ret ptr null
}
define internal ptr @word(ptr %model, i64 %k) {
  %p = getelementptr i64, ptr %model, i64 %k
  ret ptr %p
}
define internal ptr @field(ptr %model, i64 %k) {
  %p = getelementptr i64, ptr %model, i64 %k
  %v = load ptr, ptr %p
  ret ptr %v
}
define internal i1 @memory(ptr %model, i64 %k, i64 %bytes) {
  %m = call ptr @aligned_alloc(i64 64, i64 %bytes)
  %p = getelementptr i64, ptr %model, i64 %k
  store ptr %m, ptr %p
  %ok = icmp ne ptr %m, null
  ret i1 %ok
}
"""


def _rounded(size: int) -> int:
    return -(-max(size, 1) // ALIGN) * ALIGN


def _open(chain: Chain, steps: int, places: int) -> str:
    """Threads that cannot be started leave their share to the others."""
    name = chain.name
    return f"""\
define ptr @{name}_open(ptr %path, i32 %wanted) {{
  %model = call ptr @calloc(i64 {_WORDS}, i64 8)
  %there = icmp ne ptr %model, null
  br i1 %there, label %allocate, label %none
none:
  ret ptr null
allocate:
  %few = icmp slt i32 %wanted, 1
  %atleast = select i1 %few, i32 1, i32 %wanted
  %threads = sext i32 %atleast to i64
  %own = mul i64 %threads, {_rounded(chain.thread_bytes)}
  %scratch = add i64 %own, {_rounded(chain.scratch)}
  %pairs = mul i64 %threads, 64
  %a = call i1 @memory(ptr %model, i64 0, i64 {_rounded(chain.weights)})
  %b = call i1 @memory(ptr %model, i64 1, i64 {_rounded(chain.arena)})
  %c = call i1 @memory(ptr %model, i64 2, i64 %scratch)
  %d = call i1 @memory(ptr %model, i64 3, i64 {_rounded(32 * steps)})
  %e = call i1 @memory(ptr %model, i64 4, i64 {_rounded(8 * places)})
  %f = call i1 @memory(ptr %model, i64 5, i64 {_rounded(parallel_regions.BYTES)})
  %g = call i1 @memory(ptr %model, i64 6, i64 %pairs)
  %ab = and i1 %a, %b
  %cd = and i1 %c, %d
  %ef = and i1 %e, %f
  %abcd = and i1 %ab, %cd
  %efg = and i1 %ef, %g
  %all = and i1 %abcd, %efg
  br i1 %all, label %weights, label %fail
weights:
  %needs = icmp ne i64 {chain.weights}, 0
  br i1 %needs, label %read, label %table
read:
  %file = call ptr @fopen(ptr %path, ptr @mode)
  %opened = icmp ne ptr %file, null
  br i1 %opened, label %load, label %fail
load:
  %into = call ptr @field(ptr %model, i64 0)
  %read.bytes = call i64 @fread(ptr %into, i64 1, i64 {chain.weights}, ptr %file)
  %behind = call i32 @fgetc(ptr %file)
  %ends = icmp slt i32 %behind, 0
  %got = select i1 %ends, i64 %read.bytes, i64 0
  %closed = call i32 @fclose(ptr %file)
  %whole = call i1 @are_weights(ptr %into, i64 %got, i64 {chain.weights})
  br i1 %whole, label %table, label %fail
table:
  %rows = call ptr @field(ptr %model, i64 3)
  %pointers = call ptr @field(ptr %model, i64 4)
  %memory = call ptr @field(ptr %model, i64 2)
  br label %next
next:
  %k = phi i64 [ 0, %table ], [ %k1, %row ]
  %more = icmp slt i64 %k, {steps}
  br i1 %more, label %row, label %pool
row:
  %step = getelementptr %step, ptr @steps, i64 %k
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
pool:
  %state = call ptr @field(ptr %model, i64 5)
  call void @llvm.memset.p0.i64(ptr %state, i8 0, i64 {parallel_regions.BYTES}, i1 false)
  %handles = call ptr @field(ptr %model, i64 6)
  %count = call ptr @word(ptr %model, i64 7)
  br label %spawn
spawn:
  %n = phi i64 [ 1, %pool ], [ %n1, %started ]
  %another = icmp slt i64 %n, %threads
  br i1 %another, label %begin, label %ready
begin:
  %before = sub i64 %n, 1
  %skip = mul i64 %before, 64
  %what = getelementptr i8, ptr %handles, i64 %skip
  %slot.p = getelementptr i64, ptr %what, i64 1
  %thread.p = getelementptr i64, ptr %what, i64 2
  store ptr %state, ptr %what
  store i64 %n, ptr %slot.p
  %failed = call i32 @pthread_create(ptr %thread.p, ptr null, ptr @start, ptr %what)
  %good = icmp eq i32 %failed, 0
  br i1 %good, label %started, label %ready
started:
  store i64 %n, ptr %count
  %n1 = add i64 %n, 1
  br label %spawn
ready:
  ret ptr %model
fail:
  call void @{name}_close(ptr %model)
  ret ptr null
}}
"""


def _run(chain: Chain, steps: int, places: int) -> str:
    """Pointers from places, the steps, the copies."""
    params = "".join(f", ptr %array{k}" for k in range(chain.arrays))
    stores = "".join(f"  %base.{OWN + k} = getelementptr ptr, ptr %bases, i64 {OWN + k}\n"
                     f"  store ptr %array{k}, ptr %base.{OWN + k}\n" for k in range(chain.arrays))
    owned = "".join(f"  %own.{k} = call ptr @field(ptr %model, i64 {k})\n  %base.{k} = getelementptr ptr, ptr %bases, i64 {k}\n"
                    f"  store ptr %own.{k}, ptr %base.{k}\n" for k in range(OWN))
    copies = "".join(_copy(k, c) for k, c in enumerate(chain.copies))
    return f"""\
define i32 @{chain.name}_run(ptr %model{params}) {{
  %bases = alloca ptr, i64 {OWN + chain.arrays}
{owned}{stores}  %given = getelementptr ptr, ptr %bases, i64 {OWN}
  %shared = call i1 @shared(ptr %given, i64 {chain.arrays})
  br i1 %shared, label %refused, label %begin
refused:
  ret i32 1
begin:
  %pointers = call ptr @field(ptr %model, i64 4)
  br label %next
next:
  %k = phi i64 [ 0, %begin ], [ %k1, %fill ]
  %more = icmp slt i64 %k, {places}
  br i1 %more, label %fill, label %walk
fill:
  %place = getelementptr %place, ptr @places, i64 %k
  %offset.p = getelementptr %place, ptr %place, i64 0, i32 1
  %area = load i64, ptr %place
  %offset = load i64, ptr %offset.p
  %base.p = getelementptr ptr, ptr %bases, i64 %area
  %base = load ptr, ptr %base.p
  %address = getelementptr i8, ptr %base, i64 %offset
  %slot = getelementptr ptr, ptr %pointers, i64 %k
  store ptr %address, ptr %slot
  %k1 = add i64 %k, 1
  br label %next
walk:
  %rows = call ptr @field(ptr %model, i64 3)
  %pool = call ptr @field(ptr %model, i64 5)
  call void @walk(ptr %rows, i64 {steps}, ptr @launch, ptr %pool, ptr null)
{copies}  ret i32 0
}}
"""


def _copy(k: int, c: Copy) -> str:
    def place(stem: str, p: Place) -> str:
        return (f"  %{stem}.p{k} = getelementptr ptr, ptr %bases, i64 {p.area}\n  %{stem}.b{k} = load ptr, ptr %{stem}.p{k}\n"
                f"  %{stem}{k} = getelementptr i8, ptr %{stem}.b{k}, i64 {p.offset}\n")
    return (place("from", c.source) + place("to", c.target)
            + f"  call void @llvm.memcpy.p0.p0.i64(ptr %to{k}, ptr %from{k}, i64 {c.bytes}, i1 false)\n")


def _close(chain: Chain) -> str:
    stop = parallel_regions.OFFSET["stop"]
    frees = "".join(f"  %m.{k} = call ptr @field(ptr %model, i64 {k})\n  call void @free(ptr %m.{k})\n" for k in range(7))
    return f"""\
define void @{chain.name}_close(ptr %model) {{
  %there = icmp ne ptr %model, null
  br i1 %there, label %look, label %done
look:
  %count.p = call ptr @word(ptr %model, i64 7)
  %count = load i64, ptr %count.p
  %handles = call ptr @field(ptr %model, i64 6)
  %pool = call ptr @field(ptr %model, i64 5)
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %halt, label %release
halt:
  %stop = getelementptr i8, ptr %pool, i64 {stop}
  store atomic i32 1, ptr %stop seq_cst, align 4
  call void @nudge(ptr %pool)
  br label %join
join:
  %k = phi i64 [ 0, %halt ], [ %k1, %join ]
  %skip = mul i64 %k, 64
  %what = getelementptr i8, ptr %handles, i64 %skip
  %thread.p = getelementptr i64, ptr %what, i64 2
  %thread = load i64, ptr %thread.p
  %joined = call i32 @pthread_join(i64 %thread, ptr null)
  %k1 = add i64 %k, 1
  %more = icmp slt i64 %k1, %count
  br i1 %more, label %join, label %release
release:
{frees}  call void @free(ptr %model)
  br label %done
done:
  ret void
}}
"""
