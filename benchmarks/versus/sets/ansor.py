"""The operators and shapes of Ansor's evaluation (Zheng et al., OSDI 2020), channels first, at batch 1 and 16."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from versus.case import Case, Goal, Node, Set, Tensor
from versus.convolution import Convolution

BATCHES = (1, 16)

Shape = tuple[int, ...]

C1D = [(64, 128, 256, 3, 2, 1), (128, 256, 128, 1, 2, 0), (256, 256, 64, 5, 1, 2), (512, 512, 32, 3, 1, 1)]
C2D = [(3, 64, 224, 7, 2, 3), (64, 64, 56, 1, 1, 0), (256, 256, 14, 3, 1, 1), (512, 512, 7, 3, 1, 1)]
GROUPED = [(64, 128, 56, 3, 2, 1), (64, 64, 56, 1, 1, 0), (256, 256, 14, 3, 1, 1), (512, 512, 7, 3, 1, 1)]
DEPTHWISE = [(32, 32, 112, 3, 1, 1), (64, 64, 112, 3, 2, 1), (512, 512, 14, 3, 2, 1), (1024, 1024, 7, 3, 1, 1)]
BLOCKS = [(3, 64, 224, 7, 2, 3), (64, 128, 56, 3, 2, 1), (128, 256, 28, 1, 2, 0), (512, 512, 7, 3, 1, 1)]
"""Of convolutions: input and output channels, size, kernel, stride, pad."""
TRANSPOSED = [(512, 256, 4), (256, 128, 8), (128, 64, 16), (64, 3, 32)]
"""Input and output channels, size; kernel 4, stride 2, pad 1."""
CAPSULES = [(32, 32, 16, 2), (32, 32, 8, 1), (8, 16, 16, 2), (16, 16, 8, 1)]
"""Input and output capsules, size, stride; kernel 3, pad 1."""
NORMS = [(256, 256), (512, 512), (1024, 1024), (4096, 1024)]
SOFTMAXES = [(256, 256), (512, 512), (1024, 1024), (2048, 2048)]
HEADS = [(128, 12, 64), (128, 16, 64), (64, 12, 128), (128, 12, 128)]
"""Length of a sequence, heads, width of a head."""


def convolutions(rank: int, shapes: Sequence[Shape], dilation: int = 1, groups: int = 1, depth: int = 0
                 ) -> Callable[[int], Iterator[Case]]:
    """depth: extent of the first of three spatial axes. groups: 0 for one for each channel."""
    def make(batch: int) -> Iterator[Case]:
        for channels, features, size, kernel, stride, pad in shapes:
            extents = (depth, size, size) if depth else (size,) * rank
            c = Convolution(batch, channels, features, extents, kernel, stride, pad, dilation, groups or channels)
            yield c.case(c.name)
    return make


def transposed(batch: int) -> Iterator[Case]:
    """Places 2*q + p of the result see every second weight: four small convolutions, as the importer makes."""
    for channels, features, size in TRANSPOSED:
        ranges = f"where q in 0:{size}, u in 0:{size}, s in 0:2, t in 0:2"
        phases = list(itertools.product((0, 1), repeat=2))
        text = [f"P{p}{v}[n,m,q,u] += (X[n,c,q+{p}-s,u+{v}-t] else 0) * W[c,m,{1 - p}+2*s,{1 - v}+2*t] {ranges}"
                for p, v in phases]
        text += [f"Y[n,m,2*q+{p},2*u+{v}] = P{p}{v}[n,m,q,u]" for p, v in phases]
        yield Case(
            f"{channels}->{features} {size}x{size}", "\n".join(text),
            {"X": Tensor((batch, channels, size, size)), "W": Tensor((channels, features, 4, 4), constant=True)},
            {"Y": Tensor((batch, features, 2 * size, 2 * size))},
            onnx=(Node("ConvTranspose", "X W", "Y", {"kernel_shape": [4, 4], "strides": [2, 2], "pads": [1, 1, 1, 1]}),),
            torch=lambda torch, X, W: torch.nn.functional.conv_transpose2d(X, W, None, 2, 1),
            jax=lambda jax, X, W: jax.lax.conv_transpose(X, W, (2, 2), [(2, 2), (2, 2)], transpose_kernel=True,
                                                         dimension_numbers=("NCHW", "OIHW", "NCHW")),
            flops=2.0 * batch * channels * features * (4 * size) ** 2)


def capsules(batch: int) -> Iterator[Case]:
    """Convolutions of 4x4 matrices: i, k, j run over their rows and columns."""
    for before, after, size, stride in CAPSULES:
        c = Convolution(4 * batch, 4 * before, 4 * after, (size, size), 3, stride, 1)
        h, w = c.out
        head = "" if stride == 1 else f"{stride}*"
        text = (f"Y[n,i,j,m,h,w] += (X[n,i,k,c,{head}h+r-1,{head}w+s-1] else 0) * W[j,m,k,c,r,s]\n"
                f"    where h in 0:{h}, w in 0:{w}")
        yield Case(
            f"{before}->{after} {size}x{size}{f'/{stride}' * (stride > 1)}", text,
            {"X": Tensor((batch, 4, 4, before, size, size)), "W": Tensor((4, after, 4, before, 3, 3), constant=True)},
            {"Y": Tensor((batch, 4, 4, after, h, w))},
            onnx=(Node("Reshape", "X images", "XR"), Node("Reshape", "W weights", "WR"), c.node("XR WR", "YR"),
                  Node("Reshape", "YR result", "Y")),
            onnx_constants={"images": np.array(c.input), "weights": np.array(c.weights),
                            "result": np.array((batch, 4, 4, after, h, w))},
            torch=lambda torch, X, W, c=c, shape=(batch, 4, 4, after, h, w): c.torch(
                torch, X.reshape(c.input), W.reshape(c.weights)).reshape(shape),
            flops=c.flops)


def norms(batch: int) -> Iterator[Case]:
    for rows, columns in NORMS:
        yield Case(f"{rows}x{columns}", "T[b] += A[b,i,j] * A[b,i,j]\nY[b] = sqrt(T[b])", {"A": Tensor((batch, rows, columns))},
                   {"Y": Tensor((batch,))}, onnx=(Node("ReduceL2", "A axes", "Y", {"keepdims": 0}),),
                   onnx_constants={"axes": np.array([1, 2])},
                   torch=lambda torch, A: torch.linalg.vector_norm(A, dim=(1, 2)),
                   jax=lambda jax, A: jax.numpy.sqrt((A * A).sum((1, 2))), tolerance=5e-3)


def softmaxes(batch: int) -> Iterator[Case]:
    text = "M[i] max= X[i,j]\nE[i,j] = exp(X[i,j] - M[i])\nS[i] += E[i,j]\nY[i,j] = E[i,j] / S[i]"
    for rows, columns in SOFTMAXES:
        t = Tensor((batch * rows, columns))
        yield Case(f"{rows}x{columns}", text, {"X": t}, {"Y": t}, onnx=(Node("Softmax", "X", "Y", {"axis": -1}),),
                   torch=lambda torch, X, out: torch.softmax(X, -1, out=out), jax=lambda jax, X: jax.nn.softmax(X, axis=-1))


def blocks(batch: int) -> Iterator[Case]:
    """Convolution, bias, batch normalisation (scale and offset), ReLU."""
    for channels, features, size, kernel, stride, pad in BLOCKS:
        c = Convolution(batch, channels, features, (size, size), kernel, stride, pad)
        vector = Tensor((features,), constant=True)
        yield Case(
            c.name, f"{c.text('T')}\nY[n,m,h,w] = max((T[n,m,h,w] + B[m]) * S[m] + O[m], 0)",
            {"X": Tensor(c.input), "W": Tensor(c.weights, constant=True), "B": vector, "S": vector, "O": vector},
            {"Y": Tensor(c.output)},
            onnx=(c.node("X W B", "T"), Node("BatchNormalization", "T S O mean var", "U", {"epsilon": 0.0}),
                  Node("Relu", "U", "Y")),
            onnx_constants={"mean": np.zeros(features, np.float32), "var": np.ones(features, np.float32)},
            torch=lambda torch, X, W, B, S, O, c=c: torch.relu(
                c.torch(torch, X, W, B) * S[:, None, None] + O[:, None, None]),
            flops=c.flops)


def attention_scores(batch: int) -> Iterator[Case]:
    """Both operands have the heads inside: they are transposed on the way into a batched product."""
    for length, heads, width in HEADS:
        t = Tensor((batch, length, heads, width))
        yield Case(f"{length}x{heads}x{width}", "Y[b,h,i,j] += Q[b,i,h,d] * K[b,j,h,d]", {"Q": t, "K": t},
                   {"Y": Tensor((batch, heads, length, length))},
                   onnx=(Node("Transpose", "Q", "QT", {"perm": [0, 2, 1, 3]}),
                         Node("Transpose", "K", "KT", {"perm": [0, 2, 3, 1]}), Node("MatMul", "QT KT", "Y")),
                   torch=lambda torch, Q, K, out: torch.matmul(Q.permute(0, 2, 1, 3), K.permute(0, 2, 3, 1), out=out),
                   jax=lambda jax, Q, K: jax.numpy.einsum("bihd,bjhd->bhij", Q, K),
                   flops=2.0 * batch * heads * length * length * width)


OPERATORS: dict[str, Callable[[int], Iterator[Case]]] = {
    "C1D": convolutions(1, C1D), "C2D": convolutions(2, C2D), "C3D": convolutions(3, C2D, depth=16),
    "GRP": convolutions(2, GROUPED, groups=4), "DIL": convolutions(2, C2D, dilation=2),
    "DEP": convolutions(2, DEPTHWISE, groups=0), "T2D": transposed, "CAP": capsules, "NRM": norms, "SFM": softmaxes,
    "CBR": blocks, "TBG": attention_scores}


def cases() -> Iterator[Case]:
    for operator, make in OPERATORS.items():
        for batch in BATCHES:
            for case in make(batch):
                yield replace(case, name=f"{operator} N={batch} {case.name}")


ANSOR = Set("ansor", "the operators of Ansor's evaluation, f32", tuple(cases()),
            {"": Goal(0.9, None, ("onnxruntime", "openvino", "torch"))})
