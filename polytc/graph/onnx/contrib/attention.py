"""Attention, MultiHeadAttention and their like as onnx's Attention.

Masks of ONNX Runtime add `mask_filter_value`, -10000 if nothing else is said, to the scores of keys that are not to be seen.
A query that sees none has therefore the softmax of its scores, not zeros, and so have the texts."""

from __future__ import annotations

from polytc.graph.onnx.contrib.sites import NoText, Site, constant, ints, real, scalar

_THREE = "Split <axis: int = -1, num_outputs: int = 3>"


def lengths(s: Site, name: str, batch: int, keys: int) -> str:
    """`shown`, whether key j of a batch is no padding, by a vector of lengths, of ends and then starts, or of lengths and then
    other numbers."""
    count = s.shape(name)[0]
    if count not in (batch, 2 * batch, 3 * batch + 2):
        raise NoText(f"{name!r} of {count} numbers for a batch of {batch}")
    first = f"{ints('from0', 0)}{ints('to0', batch)}ends0 = Slice({name}, from0, to0)\n"
    lines = f"{first}{ints('behind', 1)}ends = Unsqueeze(ends0, behind)\n{ints('places0', *range(keys))}" \
            "places = CastLike(places0, ends)\nshown0 = Less(places, ends)\n"
    if count != 2 * batch or batch == 0:
        return f"{lines}shown = Identity(shown0)\n"
    return (f"{lines}{ints('to1', 2 * batch)}starts0 = Slice({name}, to0, to1)\nstarts = Unsqueeze(starts0, behind)\n"
            "shown1 = GreaterOrEqual(places, starts)\nshown = And(shown0, shown1)\n")


def mask(s: Site, name: str, like: str, batch: str, *keys: tuple[str, int]) -> str:
    """`mask`, what is added to scores of the type of `like`, by the mask of keys `name` and by what is added anyway; '' if
    there is neither. batch: an input whose first extent is the batch; keys: inputs and the axes of them that count keys."""
    if not s.has(name):
        return "mask = Identity(attention_bias)\n" if s.has("attention_bias") else ""
    rank = s.rank(name)
    if rank == 1:
        lines = lengths(s, name, s.shape(batch)[0], sum(s.shape(n)[axis] for n, axis in keys))
    elif rank in (2, 3):
        lines = f"shown = Cast <to: int = 9> ({name})\n"
    else:
        raise NoText(f"a mask {name!r} of rank {rank}")
    lines += ints("mask_axes", *((1,) if rank == 3 else (1, 2))) + "seen = Unsqueeze(shown, mask_axes)\n"
    lines += constant("hidden", s.number("mask_filter_value", -10000.0), like) + constant("nothing", 0.0, like)
    if not s.has("attention_bias"):
        return f"{lines}mask = Where(seen, nothing, hidden)\n"
    return f"{lines}masked = Where(seen, nothing, hidden)\nmask = Add(attention_bias, masked)\n"


def call(s: Site, masked: str, past: tuple[str, str] | None, outputs: tuple[str, ...], causal: int) -> str:
    """The Attention of Q, K and V, of rank 3. masked: the text that makes `mask`; past: keys and values of rank 4."""
    heads = int(s.number("num_heads", 1))
    scale = f", scale: float = {real(s.attributes['scale'])}" if s.attributes.get("scale") else ""
    scores = ", qk_matmul_output_mode: int = 2" if len(outputs) > 3 else ""
    before = f", {'mask' if masked else ''}, {past[0]}, {past[1]}" if past else ", mask" if masked else ""
    names = ", ".join(outputs)
    return (f"{masked}{names} = Attention <q_num_heads: int = {heads}, kv_num_heads: int = {heads}, is_causal: int = {causal}"
            f"{scale}{scores}> (Q, K, V{before})\n")


def attention(s: Site) -> str:
    bias = "S = Add(P, bias)\n" if s.has("bias") else "S = Identity(P)\n"
    return f"P = MatMul(input, weights)\n{bias}{projected(s)}"


def q_attention(s: Site) -> str:
    """Products of integers, and the rest in real numbers."""
    zeros = s.optional("input_zero_point", "weight_zero_point")
    return ("S = com.microsoft.MatMulIntegerToFloat(input, weight, input_scale, weight_scale"
            f"{zeros or ', , '}{', bias' if s.has('bias') else ''})\n{projected(s)}")


def projected(s: Site) -> str:
    """What follows from S, which holds queries, keys and values."""
    s.only("do_rotary", 0)
    s.only("past_present_share_buffer", 0)
    s.refuse("past_sequence_length")
    sizes = s.attributes.get("qkv_hidden_sizes")
    split = f"Q, K, V = {_THREE} (S)\n"
    if sizes is not None and len(sizes):
        split = f"{ints('sizes', *sizes)}Q, K, V = Split <axis: int = -1> (S, sizes)\n"
    keys = [("input", 1)] + ([("past", 3)] if s.has("past") else [])
    masked = mask(s, "mask_index", "S", "input", *keys)
    lines, past = "", None
    if s.has("past"):
        lines, past = f"{ints('first', 0)}k0, v0 = Split <axis: int = 0, num_outputs: int = 2> (past)\n" \
                      "pk = Squeeze(k0, first)\npv = Squeeze(v0, first)\n", ("pk", "pv")
    outputs = ("output", "present_k", "present_v") if "present" in s.wanted else ("output",)
    lines += call(s, masked, past, outputs, int(s.number("unidirectional", 0)))
    if "present" in s.wanted:
        lines += f"{ints('front', 0)}k1 = Unsqueeze(present_k, front)\nv1 = Unsqueeze(present_v, front)\n" \
                 "present = Concat <axis: int = 0> (k1, v1)\n"
    return split + lines


def _packed(name: str, parts: str) -> str:
    """Tensors of rank 3, their heads side by side, of one in which they stand beside each other in each head."""
    made = [f"{p}4 = Squeeze({p}5, packed_axis)\n{p} = Reshape({p}4, flat)\n" for p in parts]
    several = ", ".join(f"{p}5" for p in parts)
    return (f"{ints('packed_axis', 3)}{ints('flat', 0, 0, -1)}"
            f"{several} = Split <axis: int = 3, num_outputs: int = {len(parts)}> ({name})\n{''.join(made)}")


def _flat(name: str, result: str) -> str:
    """A tensor (batch, heads, places, features) as (batch, places, heads * features)."""
    return (f"{name}_t = Transpose <perm: ints = [0, 2, 1, 3]> ({name})\n{ints(f'{name}_flat', 0, 0, -1)}"
            f"{result} = Reshape({name}_t, {name}_flat)\n")


def multi_head_attention(s: Site) -> str:
    s.refuse("past_sequence_length", "cache_indirection")
    if not s.has("key"):
        if s.rank("query") != 5:
            raise NoText("no key, and queries that are not packed with keys and values")
        lines, keys, cross = _packed("query", "qkv"), [("query", 1)], False
    else:
        lines, keys, cross = _separate(s)
    if s.has("past_key"):
        keys.append(("past_key", 2))
    masked = mask(s, "key_padding_mask", "Q", "query", *keys)
    past = ("past_key", "past_value") if s.has("past_key") else None
    return lines + _biased(s, cross) + call(s, masked, past, _outputs(s), int(s.number("unidirectional", 0)))


def _separate(s: Site) -> tuple[str, list[tuple[str, int]], bool]:
    """The text that makes q, k and v of inputs of their own; the axes that count keys; are keys and values those of a cache?"""
    rank = s.rank("key")
    lines = "q = Identity(query)\n"
    if rank == 5:
        return lines + _packed("key", "kv"), [("key", 1)], False
    if rank == 4:
        return lines + _flat("key", "k") + _flat("value", "v"), [("key", 2)], True
    return lines + "k = Identity(key)\nv = Identity(value)\n", [("key", 1)], False


def _outputs(s: Site) -> tuple[str, ...]:
    """Names of results, those that are not wanted too if they are in front of others."""
    names = ("output", "present_key", "present_value", "qk")
    last = max(k for k, n in enumerate(names) if n in s.wanted)
    return tuple(n if n in s.wanted else f"no_{n}" for n in names[:last + 1])


def _biased(s: Site, cross: bool) -> str:
    """Q, K and V: queries, keys and values plus their parts of the bias; those of a cache have it already."""
    if not s.has("bias"):
        return "Q = Identity(q)\nK = Identity(k)\nV = Identity(v)\n"
    lines = "".join(f"{n}_width = Shape <start: int = 2> ({n})\n" for n in "qkv")
    lines += "bias_sizes = Concat <axis: int = 0> (q_width, k_width, v_width)\n" \
             "bq, bk, bv = Split <axis: int = 0> (bias, bias_sizes)\nQ = Add(q, bq)\n"
    return lines + ("K = Identity(k)\nV = Identity(v)\n" if cross else "K = Add(k, bk)\nV = Add(v, bv)\n")


def decoder_masked_attention(s: Site) -> str:
    """One query. Where past and present are one buffer, row `past_sequence_length` of the past is the new one, and later
    rows do not count."""
    s.only("output_qk", 0)
    s.refuse("beam_width", "cache_indirection")
    if not s.has("key"):
        raise NoText("queries that are packed with keys and values")
    lines, keys, cross = _separate(s)
    lines += _biased(s, cross)
    if not cross and s.number("past_present_share_buffer", 0):
        return lines + _in_buffer(s)
    s.refuse("past_sequence_length")
    keys += [("past_key", 2)] if s.has("past_key") else []
    masked = mask(s, "mask_index", "Q", "query", *keys)
    past = ("past_key", "past_value") if s.has("past_key") else None
    return lines + call(s, masked, past, _outputs(s), 0)


def _in_buffer(s: Site) -> str:
    s.refuse("qk")
    if not s.has("past_key") or not s.has("past_sequence_length") or s.has("mask_index") and s.rank("mask_index") != 2:
        raise NoText("a buffer without its length, or with a mask that is no matrix")
    heads, rows = int(s.number("num_heads", 1)), s.shape("past_key")[2]
    lines = (f"n0 = Cast <to: int = 7> (past_sequence_length)\n{ints('unit', 1)}n = Reshape(n0, unit)\n"
             f"{ints('rows', *range(rows))}"
             f"here = Equal(rows, n)\n{ints('column', -1, 1)}new_row = Reshape(here, column)\nvalid = LessOrEqual(rows, n)\n"
             f"{ints('by_head', 0, heads, 1, -1)}q4 = Reshape(Q, by_head)\nk4 = Reshape(K, by_head)\nv4 = Reshape(V, by_head)\n"
             "keys4 = Where(new_row, k4, past_key)\nvalues4 = Where(new_row, v4, past_value)\n")
    lines += "".join(f"present_{n} = Identity({n}s4)\n" for n in ("key", "value") if f"present_{n}" in s.wanted)
    masked = mask(s, "mask_index", "Q", "query")
    lines += constant("lowest", float("-inf"), "Q") + constant("none", 0.0, "Q")
    if masked:
        lines += (f"{masked}{ints('all_rows', rows)}{ints('no_pads', *[0] * 7)}mask_end = Shape <start: int = 3> (mask)\n"
                      "missing = Sub(all_rows, mask_end)\npads = Concat <axis: int = 0> (no_pads, missing)\n"
                      "mask4 = Pad(mask, pads)\n"
                  "shown_rows = Where(valid, mask4, lowest)\n")
    else:
        lines += f"mask1 = Where(valid, none, lowest)\n{ints('flat_mask', 1, 1, 1, -1)}shown_rows = Reshape(mask1, flat_mask)\n"
    scale = f" <scale: float = {real(s.attributes['scale'])}>" if s.attributes.get("scale") else ""
    return f"{lines}out4 = Attention{scale} (q4, keys4, values4, shown_rows)\n" \
        f"{ints('joined', 0, 1, -1)}output = Reshape(out4, joined)\n"


def packed_attention(s: Site) -> str:
    bias = "S = Add(P, bias)\n" if s.has("bias") else "S = Identity(P)\n"
    sizes = s.attributes.get("qkv_hidden_sizes")
    split = f"q, k, v = {_THREE} (S)\n"
    if sizes is not None and len(sizes):
        split = f"{ints('sizes', *sizes)}q, k, v = Split <axis: int = -1> (S, sizes)\n"
    return f"P = MatMul(input, weights)\n{bias}{split}{_unpacked(s)}"


def packed_multi_head_attention(s: Site) -> str:
    if s.has("key"):
        lines = "q0 = Identity(query)\nk0 = Identity(key)\nv0 = Identity(value)\n"
    else:
        lines = (f"{ints('packed_axis', 2)}{ints('flat', 0, -1)}q4, k4, v4 = Split <axis: int = 2, num_outputs: int = 3> "
                 "(query)\n"
                 + "".join(f"{n}3 = Squeeze({n}4, packed_axis)\n{n}0 = Reshape({n}3, flat)\n" for n in "qkv"))
    if not s.has("bias"):
        return lines + "".join(f"{n} = Identity({n}0)\n" for n in "qkv") + _unpacked(s)
    lines += "".join(f"{n}_width = Shape <start: int = 1> ({n}0)\n" for n in "qkv")
    lines += "bias_sizes = Concat <axis: int = 0> (q_width, k_width, v_width)\n" \
             "bq, bk, bv = Split <axis: int = 0> (bias, bias_sizes)\n"
    return lines + "".join(f"{n} = Add({n}0, b{n})\n" for n in "qkv") + _unpacked(s)


def _unpacked(s: Site) -> str:
    """Rows q, k, v of all real tokens are put where they belong, with some other row in place of padding, which no query sees;
    the results of the real tokens are what comes out."""
    batch, length = s.shape("token_offset")
    lines = (f"{ints('token_shape', batch, length)}{ints('column', 1)}{ints('places0', *range(length))}"
             "places = CastLike(places0, cumulative_sequence_length)\n"
             f"{ints('first', 0)}{ints('one', 1)}{ints('batch', batch)}{ints('most', batch + 1)}"
             "starts0 = Slice(cumulative_sequence_length, first, batch)\nends0 = Slice(cumulative_sequence_length, one, most)\n"
             "starts = Unsqueeze(starts0, column)\ncounts0 = Sub(ends0, starts0)\ncounts = Unsqueeze(counts0, column)\n"
             "inside = Less(places, counts)\nrows0 = Add(places, starts)\nrows = Where(inside, rows0, starts)\n"
             f"tokens = Shape <start: int = 0, end: int = 1> (q)\n{scalar('unit', 1)}last0 = Sub(tokens, unit)\n"
             "last = CastLike(last0, rows)\nrow = Min(rows, last)\n"
             "Q = Gather <axis: int = 0> (q, row)\nK = Gather <axis: int = 0> (k, row)\nV = Gather <axis: int = 0> (v, row)\n"
             f"{ints('mask_axes', 1, 2)}seen = Unsqueeze(inside, mask_axes)\n")
    hidden = constant("hidden", s.number("mask_filter_value", -10000.0), "Q") + constant("nothing", 0.0, "Q")
    masked = f"{hidden}masked = Where(seen, nothing, hidden)\n"
    masked += "mask = Add(attention_bias, masked)\n" if s.has("attention_bias") else "mask = Identity(masked)\n"
    return (f"{lines}{call(s, masked, None, ('whole',), 0)}"
            f"{ints('all', -1)}width = Shape <start: int = 2> (whole)\nrows_shape = Concat <axis: int = 0> (all, width)\n"
            "flat_rows = Reshape(whole, rows_shape)\noffsets = Reshape(token_offset, all)\n"
            "real = Slice(offsets, first, tokens)\n"
            "output = Gather <axis: int = 0> (flat_rows, real)\n")
