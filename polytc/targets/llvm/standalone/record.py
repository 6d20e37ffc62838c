"""A model's record in memory, of 64-bit words, and the functions that it takes memory and threads by, as LLVM IR.

    weights, arena, scratch, numbers, rows, pointers, pool, handles     memory
    count       of the threads that were started
    busy        1 during a run, and while sizes are changed
    owned       1 if the weights are the model's to release
    variant     the tables of the steps that run
    level       the kind of processor
    team        how many threads were asked for
    hooks       context, allocate, release, start, join: the caller's, or those of libc and pthread
"""

from __future__ import annotations

ROWS, POINTERS, POOL, HANDLES = range(4, 8)
"""Words behind those of the areas (chain.py), which hold their memory."""
MEMORIES = 8
"""The first words: memory that is released with the model."""
COUNT, BUSY, OWNED, VARIANT, LEVEL, TEAM, HOOKS = range(MEMORIES, MEMORIES + 7)
CONTEXT, ALLOCATE, RELEASE, START, JOIN = range(HOOKS, HOOKS + 5)
WORDS = HOOKS + 5
ALIGN = 64


def rounded(size: int) -> int:
    """Bytes to ask for: some, and whole lines."""
    return -(-max(size, 1) // ALIGN) * ALIGN


TEXT = f"""\
%step = type {{ ptr, i64, i64, i64 }}
%place = type {{ i64, i64 }}
%array = type {{ ptr, ptr, i64, i64, ptr }}
%copy = type {{ %place, %place, i64 }}
%variant = type {{ ptr, i64, ptr, i64, ptr, i64 }}
%hooks = type {{ ptr, ptr, ptr, ptr, ptr }}
@mode = internal constant [3 x i8] c"rb\\00"
@own.hooks = internal constant %hooks {{ ptr null, ptr @own.allocate, ptr @own.release, ptr @own.start, ptr @own.join }}
declare ptr @fopen(ptr, ptr)
declare i64 @fread(ptr, i64, i64, ptr)
declare i32 @fclose(ptr)
declare i32 @fgetc(ptr)
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_join(i64, ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define internal ptr @own.allocate(ptr %context, i64 %bytes) {{
  %m = call ptr @aligned_alloc(i64 {ALIGN}, i64 %bytes)
  ret ptr %m
}}
define internal void @own.release(ptr %context, ptr %memory) {{
  call void @free(ptr %memory)
  ret void
}}
define internal i32 @own.start(ptr %context, ptr %thread, ptr %work, ptr %argument) {{
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr %work, ptr %argument)
  ret i32 %failed
}}
define internal void @own.join(ptr %context, i64 %thread) {{
  %joined = call i32 @pthread_join(i64 %thread, ptr null)
  ret void
}}
; What a thread runs. what: the pool, and the thread's number.
define internal ptr @start(ptr %what) {{
  %pool = load ptr, ptr %what
  %slot.p = getelementptr i64, ptr %what, i64 1
  %slot = load i64, ptr %slot.p
  call void @worker(ptr %pool, i64 %slot)
  ret ptr null
}}
define internal ptr @word(ptr %model, i64 %k) {{
  %p = getelementptr i64, ptr %model, i64 %k
  ret ptr %p
}}
define internal ptr @field(ptr %model, i64 %k) {{
  %p = getelementptr i64, ptr %model, i64 %k
  %v = load ptr, ptr %p
  ret ptr %v
}}
; Begins what no second thread may do with the model meanwhile; false if one does.
define internal i1 @enter(ptr %model) {{
  %busy = call ptr @word(ptr %model, i64 {BUSY})
  %entered = cmpxchg ptr %busy, i64 0, i64 1 acquire monotonic
  %alone = extractvalue {{ i64, i1 }} %entered, 1
  ret i1 %alone
}}
define internal void @leave(ptr %model) {{
  %busy = call ptr @word(ptr %model, i64 {BUSY})
  store atomic i64 0, ptr %busy release, align 8
  ret void
}}
; Memory for a word of the record; false if there is none.
define internal i1 @memory(ptr %model, i64 %k, i64 %bytes) {{
  %context = call ptr @field(ptr %model, i64 {CONTEXT})
  %allocate = call ptr @field(ptr %model, i64 {ALLOCATE})
  %m = call ptr %allocate(ptr %context, i64 %bytes)
  %p = getelementptr i64, ptr %model, i64 %k
  store ptr %m, ptr %p
  %ok = icmp ne ptr %m, null
  ret i1 %ok
}}
; Releases the memory of a word of the record, if there is some.
define internal void @forget(ptr %model, i64 %k) {{
  %m = call ptr @field(ptr %model, i64 %k)
  %some = icmp ne ptr %m, null
  br i1 %some, label %release, label %done
release:
  %context = call ptr @field(ptr %model, i64 {CONTEXT})
  %free = call ptr @field(ptr %model, i64 {RELEASE})
  call void %free(ptr %context, ptr %m)
  br label %done
done:
  ret void
}}
"""
