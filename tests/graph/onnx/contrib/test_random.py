"""Random attributes, sizes and inputs of attention and of weights of a few bits, beside ONNX Runtime.

Where ONNX Runtime refuses a node, nothing is asked of polytc.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.graph.onnx.contrib.block_cases import matmul
from tests.graph.onnx.contrib.cases import Case, by_onnx_runtime, check, model_of

SEEDS = 200
"""Of each family."""


def floats(r: np.random.Generator, *shape: int) -> np.ndarray:
    return r.standard_normal(shape).astype(np.float32)


def some(r: np.random.Generator, value: Any, chance: float = .5) -> Any:
    """The value, or that the input is left out."""
    return value if r.random() < chance else ""


def mask(r: np.random.Generator, batch: int, queries: int, keys: int) -> Any:
    """A mask of any form, under which each query sees something if it may look ahead."""
    match r.integers(5):
        case 0:
            return r.integers(1, keys + 1, batch).astype(np.int32)
        case 1:
            ends = r.integers(1, keys + 1, batch)
            return np.concatenate([ends, r.integers(0, ends)]).astype(np.int32)
        case 2:
            found = r.integers(0, 2, (batch, keys)).astype(np.int32)
            found[:, 0] = 1
            return found
        case 3:
            found = r.integers(0, 2, (batch, queries, keys)).astype(np.int32)
            found[:, :, 0] = 1
            return found
    return ""


def error(hidden: Any, own: dict[str, Any]) -> float:
    """A query that sees masked keys alone has scores near -10000, of which f32 keeps three digits behind the point."""
    return 2e-3 if not isinstance(hidden, str) and own["unidirectional"] else 1e-4


def attention(r: np.random.Generator) -> Case:
    batch, queries, heads, size, width = (int(n) for n in r.integers(1, (4, 7, 5, 9, 9)))
    past = int(r.integers(0, 6)) * int(r.integers(2))
    values = heads * size if past or r.random() < .6 else heads * int(r.integers(1, 9))
    columns = 2 * heads * size + values
    keys = past + queries
    own: dict[str, Any] = {"num_heads": heads, "unidirectional": int(r.integers(2))}
    own |= {"qkv_hidden_sizes": [heads * size, heads * size, values]} if values != heads * size else {}
    own |= {"scale": float(r.random())} if r.random() < .3 else {}
    own |= {"mask_filter_value": -float(r.integers(1, 99))} if r.random() < .3 else {}
    given = [floats(r, batch, queries, width), floats(r, width, columns), some(r, floats(r, columns), .8),
        mask(r, batch, queries, keys),
             floats(r, 2, batch, heads, past, size) if past else "",
             some(r, floats(r, *r.choice([1, batch], 1), *r.choice([1, heads], 1), queries, keys), .3)]
    outputs = 2 if past else int(r.integers(1, 3)) if values == heads * size else 1
    return Case("Attention", given, own, outputs, error=error(given[3], own))


def multi_head(r: np.random.Generator) -> Case:
    batch, queries, heads, size = (int(n) for n in r.integers(1, (4, 7, 5, 9)))
    past = int(r.integers(1, 6)) * int(r.integers(2))
    new = queries if past else int(r.integers(1, 8))
    width = size if past else int(r.integers(1, 9))
    keys, cross = past + new, not past and r.random() < .3
    width = size if cross else width
    own: dict[str, Any] = {"num_heads": heads, "unidirectional": int(r.integers(2)) * int(new == queries)}
    own |= {"scale": float(r.random())} if r.random() < .3 else {}
    bias = some(r, floats(r, heads * (2 * size + width)), .4)
    given = [floats(r, batch, queries, heads * size),
             floats(r, batch, heads, new, size) if cross else floats(r, batch, new, heads * size),
             floats(r, batch, heads, new, width) if cross else floats(r, batch, new, heads * width),
             bias, mask(r, batch, queries, keys), some(r, floats(r, 1, heads, queries, keys), .3),
             *([floats(r, batch, heads, past, size), floats(r, batch, heads, past, width)] if past else [])]
    return Case("MultiHeadAttention", given, own, 3 if past else 1, error=error(given[4], own))


def grouped(r: np.random.Generator) -> Case:
    """Prompts and further tokens, with caches as long as needed or longer."""
    batch, groups, share, queries = (int(n) for n in r.integers(1, (4, 4, 4, 6)))
    size, past, heads = int(r.choice([16, 32])), int(r.integers(1, 9)) * int(r.integers(2)), groups * share
    lengths = [past + queries] * batch
    if past and queries == 1:
        lengths[1:] = [int(n) for n in r.integers(1, past + 2, batch - 1)]
    elif past:
        batch, lengths = 1, lengths[:1]
    total = max(lengths)
    cache = past + int(r.integers(1, 9)) * int(r.integers(2)) if past else 0
    packed, rotary = r.random() < .3, r.random() < .5
    own: dict[str, Any] = {"num_heads": heads, "kv_num_heads": groups, "do_rotary": int(rotary)}
    own |= {"rotary_interleaved": 1} if rotary and r.random() < .4 else {}
    own |= {"local_window_size": int(r.integers(1, 6))} if r.random() < .3 else {}
    own |= {"softcap": float(r.uniform(.5, 4))} if r.random() < .3 else {}
    own |= {"scale": float(r.random())} if r.random() < .3 else {}
    own |= {"smooth_softmax": 1} if r.random() < .2 else {}
    new = [floats(r, batch, queries, (heads + 2 * groups) * size), "", ""] if packed else [
        floats(r, batch, queries, n * size) for n in (heads, groups, groups)]
    old = [floats(r, batch, groups, cache, size) for _ in range(2)] if past else ["", ""]
    tables = [floats(r, 32, size // 2) for _ in range(2)] if rotary else ["", ""]
    extra = ["", some(r, floats(r, batch, 1, queries, total), .3)] if r.random() < .5 else []
    return Case("GroupQueryAttention", [*new, *old, np.array(lengths, np.int32) - 1, np.int32([total]), *tables, *extra],
        own, 3,
                error=1e-4, cut=min(lengths))


def rotary(r: np.random.Generator) -> Case:
    batch, length, heads, half = (int(n) for n in r.integers(1, (4, 6, 5, 9)))
    part = int(r.integers(1, half + 1)) if r.random() < .4 else half
    own: dict[str, Any] = {"interleaved": int(r.integers(2))}
    flat = r.random() < .5
    own |= {"num_heads": heads} if flat or part != half else {}
    own |= {"rotary_embedding_dim": 2 * part} if part != half else {}
    x = floats(r, batch, length, heads * 2 * half) if flat else floats(r, batch, heads, length, 2 * half)
    at = np.int64([r.integers(0, 5)]) if r.random() < .4 else r.integers(0, 16, (batch, length))
    return Case("RotaryEmbedding", [x, at, floats(r, 16, part), floats(r, 16, part)], own)


def few_bits(r: np.random.Generator) -> Case:
    block = int(r.choice([16, 32, 64]))
    return matmul(int(r.choice([2, 4, 4, 4, 8])), int(r.integers(1, 20)), int(r.integers(1, 150)), block,
                  str(r.choice(["", "bytes", "floats"])), bool(r.integers(2)), tuple(r.integers(1, 5,
                      r.integers(1, 3)).tolist()),
                  bool(r.integers(2)))


FAMILIES = {"attention": attention, "multi_head": multi_head, "grouped": grouped, "rotary": rotary, "few_bits": few_bits}


@pytest.mark.part(250)
@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("family", FAMILIES)
def test_random(family: str, seed: int) -> None:
    case = FAMILIES[family](np.random.default_rng([seed, len(family)]))
    if case.reference is None:
        made, feeds = model_of(case)
        try:
            by_onnx_runtime(made, feeds)
        except Exception as refusal:  # its exceptions have no common base
            pytest.skip(f"refused: {str(refusal)[-80:]}")
    check(case)
