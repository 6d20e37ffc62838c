"""Rotary embeddings, and grouped queries over caches."""

from __future__ import annotations

from polytc.graph.onnx.contrib.sites import NoText, Site, constant, ints, real


def rotary(s: Site) -> str:
    """Positions of one number count on from it in each sequence."""
    s.only("scale", 1.0)
    rank, heads = s.rank("input"), int(s.number("num_heads", 0))
    if rank not in (3, 4):
        raise NoText(f"an input of rank {rank}")
    width, kind = int(s.number("rotary_embedding_dim", 0)), int(s.number("interleaved", 0))
    if rank == 3 and not heads:
        heads = s.shape("input")[2] // (2 * s.shape("cos_cache")[1])
    lines = "positions = Identity(position_ids)\n"
    if s.rank("position_ids") == 1:
        batch, length = s.shape("input")[0], s.shape("input")[-2]
        lines = f"{ints('steps', *range(length))}{ints('grid', batch, length)}first = Cast <to: int = 7> (position_ids)\n" \
                "row = Add(steps, first)\npositions = Expand(row, grid)\n"
    return lines + turn("input", "output", "positions", kind, width, heads if rank == 3 else 0)


def turn(x: str, y: str, positions: str, interleaved: int, width: int, heads: int) -> str:
    """`y`, the features of `x` turned by the angles of their positions. heads: of a tensor of rank 3, 0 for one of rank 4."""
    counted = f", num_heads: int = {heads}" if heads else ""
    return f"{y} = RotaryEmbedding <interleaved: int = {interleaved}, rotary_embedding_dim: int = {width}{counted}> " \
           f"({x}, cos_cache, sin_cache, {positions})\n"


def group_query_attention(s: Site) -> str:
    """Keys and values of the past and new ones, one behind the other, are the present; zeros stand where it is longer.

    T = seqlens_k + 1 keys of each sequence count, those of the past are the first T - Q, where Q of the new ones are no
    padding. Queries stand behind them. All that is as long as the present follows from the value `total_sequence_length`.
    """
    s.only("sliding_window_cache", 0)
    s.only("qk_output", 0)
    s.only("k_quant_type", "NONE")
    s.only("v_quant_type", "NONE")
    s.refuse("output_qk", "k_scale", "v_scale")
    heads, groups = int(s.number("num_heads", 1)), int(s.number("kv_num_heads", 1))
    batch, length, wide = s.shape("query")
    packed = not s.has("key")
    size = wide // (heads + 2 * groups if packed else heads)
    if not packed and s.shape("key")[1] != length:
        raise NoText("keys that are not as many as the queries")
    lines = (f"{ints('sizes', heads * size, groups * size, groups * size)}q, k, v = Split <axis: int = -1> (query, sizes)\n"
             if packed else "q = Identity(query)\nk = Identity(key)\nv = Identity(value)\n")
    lines += _places(s, length) + _normed(s, size) + _rotated(s, heads, groups) + _cached(s, batch, length, groups, size)
    return lines + _allowed(s, length) + _attended(s, batch, length, heads, groups, size)


def _places(s: Site, length: int) -> str:
    """For each sequence `keys`, how many keys count, `before`, how many of these are of the past, and `at`, where its queries
    are: [batch, 1] and [batch, queries] of i64. `present`: the extent of the cache, and `places` in it."""
    past = s.shape("past_key")[2] if s.has("past_key") else 0
    lines = (f"seq64 = Cast <to: int = 7> (seqlens_k)\n{ints('column', -1, 1)}seq = Reshape(seq64, column)\n{ints('one', 1)}"
             f"{ints('zero', 0)}keys = Add(seq, one)\n{ints('length', length)}")
    if s.has("query_seqlens"):
        lines += "valid0 = Cast <to: int = 7> (query_seqlens)\nvalid = Reshape(valid0, column)\nbefore = Sub(keys, valid)\n"
    else:
        lines += "open = Sub(keys, length)\nbefore = Max(open, zero)\n"
    return (f"{lines}{ints('steps', *range(length))}at = Add(before, steps)\n"
            f"total64 = Cast <to: int = 7> (total_sequence_length)\n{ints('unit', 1)}total1 = Reshape(total64, unit)\n"
            f"{ints('past_length', past)}present1 = Max(total1, past_length)\n"
            "origin = Constant <value_int: int = 0> ()\nstep = Constant <value_int: int = 1> ()\n"
            "present = Squeeze(present1)\nplaces = Range(origin, present, step)\n")


def _normed(s: Site, size: int) -> str:
    if not s.has("q_norm_weight"):
        return "qn = Identity(q)\nkn = Identity(k)\n"
    common = s.number("qk_norm_epsilon", 1e-6)
    lines = f"{ints('per_head', 0, 0, -1, size)}{ints('joined', 0, 0, -1)}"
    for n in "qk":
        epsilon = real(s.number(f"{n}_norm_epsilon", common))
        lines += f"{n}h = Reshape({n}, per_head)\n{n}r = RMSNormalization <axis: int = -1, epsilon: float = {epsilon}> " \
                 f"({n}h, {n}_norm_weight)\n{n}n = Reshape({n}r, joined)\n"
    return lines


def _rotated(s: Site, heads: int, groups: int) -> str:
    """Rows of padding may stand beyond the tables: they have the last place in them."""
    if not s.number("do_rotary", 0):
        return "Q = Identity(qn)\nK = Identity(kn)\n"
    kind = int(s.number("rotary_interleaved", 0))
    width = 2 * s.shape("cos_cache")[1]
    rows = f"{ints('last', s.shape('cos_cache')[0] - 1)}"
    own = "where0 = Identity(position_ids)\n" if s.has("position_ids") else "where0 = Identity(at)\n"
    return (f"{own}{rows}where = Min(where0, last)\n" + turn("qn", "Q", "where", kind, width, heads)
            + turn("kn", "K", "where", kind, width, groups))


def _cached(s: Site, batch: int, length: int, groups: int, size: int) -> str:
    """`keys4` and `values4` [batch, groups, present, features]: place t of the present has row t of the past, row t - before
    of the new ones, or, behind all that count, the row of zeros at the end."""
    past = s.shape("past_key")[2] if s.has("past_key") else 0
    lines = (f"{ints('split', batch, length, groups, size)}{ints('nothing', past + length)}"
             "of_past = Less(places, before)\ncounts = Less(places, keys)\nnew0 = Sub(places, before)\n"
             "new = Add(new0, past_length)\nhere = Where(counts, new, nothing)\nrow0 = Where(of_past, places, here)\n"
             f"{ints('behind', 2)}row = Unsqueeze(row0, behind)\n{ints('zero_shape', batch, 1, groups, size)}"
             + constant("blank", 0.0, "query") + "zeros = Expand(blank, zero_shape)\n")
    for name, new in (("key", "K"), ("value", "v")):
        lines += f"{name}_new = Reshape({new}, split)\n"
        parts = f"{name}_new, zeros"
        if past:
            lines += f"{name}_past = Transpose <perm: ints = [0, 2, 1, 3]> (past_{name})\n"
            parts = f"{name}_past, {parts}"
        lines += (f"{name}_all = Concat <axis: int = 1> ({parts})\n"
                  f"{name}_rows = GatherND <batch_dims: int = 1> ({name}_all, row)\n"
                  f"{name}s4 = Transpose <perm: ints = [0, 2, 1, 3]> ({name}_rows)\n")
        if f"present_{name}" in s.wanted:
            lines += f"present_{name} = Identity({name}s4)\n"
    return lines


def _allowed(s: Site, length: int) -> str:
    """`seen` [batch, 1, queries, present]: which keys a query may see."""
    lines = f"{ints('key_axes', 1, 2)}{ints('query_axes', 1, 3)}bound = Unsqueeze(keys, key_axes)\n" \
        "place = Unsqueeze(at, query_axes)\n"
    if not s.number("causal", 1):
        return f"{lines}some = Less(places, bound)\n{ints('grid', 1, 1, length, 1)}seen = Expand(some, grid)\n"
    lines += "counted = Less(places, bound)\nearlier = LessOrEqual(places, place)\nfrom_past = And(counted, earlier)\n"
    window = int(s.number("local_window_size", -1))
    if window <= 0:
        return f"{lines}seen = Identity(from_past)\n"
    return (f"{lines}{ints('window', window)}far = Sub(place, window)\nnear = Greater(places, far)\n"
            "seen = And(from_past, near)\n")


def _attended(s: Site, batch: int, length: int, heads: int, groups: int, size: int) -> str:
    """A smooth softmax, and sinks, are one more key without features, whose score is what is added to it."""
    smooth = s.number("smooth_softmax", -1) == 1 or s.has("head_sink")
    lines = constant("shown", 0.0, "query") + constant("hidden", float("-inf"), "query")
    if s.has("attention_bias"):
        lines += f"{ints('bias_axis', 3)}bias_end = Shape <start: int = 3> (attention_bias)\n" \
            "missing = Sub(present1, bias_end)\n" \
                 f"{ints('no_pads', *[0] * 7)}pads = Concat <axis: int = 0> (no_pads, missing)\n" \
                 "bias = Pad(attention_bias, pads)\nmask0 = Where(seen, bias, hidden)\n"
    else:
        lines += "mask0 = Where(seen, shown, hidden)\n"
    key, value = "keys4", "values4"
    if smooth:
        lines += f"{ints('one_more', batch, groups, 1, size)}more = Expand(shown, one_more)\n" \
                 "keys5 = Concat <axis: int = 2> (keys4, more)\nvalues5 = Concat <axis: int = 2> (values4, more)\n"
        key, value = "keys5", "values5"
        lines += f"{ints('sink_shape', 1, -1, 1, 1)}" + ("sinks = Reshape(head_sink, sink_shape)\n" if s.has("head_sink") else
                                                         "sinks = Reshape(shown, sink_shape)\n")
        lines += (f"{ints('sink_grid', batch, heads, length, 1)}sink = Expand(sinks, sink_grid)\n"
                  f"{ints('head_grid', 1, heads, 1, 1)}mask1 = Expand(mask0, head_grid)\n"
                  f"{ints('batch_grid', batch, 1, 1, 1)}mask2 = Expand(mask1, batch_grid)\n"
                  "mask = Concat <axis: int = 3> (mask2, sink)\n")
    else:
        lines += "mask = Identity(mask0)\n"
    given = s.attributes.get("scale")
    scale = f", scale: float = {real(given)}" if given else ""
    cap = float(s.number("softcap", 0.0))
    capped = f"softcap: float = {real(cap)}" if cap > 0 else "softcap: float = 0.0"
    return (f"{lines}{ints('q_split', batch, length, heads, size)}q4 = Reshape(Q, q_split)\n"
            "queries4 = Transpose <perm: ints = [0, 2, 1, 3]> (q4)\n"
            f"out4 = Attention <{capped}{scale}> (queries4, {key}, {value}, mask)\n"
            f"out3 = Transpose <perm: ints = [0, 2, 1, 3]> (out4)\n{ints('together', batch, length, heads * size)}"
            "output = Reshape(out3, together)\n")
