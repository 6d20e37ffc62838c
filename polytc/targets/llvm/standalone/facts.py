"""What a model without Python says of itself, as LLVM IR.

    const NAME_array *NAME_inputs(size_t *count), *NAME_outputs(size_t *count)      name, type, bytes, rank, shape of each
    const NAME_array *NAME_model_inputs(model), *NAME_model_outputs(model)          the same for the sizes of a model now
    const NAME_size *NAME_sizes(size_t *count)          name, least and largest value of each open size
    const char *NAME_version(void)                      of polytc, and the sum of the weights, which tells exports apart
    const char *NAME_meaning(int status)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from polytc.codegen import weight_file
from polytc.targets.llvm.standalone.chain import MEANINGS, NUMBERS, Argument, Chain
from polytc.targets.llvm.standalone.sizes import RECORD, layout


def text(chain: Chain) -> str:
    """The functions and their tables."""
    total = chain.header[weight_file.SUM_WORD] if chain.header else 0
    version = f"{chain.maker}, weights {total:016x}"
    words = [_words(f"meaning.{s.value}", MEANINGS[s]) for s in sorted(MEANINGS)]
    rows = ", ".join(f"ptr @meaning.{s.value}" for s in sorted(MEANINGS))
    return (f"{_arrays('inputs', chain.inputs)}{_arrays('outputs', chain.outputs)}"
            f"{_words('version', version)}{''.join(words)}{_words('meaning.none', 'no status')}"
            f"@meanings = internal constant [{len(MEANINGS)} x ptr] [{rows}]\n"
            f"{_counted(chain, 'inputs', len(chain.inputs))}{_counted(chain, 'outputs', len(chain.outputs))}"
            f"{_sizes(chain)}{_now(chain, 'inputs', 0)}{_now(chain, 'outputs', len(chain.inputs))}"
            f"define ptr @{chain.name}_version() {{\n  ret ptr @version\n}}\n{_meaning(chain)}")


def _words(name: str, value: str) -> str:
    """A constant of C's: bytes of UTF-8 that end with 0."""
    data = value.replace("\0", "?").encode() + b"\0"
    escaped = "".join("\\" + f"{b:02X}" for b in data)
    return f'@{name} = internal constant [{len(data)} x i8] c"{escaped}"\n'


def _arrays(kind: str, arrays: Sequence[Argument]) -> str:
    own = []
    for k, a in enumerate(arrays):
        shape = ", ".join(f"i64 {n}" for n in a.shape)
        own.append(_words(f"{kind}.name.{k}", a.name) + _words(f"{kind}.type.{k}", a.dtype)
                   + f"@{kind}.shape.{k} = internal constant [{len(a.shape)} x i64] [{shape}]\n")
    rows = ", ".join(f"%array {{ ptr @{kind}.name.{k}, ptr @{kind}.type.{k}, i64 {math.prod(a.shape) * a.element}, "
                     f"i64 {len(a.shape)}, ptr @{kind}.shape.{k} }}" for k, a in enumerate(arrays))
    return f"{''.join(own)}@{kind} = internal constant [{len(arrays)} x %array] [{rows}]\n"


def _sizes(chain: Chain) -> str:
    names = "".join(_words(f"size.{k}", s.name) for k, s in enumerate(chain.sizes))
    rows = ", ".join(f"%size {{ ptr @size.{k}, i64 {s.least}, i64 {s.largest} }}" for k, s in enumerate(chain.sizes))
    return (f"%size = type {{ ptr, i64, i64 }}\n{names}@sizes = internal constant [{len(chain.sizes)} x %size] [{rows}]\n"
            + _counted(chain, "sizes", len(chain.sizes)))


def _now(chain: Chain, kind: str, first: int) -> str:
    """first: number of the first array of the kind among the caller's."""
    return f"""\
define ptr @{chain.name}_model_{kind}(ptr %model) {{
  %numbers = call ptr @field(ptr %model, i64 {NUMBERS})
  %records = getelementptr i8, ptr %numbers, i64 {layout(chain).records + RECORD * first}
  ret ptr %records
}}
"""


def _counted(chain: Chain, kind: str, count: int) -> str:
    return f"""\
define ptr @{chain.name}_{kind}(ptr %count) {{
  %asked = icmp ne ptr %count, null
  br i1 %asked, label %say, label %done
say:
  store i64 {count}, ptr %count
  br label %done
done:
  ret ptr @{kind}
}}
"""


def _meaning(chain: Chain) -> str:
    return f"""\
define ptr @{chain.name}_meaning(i32 %status) {{
  %known = icmp ult i32 %status, {len(MEANINGS)}
  br i1 %known, label %look, label %none
look:
  %at = zext i32 %status to i64
  %p = getelementptr ptr, ptr @meanings, i64 %at
  %text = load ptr, ptr %p
  ret ptr %text
none:
  ret ptr @meaning.none
}}
"""
