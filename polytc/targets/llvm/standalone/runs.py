"""One run of a model without Python, as LLVM IR: pointers from places, the steps, the copies.

    int NAME_run_arrays(model, inputs, outputs)     two tables of pointers, in the order of NAME_inputs and NAME_outputs
    int NAME_run(model, in..., out...)

A run begins by setting the model's word BUSY, so that a second thread with the same model is told, and changes nothing.
"""

from __future__ import annotations

from polytc.targets.llvm.standalone.chain import NUMBERS, OWN, Chain, Status
from polytc.targets.llvm.standalone.record import POINTERS, POOL, ROWS, VARIANT
from polytc.targets.llvm.standalone.sizes import layout


def text(chain: Chain) -> str:
    """The functions."""
    return _COPY + _of_tables(chain) + _of_arrays(chain)


_COPY = f"""\
; Where a place lies.
define internal ptr @lies(ptr %bases, ptr %place) {{
  %offset.p = getelementptr %place, ptr %place, i64 0, i32 1
  %area = load i64, ptr %place
  %offset = load i64, ptr %offset.p
  %base.p = getelementptr ptr, ptr %bases, i64 %area
  %base = load ptr, ptr %base.p
  %address = getelementptr i8, ptr %base, i64 %offset
  ret ptr %address
}}
; What is copied after the last step.
define internal void @copy(ptr %model, ptr %variant, ptr %bases) {{
  %copies.p = getelementptr %variant, ptr %variant, i64 0, i32 4
  %count.p = getelementptr %variant, ptr %variant, i64 0, i32 5
  %copies = load ptr, ptr %copies.p
  %count = load i64, ptr %count.p
  %numbers = call ptr @field(ptr %model, i64 {NUMBERS})
  br label %next
next:
  %k = phi i64 [ 0, %0 ], [ %k1, %one ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %one, label %done
one:
  %from.p = getelementptr %copy, ptr %copies, i64 %k
  %to.p = getelementptr %copy, ptr %from.p, i64 0, i32 1
  %word.p = getelementptr %copy, ptr %from.p, i64 0, i32 2
  %from = call ptr @lies(ptr %bases, ptr %from.p)
  %to = call ptr @lies(ptr %bases, ptr %to.p)
  %word = load i64, ptr %word.p
  %bytes.p = getelementptr i8, ptr %numbers, i64 %word
  %bytes = load i64, ptr %bytes.p
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  %k1 = add i64 %k, 1
  br label %next
done:
  ret void
}}
"""


def _of_tables(chain: Chain) -> str:
    first, count = len(chain.inputs), len(chain.arrays)
    stores = "".join(_given("%inputs", k, OWN + k) if k < first else _given("%outputs", k - first, OWN + k)
                     for k in range(count))
    owned = "".join(f"  %own.{k} = call ptr @field(ptr %model, i64 {k})\n  %base.{k} = getelementptr ptr, ptr %bases, i64 {k}\n"
                    f"  store ptr %own.{k}, ptr %base.{k}\n" for k in range(OWN))
    return f"""\
define i32 @{chain.name}_run_arrays(ptr %model, ptr %inputs, ptr %outputs) {{
  %bases = alloca ptr, i64 {OWN + count}
{owned}{stores}  %given = getelementptr ptr, ptr %bases, i64 {OWN}
  %alone = call i1 @enter(ptr %model)
  br i1 %alone, label %look, label %taken
taken:
  ret i32 {Status.BUSY}
look:
  %records = getelementptr i8, ptr %own.{NUMBERS}, i64 {layout(chain).records}
  %shared = call i1 @shared(ptr %given, i64 {count}, ptr %records)
  br i1 %shared, label %end, label %begin
begin:
  %variant = call ptr @field(ptr %model, i64 {VARIANT})
  %steps.p = getelementptr %variant, ptr %variant, i64 0, i32 1
  %places.p = getelementptr %variant, ptr %variant, i64 0, i32 2
  %count.p = getelementptr %variant, ptr %variant, i64 0, i32 3
  %steps = load i64, ptr %steps.p
  %places = load ptr, ptr %places.p
  %count = load i64, ptr %count.p
  %pointers = call ptr @field(ptr %model, i64 {POINTERS})
  br label %next
next:
  %k = phi i64 [ 0, %begin ], [ %k1, %fill ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %fill, label %walk
fill:
  %place = getelementptr %place, ptr %places, i64 %k
  %address = call ptr @lies(ptr %bases, ptr %place)
  %slot = getelementptr ptr, ptr %pointers, i64 %k
  store ptr %address, ptr %slot
  %k1 = add i64 %k, 1
  br label %next
walk:
  %rows = call ptr @field(ptr %model, i64 {ROWS})
  %pool = call ptr @field(ptr %model, i64 {POOL})
  call void @walk(ptr %rows, i64 %steps, ptr @launch, ptr %pool, ptr null)
  call void @copy(ptr %model, ptr %variant, ptr %bases)
  br label %end
end:
  %status = phi i32 [ {Status.BAD_ARRAY}, %look ], [ {Status.OK}, %walk ]
  call void @leave(ptr %model)
  ret i32 %status
}}
"""


def _given(table: str, number: int, area: int) -> str:
    return (f"  %given.{area}.p = getelementptr ptr, ptr {table}, i64 {number}\n"
            f"  %array.{area} = load ptr, ptr %given.{area}.p\n"
            f"  %base.{area} = getelementptr ptr, ptr %bases, i64 {area}\n  store ptr %array.{area}, ptr %base.{area}\n")


def _of_arrays(chain: Chain) -> str:
    """An argument for each array."""
    params = "".join(f", ptr %array{k}" for k in range(len(chain.arrays)))
    stores = "".join(f"  %at.{k} = getelementptr ptr, ptr %given, i64 {k}\n  store ptr %array{k}, ptr %at.{k}\n"
                     for k in range(len(chain.arrays)))
    return f"""\
define i32 @{chain.name}_run(ptr %model{params}) {{
  %given = alloca ptr, i64 {max(1, len(chain.arrays))}
{stores}  %outputs = getelementptr ptr, ptr %given, i64 {len(chain.inputs)}
  %status = call i32 @{chain.name}_run_arrays(ptr %model, ptr %given, ptr %outputs)
  ret i32 %status
}}
"""
