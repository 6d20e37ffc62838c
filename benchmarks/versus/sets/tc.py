"""The operators of Tensor Comprehensions' evaluation (Vasilache et al., TACO 2019) in its sizes; all operands are variable."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from versus.case import Case, Goal, Node, Set, Tensor
from versus.convolution import Convolution

BATCH = 128


def transposed_product(m: int, n: int, k: int, name: str = "TMM") -> Case:
    return Case(f"{name} {m}x{n}x{k}", "C[i,j] += A[i,k] * B[j,k]", {"A": Tensor((m, k)), "B": Tensor((n, k))},
                {"C": Tensor((m, n))}, onnx=(Node("Gemm", "A B", "C", {"transB": 1}),), torch=lambda torch, A, B: A @ B.T,
                jax=lambda jax, A, B: A @ B.T, flops=2.0 * m * n * k)


def batched_transposed_product(batch: int, n: int, m: int, k: int) -> Case:
    return Case(f"TBMM {batch}x{n}x{m}x{k}", "Z[b,i,j] += X[b,i,k] * Y[b,j,k]",
                {"X": Tensor((batch, n, m)), "Y": Tensor((batch, k, m))}, {"Z": Tensor((batch, n, k))},
                onnx=(Node("Transpose", "Y", "YT", {"perm": [0, 2, 1]}), Node("MatMul", "X YT", "Z")),
                torch=lambda torch, X, Y: torch.bmm(X, Y.transpose(1, 2)),
                jax=lambda jax, X, Y: jax.numpy.einsum("bik,bjk->bij", X, Y), flops=2.0 * batch * n * m * k)


def group_convolution(per_group: int, size: int) -> Case:
    """32 images, 32 groups, 3x3 without padding, with bias."""
    c = Convolution(32, 32 * per_group, 32 * per_group, (size, size), 3, groups=32)
    return Case(f"group convolution {per_group} channels {size}x{size}", f"{c.text('T')}\nY[n,m,h,w] = T[n,m,h,w] + B[m]",
                {"X": Tensor(c.input), "W": Tensor(c.weights), "B": Tensor((c.features,))}, {"Y": Tensor(c.output)},
                onnx=(c.node("X W B"),), torch=c.torch,
                jax=lambda jax, X, W, B: c.jax(jax, X, W) + B[:, None, None], flops=c.flops)


def group_normalization(batch: int, size: int) -> Case:
    """512 channels in 32 groups."""
    channels, groups = 512, 32
    width = channels // groups
    count = width * size * size
    t, v = Tensor((batch, channels, size, size)), Tensor((channels,))
    everywhere = f"where g in 0:{groups}, d in 0:{width}"
    text = (f"T[n,g] += X[n,{width}*g+d,h,w] {everywhere}\n"
            f"Q[n,g] += X[n,{width}*g+d,h,w] * X[n,{width}*g+d,h,w] {everywhere}\n"
            f"R[n,g] = rsqrt(Q[n,g]/{count} - T[n,g]/{count} * T[n,g]/{count} + 1e-5)\n"
            f"Y[n,{width}*g+d,h,w] = (X[n,{width}*g+d,h,w] - T[n,g]/{count}) * R[n,g] * W[{width}*g+d] + B[{width}*g+d]\n"
            f"    {everywhere}")

    def jax_norm(jax: Any, X: Any, W: Any, B: Any) -> Any:
        parts = X.reshape(batch, groups, -1)
        parts = (parts - parts.mean(-1, keepdims=True)) * jax.lax.rsqrt(parts.var(-1, keepdims=True) + 1e-5)
        return parts.reshape(X.shape) * W[:, None, None] + B[:, None, None]
    return Case(f"group normalization {batch} of {size}x{size}", text, {"X": t, "W": v, "B": v}, {"Y": t},
                onnx=(Node("GroupNormalization", "X W B", "Y", {"num_groups": groups, "epsilon": 1e-5}),),
                torch=lambda torch, X, W, B: torch.nn.functional.group_norm(X, groups, W, B, 1e-5), jax=jax_norm)


def moments(n: int, k: int) -> Case:
    return Case(f"moments {n}x{k}",
                f"T[i] += X[i,j]\nQ[i] += X[i,j] * X[i,j]\nM[i] = T[i]/{k}\nV[i] = Q[i]/{k} - M[i]*M[i]\n-> (M, V)",
                {"X": Tensor((n, k))}, {"M": Tensor((n,)), "V": Tensor((n,))},
                onnx=(Node("ReduceMean", "X axes", "M", {"keepdims": 0}), Node("Mul", "X X", "XX"),
                      Node("ReduceMean", "XX axes", "Q", {"keepdims": 0}), Node("Mul", "M M", "MM"), Node("Sub", "Q MM", "V")),
                onnx_constants={"axes": np.array([1])},
                torch=lambda torch, X: (X.mean(1), X.var(1, correction=0)), jax=lambda jax, X: (X.mean(1), X.var(1)),
                tolerance=1e-3)


def kronecker(n: int, d: int) -> Case:
    """256 rows times the Kronecker product of three d x n matrices, never formed."""
    rows = 256
    w = Tensor((d, n))
    steps = (("mabc,zc->mabz", "X W2", "T"), ("mabz,yb->mayz", "T W1", "U"), ("mayz,xa->mxyz", "U W0", "Y"))

    def einsums(library: Any, X: Any, W2: Any, W1: Any, W0: Any) -> Any:
        T = library.einsum(steps[0][0], X, W2)
        U = library.einsum(steps[1][0], T, W1)
        return library.einsum(steps[2][0], U, W0)
    return Case(f"Kronecker3 {n} to {d}",
                "T[m,a,b,z] += X[m,a,b,c] * W2[z,c]\nU[m,a,y,z] += T[m,a,b,z] * W1[y,b]\nY[m,x,y,z] += U[m,a,y,z] * W0[x,a]",
                {"X": Tensor((rows, n, n, n)), "W2": w, "W1": w, "W0": w}, {"Y": Tensor((rows, d, d, d))},
                onnx=tuple(Node("Einsum", inputs, output, {"equation": equation}) for equation, inputs, output in steps),
                torch=einsums, jax=lambda jax, *given: einsums(jax.numpy, *given),
                flops=2.0 * rows * (n ** 3 * d + n ** 2 * d ** 2 + n * d ** 3))


def lookups(tables: int) -> Case:
    """Sums of 50 rows of 64 out of 100000, for a batch of 128."""
    rows, width, count = 100_000, 64, 50
    names = range(1, tables + 1)
    inputs: dict[str, Tensor] = {}
    for t in names:
        inputs |= {f"T{t}": Tensor((rows, width)), f"I{t}": Tensor((BATCH, count), "int64", within=(0, rows))}
    bags = tuple(node for t in names for node in (Node("Gather", f"T{t} I{t}", f"G{t}", {"axis": 0}),
                                                  Node("ReduceSum", f"G{t} axes", f"Y{t}", {"keepdims": 0})))

    def torch_bags(torch: Any, *given: Any) -> Any:
        return tuple(torch.nn.functional.embedding_bag(i, t, mode="sum") for t, i in zip(given[::2], given[1::2]))

    def jax_bags(jax: Any, *given: Any) -> Any:
        return tuple(t[i].sum(1) for t, i in zip(given[::2], given[1::2]))
    return Case(f"{tables}LUT", "\n".join(f"Y{t}[b,d] += T{t}[I{t}[b,l],d]" for t in names), inputs,
                {f"Y{t}": Tensor((BATCH, width)) for t in names}, onnx=bags, onnx_constants={"axes": np.array([1])},
                torch=torch_bags, jax=jax_bags, bytes=tables * BATCH * (count * (4 * width + 8) + 4 * width))


def dense_layers(name: str, *widths: int) -> Case:
    """ReLU(X W + B) from each width to the next."""
    inputs, text, nodes = {"X": Tensor((BATCH, widths[0]))}, [], []
    layers = list(itertools.pairwise(widths))
    before = "X"
    for k, (i, o) in enumerate(layers, 1):
        after = "Y" if k == len(layers) else f"H{k}"
        inputs |= {f"W{k}": Tensor((i, o)), f"B{k}": Tensor((o,))}
        text += [f"P{k}[b,o] += {before}[b,i] * W{k}[i,o]", f"{after}[b,o] = max(P{k}[b,o] + B{k}[o], 0)"]
        nodes += [Node("Gemm", f"{before} W{k} B{k}", f"P{k}"), Node("Relu", f"P{k}", after)]
        before = after

    def torch_layers(torch: Any, X: Any, *given: Any) -> Any:
        for w, b in zip(given[::2], given[1::2]):
            X = torch.relu(torch.addmm(b, X, w))
        return X

    def jax_layers(jax: Any, X: Any, *given: Any) -> Any:
        for w, b in zip(given[::2], given[1::2]):
            X = jax.nn.relu(X @ w + b)
        return X
    return Case(name, "\n".join(text), inputs, {"Y": Tensor((BATCH, widths[-1]))}, onnx=tuple(nodes), torch=torch_layers,
                jax=jax_layers, flops=sum(2.0 * BATCH * i * o for i, o in layers))


def wavenet(dilation: int) -> Case:
    """One block: gated dilated convolution of two taps in 4000 steps; 32 residual and 256 skip channels."""
    steps, channels, skip = 4000, 32, 256
    x, gate, bias = Tensor((1, channels, steps)), Tensor((channels, channels, 2)), Tensor((channels,))
    read = f"(X[b,r,t+{dilation}*k-{dilation}] else 0)"
    text = f"""F[b,c,t] += {read} * WF[c,r,k] where t in 0:{steps}
G[b,c,t] += {read} * WG[c,r,k] where t in 0:{steps}
N[b,c,t] = tanh(F[b,c,t] + BF[c]) * sigmoid(G[b,c,t] + BG[c])
R[b,c,t] += N[b,d,t] * WR[c,d]
S[b,c,t] += N[b,d,t] * WS[c,d]
Y[b,c,t] = R[b,c,t] + BR[c] + X[b,c,t]
Z[b,c,t] = S[b,c,t] + BS[c]
-> (Y, Z)"""
    causal = {"kernel_shape": [2], "dilations": [dilation], "pads": [dilation, 0]}
    last = {"axes": np.array([2])}

    def torch_block(torch: Any, X: Any, WF: Any, BF: Any, WG: Any, BG: Any, WR: Any, BR: Any, WS: Any, BS: Any) -> Any:
        conv, padded = torch.nn.functional.conv1d, torch.nn.functional.pad(X, (dilation, 0))
        n = torch.tanh(conv(padded, WF, BF, dilation=dilation)) * torch.sigmoid(conv(padded, WG, BG, dilation=dilation))
        return conv(n, WR[:, :, None], BR) + X, conv(n, WS[:, :, None], BS)

    def jax_block(jax: Any, X: Any, WF: Any, BF: Any, WG: Any, BG: Any, WR: Any, BR: Any, WS: Any, BS: Any) -> Any:
        def conv(w: Any, b: Any) -> Any:
            return jax.lax.conv_general_dilated(X, w, (1,), [(dilation, 0)], rhs_dilation=(dilation,)) + b[:, None]
        n = jax.numpy.tanh(conv(WF, BF)) * jax.nn.sigmoid(conv(WG, BG))
        return WR @ n + BR[:, None] + X, WS @ n + BS[:, None]
    return Case(f"WaveNet dilation {dilation}", text,
                {"X": x, "WF": gate, "BF": bias, "WG": gate, "BG": bias, "WR": Tensor((channels, channels)), "BR": bias,
                 "WS": Tensor((skip, channels)), "BS": Tensor((skip,))},
                {"Y": x, "Z": Tensor((1, skip, steps))},
                onnx=(Node("Conv", "X WF BF", "F", causal), Node("Conv", "X WG BG", "G", causal), Node("Tanh", "F", "FT"),
                      Node("Sigmoid", "G", "GS"), Node("Mul", "FT GS", "N"), Node("Unsqueeze", "WR axes", "WR3"),
                      Node("Unsqueeze", "WS axes", "WS3"), Node("Conv", "N WR3 BR", "R"), Node("Add", "R X", "Y"),
                      Node("Conv", "N WS3 BS", "Z")),
                onnx_constants=last, torch=torch_block, jax=jax_block,
                flops=2.0 * steps * channels * (2 * 2 * channels + channels + skip))


def cases() -> Iterator[Case]:
    for n, k in ((256, 32), (1024, 1024), (16384, 4096)):
        yield transposed_product(BATCH, n, k)
    yield batched_transposed_product(500, 26, 72, 26)
    for per_group, size in ((4, 56), (8, 28), (16, 14), (32, 7)):
        yield group_convolution(per_group, size)
    yield group_normalization(4, 12)
    yield group_normalization(32, 48)
    yield moments(128, 2304)
    yield moments(1024, 36864)
    for n, d in ((16, 32), (32, 16), (64, 16)):
        yield kronecker(n, d)
    yield lookups(1)
    yield lookups(2)
    yield transposed_product(BATCH, 1024, 1000, "C3")
    yield dense_layers("MLP1", 2000, 128)
    yield dense_layers("MLP3", 128, 64, 32, 2)
    yield wavenet(1)
    yield wavenet(32)


TC = Set("tc", "the operators of Tensor Comprehensions' evaluation, f32", tuple(replace(c, compiled=True) for c in cases()),
         {"": Goal(0.8, None, ("onnxruntime", "torch", "jax"))})
