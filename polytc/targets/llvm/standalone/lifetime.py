"""How a model without Python begins and ends, as LLVM IR: its memory, its weights, its threads.

    int NAME_open(model, path, threads, hooks)                  weights of a file, which is read and looked at
    int NAME_open_memory(model, data, bytes, threads, hooks)    weights that are the caller's, which models may share
    void NAME_close(model)
"""

from __future__ import annotations

from polytc.codegen import weight_file
from polytc.native import parallel_regions
from polytc.targets.llvm.standalone.chain import Chain, Status
from polytc.targets.llvm.standalone.record import (
    AREAS,
    CONTEXT,
    COUNT,
    HOOKS,
    JOIN,
    OWNED,
    RELEASE,
    START,
    WORDS,
    rounded,
)


def text(chain: Chain, steps: int, places: int) -> str:
    """The functions. steps, places: how many the tables have."""
    return _create(chain, steps, places) + _from_file(chain) + _from_memory(chain) + _ready(chain, steps) + _close(chain)


def _create(chain: Chain, steps: int, places: int) -> str:
    """A record with its memory, but for the weights: NULL if there is none."""
    sizes = {1: rounded(chain.arena), 3: rounded(32 * steps), 4: rounded(8 * places), 5: rounded(parallel_regions.BYTES)}
    asked = "".join(f"  %m.{k} = call i1 @memory(ptr %model, i64 {k}, i64 {size})\n" for k, size in sizes.items())
    return f"""\
define internal ptr @create(i32 %wanted, ptr %hooks) {{
  %own = icmp eq ptr %hooks, null
  %given = select i1 %own, ptr @own.hooks, ptr %hooks
  %context = load ptr, ptr %given
  %allocate.p = getelementptr ptr, ptr %given, i64 1
  %allocate = load ptr, ptr %allocate.p
  %model = call ptr %allocate(ptr %context, i64 {rounded(8 * WORDS)})
  %there = icmp ne ptr %model, null
  br i1 %there, label %fill, label %none
none:
  ret ptr null
fill:
  call void @llvm.memset.p0.i64(ptr %model, i8 0, i64 {8 * WORDS}, i1 false)
  %kept = call ptr @word(ptr %model, i64 {HOOKS})
  call void @llvm.memcpy.p0.p0.i64(ptr %kept, ptr %given, i64 40, i1 false)
  %few = icmp slt i32 %wanted, 1
  %atleast = select i1 %few, i32 1, i32 %wanted
  %threads = sext i32 %atleast to i64
  %own.bytes = mul i64 %threads, {rounded(chain.thread_bytes)}
  %scratch = add i64 %own.bytes, {rounded(chain.scratch)}
  %pairs = mul i64 %threads, 64
{asked}  %m.2 = call i1 @memory(ptr %model, i64 2, i64 %scratch)
  %m.6 = call i1 @memory(ptr %model, i64 6, i64 %pairs)
  %a = and i1 %m.1, %m.2
  %b = and i1 %m.3, %m.4
  %c = and i1 %m.5, %m.6
  %ab = and i1 %a, %b
  %all = and i1 %ab, %c
  br i1 %all, label %made, label %fail
made:
  ret ptr %model
fail:
  call void @{chain.name}_close(ptr %model)
  ret ptr null
}}
"""


def _opened(name: str, parameters: str, body: str) -> str:
    """One of the functions that open. body: from a record `%model` to %found, a status, and a branch to %end."""
    return f"""\
define i32 @{name}(ptr %out, {parameters}, i32 %wanted, ptr %hooks) {{
  store ptr null, ptr %out
  %able = call i1 @able()
  br i1 %able, label %create, label %foreign
foreign:
  ret i32 {Status.FOREIGN_PROCESSOR}
create:
  %model = call ptr @create(i32 %wanted, ptr %hooks)
  %there = icmp ne ptr %model, null
  br i1 %there, label %weights, label %none
none:
  ret i32 {Status.NO_MEMORY}
weights:
{body}end:
  %good = icmp eq i32 %found, 0
  br i1 %good, label %ready, label %fail
ready:
  call void @ready(ptr %model, i32 %wanted)
  store ptr %model, ptr %out
  ret i32 {Status.OK}
fail:
  call void @{name.removesuffix('_memory').removesuffix('_open')}_close(ptr %model)
  ret i32 %found
}}
"""


def _from_file(chain: Chain) -> str:
    return _opened(f"{chain.name}_open", "ptr %path", f"""\
  %needs = icmp ne i64 {chain.weights}, 0
  br i1 %needs, label %room, label %got
room:
  %some = call i1 @memory(ptr %model, i64 0, i64 {rounded(chain.weights)})
  %owned = call ptr @word(ptr %model, i64 {OWNED})
  store i64 1, ptr %owned
  br i1 %some, label %named, label %got
named:
  %name = icmp ne ptr %path, null
  br i1 %name, label %read, label %got
read:
  %file = call ptr @fopen(ptr %path, ptr @mode)
  %opened = icmp ne ptr %file, null
  br i1 %opened, label %load, label %got
load:
  %into = call ptr @field(ptr %model, i64 0)
  %read.bytes = call i64 @fread(ptr %into, i64 1, i64 {chain.weights}, ptr %file)
  %behind = call i32 @fgetc(ptr %file)
  %ends = icmp slt i32 %behind, 0
  %bytes = select i1 %ends, i64 %read.bytes, i64 0
  %closed = call i32 @fclose(ptr %file)
  %whole = call i1 @are_weights(ptr %into, i64 %bytes, i64 {chain.weights})
  %judged = select i1 %whole, i32 {Status.OK}, i32 {Status.BAD_WEIGHTS}
  br label %got
got:
  %found = phi i32 [ {Status.OK}, %weights ], [ {Status.NO_MEMORY}, %room ], [ {Status.NO_FILE}, %named ],
    [ {Status.NO_FILE}, %read ], [ %judged, %load ]
  br label %end
""")


def _from_memory(chain: Chain) -> str:
    return _opened(f"{chain.name}_open_memory", "ptr %data, i64 %bytes", f"""\
  %needs = icmp ne i64 {chain.weights}, 0
  br i1 %needs, label %look, label %got
look:
  %address = ptrtoint ptr %data to i64
  %within = and i64 %address, 63
  %aligned = icmp eq i64 %within, 0
  %some = icmp ne ptr %data, null
  %enough = icmp eq i64 %bytes, {chain.weights}
  %placed = and i1 %aligned, %some
  %readable = and i1 %placed, %enough
  br i1 %readable, label %compare, label %got
compare:
  %differs = call i32 @memcmp(ptr %data, ptr @header, i64 {weight_file.BYTES})
  %same = icmp eq i32 %differs, 0
  br i1 %same, label %take, label %got
take:
  store ptr %data, ptr %model
  br label %got
got:
  %found = phi i32 [ {Status.OK}, %weights ], [ {Status.BAD_WEIGHTS}, %look ], [ {Status.BAD_WEIGHTS}, %compare ],
    [ {Status.OK}, %take ]
  br label %end
""")


def _ready(chain: Chain, steps: int) -> str:
    """Writes the table of the steps and starts the threads. Those that cannot be started leave their share to the others."""
    return f"""\
define internal void @ready(ptr %model, i32 %wanted) {{
  %few = icmp slt i32 %wanted, 1
  %atleast = select i1 %few, i32 1, i32 %wanted
  %threads = sext i32 %atleast to i64
  %rows = call ptr @field(ptr %model, i64 3)
  %pointers = call ptr @field(ptr %model, i64 4)
  %memory = call ptr @field(ptr %model, i64 2)
  br label %next
next:
  %k = phi i64 [ 0, %0 ], [ %k1, %row ]
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
  %count = call ptr @word(ptr %model, i64 {COUNT})
  %context = call ptr @field(ptr %model, i64 {CONTEXT})
  %start.with = call ptr @field(ptr %model, i64 {START})
  br label %spawn
spawn:
  %n = phi i64 [ 1, %pool ], [ %n1, %started ]
  %another = icmp slt i64 %n, %threads
  br i1 %another, label %begin, label %done
begin:
  %before = sub i64 %n, 1
  %skip = mul i64 %before, 64
  %what = getelementptr i8, ptr %handles, i64 %skip
  %slot.p = getelementptr i64, ptr %what, i64 1
  %thread.p = getelementptr i64, ptr %what, i64 2
  store ptr %state, ptr %what
  store i64 %n, ptr %slot.p
  %failed = call i32 %start.with(ptr %context, ptr %thread.p, ptr @start, ptr %what)
  %good = icmp eq i32 %failed, 0
  br i1 %good, label %started, label %done
started:
  store i64 %n, ptr %count
  %n1 = add i64 %n, 1
  br label %spawn
done:
  ret void
}}
"""


def _close(chain: Chain) -> str:
    stop = parallel_regions.OFFSET["stop"]
    frees = "".join(f"  call void @forget(ptr %model, i64 {k})\n" for k in range(1, AREAS))
    return f"""\
define void @{chain.name}_close(ptr %model) {{
  %there = icmp ne ptr %model, null
  br i1 %there, label %look, label %done
look:
  %context = call ptr @field(ptr %model, i64 {CONTEXT})
  %count.p = call ptr @word(ptr %model, i64 {COUNT})
  %count = load i64, ptr %count.p
  %handles = call ptr @field(ptr %model, i64 6)
  %pool = call ptr @field(ptr %model, i64 5)
  %join.by = call ptr @field(ptr %model, i64 {JOIN})
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %halt, label %weights
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
  call void %join.by(ptr %context, i64 %thread)
  %k1 = add i64 %k, 1
  %more = icmp slt i64 %k1, %count
  br i1 %more, label %join, label %weights
weights:
  %owned.p = call ptr @word(ptr %model, i64 {OWNED})
  %owned = load i64, ptr %owned.p
  %ours = icmp ne i64 %owned, 0
  br i1 %ours, label %own, label %release
own:
  call void @forget(ptr %model, i64 0)
  br label %release
release:
{frees}  %free = call ptr @field(ptr %model, i64 {RELEASE})
  call void %free(ptr %context, ptr %model)
  br label %done
done:
  ret void
}}
"""
