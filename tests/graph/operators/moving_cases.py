"""Uses of operators that scatter, sample, resize and transform, and of recurrent cells."""

from __future__ import annotations

import numpy as np

from tests.graph.operators.operator_case import case, f, ints, numbers, positive

SCATTERING = [
    case("ScatterElements", f(3, 4), ints(2, 4, low=-3, high=3), f(2, 4)),
    case("Scatter", f(3, 4), ints(2, 4, low=-3, high=3), f(2, 4), opset=10)] + [
    case("ScatterElements", f(3, 4), ints(3, 9, low=-4, high=4), f(3, 9), axis=1, reduction=reduction)
    for reduction in ("none", "add", "mul", "max", "min")] + [
    case("ScatterElements", f(2, 3), ints(2, 0), f(2, 0), axis=1), case("ScatterElements", ints(4), numbers(-1), numbers(9)),
    case("ScatterND", f(4, 3, 2), ints(5, 1, low=0, high=4), f(5, 3, 2)),
    case("ScatterND", f(4, 3, 2), ints(2, 4, 2, low=-3, high=3), f(2, 4, 2), reduction="add"),
    case("ScatterND", ints(4, 3), ints(5, 2, low=0, high=3), ints(5), reduction="mul"),
    case("ScatterND", f(4), ints(5, 1, low=0, high=4), f(5), reduction="max"),
    case("ScatterND", f(4), ints(5, 1, low=0, high=4), f(5), reduction="min", constant=(1,)),
    case("MaxUnpool", f(1, 2, 2, 2), numbers(5, 7, 13, 15, 16, 18, 24, 26).reshape(1, 2, 2, 2), kernel_shape=[2, 2],
         strides=[2, 2]),
    case("MaxUnpool", f(1, 1, 3), numbers(1, 2, 5).reshape(1, 1, 3), numbers(1, 1, 9), kernel_shape=[2], strides=[2],
         constant=(2,))]

PLACES = [
    case("MaxPool", f(2, 2, 7, 6), kernel_shape=[3, 2], strides=[2, 1], outputs=2),
    case("MaxPool", f(2, 2, 5, 6), kernel_shape=[2, 3], dilations=[1, 2], pads=[1, 2, 0, 2], storage_order=1, outputs=2),
    case("MaxPool", f(2, 2, 5, 3, 4), kernel_shape=[2, 2, 2], ceil_mode=1, strides=[2, 2, 2], storage_order=1, outputs=2),
    case("MaxPool", ints(2, 2, 9, dtype=np.int8), kernel_shape=[3], pads=[1, 1], outputs=2)]

RECURRENT = [  # more of them in test_recurrent.py
    case("RNN", f(3, 2, 4), f(1, 5, 4), f(1, 5, 5), hidden_size=5, outputs=2),
    case("GRU", f(3, 2, 4), f(1, 15, 4), f(1, 15, 5), f(1, 30), hidden_size=5, outputs=2, layout=0),
    case("LSTM", f(3, 2, 4), f(1, 20, 4), f(1, 20, 5), f(1, 40), hidden_size=5, outputs=3)]

RESIZING = [case("Resize", f(1, 1, 9, 8), None, np.float32([1, 1, 0.6, 0.4]), constant=(2,), mode=mode, antialias=1)
            for mode in ("linear", "cubic")] + [
    case("Resize", f(1, 1, 6, 7), None, None, numbers(1, 1, 4, 9), constant=(3,), mode=mode, antialias=1, exclude_outside=1)
    for mode in ("linear", "cubic")] + [
    case("Resize", f(1, 1, 5, 6), np.float32([0.1, 0.2, 0.9, 1.2]), None, numbers(4, 4), constant=(1, 3), axes=[2, 3],
         coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=2.5, mode=mode)
    for mode in ("nearest", "linear", "cubic")] + [
    case("Resize", ints(1, 1, 4, 5, low=0, high=256, dtype=np.uint8), None, np.float32([1, 1, 2, 2]), constant=(2,), mode=mode)
    for mode in ("linear", "cubic")] + [
    case("Resize", f(1, 1, 4, 5).astype(np.float16), None, np.float32([1, 1, 2, 2]), constant=(2,), mode="linear"),
    case("Resize", f(1, 1, 2, 3), None, np.float32([1, 1, 1.2, 1.3]), constant=(2,), mode="linear"),
    case("Resize", f(1, 2, 3, 4, 5), None, np.float32([1, 1, 2, 1.5, 0.5]), constant=(2,), mode="cubic",
         coordinate_transformation_mode="half_pixel_symmetric")]

SAMPLING = [
    case("GridSample", f(2, 3, 5, 4), f(2, 3, 2, 2) * np.float32(1.3), mode=mode, padding_mode=padding, align_corners=corners)
    for mode in ("nearest", "linear", "cubic") for padding in ("zeros", "border", "reflection") for corners in (0, 1)
    if (mode, padding) != ("cubic", "border")] + [  # there onnx's evaluator moves the points, see test_sampling.py
    case("GridSample", f(1, 2, 3, 4, 5), f(1, 2, 2, 3, 3), mode="linear", padding_mode="reflection"),
    case("GridSample", f(1, 2, 3, 4).astype(np.float16), f(1, 2, 2, 2), mode="linear"),
    case("AffineGrid", f(2, 2, 3), numbers(2, 3, 4, 5), constant=(1,)),
    case("AffineGrid", f(2, 3, 4), numbers(2, 3, 2, 3, 4), constant=(1,), align_corners=1),
    case("RoiAlign", f(2, 3, 8, 9), np.float32([[1, 1, 6, 5], [0, 2, 8.5, 7.5], [3, 3, 4, 4]]), numbers(0, 1, 1),
         output_height=2, output_width=3, sampling_ratio=2),
    case("RoiAlign", f(2, 3, 8, 9), np.float32([[1, 1, 6, 5], [0, 2, 8.5, 7.5]]), numbers(1, 0),
         output_height=2, output_width=3),
    case("RoiAlign", f(2, 3, 8, 9), np.float32([[2, 2, 12, 10], [0, 4, 40, 30]]), numbers(1, 0), output_height=3,
         output_width=2, spatial_scale=0.5, constant=(1,), coordinate_transformation_mode="output_half_pixel", mode="max"),
    case("MaxRoiPool", f(2, 3, 8, 9), np.float32([[0, 1, 1, 6, 5], [1, 0, 2, 17, 14], [1, 30, 30, 40, 40]]),
         pooled_shape=[2, 3], spatial_scale=0.5),
    case("DeformConv", f(2, 4, 5, 6), f(6, 2, 3, 2), f(2, 24, 3, 5) * np.float32(1.5), f(6), f(2, 12, 3, 5), group=2,
         offset_group=2, opset=22),
    case("DeformConv", f(1, 2, 5, 6), f(3, 2, 2, 2), f(1, 8, 3, 3), pads=[1, 0, 0, 1], strides=[2, 2], dilations=[1, 1]),
    # enough channels that they are read all at once
    case("GridSample", f(2, 17, 5, 4), f(2, 3, 2, 2) * np.float32(1.3), mode="linear", padding_mode="reflection"),
    case("GridSample", f(1, 16, 2, 4, 5), f(1, 2, 2, 3, 3), mode="cubic", padding_mode="zeros"),
    case("GridSample", f(1, 16, 3, 4).astype(np.float16), f(1, 2, 2, 2), mode="linear"),
    case("RoiAlign", f(2, 18, 8, 9), np.float32([[1, 1, 6, 5], [0, 2, 8.5, 7.5], [3, 3, 4, 4]]), numbers(0, 1, 1),
         output_height=2, output_width=3),
    case("RoiAlign", f(2, 16, 8, 9), np.float32([[1, 1, 6, 5], [0, 2, 8.5, 7.5]]), numbers(1, 0), output_height=2,
         output_width=2, sampling_ratio=2, mode="max"),
    case("DeformConv", f(2, 16, 5, 6), f(6, 8, 3, 2), f(2, 12, 3, 5) * np.float32(1.5), f(6), f(2, 6, 3, 5), group=2, opset=22),
    case("DeformConv", f(1, 32, 5, 6), f(4, 32, 3, 2), f(1, 24, 3, 5), offset_group=2)]

PADDING = [
    case("Pad", f(3, 4), numbers(7, -1, 1, 9), constant=(1,), mode=mode, opset=19) for mode in ("wrap", "edge")] + [
    case("Slice", f(1, 6), numbers(-4, 9), numbers(-5, -3), numbers(0, 1), numbers(-1, -2), constant=(1, 2, 3, 4)),
    case("Slice", f(3, 6), numbers(-9, -1), numbers(-9, -9), numbers(0, 1), numbers(-1, -2), constant=(1, 2, 3, 4))]

TRANSFORMS = [  # more of them in test_spectral.py
    case("DFT", f(2, 5, 1), opset=17), case("DFT", f(2, 5, 6, 2), opset=17, axis=2, inverse=1),
    case("STFT", f(2, 16, 1), np.int64(4), positive(6), constant=(1,), opset=17),
    *(case(f"{name}Window", np.int64(5), constant=(0,)) for name in ("Hann", "Hamming", "Blackman")),
    case("MelWeightMatrix", np.int64(4), np.int64(16), np.int64(8000), np.float32(0), np.float32(4000),
         constant=(0, 1, 2, 3, 4)),
    case("Det", f(3, 4, 4)), case("Det", f(5, 5)), case("Det", np.zeros((3, 3), np.float32)), case("Det", f(2, 1, 1)),
    case("CenterCropPad", f(5, 4, 3), numbers(8, 1), constant=(1,), axes=[0, -1]),
    case("CenterCropPad", f(4, 7), numbers(7, 4), constant=(1,)),
    case("ReverseSequence", f(4, 3, 2), numbers(2, 4, 1)),
    case("ReverseSequence", f(3, 4), numbers(2, 0, 1), batch_axis=0, time_axis=1),
    case("Col2Im", f(2, 12, 6), numbers(3, 5), numbers(2, 3), constant=(1, 2)),
    case("Col2Im", f(1, 8, 6), numbers(5, 5), numbers(2, 2), constant=(1, 2), strides=[2, 2], pads=[0, 1, 0, 0],
         dilations=[2, 1]),
    case("GlobalLpPool", f(2, 3, 4, 5), p=3)]

POOL = {"min_gram_length": 1, "max_gram_length": 3, "max_skip_count": 2, "ngram_counts": [0, 3, 9],
        "ngram_indexes": [0, 5, 2, 3, 1, 4, 6], "pool_int64s": [2, 3, 1, 5, 6, 2, 3, 1, 4, 2, 3, 5]}
WORDS = [case("TfIdfVectorizer", ints(2, 9, low=1, high=7), mode="TF", **POOL),
         case("TfIdfVectorizer", ints(12, low=1, high=7), mode="IDF", **POOL),
         case("TfIdfVectorizer", ints(2, 9, low=1, high=7), mode="TFIDF", weights=[0.5, 1, 2, 3, 4, 5, 6], **POOL)]

CASES = PADDING + SCATTERING + PLACES + RECURRENT + RESIZING + SAMPLING + TRANSFORMS + WORDS
