"""The fast path of calls: one native function that looks at numpy arrays and takes their addresses, in a fraction of a
microsecond each.

`expect` says what a call's arrays must be: numpy.ndarray itself, of a dtype and shape, C-contiguous and aligned; outputs
writable and apart from everything else in memory. The function compares, and fills the table of addresses that kernels take;
where anything differs it says so, and the general way (arrays.py) finds out what to do about it.

Note [Layout of arrays]. The function reads the fields of PyArrayObject as numpy's own header files let every extension module
read them: data, nd, dimensions, strides, base, descr, flags, behind the head that all objects have, and of the dtype the word
of kind, character, byte order and type number: arrays that were pickled have a dtype of their own. Their places are part of
numpy's ABI. Even so they are tried on a few arrays before they are relied upon; where they are not what we think, and on
Pythons other than CPython and with 32 bits, there is no fast path.
"""

from __future__ import annotations

import ctypes
import functools
import math
import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from polytc.codegen.target import Types
from polytc.native.linking import Code, scalar_code

FEW = 8
"""Up to so many arrays are passed one by one, more in a table."""

_HEAD = object.__basicsize__
_TYPE, _DATA, _ND, _DIMS, _DESCR, _FLAGS = _HEAD - 8, _HEAD, _HEAD + 8, _HEAD + 16, _HEAD + 40, _HEAD + 48
_KIND = _HEAD + 8
_C_CONTIGUOUS, _ALIGNED, _WRITABLE = 0x1, 0x100, 0x400  # numpy's flags
_ROW = np.dtype([("dtype", "u8"), ("dims", "u8"), ("flags", "u4"), ("nd", "u4"), ("bytes", "u8")], align=True)


@dataclass(frozen=True)
class Expected:
    """What the arrays of a call must be. check(address, table, *arrays): whether they are; then the table has their addresses.
    keep: what `address` refers to."""

    check: Callable[..., int]
    address: int
    keep: tuple[Any, ...]


def expect(inputs: Types, outputs: Types) -> Expected | None:
    """For arrays of these shapes and dtypes; None where there is no fast path for them."""
    functions = _functions()
    return _expect(functions, inputs, outputs) if functions and len(inputs) + len(outputs) else None


def _expect(functions: _Functions, inputs: Types, outputs: Types) -> Expected:
    count = len(inputs) + len(outputs)
    head = np.array([id(np.ndarray), len(inputs)], np.uint64)
    rows, shapes = np.zeros(count, _ROW), [np.array(shape, np.int64) for shape, _ in (*inputs, *outputs)]
    for n, ((shape, dtype), dims) in enumerate(zip((*inputs, *outputs), shapes)):
        flags = _C_CONTIGUOUS | _ALIGNED | (_WRITABLE if n >= len(inputs) else 0)
        kind = ctypes.c_uint64.from_address(id(dtype) + _KIND).value
        rows[n] = (kind, dims.ctypes.data, flags, len(shape), math.prod(shape) * dtype.itemsize)
    table = np.frombuffer(head.tobytes() + rows.tobytes(), np.uint8).copy()
    keep = (table, shapes, [dtype for _, dtype in (*inputs, *outputs)])
    return Expected(functions.check[count] if count <= FEW else functions.several(count), table.ctypes.data, keep)


@dataclass(frozen=True)
class _Functions:
    """check: by the number of arrays; check_all: of a table of arrays; code: what they live in."""

    check: dict[int, Callable[..., int]]
    check_all: Callable[..., int]
    code: Code

    def several(self, count: int) -> Callable[..., int]:
        """As `check`, for any number of arrays."""
        objects, check_all = ctypes.py_object * count, self.check_all

        def check(expected: int, table: int, *arrays: Any) -> int:
            return check_all(expected, table, objects(*arrays), count)
        return check


@functools.cache
def _functions() -> _Functions | None:
    """The native functions, if they understand the arrays of this Python and numpy."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    code = scalar_code(_text())
    # Python's lock stays held: the function looks at objects, and takes less time than giving it away.
    check: dict[int, Callable[..., int]] = {
        n: ctypes.PYFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 2, *[ctypes.py_object] * n)(code.address(f"check{n}"))
        for n in range(1, FEW + 1)}
    check_all = ctypes.PYFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 3, ctypes.c_int64)(code.address("check"))
    found = _Functions(check, check_all, code)
    return found if _understands(found) else None


def _understands(functions: _Functions) -> bool:
    """Whether the functions judge some arrays as Python does."""
    x, y = np.zeros((3, 4), np.float32), np.zeros((3, 4), np.float32)
    locked = y.view()
    locked.flags.writeable = False
    e = _expect(functions, [(x.shape, x.dtype)], [(y.shape, y.dtype)])
    table = (ctypes.c_void_p * 2)()
    at = ctypes.addressof(table)
    if not e.check(e.address, at, x, y) or list(table) != [x.ctypes.data, y.ctypes.data]:
        return False
    if not e.check(e.address, at, pickle.loads(pickle.dumps(x)), y):
        return False
    bad: list[tuple[Any, Any]] = [(x, x), (x, locked), (x.T, y), (x[:, ::2], y), (x[:2], y), (x.ravel(), y), (x.view("i4"), y),
                                  (x, x.ravel()[:12].reshape(3, 4)), (None, y), (x.reshape(4, 3), y),
                                  (x.view(x.dtype.newbyteorder()), y)]
    return not any(e.check(e.address, at, *pair) for pair in bad)


def _text() -> str:
    """check<n>(expected, table, array...) for each n, over check(expected, table, arrays, n)."""
    return "\n".join([_check(), *(_entry(n) for n in range(1, FEW + 1))])


def _entry(n: int) -> str:
    params = "".join(f", ptr %a{i}" for i in range(n))
    stores = "".join(f"  %p{i} = getelementptr ptr, ptr %arrays, i64 {i}\n  store ptr %a{i}, ptr %p{i}\n" for i in range(n))
    return f"""\
define i32 @check{n}(ptr %expected, ptr %table{params}) {{
  %arrays = alloca ptr, i64 {n}
{stores}  %fits = call i32 @check(ptr %expected, ptr %table, ptr %arrays, i64 {n})
  ret i32 %fits
}}
"""


def _field(name: str, base: str, offset: int, type_: str) -> str:
    return f"  %at.{name} = getelementptr i8, ptr {base}, i64 {offset}\n  %{name} = load {type_}, ptr %at.{name}\n"


def _check() -> str:
    row = {name: _ROW.fields[name][1] for name in _ROW.names or ()} if _ROW.fields else {}
    size = _ROW.itemsize
    return f"""\
define i32 @check(ptr %expected, ptr %table, ptr %arrays, i64 %count) {{
entry:
  %type = load i64, ptr %expected
{_field("inputs", "%expected", 8, "i64")}\
  %rows = getelementptr i8, ptr %expected, i64 16
  br label %array
array:
  %n = phi i64 [ 0, %entry ], [ %n1, %next ]
  %slot = getelementptr ptr, ptr %arrays, i64 %n
  %a = load ptr, ptr %slot
  %skip = mul i64 %n, {size}
  %row = getelementptr i8, ptr %rows, i64 %skip
{_field("is.type", "%a", _TYPE, "i64")}\
  %same.type = icmp eq i64 %is.type, %type
  br i1 %same.type, label %fields, label %no
fields:
{_field("descr", "%a", _DESCR, "ptr")}{_field("is.dtype", "%descr", _KIND, "i64")}\
{_field("is.nd", "%a", _ND, "i32")}{_field("is.flags", "%a", _FLAGS, "i32")}\
{_field("dims", "%a", _DIMS, "ptr")}{_field("data", "%a", _DATA, "i64")}\
{_field("dtype", "%row", row["dtype"], "i64")}{_field("nd", "%row", row["nd"], "i32")}\
{_field("flags", "%row", row["flags"], "i32")}{_field("extents", "%row", row["dims"], "ptr")}\
{_field("bytes", "%row", row["bytes"], "i64")}\
  %same.dtype = icmp eq i64 %is.dtype, %dtype
  %same.nd = icmp eq i32 %is.nd, %nd
  %set = and i32 %is.flags, %flags
  %same.flags = icmp eq i32 %set, %flags
  %both = and i1 %same.dtype, %same.nd
  %all = and i1 %both, %same.flags
  %rank = zext i32 %nd to i64
  br i1 %all, label %dim, label %no
dim:
  %d = phi i64 [ 0, %fields ], [ %d1, %extent ]
  %more = icmp slt i64 %d, %rank
  br i1 %more, label %extent, label %take
extent:
  %p.is = getelementptr i64, ptr %dims, i64 %d
  %p.want = getelementptr i64, ptr %extents, i64 %d
  %is = load i64, ptr %p.is
  %want = load i64, ptr %p.want
  %d1 = add i64 %d, 1
  %same = icmp eq i64 %is, %want
  br i1 %same, label %dim, label %no
take:
  %p.table = getelementptr i64, ptr %table, i64 %n
  store i64 %data, ptr %p.table
  %end = add i64 %data, %bytes
  %output = icmp sge i64 %n, %inputs
  br i1 %output, label %other, label %next
other:
  %m = phi i64 [ 0, %take ], [ %m1, %apart ]
  %others = icmp slt i64 %m, %n
  br i1 %others, label %compare, label %next
compare:
  %p.other = getelementptr i64, ptr %table, i64 %m
  %start = load i64, ptr %p.other
  %skip.m = mul i64 %m, {size}
  %row.m = getelementptr i8, ptr %rows, i64 %skip.m
{_field("bytes.m", "%row.m", row["bytes"], "i64")}\
  %end.m = add i64 %start, %bytes.m
  %before = icmp ult i64 %start, %end
  %after = icmp ult i64 %data, %end.m
  %meet = and i1 %before, %after
  br i1 %meet, label %no, label %apart
apart:
  %m1 = add i64 %m, 1
  br label %other
next:
  %n1 = add i64 %n, 1
  %last = icmp eq i64 %n1, %count
  br i1 %last, label %yes, label %array
yes:
  ret i32 1
no:
  ret i32 0
}}
"""
