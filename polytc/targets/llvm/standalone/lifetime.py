"""How a model without Python begins and ends, as LLVM IR: its memory, its weights, its threads.

    int NAME_open(model, path, threads, hooks)                  weights of a file, which is read and looked at
    int NAME_open_memory(model, data, bytes, threads, hooks)    weights that are the caller's, which models may share
    void NAME_close(model)
"""

from __future__ import annotations

from polytc.codegen import weight_file
from polytc.native import parallel_regions
from polytc.targets.llvm.standalone import sizes
from polytc.targets.llvm.standalone.chain import ARENA, NUMBERS, SCRATCH, WEIGHTS, Chain, Status
from polytc.targets.llvm.standalone.record import (
    CONTEXT,
    COUNT,
    HANDLES,
    HOOKS,
    JOIN,
    LEVEL,
    MEMORIES,
    OWNED,
    POINTERS,
    POOL,
    RELEASE,
    ROWS,
    START,
    TEAM,
    WORDS,
    rounded,
)


def text(chain: Chain) -> str:
    """The functions."""
    return _create(chain) + _from_file(chain) + _from_memory(chain) + _ready() + _close(chain)


def _create(chain: Chain) -> str:
    """A record with its memory, but for the weights: NULL if there is none."""
    counts = [sizes.counts(v) for v in chain.variants]
    steps, places = (max((c[k] for c in counts), default=0) for k in range(2))
    fixed = {ARENA: chain.arena, NUMBERS: sizes.layout(chain).end, ROWS: 32 * steps, POINTERS: 8 * places,
             POOL: parallel_regions.BYTES}
    asked = [f"  %m.{k} = call i1 @memory(ptr %model, i64 {k}, i64 {rounded(size)})\n" for k, size in fixed.items()]
    asked += [f"  %m.{k} = call i1 @memory(ptr %model, i64 {k}, i64 {size})\n"
              for k, size in ((SCRATCH, "%scratch"), (HANDLES, "%pairs"))]
    every, answers = "%m.1", ""
    for k in range(2, MEMORIES):
        answers += f"  %all.{k} = and i1 {every}, %m.{k}\n"
        every = f"%all.{k}"
    return f"""\
define internal ptr @create(i64 %level, i32 %wanted, ptr %hooks) {{
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
  %level.p = call ptr @word(ptr %model, i64 {LEVEL})
  store i64 %level, ptr %level.p
  %team.p = call ptr @word(ptr %model, i64 {TEAM})
  store i64 %threads, ptr %team.p
{"".join(asked)}{answers}  br i1 {every}, label %made, label %fail
made:
  call void @describe(ptr %model)
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
  %level = call i64 @level()
  %able = icmp sge i64 %level, 0
  br i1 %able, label %create, label %foreign
foreign:
  ret i32 {Status.FOREIGN_PROCESSOR}
create:
  %model = call ptr @create(i64 %level, i32 %wanted, ptr %hooks)
  %there = icmp ne ptr %model, null
  br i1 %there, label %weights, label %none
none:
  ret i32 {Status.NO_MEMORY}
weights:
{body}end:
  %good = icmp eq i32 %found, 0
  br i1 %good, label %choose, label %fail
choose:
  %chosen = call i32 @choose(ptr %model, ptr @largest)
  call void @ready(ptr %model)
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
  %some = call i1 @memory(ptr %model, i64 {WEIGHTS}, i64 {rounded(chain.weights)})
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
  %into = call ptr @field(ptr %model, i64 {WEIGHTS})
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


def _ready() -> str:
    """Starts the threads. Those that cannot be started leave their share to the others."""
    return f"""\
define internal void @ready(ptr %model) {{
  %team.p = call ptr @word(ptr %model, i64 {TEAM})
  %threads = load i64, ptr %team.p
  br label %pool
pool:
  %state = call ptr @field(ptr %model, i64 {POOL})
  call void @llvm.memset.p0.i64(ptr %state, i8 0, i64 {parallel_regions.BYTES}, i1 false)
  %handles = call ptr @field(ptr %model, i64 {HANDLES})
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
    frees = "".join(f"  call void @forget(ptr %model, i64 {k})\n" for k in range(1, MEMORIES))
    return f"""\
define void @{chain.name}_close(ptr %model) {{
  %there = icmp ne ptr %model, null
  br i1 %there, label %look, label %done
look:
  %context = call ptr @field(ptr %model, i64 {CONTEXT})
  %count.p = call ptr @word(ptr %model, i64 {COUNT})
  %count = load i64, ptr %count.p
  %handles = call ptr @field(ptr %model, i64 {HANDLES})
  %pool = call ptr @field(ptr %model, i64 {POOL})
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
  call void @forget(ptr %model, i64 {WEIGHTS})
  br label %release
release:
{frees}  %free = call ptr @field(ptr %model, i64 {RELEASE})
  call void %free(ptr %context, ptr %model)
  br label %done
done:
  ret void
}}
"""
