"""Options that several commands share, and their parsing: `--shape A=3,4`, `--dtype A=f32`, `--attr pad=1,1`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from polytc.lang import implied_shapes
from polytc.machine import DEVICES
from polytc.options import THREADS, VARIANTS

Program = Annotated[str, typer.Argument(metavar="FILE|TEXT", help="A file of polytc text, the text, or - for standard input.")]
Source = Annotated[str, typer.Argument(metavar="FILE|TEXT|MODEL.onnx",
                                       help="A file of polytc text, the text, - for standard input, or an ONNX model.")]
Target = Annotated[str, typer.Option(help="cpu, opencl, cuda, interp, evaluate, or one that is installed; emit prints c, "
                                     "too, and emit and explain take described devices, such as nvidia-sm90.")]
Shape = Annotated[list[str] | None, typer.Option("--shape", metavar="NAME=N,M,...", help="Extents of an input.")]
OpenShape = Annotated[list[str] | None, typer.Option(
    "--shape", metavar="NAME=N,M,...", help="Extents of an input; a name is a size that stays open.")]
ImpliedShape = Annotated[list[str] | None, typer.Option(
    "--shape", metavar="NAME=N,M,...",
    help="Extents of an input; a name is a size that stays open, as all are that are not said (i is I).")]
Typical = Annotated[list[str] | None, typer.Option(
    "--typical", metavar="NAME=N", help="Number of an open size for which code should be fast.")]
TypicalPoints = Annotated[list[str] | None, typer.Option(
    "--typical", metavar="NAME=N[,...]", help="Numbers of open sizes for which code should be fast; a name that is said again "
                                              "begins other sizes, for which there is a variant.")]
Variants = Annotated[int | None, typer.Option(
    "--variants", min=1, max=VARIANTS, help="How many ways to run the program of open sizes there may be, of which the host "
                                            "takes the fastest; 4 if not said.")]
Size = Annotated[list[str] | None, typer.Option("--size", metavar="NAME=N", help="Number to run with for an open size.")]
SizeRange = Annotated[list[str] | None, typer.Option(
    "--size", metavar="NAME=N:M", help="For C: a size of the inputs that stays open, from N to M.")]
Symbolic = Annotated[bool, typer.Option("--symbolic", help="Kernels for all sizes that the model leaves open.")]
DType = Annotated[list[str] | None, typer.Option("--dtype", metavar="NAME=TYPE", help="Type of an input; else f32.")]
Attr = Annotated[list[str] | None, typer.Option("--attr", metavar="NAME=VALUE", help="Attribute: a number or a list.")]
Scalar = Annotated[list[str] | None, typer.Option("--scalar", metavar="NAME=VALUE", help="Value of a scalar argument.")]
Algebra = Annotated[str | None, typer.Option(metavar="fast|direct", help="direct: no algorithm with fewer products.")]
Fast = Annotated[bool, typer.Option("--fast", help="Float operations may be reassociated, divisions be products.")]
Decisions = Annotated[Path | None, typer.Option(metavar="FILE", exists=True, dir_okay=False,
                                                help="What --stage decisions printed, perhaps edited.")]
Machine = Annotated[str | None, typer.Option(metavar="FILE|NAME", help="What code is made for: a record that polytc devices "
                                             "--measure wrote, or a described device.")]
Threads = Annotated[int | None, typer.Option(min=1, max=THREADS, help="How many threads; all of the machine's if not said.")]


def read_text(program: str) -> str:
    """The text of the FILE|TEXT argument."""
    if program == "-":
        return sys.stdin.read().removeprefix("\ufeff")
    looks_like_text = any(sign in program for sign in "=\n{[")
    if os.path.isfile(program):  # Path.is_file raises for what is too long to be a name
        try:
            return Path(program).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError:
            raise typer.BadParameter(f"{program} is no text: programs are UTF-8, models end in .onnx") from None
    if not looks_like_text:
        raise typer.BadParameter(f"{program!r} is neither a file nor a program")
    return program


def pairs(given: Sequence[str] | None, option: str) -> dict[str, str]:
    """`["A=1", "B=2"]` as a dict; usage error where a value has no name."""
    found = {}
    for item in given or ():
        name, sign, value = item.partition("=")
        if not sign or not name.strip():
            raise typer.BadParameter(f"{item!r}: write {option} NAME=VALUE")
        found[name.strip()] = value.strip()
    return found


def shapes(given: Sequence[str] | None) -> dict[str, tuple[int, ...]]:
    """The `--shape` options."""
    return {name: _extents(name, text) for name, text in pairs(given, "--shape").items()}


def open_shapes(given: Sequence[str] | None) -> dict[str, tuple[int | str, ...]]:
    """The `--shape` options, with names of sizes that stay open."""
    found: dict[str, tuple[int | str, ...]] = {}
    for name, text in pairs(given, "--shape").items():
        extents = [(p,) if re.fullmatch(r"(?!x$)[A-Za-z_]\w*", p) else _extent(name, text, p) for p in _parts(text)]
        found[name] = tuple(e for part in extents for e in part)
    return found


def shapes_of(text: str, given: Sequence[str] | None) -> dict[str, tuple[int | str, ...]]:
    """The `--shape` options, and for inputs without one sizes that stay open, named after their indices."""
    return implied_shapes(text, None, open_shapes(given))


def target_and_machine(target: str, machine: str | None) -> tuple[str, str | None]:
    """A described device stands for OpenCL C that is made for it."""
    return ("opencl", target) if machine is None and target in DEVICES else (target, machine)


def at(shapes: Mapping[str, tuple[int | str, ...]], given: Sequence[str] | None) -> dict[str, tuple[int, ...]]:
    """Shapes with the numbers that the `--size` options give for names."""
    sizes = values(given, "--size")
    names = dict.fromkeys(d for shape in shapes.values() for d in shape if isinstance(d, str))
    wrong = [n for n, v in sizes.items() if n not in names or isinstance(v, bool) or not isinstance(v, int) or v < 1]
    if wrong:
        raise typer.BadParameter(f"--size {wrong[0]}={sizes[wrong[0]]}: the open sizes are {', '.join(names) or 'none'}, and "
                                 "their values numbers from 1 on")
    missing = [n for n in names if n not in sizes]
    if missing:
        raise typer.BadParameter(f"no number for the size {', '.join(missing)}: give --size {missing[0]}=N")
    return {n: tuple(sizes[d] if isinstance(d, str) else d for d in shape) for n, shape in shapes.items()}


def _parts(text: str) -> list[str]:
    inner = text.strip("()[] ").removesuffix(",")
    return [p.strip() for p in inner.split(",")] if inner else []


def _extents(name: str, text: str) -> tuple[int, ...]:
    return tuple(n for part in _parts(text) for n in _extent(name, text, part))


def _extent(name: str, text: str, part: str) -> tuple[int, ...]:
    """`5`, or several as `5x7`."""
    if not re.fullmatch(r"[0-9]{1,30}( *x *[0-9]{1,30})*", part):
        raise typer.BadParameter(f"--shape {name}={text}: {part!r} is no extent; extents are numbers, or names where sizes "
                                 "may be open, separated by commas")
    return tuple(int(n) for n in part.split("x"))


def ranges(given: Sequence[str] | None) -> dict[str, tuple[int, int]]:
    """The `--size` options that give ranges; `8` is 1:8."""
    found: dict[str, tuple[int, int]] = {}
    for name, text in pairs(given, "--size").items():
        parts = re.fullmatch(r"(?:([0-9]{1,10}) *: *)?([0-9]{1,10})", text)
        if parts is None:
            raise typer.BadParameter(f"--size {name}={text}: write the least and the largest number, as in {name}=1:64")
        found[name] = int(parts[1] or 1), int(parts[2])
    return found


def values(given: Sequence[str] | None, option: str) -> dict[str, Any]:
    """The `--attr` or `--scalar` options: ints, floats, booleans, or lists of them separated by commas."""
    return {name: _value(text, f"{option} {name}={text}") for name, text in pairs(given, option).items()}


def points(given: Sequence[str] | None) -> list[dict[str, Any]]:
    """The `--typical` options, `["I=64,J=1", "I=512"]` say, as a dict for each point."""
    found: list[dict[str, Any]] = []
    for item in (part for text in given or () for part in text.split(",")):
        for name, value in values([item], "--typical").items():
            if not found or name in found[-1]:
                found.append({})
            found[-1][name] = value
    return found


def _value(text: str, where: str) -> Any:
    inner = text.strip("()[]")
    if "," in text or inner != text:
        return [_value(part.strip(), where) for part in inner.split(",") if part.strip()]
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{where}: {text!r} is not a number") from None
