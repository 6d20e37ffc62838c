"""What kernels use and take on a described GPU, as a table: read from compilers where they are here, and counted in the
loops."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from polytc import errors
from polytc.codegen import loops, traverse
from polytc.codegen.target import Launch, Source
from polytc.machine import DEVICES, Machine
from polytc.poly import isl
from polytc.program import extents
from polytc.program import program as pr
from polytc.program.sizes import representative, representatives, with_products
from polytc.targets.opencl import static, warp_traffic
from polytc.targets.opencl.estimate import estimate, rates_of, resident
from polytc.targets.opencl.static import Resources

errors.register(E515="no account of what kernels use on a GPU")

HEAD = (f"{'kernel':26}{'groups x items':>22}{'registers':>11}{'spilled':>9}{'local':>8}{'occupancy':>11}{'wide':>6}"
        f"{'fma:local':>11}{'sectors':>9}{'banks':>7}{'barriers':>10}{'moved':>7}{'bytes':>7}{'model us':>10}  bound")
"""Of the lines of `table`."""


def table(source: Source, device: str, check: Callable[[Source], dict[str, Resources]] | None = None,
          tensors: Sequence[pr.Tensor] = ()) -> list[str]:
    """A line for each kernel under HEAD. check: tells the resources, instead of that of static.CHECKS. tensors: of the program,
    which tell the typical values of open sizes.

    wide: loads and stores of 16 bytes in its text. fma:local: see Resources.hot. sectors: bytes that warps ask for in those of
    the sectors of memory that they touch. banks: passes over local memory, in those that there would be without conflicts.
    barriers: that an item passes. moved: bytes of those sectors, in those of the kernel's arrays: above 1 is what caches must
    serve. bytes: of the arrays that the program's kernels are given, in those of its inputs and outputs: 1 where each is read
    or written by one kernel and nothing lies between. model us, bound: see `estimate`. Of open sizes the typical ones are
    counted. Of devices that no compiler here makes code for, columns are '-' that compilers would tell.

    Raises TargetError E515 where the device's compiler is not here or refuses.
    """
    check = check or static.CHECKS.get(device)
    return _lines(source, DEVICES[device], _used(source, device, check) if check is not None else {}, tensors)


def _lines(source: Source, machine: Machine, found: Mapping[str, Resources], tensors: Sequence[pr.Tensor]) -> list[str]:
    known = {isl.name(n): size for n, size in representatives(tuple(tensors)).items()}
    sizes = with_products(known, source.module.products) if known else known
    whole = {isl.name(t.name): math.prod(map(int, t.shape)) * t.dtype.bytes for t in tensors}
    moved = _moved(source, whole)
    lines = []
    for launch, kernel in zip(source.launches, source.module.kernels, strict=True):
        used = found.get(launch.entry)
        counted = _Counted(representative(kernel), launch, machine, sizes, whole, bool(source.module.sizes), used)
        name = launch.entry.removeprefix("polytc_")
        lines.append(f"{name:26}{counted.grid:>22}{_told(used)}{counted.columns(moved)}")
    return lines


def of_machine(source: Source, machine: Machine, tensors: Sequence[pr.Tensor]) -> list[str]:
    """The table of any machine, without what compilers tell."""
    return _lines(source, machine, {}, tensors)


def _used(source: Source, device: str, check: Callable[[Source], dict[str, Resources]]) -> dict[str, Resources]:
    """What compilers say. Raises TargetError E515."""
    if check is static.CHECKS.get(device) and (absent := static.missing(device)):
        raise errors.fail("E515", f"{absent} is not here, which says what kernels use on {device}", kind=errors.TargetError,
                          notes=["clang is a package of most systems",
                                 "ptxas is in NVIDIA's CUDA toolkit, and in `pip install nvidia-cuda-nvcc-cu12`"])
    try:
        return check(source)
    except ValueError as e:
        raise errors.fail("E515", f"the compiler for {device} refuses '{source.module.name}'", kind=errors.TargetError,
                          notes=[line for line in str(e).splitlines() if "error" in line or "fatal" in line][:4]) from e


def _told(used: Resources | None) -> str:
    """The columns that compilers tell, but for local memory and occupancy, which can be counted."""
    if used is None:
        return f"{'-':>11}{'-':>9}"
    beside = f"+{used.accumulators}" if used.accumulators else ""
    return f"{f'{used.registers}{beside}':>11}{used.spilled:>9}"


@dataclass
class _Counted:
    """What is counted in one kernel, of typical sizes. sizes: these, by name; whole: bytes of tensors, by name; open: are
    there open sizes?"""

    kernel: loops.Kernel
    launch: Launch
    machine: Machine
    sizes: Mapping[str, int]
    whole: Mapping[str, int]
    open: bool
    used: Resources | None
    global_size: tuple[int | None, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.global_size = tuple(map(self._number, self.launch.global_size))

    def _number(self, n: extents.Extent) -> int | None:
        try:
            return extents.at(n, self.sizes)
        except KeyError:  # of a loop of the host
            return None

    @property
    def grid(self) -> str:
        """`8x8 x 16x16`."""
        groups = ("?" if n is None else str(n // k) for n, k in zip(self.global_size, self.launch.local_size, strict=True))
        return f"{'x'.join(groups)} x {'x'.join(map(str, self.launch.local_size))}"

    def columns(self, program: str) -> str:
        """Local memory, occupancy, and what is counted in the kernel. program: the column `bytes`."""
        machine, items = self.machine, math.prod(self.launch.local_size)
        most = machine.costs.launches.items
        if self.used is not None:
            local, occupancy = self.used.local_bytes, self.used.occupancy
            groups_at_once = int(occupancy * most / items)
            text = f"{'+'.join(map(str, self.used.vector_accesses)):>6}{':'.join(map(str, self.used.hot)):>11}"
        else:
            local = sum(x.buffer.size * x.buffer.dtype.bytes for x in traverse.walk_stmt(self.kernel.body)
                        if isinstance(x, loops.Alloc) and x.buffer.space == "local")
            groups_at_once = resident(items, local, machine)
            occupancy, text = min(1.0, groups_at_once * items / most), f"{'-':>6}{'-':>11}"
        head = f"{local:>8}{occupancy:>11.2f}{text}"
        traffic = warp_traffic.count(self.kernel, self.launch.local_size, machine, self.sizes)
        if traffic is None or None in self.global_size or (self.open and not self.whole):
            return f"{head}{'-':>9}{'-':>7}{'-':>10}{'-':>7}{program:>7}{'-':>10}  -"
        groups = math.prod(n for n in self.global_size if n is not None) // items
        array_bytes = sum(_bytes(b, self.whole) for b in self.kernel.args)
        guess = estimate(traffic, groups, groups_at_once, array_bytes, machine, rates_of(machine))
        return (f"{head}{traffic.wanted / max(1.0, traffic.moved):>9.2f}{traffic.passes / max(1.0, traffic.words):>7.2f}"
                f"{traffic.barriers:>10.0f}{traffic.moved * groups / array_bytes:>7.2f}{program:>7}"
                f"{guess.seconds * 1e6:>10.1f}  {guess.bound}")


def _bytes(b: loops.Buffer, whole: Mapping[str, int]) -> int:
    """Of an array; those of open sizes have no extents of their own behind the binding of sizes."""
    return whole[b.name] if b.name in whole else b.size * b.dtype.bytes


def _moved(source: Source, whole: Mapping[str, int]) -> str:
    """The bytes of the kernels' arrays in those of the program's inputs and outputs, of typical sizes; - where nobody tells
    these."""
    if source.module.sizes and not whole:
        return "-"
    least = sum(_bytes(b, whole) for b in source.module.args)
    return f"{sum(_bytes(b, whole) for k in source.module.kernels for b in k.args) / max(1, least):.2f}"
