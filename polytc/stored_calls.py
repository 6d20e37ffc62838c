"""What earlier processes found out about texts and calls: signatures, and code for arguments of some types.

With these a call needs neither the front end nor the compiler. They are told apart by the stamps of disk/stamps.py, and lie in
the disk cache beside the packages, which hold the code itself.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from polytc import lang, processors
from polytc.codegen.package import Package
from polytc.codegen.target import Executable, Types
from polytc.disk import cache, stamps
from polytc.lang.definitions.parameters import Param, Signature
from polytc.native.threads import default_threads
from polytc.program.scalars import DTYPES, DType
from polytc.runtime import packages
from polytc.runtime.call_fast_path import CallFastPath, fast_path
from polytc.targets.llvm.executable import Loader

if TYPE_CHECKING:
    from polytc.program.program import Program


def signature(text: str, entry: str | None) -> Signature:
    """The signature of a program, see `lang.signature`: stored, if code for a call of it is."""
    found = _read(_key("signature", text, entry))
    try:
        if found is not None:
            name, inputs, outputs, attrs, inouts = found
            return Signature(name, tuple(Param(n, kind, dtype, rank, _number(x)) for n, kind, dtype, rank, x in inputs),
                             tuple(outputs), tuple(attrs), tuple(inouts))
    except (TypeError, ValueError):
        pass
    return lang.signature(text, entry)


@dataclass(frozen=True)
class Specialisation:
    """Compiled code for one combination of shapes.

    order: names of the arrays it reads, in its own order.  outputs: (shape, dtype) of each array that it writes, in order.
    fast_path: the call for arrays that need neither conversion nor diagnosis. program: None where the code was stored.
    """

    executable: Executable
    order: tuple[str, ...]
    outputs: tuple[tuple[tuple[int, ...], np.dtype], ...]
    fast_path: CallFastPath
    program: Program | None


def key(text: str, options: Mapping[str, Any], shapes: Mapping[str, Sequence[int]], dtypes: Mapping[str, DType]) -> str | None:
    """Under which the code of a call for the processor that is here is stored; None for one that never is. options: all that
    it depends on besides the types of its arrays, by name."""
    types = [[n, list(shapes[n]), dtypes[n].name] for n in shapes]
    return _key("call", text, options, types)


def find(key: str | None, threads: int | None, inputs: Types, result: Callable[..., Any] | None) -> Specialisation | None:
    """The code under a key, loaded. inputs: types of the arrays, in the order of the key; result: see `fast_path`."""
    found = _read(key)
    if key is None or found is None:
        return None
    try:
        code = cache.get(found["package"])
        if code is None or found["tiles"] and not processors.allow_tiles():
            return None
        outputs = tuple((tuple(map(int, shape)), DTYPES[dtype].numpy) for dtype, shape in found["outputs"])
        count = threads or default_threads(processors.usable())
        executable = packages.load(Package.from_bytes(code), Loader(), count)
        return Specialisation(executable, tuple(found["order"]), outputs, fast_path(executable, inputs, outputs, result), None)
    except (ValueError, LookupError, TypeError):
        cache.drop(key)
        return None


def keep(key: str, program: Program, text: str, entry: str | None, schedule: Any) -> None:
    """Store that the code of a program runs a call, and the signature of the text that it is from."""
    from polytc import keys
    from polytc.targets.registry import target

    to = target("cpu")
    if not keys.lasting(to):
        return
    outputs = [(t.dtype.name, t.shape) for t in map(program.tensor, program.outputs)]
    _write(key, {"package": keys.key(program, to, schedule), "tiles": to.machine.has("amx-tile"), "order": program.inputs,
                 "outputs": outputs})
    made = lang.signature(text, entry)
    _write(_key("signature", text, entry),
           [made.name, [[p.name, p.kind, p.dtype, p.rank, _listed(p.default)] for p in made.inputs], made.outputs, made.attrs,
            made.inouts])


def _listed(value: complex | None) -> Any:
    """A number as JSON has it: a complex one as its parts."""
    return [value.real, value.imag] if isinstance(value, complex) else value


def _number(value: Any) -> complex | None:
    """The number again."""
    return complex(*value) if isinstance(value, list) else value


def _key(*parts: Any) -> str | None:
    """None where stages are to be looked at, where what code depends on cannot be told, and for what JSON cannot tell apart."""
    around = stamps.compilation()
    if around is None or os.environ.get("POLYTC_DUMP") or os.environ.get("POLYTC_CHECK") == "1":
        return None
    try:
        text = json.dumps([around, *parts], sort_keys=True)
    except (TypeError, ValueError):
        return None
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _read(key: str | None) -> Any:
    """What JSON lies under a key; None if none does."""
    data = cache.get(key) if key is not None else None
    if key is None or data is None:
        return None
    try:
        return json.loads(data)
    except ValueError:
        cache.drop(key)
        return None


def _write(key: str | None, value: Any) -> None:
    if key is not None:
        cache.put(key, json.dumps(value).encode())
