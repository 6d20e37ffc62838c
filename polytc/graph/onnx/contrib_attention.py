"""The attention operators of ONNX Runtime's own as texts of onnx."""

from __future__ import annotations

from polytc.graph.onnx.contrib_texts import Site, constant


def _mask(s: Site, name: str) -> str | None:
    """The mask of scores, `mask`, from one of keys, and from what is added; '' if there is neither, None if it is of another
    kind."""
    rank = s.ranks.get(name) if s.has(name) else 0
    if rank not in (0, 2, 3):
        return None
    if not rank:
        return "mask = Identity(attention_bias)\n" if s.has("attention_bias") else ""
    axes = "1, 2" if rank == 2 else "1"
    seen = f"mask_axes = Constant <value_ints: ints = [{axes}]> ()\nseen0 = Cast <to: int = 9> ({name})\n"
    if not s.has("attention_bias"):
        return f"{seen}mask = Unsqueeze(seen0, mask_axes)\n"
    hidden = constant("hidden", float(s.number("mask_filter_value", -10000.0)), "attention_bias")
    return (f"{seen}seen = Unsqueeze(seen0, mask_axes)\n{hidden}shown = Sub(hidden, hidden)\n"
            "masked = Where(seen, shown, hidden)\nmask = Add(attention_bias, masked)\n")


def _attended(s: Site, mask: str) -> str:
    heads, causal = int(s.number("num_heads", 1)), int(s.number("unidirectional", 0))
    scale = f", scale: float = {float(s.attributes['scale'])!r}" if s.attributes.get("scale") else ""
    return (f"output = Attention <q_num_heads: int = {heads}, kv_num_heads: int = {heads}, is_causal: int = {causal}{scale}> "
            f"(Q, K, V{', mask' if mask else ''})")


def attention(s: Site) -> str | None:
    mask = _mask(s, "mask_index")
    if mask is None or s.has("past") or "present" in s.wanted or s.number("do_rotary", 0):
        return None
    sizes = s.attributes.get("qkv_hidden_sizes")
    split = "Q, K, V = Split <axis: int = -1, num_outputs: int = 3> (S)\n"
    if sizes is not None and len(sizes):
        split = (f"sizes = Constant <value_ints: ints = [{', '.join(map(str, sizes))}]> ()\n"
                 "Q, K, V = Split <axis: int = -1> (S, sizes)\n")
    bias = "S = Add(P, bias)\n" if s.has("bias") else "S = Identity(P)\n"
    return f"P = MatMul(input, weights)\n{bias}{split}{mask}{_attended(s, mask)}"


def multi_head_attention(s: Site) -> str | None:
    mask = _mask(s, "key_padding_mask")
    known = {"query", "key", "value", "bias", "key_padding_mask", "attention_bias"}
    if mask is None or not {"query", "key", "value"} <= s.given <= known or s.wanted != {"output"} or any(
            s.ranks.get(n) != 3 for n in ("query", "key", "value")):
        return None
    added = "".join(f"{a} = Add({n}, b{a})\n" for a, n in (("Q", "query"), ("K", "key"), ("V", "value")))
    plain = "".join(f"{a} = Identity({n})\n" for a, n in (("Q", "query"), ("K", "key"), ("V", "value")))
    bias = f"bQ, bK, bV = Split <axis: int = -1, num_outputs: int = 3> (bias)\n{added}" if s.has("bias") else plain
    return bias + mask + _attended(s, mask)


def rotary(s: Site) -> str | None:
    heads, rank = int(s.number("num_heads", 0)), s.ranks.get("input")
    if s.ranks.get("position_ids") != 2 or rank not in (3, 4) or rank == 3 and not heads or s.number("scale", 1.0) != 1:
        return None
    width, kind = int(s.number("rotary_embedding_dim", 0)), int(s.number("interleaved", 0))
    counted = f", num_heads: int = {heads}" if rank == 3 else ""
    own = f"interleaved: int = {kind}, rotary_embedding_dim: int = {width}{counted}"
    return f"output = RotaryEmbedding <{own}> (input, cos_cache, sin_cache, position_ids)"
