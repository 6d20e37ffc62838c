"""Machines as files: TOML with one table for the machine, one for each theme of costs, and one for where numbers come from.

    polytc_machine = 1

    [machine]
    kind = "cpu"
    vector_bytes = 64
    caches = [{bytes = 49152, ways = 12, line = 64}]

    [costs.threads]
    region = 7300.0          # cycles: starting threads and waiting for the last

    [origins]
    "costs.threads.region" = "measured: on this machine"

What a file is silent about is as described (costs.py). A field that no machine has, or a value that none can have, is E540.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from polytc import errors
from polytc.errors import CompileError, Span
from polytc.machine.costs import COSTS, Costs
from polytc.machine.described import DEVICES
from polytc.machine.quantities import quantities
from polytc.machine.records import Cache, Machine, MatrixUnit

errors.register(E540="the file is no record of a machine", E541="the machine does not fit the target")

VERSION = 1
HEAD = "polytc_machine"
LARGEST_FILE, LARGEST = 1 << 20, 10**15
"""Bytes of a file; and a number, which then is exact as a float."""
MOST = {"vector_bytes": 256, "vector_registers": 1024, "fma_latency": 100, "fma_ports": 64, "load_ports": 64, "warp": 1024,
        "cores": 1 << 20}
"""Numbers beyond these would make code without end."""
HALVES = ("f16", "bf16")
DOTS = ("dot_i8i8", "dot_u8u8", "dot_u8i8")
"""Types of the factors of matrix units."""
POWERS = ("vector_bytes", "warp")
MAY_BE_ZERO = ("max_work_group", "local_bytes", "unit_local_bytes", "item_registers")
WORDS = re.compile(r"[\w+,.-]*", re.ASCII)
"""What LLVM's names are made of: they become part of its text."""


def load(path: Path) -> Machine:
    """The machine of a file. Raises E540 for what is none."""
    try:
        data = path.read_bytes() if path.stat().st_size <= LARGEST_FILE else None
        text = data.decode("utf-8") if data is not None else None
    except OSError as e:
        raise errors.fail("E540", f"{path}: {e.strerror or e}", notes=[_CURE]) from None
    except UnicodeDecodeError:
        raise errors.fail("E540", f"{path} is no text", notes=[_CURE]) from None
    if text is None:
        raise errors.fail("E540", f"{path} has more than {LARGEST_FILE >> 20} MiB", notes=[_CURE])
    return read(text)


def named(name: str) -> Machine:
    """The described device of that name, or the machine of the file. Raises E540."""
    return DEVICES[name] if name in DEVICES else load(Path(name))


def read(text: str) -> Machine:
    """The machine of a text. Raises E540 with the place of what is wrong."""
    import tomllib  # takes as long as a tenth of what else is imported, and few read a record

    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        raise _refused(text, str(e), _place(str(e))) from None
    except (RecursionError, ValueError) as e:  # numbers of more digits than Python takes
        raise _refused(text, f"the text cannot be read: {e}", None) from None
    return _Reader(text, found).machine()


def write(machine: Machine) -> str:
    """The text of a machine, which `read` makes the same machine of."""
    lines = [f"{HEAD} = {VERSION}", "", "[machine]"]
    for f in fields(Machine):
        if f.name not in ("caches", "costs", "origins", "matrix_unit"):
            lines.append(f"{f.name} = {_value(getattr(machine, f.name))}")
    caches = ", ".join(f"{{bytes = {c.bytes}, ways = {c.ways}, line = {c.line}}}" for c in machine.caches)
    lines.append(f"caches = [{caches}]")
    if machine.matrix_unit is not None:
        told = (f"{f.name} = {_value(getattr(machine.matrix_unit, f.name))}" for f in fields(MatrixUnit))
        lines.append(f"matrix_unit = {{{', '.join(told)}}}")
    theme = ""
    for q in quantities(machine.costs):
        first, _, name = q.name.partition(".")
        lines += ["", f"[costs.{first}]"] if first != theme else []
        lines.append(f"{name} = {_value(q.value)}  # {q.unit}: {q.what}")
        theme = first
    lines += ["", "[origins]"]
    lines += [f'"{name}" = {_value(origin)}' for name, origin in _origins(machine)]
    return "\n".join(lines) + "\n"


def origin(machine: Machine, name: str) -> str:
    """Where a machine has the cost of that name from, 'threads.region'."""
    return dict(_origins(machine))[f"costs.{name}"]


def _origins(machine: Machine) -> list[tuple[str, str]]:
    """Those of all costs, and of what else they are told of."""
    told = dict(machine.origins)
    described = {q.name: q.value for q in quantities(COSTS)}
    found = {f"costs.{q.name}": str(q.origin) if q.value == described[q.name] else "guess: given by hand"
             for q in quantities(machine.costs)}
    others = {name: text for name, text in told.items() if name not in found}
    return [*others.items(), *((name, told.get(name, text)) for name, text in found.items())]


def _value(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case frozenset() | tuple():
            return f"[{', '.join(map(_value, sorted(value) if isinstance(value, frozenset) else value))}]"
        case str():
            return '"' + "".join(c if c >= " " and c not in '"\\\x7f' else f"\\u{ord(c):04x}" for c in value) + '"'
        case _:
            return repr(value)


_CURE = "`polytc devices --measure --output FILE` writes one"


def _refused(text: str, message: str, span: Span | None, notes: Iterable[str] = ()) -> CompileError:
    return errors.fail("E540", message, span, source=text, notes=[*notes, _CURE])


def _place(message: str) -> Span | None:
    """Where tomllib says that a text is wrong."""
    found = re.search(r"line (\d+), column (\d+)", message)
    return None if found is None else Span(0, 1, int(found[1]), int(found[2]))


@dataclass(frozen=True)
class _Reader:
    """text: of a record; found: what TOML makes of it."""

    text: str
    found: Mapping[str, Any]

    def machine(self) -> Machine:
        version = self.found.get(HEAD)
        if version != VERSION or isinstance(version, bool):
            raise self.refused(HEAD, f"this polytc reads version {VERSION} of the record, not {version!r}")
        self.known(self.found, (HEAD, "machine", "costs", "origins"), "")
        given = self.table("machine", self.found.get("machine", {}))
        names = [f.name for f in fields(Machine) if f.name not in ("costs", "origins")]
        self.known(given, names, "machine.")
        missing = [f.name for f in fields(Machine) if f.name not in given and f.default is MISSING]
        if missing:
            raise self.refused("machine", f"[machine] lacks {', '.join(missing)}")
        values: dict[str, Any] = {name: self.field(name, value) for name, value in given.items()}
        return Machine(**values, costs=self.costs(), origins=self.origins())

    def field(self, name: str, value: object) -> object:
        match name:
            case "kind":
                return self.checked(name, value, value in ("cpu", "gpu"), "'cpu' or 'gpu'")
            case "caches":
                return self.caches(value)
            case "matrix_unit":
                return self.matrix_unit(value)
            case "masked" | "fast_local_memory" | "waiting_groups":
                return self.checked(name, value, isinstance(value, bool), "true or false")
            case "cpu" | "features":
                right = isinstance(value, str) and WORDS.fullmatch(value) is not None
                return self.checked(name, value, right, "LLVM's names: letters, digits and + - _ . ,")
            case "faults":
                return frozenset(self.texts(name, value, "a list of texts"))
            case "word_dots":
                found = self.texts(name, value, f"a list of {', '.join(DOTS)}")
                self.checked(name, value, {*found} <= {*DOTS}, f"a list of {', '.join(DOTS)}")
                return tuple(found)
            case "clock":
                return float(self.number(name, value, whole=False, zero=False))
        return self.number(name, value, whole=True, zero=name in MAY_BE_ZERO)

    def texts(self, name: str, value: object, what: str) -> list[str]:
        right = isinstance(value, list) and all(isinstance(x, str) for x in value)
        self.checked(name, value, right, what)
        return value if isinstance(value, list) else []

    def caches(self, value: object) -> tuple[Cache, ...]:
        right = isinstance(value, list) and 1 <= len(value) <= 8 and all(
            isinstance(c, dict) and set(c) == {"bytes", "ways", "line"} for c in value)
        self.checked("caches", value, right, "a list of {bytes = N, ways = N, line = N}, the first cache first")
        assert isinstance(value, list)
        return tuple(Cache(**{n: self.number("caches", x, whole=True, zero=False) for n, x in c.items()}) for c in value)

    def matrix_unit(self, value: object) -> MatrixUnit:
        names = [f.name for f in fields(MatrixUnit)]
        least = [f.name for f in fields(MatrixUnit) if f.default is MISSING]
        right = isinstance(value, dict) and set(least) <= set(value) <= set(names) and isinstance(value["types"], list) and (
            {*value["types"]} <= {*HALVES} if all(isinstance(t, str) for t in value["types"]) else False)
        fields_ = ", ".join(f"{n} = N" for n in names)
        self.checked("matrix_unit", value, right, f"{{{fields_}}}, its types of {', '.join(HALVES)}")
        assert isinstance(value, dict)
        whole = {n: self.number("matrix_unit", value[n], whole=True, zero=False) for n in ("rows", "columns", "steps")}
        faster = float(self.number("matrix_unit", value["faster"], whole=False, zero=False))
        of_bytes = float(self.number("matrix_unit", value.get("bytes_faster", 0), whole=False, zero=True))
        return MatrixUnit(**whole, types=tuple(value["types"]), faster=faster, bytes_faster=of_bytes)

    def costs(self) -> Costs:
        given = self.table("costs", self.found.get("costs", {}))
        self.known(given, [f.name for f in fields(Costs)], "costs.")
        themes = {}
        for f in fields(Costs):
            theme = getattr(COSTS, f.name)
            values = self.table(f.name, given.get(f.name, {}))
            units = {q.name: q for q in quantities(theme)}
            self.known(values, list(units), f"costs.{f.name}.")
            themes[f.name] = type(theme)(**{
                n: self.number(n, v, isinstance(units[n].value, int), zero=_zero(units[n].unit)) for n, v in values.items()})
        return Costs(**themes)

    def origins(self) -> tuple[tuple[str, str], ...]:
        given = self.table("origins", self.found.get("origins", {}))
        for name, told in given.items():
            right = isinstance(told, str) and told.partition(":")[0] in ("measured", "documented", "guess")
            self.checked(name, told, right, "'measured: ...', 'documented: ...' or 'guess: ...'")
        return tuple(given.items())

    def number(self, name: str, value: object, whole: bool, zero: bool) -> Any:
        kinds = (int,) if whole else (int, float)
        what = f"a {'whole ' if whole else ''}number {'from 0' if zero else 'above 0'}"
        right = not isinstance(value, bool) and isinstance(value, kinds)
        self.checked(name, value, right, what)
        assert isinstance(value, int | float)
        most = MOST.get(name, LARGEST)
        inside = -1 < value <= most and (value >= 0 if zero else value > 0)  # no NaN is
        self.checked(name, value, inside, f"{what} to {most}")
        self.checked(name, value, name not in POWERS or int(value) & (int(value) - 1) == 0, "a power of two")
        return value if whole else float(value)

    def table(self, name: str, value: object) -> Mapping[str, Any]:
        self.checked(name, value, isinstance(value, dict), "a table")
        assert isinstance(value, dict)
        return value

    def known(self, given: Mapping[str, Any], names: Iterable[str], prefix: str) -> None:
        names = list(names)
        for name in given:
            if name not in names:
                near = difflib.get_close_matches(name, names, 1)
                notes = [f"did you mean {near[0]!r}?"] if near else []
                raise self.refused(name, f"there is no field {prefix}{name}", [*notes, f"there are {', '.join(names)}"])

    def checked(self, name: str, value: object, right: bool, what: str) -> object:
        if not right:
            shown = repr(value) if not isinstance(value, int) or abs(value) < 10**18 else "a number of many digits"
            raise self.refused(name, f"{name} is {shown if len(shown) < 60 else shown[:57] + '...'}, and must be {what}")
        return value

    def refused(self, name: str, message: str, notes: Iterable[str] = ()) -> CompileError:
        """The exception, with the first line where the name stands as a key or a table."""
        for number, line in enumerate(self.text.splitlines(), 1):
            place = re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", line.split("#")[0])
            if place is not None:
                return _refused(self.text, message, Span(place.start(), place.end(), number, place.start() + 1), notes)
        return _refused(self.text, message, None, notes)


def _zero(unit: str) -> bool:
    """Whether a cost of this unit may be nothing: what is divided by may not."""
    return unit in ("cycles", "cycles/byte", "seconds", "ratio", "loads")
