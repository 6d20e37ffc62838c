"""Uses of operators that scatter, sample, resize and transform, and of recurrent cells."""

from __future__ import annotations

import numpy as np

from tests.graph.operator_case import case, f, ints, numbers

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

CASES = SCATTERING + PLACES + RECURRENT
