"""Numbers by which decisions are made are fields of machines; what stays beside the code is listed, with the reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import polytc

ROOT = Path(polytc.__file__).parent
PLACES = ("schedule", "rewrite", "codegen/passes")

SEARCH = "what a search tries: more takes longer to compile"
TEXT = "how long generated code may become"
PROOF = "how much work a proof or a question to isl may be"
MARGIN = "how much better an estimate must be, as it leaves out much"
SHAPE = "the form of generated code, not what it costs"
TIDY = "a rewrite for every target, which is given no machine"
RESULTS = "decides digits of results, which are the same on all machines"
EXACT = "a property of numbers or of an algorithm"
PRINT = "how something is printed"

CONSTANTS = {
    "codegen/passes/analyses/work_estimate.py": {"UNKNOWN": SHAPE},
    "codegen/passes/bank_conflicts.py": {"GAIN": MARGIN, "SOME": SHAPE, "BLOCK": SHAPE},
    "codegen/passes/collapse.py": {"ENOUGH": SHAPE, "BLOCKS": SHAPE, "LONG": SHAPE, "PART": MARGIN},
    "codegen/passes/index_set_splitting.py": {"EDGES": TEXT},
    "codegen/passes/local_memory/double_buffers.py": {"STEPS": SHAPE, "FEWEST": SHAPE},
    "codegen/passes/local_memory/register_prefetch.py": {"MOST": SHAPE, "PIPELINED": SHAPE},
    "codegen/passes/loop_fusion.py": {"STATEMENTS": TEXT},
    "codegen/passes/loop_versioning.py": {"LARGEST": TEXT, "LONGEST": TEXT},
    "codegen/passes/reciprocal.py": {"EXPONENTS": EXACT},
    "codegen/passes/interleaved_rows.py": {"PARTS": SHAPE, "UNIT": SHAPE},
    "codegen/passes/register_transpose.py": {"FEWEST": SHAPE, "ROOM": TEXT, "WIDEST": SHAPE},
    "codegen/passes/rerolling.py": {"MOST": TEXT, "FUNCTION": TEXT, "ROWS": SHAPE, "TOGETHER": SHAPE},
    "codegen/passes/strip_mining.py": {"SIDE_BY_SIDE": SHAPE, "PAIR": SHAPE},
    "codegen/passes/tile_promotion.py": {"ROOM": TEXT},
    "codegen/passes/unrolling.py": {"FEW": TEXT},
    "codegen/passes/vectorize.py": {"STRAIGHT": TEXT, "UNROLL_LIMIT": TEXT, "COVER": TEXT},
    "rewrite/complex_numbers/matrix.py": {"REUSED": TIDY, "LARGEST": SEARCH},
    "rewrite/complex_numbers/statements.py": {"LONGEST": TEXT, "_COSTS": TEXT},
    "rewrite/factors.py": {"PRODUCTS": TIDY},
    "rewrite/index_checks.py": {"ROWS": SHAPE, "BLOCK": SHAPE},
    "rewrite/unwritten_elements.py": {"LAST": EXACT},
    "rewrite/long_sums.py": dict.fromkeys(("LIMIT", "BLOCK", "NARROW", "STEP", "BRANCHES", "LEVELS"), RESULTS),
    "rewrite/word_tensors.py": {"TOP_BITS": EXACT},
    "rewrite/word_estimates.py": {"TILE": SHAPE},
    "rewrite/tidy/constant_terms.py": {"USES": TIDY},
    "rewrite/staging.py": {"COUNTS": SEARCH},
    "rewrite/product_order.py": {"LARGEST": SEARCH, "GAIN": MARGIN},
    "rewrite/cpu/extremum_blocks.py": {"BLOCKS": SEARCH, "SEARCH": SHAPE},
    "rewrite/cpu/lanes.py": {"STEPS": SHAPE, "VECTORS": SEARCH, "EDGES": TEXT},
    "rewrite/cpu/block_bounds.py": {"GRANULE": SHAPE},
    "rewrite/cpu/masked_blocks.py": {"LOW": EXACT},
    "rewrite/cpu/narrow_sums.py": {"TERMS": SHAPE},
    "rewrite/cpu/pack.py": {"GROWTH": MARGIN, "GAIN": MARGIN},
    "rewrite/cpu/row_blocks.py": {"LARGEST": SEARCH, "SMALLEST": SEARCH, "MASKED": SEARCH, "PART": MARGIN},
    "rewrite/cpu/split_floats.py": {"SHORTEST": RESULTS},
    "rewrite/cpu/winograd/choice.py": {"RESULTS": SEARCH, "SHORTEST": SEARCH, "LONGEST": SEARCH, "LONGEST_OPEN": SEARCH,
                                       "GAIN": MARGIN},
    "rewrite/cpu/winograd/convolution.py": {"TAPS": EXACT, "SAMPLE": SHAPE},
    "rewrite/cpu/winograd/cook_toom.py": {"POINTS": EXACT},
    "rewrite/gpu/contraction_tiles.py": {"DEPTHS": SEARCH, "MOST": SEARCH, "SMALL": SEARCH, "WINDOW": TEXT},
    "rewrite/gpu/matrix_tiles.py": {**dict.fromkeys(("ACROSS", "DOWN", "PAIR", "PRODUCT", "BYTES", "ADDRESSES", "HALVES"),
                                                    SHAPE), "WARPS": SEARCH, "ROWS": SEARCH, "MOST_REGISTERS": SEARCH},
    "rewrite/gpu/local_transpose.py": {"TILE": SHAPE, "ITEMS": SHAPE, "SMALL": SEARCH},
    "rewrite/parallel_scans.py": {"BLOCK": SHAPE, "THREADED": SHAPE, "FEW": SEARCH, "CORES": SEARCH},
    "rewrite/gpu/scanned_columns.py": {"EACH": SHAPE},
    "rewrite/gpu/look_back.py": {"ROUNDS": SEARCH},
    "rewrite/gpu/scan_shapes.py": {"SHAPES": SEARCH, "ACROSS": SEARCH, "TILES": SEARCH, "AHEAD": SHAPE,
                                    "MEETINGS": EXACT, "NEAR": MARGIN},
    "rewrite/gpu/scattered_parts.py": {"AHEAD": SHAPE},
    "rewrite/gpu/histogram_shapes.py": {"AHEAD": SHAPE, "VECTORS": SHAPE, "VECTOR": SHAPE, "MOST_COPIES": SHAPE,
                                        "PARTIAL": EXACT, "OPEN_TERMS": EXACT},
    "rewrite/gpu/local_histograms.py": {"BANKS": SHAPE},
    "rewrite/narrow_terms.py": {"LARGEST": EXACT},
    "rewrite/gpu/launched_parts.py": {"AHEAD": SHAPE},
    "rewrite/gpu/softmax/frame.py": {"LANES": SHAPE},
    "rewrite/gpu/softmax/shapes.py": {**dict.fromkeys(("ACROSS", "DOWN", "KEYS", "ROWS", "COLUMNS", "BLOCK", "STEPS"), SEARCH),
                                      **dict.fromkeys(("MEETINGS", "OF_ROW"), SHAPE), "SAMPLES": SEARCH},
    "rewrite/gpu/softmax/streamed.py": {"PARTS": SHAPE},
    "rewrite/gpu/split_reduction.py": {"MOST": SEARCH, "TILE": SHAPE, "STEPS": SHAPE, "PARTS": SHAPE, "AHEAD": SHAPE,
                                         "BESIDE": MARGIN},
    "rewrite/gpu/tile_copies.py": {"COPIES_IN_FLIGHT": SHAPE, "ELEMENTS_IN_FLIGHT": SHAPE},
    "rewrite/gpu/work_group_reductions.py": {"BRANCHES": SHAPE, "KEPT": SHAPE},
    "rewrite/gpu/work_group_shape.py": {"MIN_ITERATIONS": SHAPE, "ELEMENTS_PER_ITEM": SHAPE, "FEWEST": SEARCH,
                                        "COLUMNS": SHAPE},
    "rewrite/tidy/coalesce.py": {"LONGEST": EXACT},
    "rewrite/tidy/compact.py": {"USES": TIDY},
    "rewrite/tidy/borders.py": dict.fromkeys(("INSIDE", "NESTED", "SMALL", "ALONG"), TIDY),
    "rewrite/tidy/read_digits.py": {"MOST": TIDY},
    "rewrite/tidy/open_remainders.py": {"PIECES": TEXT},
    "rewrite/tidy/piecewise_copies.py": {"USES": TIDY, "GATHERED_USES": TIDY, "GROWTH": TIDY},
    "rewrite/tidy/inline.py": {"SIZE_LIMIT": TEXT},
    "rewrite/tidy/pad.py": dict.fromkeys(("USES", "SELDOM", "NEIGHBOURS", "GROWTH"), TIDY),
    "rewrite/tidy/rotated_buffers.py": {"MOST": TEXT},
    "rewrite/gpu/time_tiles/shapes.py": {**dict.fromkeys(("ROUNDS", "ITEMS", "ELEMENTS"), SEARCH), "MOST_ELEMENTS": TEXT,
                                         "FEWEST_ITEMS": SEARCH, "GRID": SHAPE},
    "rewrite/gpu/time_tiles/stencils.py": {"AXES": SHAPE, "FARTHEST": SEARCH},
    "rewrite/gpu/time_tiles/tiling.py": {"CLEARLY": MARGIN, "OPTIONS": SEARCH},
    "rewrite/tidy/rounding.py": {"LARGEST": EXACT},
    "rewrite/tidy/taps.py": {"MOST": TEXT, "PART": TIDY, "FEWEST": TIDY},
    "rewrite/tidy/transposed_copies.py": {"REUSE": TIDY},
    "schedule/isl_schedule.py": {"TILE": SEARCH},
    "schedule/loop_report.py": {"OPERATIONS": PROOF, "NEXT": PROOF},
    "schedule/parallelism.py": {"COEFFICIENTS": SEARCH, "DIMENSIONS": SEARCH, "OPERATIONS": PROOF},
    "schedule/yaml.py": {"_DEEPEST": PROOF},
    "schedule/cost/matrix_blocks.py": {"PART": MARGIN, "LEAST": SEARCH},
    "schedule/cost/register_tiles.py": {"ONE_WAY": EXACT, "SHORT": TEXT, "STRAIGHT": TEXT, "MATRIX": EXACT, "LATENCY": EXACT,
                                        "STORED": EXACT, "WIDEST": SEARCH},
    "schedule/cost/streams.py": {"ROWS": SEARCH, "COLUMNS": SEARCH, "ALONE": SEARCH, "NEAR": SHAPE},
    "schedule/cost/strips.py": {"PAIR": MARGIN, "KEPT": MARGIN, "NEAR": MARGIN, "SHARED": MARGIN},
    "schedule/cost/tile_order.py": {"SMALLEST_BLOCK": SEARCH, "GAIN": MARGIN},
    "schedule/cpu/given_tiles.py": {"MOST": TEXT},
    "schedule/cpu/strategy.py": {"SCAN": SHAPE, "SHORT": TEXT, "SQUARE": SHAPE, "VECTORS": SEARCH},
    "schedule/facts/conflicts.py": {"FEW": PROOF},
    "schedule/facts/fusion_groups.py": {"MINIMAL_PARALLELISM": SEARCH, "LARGEST": SEARCH, "TURNED": SEARCH},
    "schedule/facts/own_reads.py": {"OPERATIONS": PROOF},
    "schedule/facts/occupancy.py": {"MAX_WORK_GROUP": SHAPE},
    "schedule/facts/strides.py": {"ROW": SHAPE, "LONG": SHAPE},
    "schedule/gpu/chains.py": {"CLEARLY": MARGIN, "FEWEST": SEARCH, "LONGEST": PROOF},
    "schedule/gpu/loads_in_flight.py": {"MOST": TEXT},
    "schedule/facts/scheduler_constraints.py": {"POSING": PROOF},
    "schedule/fusion/outer_fusion.py": {"NARROW": MARGIN, "FEWEST": SEARCH, "LARGEST": SEARCH},
    "schedule/fusion/panel_blocks.py": {"LARGEST": SHAPE, "ROW": SEARCH, "TURNS": SEARCH},
    "schedule/fusion/policies.py": {"BETTER": MARGIN, "LONG": PRINT},
    "schedule/gpu/kernel_loops.py": {"MANY": EXACT},
    "schedule/gpu/strategy.py": {"BLOCKS": SHAPE, "DEEPEST": SHAPE, "UNDER_WAY": SHAPE, "FEWEST": SEARCH, "SIDES": SEARCH},
    "schedule/gpu/tile_wavefronts.py": {"SIDES": SEARCH},
    "schedule/tiling/tile_sizes.py": {"NOMINAL": SEARCH, "SIDES": SEARCH, "SWEEPS": SEARCH},
    "schedule/tiling/wavefront.py": {"BLOCK": SHAPE},
    "schedule/user/changes/inlining.py": {"LARGEST": TEXT},
    "schedule/user/pseudocode.py": {"COMMENT": PRINT},
}


def constants(path: Path) -> Iterator[str]:
    """Names at the top of a module that have numbers in their values."""
    for s in ast.parse(path.read_text(encoding="utf-8")).body:
        targets = s.targets if isinstance(s, ast.Assign) else [s.target] if isinstance(s, ast.AnnAssign) else []
        value = getattr(s, "value", None)
        numbers = [c for c in ast.walk(value) if isinstance(c, ast.Constant) and type(c.value) in (int, float)] if value else []
        if numbers and not isinstance(value, ast.JoinedStr):
            yield from (n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name))


@pytest.mark.parametrize("place", PLACES)
def test_a_number_that_stays_beside_the_code_has_a_reason(place: str) -> None:
    found = {str(p.relative_to(ROOT)): sorted(constants(p)) for p in sorted((ROOT / place).rglob("*.py"))}
    listed = {p: sorted(names) for p, names in CONSTANTS.items() if p.startswith(f"{place}/")}
    assert {p: names for p, names in found.items() if names} == listed, \
        "what things take belongs into polytc/machine/costs.py; limits belong into this list"
