"""Attention and its like: caches, masks of all forms, packed inputs."""

from __future__ import annotations

import itertools

import numpy as np

from tests.graph.onnx.contrib.cases import Case, R, S, U, f, q

M2 = np.int32([[1, 1, 1, 0, 0], [1] * 5])
"""A mask over 5 keys of 2 sequences."""
W = (f(8, 24), f(24))


def i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


ATTENTION = [
    Case("Attention", [f(2, 5, 8), *W], {"num_heads": 2}), Case("Attention", [f(2, 5, 8), W[0]], {"num_heads": 2}),
    Case("Attention", [f(2, 5, 8), *W, M2], {"num_heads": 2}),
    Case("Attention", [f(2, 5, 8), *W, np.zeros((2, 5), np.int32)], {"num_heads": 2}, error=1e-3),
    Case("Attention", [f(2, 5, 8), *W, i32(3, 5)], {"num_heads": 2}),
    Case("Attention", [f(2, 5, 8), *W, i32(5, 4, 2, 0)], {"num_heads": 2}),
    Case("Attention", [f(2, 5, 8), *W, R.integers(0, 2, (2, 5, 5)).astype(np.int32)], {"num_heads": 2}, error=1e-3),
    Case("Attention", [f(2, 5, 8), *W, M2], {"num_heads": 2, "mask_filter_value": -3.0}),
    Case("Attention", [f(2, 5, 8), *W], {"num_heads": 4, "unidirectional": 1, "scale": .3}),
    Case("Attention", [f(2, 5, 8), *W, i32(3, 5)], {"num_heads": 2, "unidirectional": 1}),
    Case("Attention", [f(2, 5, 8), *W, "", "", f(1, 2, 5, 5)], {"num_heads": 2}),
    Case("Attention", [f(2, 5, 8), *W, M2, "", f(2, 2, 5, 5)], {"num_heads": 2}),
    Case("Attention", [f(2, 5, 8), f(8, 28), f(28)], {"num_heads": 2, "qkv_hidden_sizes": [8, 8, 12]}),
    Case("Attention", [f(2, 5, 8), *W, "", f(2, 2, 2, 3, 4)], {"num_heads": 2}, 2),
    Case("Attention", [f(2, 5, 8), *W, "", f(2, 2, 2, 3, 4)], {"num_heads": 2, "unidirectional": 1}, 2),
    Case("Attention", [f(2, 1, 8), *W, np.int32([[1, 0, 1, 1], [1] * 4]), f(2, 2, 2, 3, 4)], {"num_heads": 2,
         "unidirectional": 1}, 2),
    Case("Attention", [f(2, 5, 8), *W, i32(7, 8), f(2, 2, 2, 3, 4)], {"num_heads": 2, "unidirectional": 1}, 2),
    Case("Attention", [f(2, 5, 8), *W], {"num_heads": 2, "unidirectional": 1}, 2),
    Case("Attention", [f(2, 5, 8), *W, "", f(2, 2, 2, 0, 4)], {"num_heads": 2, "unidirectional": 1}, 2),
    Case("QAttention", [q(2, 5, 8), q(8, 24), f(24), S, np.float32(.01), "", U, U], {"num_heads": 2}, error=1e-4, stored=7),
    Case("QAttention", [q(2, 5, 8), q(8, 24, dtype=np.int8), f(24), S, f(24)**2 / 50, i32(3, 5), U, np.zeros(24, np.int8)],
         {"num_heads": 2}, error=1e-4),
    Case("QAttention", [q(2, 5, 8), q(8, 24, dtype=np.int8), f(24), S, np.float32(.01), "", U, np.int8(0), f(2, 2, 2, 3, 4)],
         {"num_heads": 2, "unidirectional": 1}, 2, error=1e-4),
]

PAIR = {"num_heads": 2}
MULTI = [
    Case("MultiHeadAttention", [f(2, 5, 8), f(2, 7, 8), f(2, 7, 8)], PAIR),
    Case("MultiHeadAttention", [f(2, 5, 8), f(2, 7, 8), f(2, 7, 12)], PAIR),
    Case("MultiHeadAttention", [f(2, 5, 8), f(2, 7, 8), f(2, 7, 12), f(28)], PAIR),
    Case("MultiHeadAttention", [f(2, 5, 8), f(2, 7, 8), f(2, 7, 8), f(24), np.int32([[1] * 6 + [0], [1] * 7])], PAIR),
    Case("MultiHeadAttention", [f(2, 5, 8), f(2, 7, 8), f(2, 7, 8), "", i32(4, 7)], PAIR),
    Case("MultiHeadAttention", [f(2, 5, 8), f(2, 7, 8), f(2, 7, 8), "", R.integers(0, 2, (2, 5, 7)).astype(np.int32)], PAIR,
         error=1e-3),
    Case("MultiHeadAttention", [f(2, 5, 8), f(2, 7, 8), f(2, 7, 8), "", "", f(1, 2, 5, 7)], {"num_heads": 2, "scale": .2}),
    Case("MultiHeadAttention", [f(2, 5, 8), f(2, 7, 8), f(2, 7, 8), "", i32(4, 7), f(2, 1, 5, 7)], PAIR),
    Case("MultiHeadAttention", [f(2, 5, 8), f(2, 5, 8), f(2, 5, 8)], {"num_heads": 2, "unidirectional": 1}),
    Case("MultiHeadAttention", [f(2, 5, 2, 3, 4)], PAIR, reference=lambda x, **k: plain(*(x[:, :, :, i] for i in range(3)))),
    Case("MultiHeadAttention", [f(2, 5, 8), f(2, 7, 2, 2, 4)], PAIR, reference=lambda x, y, **k: plain(
        x.reshape(2, 5, 2, 4), y[:, :, :, 0], y[:, :, :, 1])),
    Case("MultiHeadAttention", [f(2, 5, 8), f(2, 2, 7, 4), f(2, 2, 7, 4)], PAIR),
    Case("MultiHeadAttention", [f(2, 5, 8), f(2, 2, 7, 4), f(2, 2, 7, 4), f(24)], PAIR),
    Case("MultiHeadAttention", [f(2, 5, 8), f(2, 5, 8), f(2, 5, 8), "", "", "", f(2, 2, 3, 4), f(2, 2, 3, 4)], PAIR, 3),
    Case("MultiHeadAttention", [f(2, 5, 8), f(2, 5, 8), f(2, 5, 8), f(24), np.int32([[1] * 7 + [0], [1] * 8]), f(1, 2, 5, 8),
                                f(2, 2, 3, 4), f(2, 2, 3, 4)], {"num_heads": 2, "unidirectional": 1}, 3),
    Case("MultiHeadAttention", [f(2, 5, 8), f(2, 5, 8), f(2, 5, 8), f(24)], PAIR, 3),
    Case("MultiHeadAttention", [f(2, 1, 8), f(2, 1, 8), f(2, 1, 8), "", "", "", f(2, 2, 3, 4), f(2, 2, 3, 4)], PAIR,
         ["o0", "o1", "o2", "scores"]),
    Case("DecoderMaskedMultiHeadAttention", [f(2, 1, 8), f(2, 1, 8), f(2, 1, 8), "", "", f(2, 2, 6, 4), f(2, 2, 6, 4), i32(3)],
         {"num_heads": 2, "past_present_share_buffer": 1}, 3, cut=4),
    Case("DecoderMaskedMultiHeadAttention", [f(2, 1, 8), f(2, 1, 8), f(2, 1, 8), np.int32([[0, 1, 1, 1], [1] * 4]),
        f(1, 2, 1, 4),
                                             f(2, 2, 6, 4), f(2, 2, 6, 4), i32(3), "", "", f(24)],
         {"num_heads": 2, "past_present_share_buffer": 1, "scale": .4}, 3, cut=4),
    Case("DecoderMaskedMultiHeadAttention", [f(2, 1, 8), f(2, 2, 7, 4), f(2, 2, 7, 4)], PAIR, reference=lambda x, k, v,
        **_: plain(
        x.reshape(2, 1, 2, 4), k.transpose(0, 2, 1, 3), v.transpose(0, 2, 1, 3))),
    Case("RotaryEmbedding", [f(2, 5, 16), R.integers(0, 9, (2, 5)), f(9, 4), f(9, 4)], {"num_heads": 2}),
    Case("RotaryEmbedding", [f(2, 5, 16), R.integers(0, 9, (2, 5)), f(9, 4), f(9, 4)]),
    Case("RotaryEmbedding", [f(2, 3, 5, 8), R.integers(0, 9, (2, 5)), f(9, 4), f(9, 4)], {"interleaved": 1}),
    Case("RotaryEmbedding", [f(2, 5, 16), np.int64([3]), f(9, 4), f(9, 4)], {"num_heads": 2, "interleaved": 1}),
    Case("RotaryEmbedding", [f(2, 5, 16), np.int64([3]), f(9, 2), f(9, 2)], {"num_heads": 2, "rotary_embedding_dim": 4}),
    Case("RelativePositionBias", [f(32, 4), np.int64([6]), np.int64([6])], {"max_distance": 128, "is_bidirectional": 1},
         reference=lambda *a, **k: relative_bias(*a, **k)),
    Case("RelativePositionBias", [f(16, 4), np.int64([40]), np.int64([40])], {"max_distance": 20},
         reference=lambda *a, **k: relative_bias(*a, **k)),
]


def plain(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> list[np.ndarray]:
    """Attention of tensors (batch, places, heads, features)."""
    scores = np.einsum("bind,bjnd->bnij", q, k) / np.float32(np.sqrt(q.shape[-1]))
    return [np.einsum("bnij,bjnd->bind", softmax(scores), v).reshape(*q.shape[:2], -1)]


def relative_bias(table: np.ndarray, queries: np.ndarray, keys: np.ndarray, max_distance: int, is_bidirectional: int = 0
                  ) -> list[np.ndarray]:
    """Each pair by itself, as T5's authors wrote it."""
    buckets, heads = table.shape
    out = np.zeros((1, heads, int(queries[0]), int(keys[0])), np.float32)
    for i in range(out.shape[2]):
        for j in range(out.shape[3]):
            distance, bucket, count = j - i, 0, buckets
            if is_bidirectional:
                count //= 2
                bucket = count if distance > 0 else 0
                distance = abs(distance)
            else:
                distance = max(-distance, 0)
            exact = count // 2
            if distance >= exact:
                grown = np.log(np.float32(distance / exact)) / np.log(max_distance / exact) * (count - exact)
                distance = min(exact + int(grown), count - 1)
            out[0, :, i, j] = table[bucket + distance]
    return [out]


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def by_sequence(q: np.ndarray, k: np.ndarray, v: np.ndarray, ends: np.ndarray, heads: int, bias: np.ndarray | None
                ) -> list[np.ndarray]:
    """Attention within each sequence of packed tokens."""
    out = np.zeros((q.shape[0], v.shape[1]), np.float32)
    for b, (start, end) in enumerate(itertools.pairwise(ends)):
        for h in range(heads):
            d, w = q.shape[1] // heads, v.shape[1] // heads
            mine, values = slice(h * d, (h + 1) * d), slice(h * w, (h + 1) * w)
            scores = q[start:end, mine] @ k[start:end, mine].T / np.sqrt(d)
            if bias is not None:
                n = end - start
                scores = scores + bias[b % bias.shape[0], h % bias.shape[1], :n, :n]
            out[start:end, values] = softmax(scores) @ v[start:end, values]
    return [out]


def packed_attention(x: np.ndarray, w: np.ndarray, c: np.ndarray, offsets: np.ndarray, ends: np.ndarray,
                     bias: np.ndarray | None = None, num_heads: int = 1) -> list[np.ndarray]:
    return by_sequence(*np.split(x @ w + c, 3, axis=1), ends, num_heads, bias)


def packed_multi(query: np.ndarray, key: np.ndarray | None, value: np.ndarray | None, c: np.ndarray | None,
                 offsets: np.ndarray, ends: np.ndarray, bias: np.ndarray | None = None, num_heads: int = 1) -> list[np.ndarray]:
    if key is None or value is None:
        query, key, value = (query[:, :, i].reshape(query.shape[0], -1) for i in range(3))
    if c is not None:
        query, key, value = (a + b for a, b in zip((query, key, value), np.split(c, 3), strict=True))
    return by_sequence(query, key, value, ends, num_heads, bias)


OFFSETS, ENDS = np.int32([[0, 4, 5, 8], [9, 10, 11, 1], [2, 3, 6, 7]]), i32(0, 1, 3, 7)
PACKED = [
    Case("PackedAttention", [f(7, 8), *W, OFFSETS, ENDS], PAIR, reference=packed_attention),
    Case("PackedAttention", [f(7, 8), *W, OFFSETS, ENDS, f(1, 2, 4, 4)], PAIR, reference=packed_attention),
    Case("PackedMultiHeadAttention", [f(7, 8), f(7, 8), f(7, 8), f(24), OFFSETS, ENDS], PAIR, reference=packed_multi),
    Case("PackedMultiHeadAttention", [f(7, 2, 3, 4), "", "", "", OFFSETS, ENDS], PAIR, reference=packed_multi),
    Case("RestorePadding", [f(7, 3), OFFSETS], reference=lambda x, o: [restored(x, o)]),
    Case("RemovePadding", [f(3, 4, 5), i32(1, 2, 4)], outputs=4, reference=lambda x, n: [
        np.concatenate([x[b, :n[b]] for b in range(3)]), OFFSETS, ENDS, i32(4)], step=0),
]


def restored(x: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    out = np.zeros((offsets.size, x.shape[1]), x.dtype)
    out[offsets.ravel()[:x.shape[0]]] = x
    return out.reshape(*offsets.shape, -1)


def grouped(batch: int, queries: int, past: int, lengths: list[int], total: int, heads: int = 4, groups: int = 2,
            size: int = 16, packed: bool = False, cache: int | None = None, bias: bool = False, sink: bool = False,
            **attributes: object) -> Case:
    """A GroupQueryAttention. lengths: keys that count in each sequence; cache: rows of the past that are stored."""
    kv = f(batch, groups, past if cache is None else cache, size), f(batch, groups, past if cache is None else cache, size)
    wide = [f(batch, queries, (heads + 2 * groups) * size), "", ""] if packed else [
        f(batch, queries, heads * size), f(batch, queries, groups * size), f(batch, queries, groups * size)]
    tables = [f(max(32, total), size // 2), f(max(32, total), size // 2)] if attributes.get("do_rotary") else ["", ""]
    given = [*wide, *(kv if past or cache else ("", "")), np.array([n - 1 for n in lengths], np.int32), np.int32([total]),
        *tables]
    if bias or sink:
        given += ["", f(batch, 1, queries, total) if bias else ""]
    if sink:
        given += [f(heads)]
    return Case("GroupQueryAttention", given, {"num_heads": heads, "kv_num_heads": groups, **attributes}, 3)


GROUPED = [
    grouped(1, 5, 0, [5], 5), grouped(2, 5, 0, [5, 5], 5, do_rotary=1), grouped(2, 5, 0, [5, 5], 5, packed=True, do_rotary=1),
    grouped(1, 1, 6, [7], 7), grouped(1, 1, 6, [7], 7, do_rotary=1, rotary_interleaved=1),
    grouped(2, 1, 6, [7, 5], 7, do_rotary=1), grouped(1, 3, 6, [9], 9, do_rotary=1), grouped(1, 3, 6, [9], 9, packed=True),
    grouped(1, 1, 6, [7], 7, cache=12), grouped(2, 1, 6, [7, 4], 7, cache=12, do_rotary=1),
    grouped(1, 7, 0, [7], 7, local_window_size=3), grouped(1, 1, 6, [7], 7, local_window_size=3),
    grouped(1, 7, 0, [7], 7, softcap=2.0), grouped(1, 7, 0, [7], 7, scale=.7), grouped(1, 7, 0, [7], 7, smooth_softmax=1),
    grouped(1, 7, 0, [7], 7, sink=True), grouped(2, 3, 0, [3, 3], 3, sink=True, bias=True, softcap=1.5),
    grouped(1, 3, 6, [9], 9, bias=True), grouped(1, 4, 0, [4], 4, heads=4, groups=4),
    grouped(1, 5, 0, [5], 5, cache=8), grouped(1, 4, 0, [4], 4, causal=0)]

CASES = [*ATTENTION, *MULTI, *PACKED, *GROUPED]
