"""ONNX Runtime's own operators (com.microsoft) by operators of onnx: what its optimisers, quantisers and exporters write.

Each has a text in onnx's notation, in which its inputs and outputs have the names of its schema; what is left out of a node is
left out of the text. The passes and the fusion of polytc do the rest. (ONNX Runtime, ContribOperators.md.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from polytc.graph.onnx.contrib import (
    attention,
    block_quantised,
    experts,
    movement,
    normalisation,
    products,
    quantised,
    rotary,
)
from polytc.graph.onnx.contrib.sites import Site


@dataclass(frozen=True)
class Contrib:
    """given, made: formal names of inputs and outputs, apart by spaces. An input that may be left out ends with `?`; the last
    ones with `*` if they may be repeated. text: raises NoText where polytc has no way for such a node, ShapesNeeded where it
    depends on more."""

    given: str
    made: str
    text: Callable[[Site], str]

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(self.given.split())

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(self.made.split())


Q_UNARY = "X X_scale X_zero_point? Y_scale Y_zero_point?"
Q_BINARY = "A A_scale A_zero_point? B B_scale B_zero_point? C_scale C_zero_point?"
NORM = "output mean inv_std_var input_skip_bias_sum"
_MOE = ("fc1_experts_weights {0}fc1_experts_bias? fc2_experts_weights {1}fc2_experts_bias? fc3_experts_weights? "
        "{2}fc3_experts_bias?")
MOE = "input router_probs " + _MOE.format("", "", "")
QMOE = ("input router_probs " + _MOE.format(*(f"fc{k}_scales? " for k in (1, 2, 3)))
        + " fc1_zero_points? fc2_zero_points? fc3_zero_points? router_weights?")

_ACTIVATIONS: Mapping[str, Contrib] = {
    "Gelu": Contrib("X", "Y", products.gelu),
    "BiasGelu": Contrib("A B", "C", products.bias_gelu),
    "FastGelu": Contrib("X bias?", "Y", products.fast_gelu),
    "GemmFastGelu": Contrib("X W bias?", "Y", products.gemm_fast_gelu),
    "QuickGelu": Contrib("X", "Y", products.quick_gelu),
    "ScaledSiLU": Contrib("X scale?", "Y", products.scaled_silu),
    "SwiGLU": Contrib("gate up?", "output", products.swiglu),
    "BiasSplitGelu": Contrib("X bias", "Y", products.bias_split_gelu),
    "BiasAdd": Contrib("X bias skip", "Y", products.bias_add),
    "BiasDropout": Contrib("data bias residual? ratio? training_mode?", "output mask", products.bias_dropout),
    "BiasSoftmax": Contrib("data bias", "output", products.bias_softmax),
    "GatedAdd": Contrib("X Y gate gate_weight?", "output", products.gated_add),
}

_PRODUCTS: Mapping[str, Contrib] = {
    "FusedMatMul": Contrib("A B", "Y", products.fused_matmul),
    "TransposeMatMul": Contrib("A B", "Y", products.fused_matmul),
    "FusedMatMulActivation": Contrib("A B", "Y", products.fused_matmul_activation),
    "FusedGemm": Contrib("A B C?", "Y", products.fused_gemm),
    "FusedConv": Contrib("X W B? Z?", "Y", products.fused_conv),
    "NhwcConv": Contrib("X W B?", "Y", products.nhwc_conv),
    "NhwcFusedConv": Contrib("X W B? Z?", "Y", products.nhwc_conv),
    "NhwcMaxPool": Contrib("x", "y", products.nhwc_max_pool),
    "ConvTransposeWithDynamicPads": Contrib("X W Pads? B?", "Y", products.conv_transpose),
    "MoE": Contrib(MOE, "output", experts.experts),
    "QMoE": Contrib(QMOE, "output", experts.quantised_experts),
}

_NORMALISATIONS: Mapping[str, Contrib] = {
    "SkipLayerNormalization": Contrib("input skip gamma beta? bias?", NORM,
                                      normalisation.skip_norm("LayerNormalization", "beta")),
    "SimplifiedLayerNormalization": Contrib("X scale", "Y inv_std_var", normalisation.rms_norm),
    "SkipSimplifiedLayerNormalization": Contrib("input skip gamma bias?", NORM, normalisation.skip_norm("RMSNormalization")),
    "EmbedLayerNormalization": Contrib(
    "input_ids segment_ids? word_embedding position_embedding segment_embedding? gamma beta mask? position_ids?",
    "output mask_index embedding_sum", normalisation.embed_layer_norm),
    "QEmbedLayerNormalization": Contrib(
    "input_ids segment_ids? word_embedding_quant position_embedding_quant segment_embedding? gamma_quant beta_quant mask? "
    "word_embedding_scale position_embedding_scale segment_embedding_scale? gamma_scale beta_scale "
    "word_embedding_zero_point position_embedding_zero_point segment_embedding_zero_point? gamma_zero_point "
    "beta_zero_point", "layernorm_out mask_index_out", normalisation.q_embed_layer_norm),
    "GroupNorm": Contrib("X gamma beta", "Y", normalisation.group_norm),
    "SkipGroupNorm": Contrib("X gamma beta skip bias?", "Y S", normalisation.skip_group_norm),
    "GatedRMSNorm": Contrib("X scale gate", "Y", normalisation.gated_rms_norm),
    "BranchwiseRMSNorm": Contrib("X scale?", "Y", normalisation.branchwise_rms_norm),
}

_QUANTISED: Mapping[str, Contrib] = {
    "QuantizeLinear": Contrib("x y_scale y_zero_point?", "y", quantised.linear("QuantizeLinear")),
    "DequantizeLinear": Contrib("x x_scale x_zero_point?", "y", quantised.linear("DequantizeLinear")),
    "MatMulIntegerToFloat": Contrib("A B a_scale b_scale a_zero_point? b_zero_point? bias?", "Y", quantised.integers_to_float),
    "DynamicQuantizeMatMul": Contrib("A B b_scale b_zero_point? bias?", "Y", quantised.dynamic_matmul),
    "DynamicQuantizeLSTM": Contrib("X W R B? sequence_lens? initial_h? initial_c? P? W_scale W_zero_point R_scale R_zero_point",
                                   "Y Y_h Y_c", quantised.dynamic_lstm),
    "MatMulInteger16": Contrib("A B", "Y", quantised.matmul_integer16),
    "MulInteger": Contrib("A A_zero_point? B B_zero_point?", "C", quantised.mul_integer),
    "ReduceSumInteger": Contrib("data", "reduced", quantised.reduce_sum_integer),
    "QLinearReduceMean": Contrib("data data_scale data_zero_point? reduced_scale reduced_zero_point?", "reduced",
                                 quantised.reduce_mean),
    "QLinearAdd": Contrib(Q_BINARY, "C", quantised.elementwise("Add")),
    "QLinearMul": Contrib(Q_BINARY, "C", quantised.elementwise("Mul")),
    "QLinearSigmoid": Contrib(Q_UNARY, "Y", quantised.unary("Sigmoid")),
    "QLinearLeakyRelu": Contrib(Q_UNARY, "Y", quantised.unary("LeakyRelu", "alpha")),
    "QLinearSoftmax": Contrib(Q_UNARY, "Y", quantised.softmax),
    "QLinearAveragePool": Contrib(Q_UNARY, "Y", quantised.average_pool),
    "QLinearGlobalAveragePool": Contrib(Q_UNARY, "Y", quantised.global_average_pool),
    "QLinearConv": Contrib("x x_scale x_zero_point w w_scale w_zero_point y_scale y_zero_point B?", "y", quantised.conv),
    "QLinearConcat": Contrib("Y_scale Y_zero_point X_tensor* X_scale* X_zero_point*", "Y", quantised.concat),
    "QLinearWhere": Contrib("condition X x_scale x_zero_point Y y_scale y_zero_point z_scale z_zero_point", "Z",
                            quantised.where),
    "QGemm": Contrib("A a_scale a_zero_point? B b_scale b_zero_point? C? y_scale? y_zero_point?", "Y", quantised.qgemm),
    "MatMulNBits": Contrib("A B scales zero_points? g_idx? bias?", "Y", block_quantised.matmul),
    "MatMulBnb4": Contrib("A B absmax", "Y", block_quantised.matmul_bnb4),
    "GatherBlockQuantized": Contrib("data indices scales zero_points?", "output", block_quantised.gather),
}

_ATTENTION: Mapping[str, Contrib] = {
    "Attention": Contrib("input weights bias? mask_index? past? attention_bias? past_sequence_length?", "output present",
                         attention.attention),
    "QAttention": Contrib("input weight bias input_scale weight_scale mask_index? input_zero_point? weight_zero_point? past?",
                          "output present", attention.q_attention),
    "MultiHeadAttention": Contrib(
    "query key? value? bias? key_padding_mask? attention_bias? past_key? past_value? past_sequence_length? "
    "cache_indirection?", "output present_key present_value qk", attention.multi_head_attention),
    "DecoderMaskedMultiHeadAttention": Contrib(
    "query key? value? mask_index? attention_bias? past_key? past_value? past_sequence_length? beam_width? "
    "cache_indirection? bias?", "output present_key present_value qk", attention.decoder_masked_attention),
    "GroupQueryAttention": Contrib(
    "query key? value? past_key? past_value? seqlens_k total_sequence_length cos_cache? sin_cache? position_ids? "
    "attention_bias? head_sink? k_scale? v_scale? q_norm_weight? k_norm_weight? query_seqlens?",
    "output present_key present_value output_qk", rotary.group_query_attention),
    "PackedAttention": Contrib("input weights bias token_offset cumulative_sequence_length attention_bias?", "output",
                               attention.packed_attention),
    "PackedMultiHeadAttention": Contrib(
    "query key? value? bias? token_offset cumulative_sequence_length attention_bias?", "output",
        attention.packed_multi_head_attention),
    "RotaryEmbedding": Contrib("input position_ids cos_cache sin_cache", "output", rotary.rotary),
    "RelativePositionBias": Contrib("bias_table query_length key_length", "output", movement.relative_position_bias),
    "RemovePadding": Contrib("input sequence_token_count", "output token_offset cumulated_seq_len max_seq_len",
                             movement.remove_padding),
    "RestorePadding": Contrib("input token_offset", "output", movement.restore_padding),
}

_MOVEMENT: Mapping[str, Contrib] = {
    "Trilu": Contrib("X k?", "Y", movement.trilu),
    "ExpandDims": Contrib("X axis", "Y", movement.expand_dims),
    "Range": Contrib("start limit delta?", "Y", movement.number_range),
    "Pad": Contrib("data pads value?", "output", movement.pad),
    "Unique": Contrib("x", "y idx counts", movement.unique),
    "CDist": Contrib("A B", "C", movement.cdist),
    "GridSample": Contrib("X Grid", "Y", movement.grid_sample),
    "GatherND": Contrib("data indices", "output", movement.gather_nd),
    "UnfoldTensor": Contrib("input", "output", movement.unfold),
    "TorchEmbedding": Contrib("weight indices padding_idx? scale_grad_by_freq?", "Y", movement.embedding),
    "IsAllFinite": Contrib("input*", "output", movement.all_finite),
    "ComplexMul": Contrib("A B", "C", lambda s: movement.complex_mul(False)),
    "ComplexMulConj": Contrib("A B", "C", lambda s: movement.complex_mul(True)),
    "Rfft": Contrib("X", "Y", movement.rfft),
    "Irfft": Contrib("X", "Y", movement.irfft),
    "SampleOp": Contrib("X", "Y", lambda s: "Y = Identity(X)"),
    "WordConvEmbedding": Contrib("Sequence W B C", "Y", movement.word_conv_embedding),
    "CropAndResize": Contrib("X rois batch_indices crop_size", "Y", movement.crop_and_resize),
    "NGramRepeatBlock": Contrib("input_ids scores", "scores_out", movement.n_gram_repeat),
}

CONTRIB: Mapping[str, Contrib] = {**_ACTIVATIONS, **_PRODUCTS, **_NORMALISATIONS, **_QUANTISED, **_ATTENTION, **_MOVEMENT}
"""Operator -> what it is made of."""
