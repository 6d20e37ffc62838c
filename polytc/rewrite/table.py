"""The table of steps: every rewrite from Program to Program, in the order in which they run.

    polytc emit --stage pack     prints the program behind a step
    polytc explain               tells what each did, and why it did not
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from polytc import extensions
from polytc.rewrite import dot_words, factors, gathered_sums, long_sums, parallel_scans, product_order, staging, word_copies
from polytc.rewrite.complex_numbers import statements as complex_statements
from polytc.rewrite.cpu import (
    extremum_blocks,
    lanes,
    matrix_tiles,
    narrow_sums,
    pack,
    row_blocks,
    split_floats,
    widening,
)
from polytc.rewrite.cpu.winograd import choice as winograd
from polytc.rewrite.gpu import launched_parts, unread_elements
from polytc.rewrite.gpu.division import Divided
from polytc.rewrite.gpu.softmax import fusion as online_softmax
from polytc.rewrite.gpu.softmax.key_blocks import KeyBlocks
from polytc.rewrite.gpu.time_tiles import tiling
from polytc.rewrite.step import (
    CPU,
    FIXED_RANGES,
    GPU,
    LOOPED,
    NOT_DIRECT,
    NOT_PRECISE,
    OPEN,
    STRAIGHT,
    STRAIGHT_LAUNCHES,
    Step,
    independent,
    unconditional,
)
from polytc.rewrite.tidy import (
    borders,
    coalesce,
    compact,
    constant_terms,
    dead_initialisation,
    delinearization,
    doall_loops,
    forward_indices,
    inline,
    layout,
    open_remainders,
    pad,
    piecewise_copies,
    plain_targets,
    read_digits,
    rotated_buffers,
    rounding,
    scan,
    taps,
    transposed_copies,
    unit_extents,
)

STEPS: tuple[Step, ...] = (
    Step("open_remainders", "remainders by sizes that stay open become choices", unconditional(open_remainders.choose),
         needs=(OPEN,), open_sizes=True),
    Step("doall_loops", "`for` loops that carry nothing become flat", unconditional(doall_loops.flatten)),
    Step("loop_coalescing", "nested `for` loops become one", unconditional(coalesce.coalesce), needs=(FIXED_RANGES,)),
    Step("time_tiles", "`for` loops around stencils run several iterations in a launch, tiles in local memory", tiling.tile,
         tiling.decide, kinds=GPU, needs=(FIXED_RANGES,),
         choice=tiling.Tiled, fits=tiling.fits, options=independent(tiling.options)),
    Step("rotated_buffers", "`for` loops exchange buffers in place of copying them", rotated_buffers.rotate,
         rotated_buffers.decide, kinds=GPU, needs=(FIXED_RANGES,),
         choice=rotated_buffers.Rotated, fits=rotated_buffers.fits, options=independent(rotated_buffers.options)),
    Step("layout", "temporaries are stored along indices that no loop carries", unconditional(layout.transpose_temporaries),
         kinds=CPU, needs=(LOOPED,), open_sizes=True),
    Step("transposed_copies", "a transposed copy beside what a reduction reads across memory",
         unconditional(transposed_copies.add_copies), kinds=CPU, needs=(LOOPED, NOT_PRECISE), open_sizes=True),
    Step("factors", "factors that no reduced index names leave sums", factors.factor_out, factors.decide,
         needs=(STRAIGHT, NOT_PRECISE), open_sizes=True,
         choice=factors.Unscaled, fits=factors.fits, options=independent(factors.options)),
    Step("product_order", "products of three factors and more are made two factors at a time", product_order.multiply_pairs,
         product_order.decide, needs=(STRAIGHT, NOT_PRECISE, NOT_DIRECT), open_sizes=True,
         choice=product_order.Pairs, fits=product_order.fits, options=independent(product_order.options)),
    Step("complex_numbers", "complex tensors are real ones, with an axis for the two parts", complex_statements.apply,
         open_sizes=True, required=True),
    Step("scans_beside_loops", "prefix reductions beside `for` loops become scans", unconditional(scan.simplify_prefixes),
         needs=(LOOPED,), open_sizes=True),
    Step("work_groups_in_loops", "what `for` loops hold is divided among work-items",
         staging.IN_LOOPS.apply, staging.IN_LOOPS.decide, kinds=GPU, needs=(LOOPED,), open_sizes=True,
         choice=Divided, fit_together=staging.IN_LOOPS.fits, options=staging.IN_LOOPS.options),
    Step("plain_targets", "updates into shifted or reversed places name these places", unconditional(plain_targets.name_places),
         open_sizes=True),
    Step("read_digits", "indices of which reads take the digits are two indices", unconditional(read_digits.split), kinds=CPU,
         open_sizes=True),
    Step("gathered_sums", "sums that are scattered over a tensor are gathered for each element", gathered_sums.gather,
         gathered_sums.decide, needs=(STRAIGHT, NOT_PRECISE), open_sizes=True,
         choice=gathered_sums.Gathered, fits=gathered_sums.fits, options=independent(gathered_sums.options)),
    Step("piecewise_copies", "subscripts in pieces that are read many times become reads of copies",
         unconditional(piecewise_copies.materialise), needs=(STRAIGHT,), open_sizes=True),
    Step("widening", "halves and bytes that are used often are converted once", widening.widen, widening.decide, kinds=CPU,
         needs=(STRAIGHT,), open_sizes=True,
         choice=widening.Widened, fits=widening.fits, options=independent(widening.options)),
    Step("winograd", "convolutions with fewer products", winograd.rewrite, winograd.decide, kinds=CPU,
         needs=(STRAIGHT, NOT_PRECISE, NOT_DIRECT), open_sizes=True,
         choice=winograd.Tiles, fits=winograd.fits, options=independent(winograd.options)),
    Step("inline", "temporaries are computed where they are read", unconditional(inline.inline), needs=(STRAIGHT,),
         open_sizes=True),
    Step("rounding", "numbers are cut off before they are rounded", unconditional(rounding.cut_first),
         needs=(STRAIGHT, NOT_PRECISE)),
    Step("constant_terms", "divisions and functions of constants are computed once", unconditional(constant_terms.split),
         needs=(STRAIGHT,), open_sizes=True),
    Step("unit_extents", "indices of one value go", unconditional(unit_extents.drop_unit_indices), needs=(STRAIGHT,),
         open_sizes=True),
    Step("dead_initialisation", "temporaries start from a constant only where they are used",
         unconditional(dead_initialisation.narrow), needs=(STRAIGHT,), open_sizes=True),
    Step("unread_elements", "sums are made only where something reads them", unconditional(unread_elements.narrow),
         kinds=GPU, needs=(STRAIGHT,), open_sizes=True),
    Step("borders", "subscripts and values change their piece at the borders only, which are split off",
         unconditional(borders.split_all), kinds=CPU, open_sizes=True),
    Step("borders", "subscripts change their piece at the borders only, which are split off",
         launched_parts.BORDERS.apply, launched_parts.BORDERS.decide, kinds=GPU,
         choice=launched_parts.Parts, fits=launched_parts.BORDERS.fits, options=launched_parts.BORDERS.options),
    Step("delinearization", "dimensions that are digits of a number are split", unconditional(delinearization.delinearize),
         needs=(STRAIGHT,), open_sizes=True),
    Step("taps", "windows that lie mostly outside of their data: a sum for each tap", unconditional(taps.split),
         kinds=CPU, needs=(STRAIGHT, NOT_PRECISE), open_sizes=True),
    Step("taps", "windows that lie mostly outside of their data: a sum for each tap",
         launched_parts.TAPS.apply, launched_parts.TAPS.decide, kinds=GPU, needs=(STRAIGHT, NOT_PRECISE),
         choice=launched_parts.Parts, fits=launched_parts.TAPS.fits, options=launched_parts.TAPS.options),
    Step("guards", "guards that never act go", unconditional(pad.drop_guards), needs=(STRAIGHT,), open_sizes=True),
    Step("scan", "prefix reductions become scans", unconditional(scan.simplify_prefixes), needs=(STRAIGHT,), open_sizes=True),
    Step("parallel_scans", "long scans are made in blocks, which threads and work-items share", parallel_scans.split,
         parallel_scans.decide, open_sizes=True, choice=parallel_scans.Blocks, fits=parallel_scans.fits,
         options=independent(parallel_scans.options)),
    Step("pad", "guarded reads become reads of padded copies", unconditional(pad.materialise), kinds=CPU, needs=(STRAIGHT,),
         open_sizes=True),
    Step("forward_indices", "indices that walk memory backwards only are turned around", unconditional(forward_indices.turn),
         needs=(STRAIGHT,), open_sizes=True),
    Step("compact", "reads in strides become reads of compact copies", unconditional(compact.compact), needs=(STRAIGHT,),
         open_sizes=True),
    Step("coalesce", "indices that walk memory together become one", unconditional(coalesce.coalesce), kinds=CPU,
         needs=(STRAIGHT,), open_sizes=True),
    Step("online_softmax", "softmax between two products is one kernel, which goes through the keys in blocks",
         online_softmax.fuse, online_softmax.decide, kinds=GPU, needs=(STRAIGHT, NOT_PRECISE),
         choice=KeyBlocks, fits=online_softmax.fits, options=independent(online_softmax.options), in_turn=True),
    Step("coalesce", "indices that walk memory together become one", unconditional(coalesce.coalesce), kinds=GPU,
         needs=(STRAIGHT_LAUNCHES,), open_sizes=True),
    Step("narrow_sums", "sums of small whole numbers are made in 32 bits", narrow_sums.narrow, narrow_sums.decide, kinds=CPU,
         needs=(STRAIGHT,), choice=narrow_sums.Narrow, fits=narrow_sums.fits, options=independent(narrow_sums.options)),
    Step("extremum_blocks", "the place of an extremum is looked for in one block", extremum_blocks.split,
         extremum_blocks.decide, kinds=CPU, needs=(STRAIGHT, NOT_PRECISE), choice=extremum_blocks.Blocks,
         fits=extremum_blocks.fits, options=independent(extremum_blocks.options)),
    Step("split_floats", "f32 as sums of three bf16, for a matrix unit", split_floats.split, split_floats.decide, kinds=CPU,
         needs=(STRAIGHT, NOT_PRECISE, NOT_DIRECT),
         choice=split_floats.Parts, fits=split_floats.fits, options=independent(split_floats.options)),
    Step("dot_words", "sums of products of narrow numbers become dot products of words", dot_words.group, dot_words.decide,
         needs=(STRAIGHT_LAUNCHES, NOT_PRECISE),
         choice=dot_words.DotWords, fits=dot_words.fits, options=independent(dot_words.options)),
    Step("local_tiles", "contractions are divided among work-items, operands copied to local memory",
         staging.STRAIGHT.apply, staging.STRAIGHT.decide, kinds=GPU, needs=(STRAIGHT_LAUNCHES,), open_sizes=True,
         choice=Divided, fit_together=staging.STRAIGHT.fits, options=staging.STRAIGHT.options),
    Step("word_copies", "words are made where they are copied", unconditional(word_copies.inline), kinds=GPU,
         needs=(STRAIGHT_LAUNCHES,)),
    Step("pad", "guarded reads become reads of padded copies", pad.for_devices, kinds=GPU,
         needs=(STRAIGHT_LAUNCHES,), open_sizes=True),
    Step("matrix_tiles", "words lie in memory as a matrix unit loads them", matrix_tiles.lay_out, matrix_tiles.decide,
         kinds=CPU, needs=(STRAIGHT, NOT_PRECISE),
         choice=matrix_tiles.Tiles, fits=matrix_tiles.fits, options=independent(matrix_tiles.options)),
    Step("pack", "operands of contractions are laid out in panels", pack.pack, pack.decide, kinds=CPU,
         needs=(STRAIGHT, NOT_PRECISE), open_sizes=True,
         choice=pack.Panels, fits=pack.fits, options=independent(pack.options), in_turn=True),
    Step("lanes", "reductions along memory get a partial result for each vector lane", lanes.split_reductions, lanes.decide,
         kinds=CPU, needs=(STRAIGHT, NOT_PRECISE), open_sizes=True,
         choice=lanes.Lanes, fits=lanes.fits, options=independent(lanes.options)),
    Step("row_blocks", "what one product hands to the next is made for some rows at a time", row_blocks.split,
         row_blocks.decide, kinds=CPU, needs=(STRAIGHT, NOT_PRECISE),
         choice=row_blocks.RowBlocks, fits=row_blocks.fits, options=independent(row_blocks.options), in_turn=True),
    Step("long_sums", "long sums of floats are made in blocks", unconditional(long_sums.split_sums), long_sums.decide,
         kinds=CPU, needs=(NOT_PRECISE,), open_sizes=True, required=True),
)
"""polytc's own. A name may stand in it twice, for different kinds of machines."""


@dataclass(frozen=True)
class Added:
    """A step of another distribution. after: the name of the step that it follows, one of polytc's own; '' to be the first."""

    step: Step
    after: str


@functools.cache
def steps() -> tuple[Step, ...]:
    """All steps in their order: polytc's own, and those of other distributions (see extensions.py)."""
    found = list(STEPS)
    for name in reversed(extensions.names(extensions.STEPS)):  # of several that follow one, in alphabetical order
        found = _with(found, name, extensions.load(extensions.STEPS, name))
    return tuple(found)


def _with(table: Sequence[Step], name: str, added: Any) -> list[Step]:
    own = {s.name for s in STEPS}
    if not isinstance(added, Added) or not isinstance(added.step, Step):
        raise extensions.refusal(extensions.STEPS, name, f"is a {type(added).__name__}, and no polytc.rewrite.table.Added")
    if added.step.name in own:
        raise extensions.refusal(extensions.STEPS, name, f"has the name {added.step.name!r}, which polytc's own step has")
    if added.after not in ("", *own):
        raise extensions.refusal(extensions.STEPS, name, f"follows {added.after!r}, and the steps are {', '.join(sorted(own))}")
    if not added.after:
        return [added.step, *table]
    return [s for step in table for s in ((step, added.step) if step.name == added.after else (step,))]


def named(name: str) -> Step:
    """The first step of that name."""
    return next(s for s in steps() if s.name == name)
