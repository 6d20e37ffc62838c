"""One run of a model without Python, as LLVM IR: pointers from places, the steps, the copies.

    int NAME_run_arrays(model, inputs, outputs)     two tables of pointers, in the order of NAME_inputs and NAME_outputs
    int NAME_run(model, in..., out...)

A run begins by setting the model's word BUSY, so that a second thread with the same model is told, and changes nothing.
"""

from __future__ import annotations

from polytc.targets.llvm.standalone.chain import OWN, Chain, Copy, Place, Status
from polytc.targets.llvm.standalone.record import BUSY


def text(chain: Chain, steps: int, places: int) -> str:
    """The functions. steps, places: how many the tables have."""
    return _of_tables(chain, steps, places) + _of_arrays(chain)


def _of_tables(chain: Chain, steps: int, places: int) -> str:
    first = len(chain.inputs)
    stores = "".join(_given("%inputs", k, OWN + k) if k < first else _given("%outputs", k - first, OWN + k)
                     for k in range(chain.arrays))
    owned = "".join(f"  %own.{k} = call ptr @field(ptr %model, i64 {k})\n  %base.{k} = getelementptr ptr, ptr %bases, i64 {k}\n"
                    f"  store ptr %own.{k}, ptr %base.{k}\n" for k in range(OWN))
    copies = "".join(_copy(k, c) for k, c in enumerate(chain.copies))
    return f"""\
define i32 @{chain.name}_run_arrays(ptr %model, ptr %inputs, ptr %outputs) {{
  %bases = alloca ptr, i64 {OWN + chain.arrays}
{owned}{stores}  %given = getelementptr ptr, ptr %bases, i64 {OWN}
  %shared = call i1 @shared(ptr %given, i64 {chain.arrays})
  br i1 %shared, label %refused, label %enter
refused:
  ret i32 {Status.BAD_ARRAY}
enter:
  %busy = call ptr @word(ptr %model, i64 {BUSY})
  %entered = cmpxchg ptr %busy, i64 0, i64 1 acquire monotonic
  %alone = extractvalue {{ i64, i1 }} %entered, 1
  br i1 %alone, label %begin, label %taken
taken:
  ret i32 {Status.BUSY}
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
{copies}  store atomic i64 0, ptr %busy release, align 8
  ret i32 {Status.OK}
}}
"""


def _given(table: str, number: int, area: int) -> str:
    return (f"  %given.{area}.p = getelementptr ptr, ptr {table}, i64 {number}\n"
            f"  %array.{area} = load ptr, ptr %given.{area}.p\n"
            f"  %base.{area} = getelementptr ptr, ptr %bases, i64 {area}\n  store ptr %array.{area}, ptr %base.{area}\n")


def _of_arrays(chain: Chain) -> str:
    """An argument for each array."""
    params = "".join(f", ptr %array{k}" for k in range(chain.arrays))
    stores = "".join(f"  %at.{k} = getelementptr ptr, ptr %given, i64 {k}\n  store ptr %array{k}, ptr %at.{k}\n"
                     for k in range(chain.arrays))
    return f"""\
define i32 @{chain.name}_run(ptr %model{params}) {{
  %given = alloca ptr, i64 {max(1, chain.arrays)}
{stores}  %outputs = getelementptr ptr, ptr %given, i64 {len(chain.inputs)}
  %status = call i32 @{chain.name}_run_arrays(ptr %model, ptr %given, ptr %outputs)
  ret i32 %status
}}
"""


def _copy(k: int, c: Copy) -> str:
    def place(stem: str, p: Place) -> str:
        return (f"  %{stem}.p{k} = getelementptr ptr, ptr %bases, i64 {p.area}\n  %{stem}.b{k} = load ptr, ptr %{stem}.p{k}\n"
                f"  %{stem}{k} = getelementptr i8, ptr %{stem}.b{k}, i64 {p.offset}\n")
    return (place("from", c.source) + place("to", c.target)
            + f"  call void @llvm.memcpy.p0.p0.i64(ptr %to{k}, ptr %from{k}, i64 {c.bytes}, i1 false)\n")
