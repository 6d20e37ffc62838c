"""Functions of other languages and libraries, and what is written in place of a call of one."""

from __future__ import annotations

from polytc.program.scalars import DTYPES
from polytc.program.typenames import ALIASES

CURES = {
    "sum": "a sum is an update: `S += A[i]`, `S[i] += A[i,j]`", "prod": "a product is an update: `P *= A[i]`",
    "mean": "a mean is a sum, divided: `S += A[i]; M = S / A.shape[0]`",
    "len": "an extent is written `A.shape[0]`", "size": "an extent is written `A.shape[0]`",
    "matmul": "a matrix product is written `C[i,j] += A[i,k] * B[k,j]`",
    "mm": "a matrix product is written `C[i,j] += A[i,k] * B[k,j]`",
    "einsum": "indices name the axes: `C[i,j] += A[i,k] * B[k,j]`; `polytc.einsum` takes einsum's own notation",
    "dot": "a dot product is written `S += A[i] * B[i]`",
    "transpose": "a transposition is written `B[j,i] = A[i,j]`",
    "reshape": "what has another shape is read by computed indices: `Y[i] = A[i//6, i%6]`",
    "flatten": "what has another shape is read by computed indices: `Y[i] = A[i//6, i%6]`",
    "concatenate": "two statements write one tensor: `Y[i] = A[i]; Y[i + A.shape[0]] = A[i]`",
    "pad": "a border is a guarded read: `Y[i] = (A[i-1] else 0) where i in 0:8`",
    "cumsum": "a sum up to here: `P[i] += A[k] where k <= i, i in 0:6`; step by step it is a `for`",
    "range": "the bounds of an index are written `where i in lower:upper`",
    "zeros": "`Y[i] = 0.0 where i in 0:6`; an update such as `+=` starts from its identity by itself",
    "ones": "`Y[i] = 1.0 where i in 0:6`",
    "conv2d": "a convolution is written `O[m,h,w] += I[c,h+r,w+s] * W[m,c,r,s]`",
    "argmax": "`(M[i], P[i]) argmax= (A[i,j], j)` gives value and place",
    "argmin": "`(M[i], P[i]) argmin= (A[i,j], j)` gives value and place",
    "relu": "write `max(x, 0)`", "sigmoid": "write `1 / (1 + exp(-x))`", "square": "write `x * x`",
    "norm": "a norm is a sum and a root: `S += A[i] * A[i]; N = sqrt(S)`",
    "mod": "write `x % 3`",
    "where": "a conditional value is written `c ? a : b`",
    "softmax": "in statements: `M max= A[i]; E[i] = exp(A[i] - M); S += E[i]; Y[i] = E[i] / S`",
}
"""A function's name -> what is written here. `A`, `B`, `I` and `W` are tensors, `x` is a number."""

CURES |= {same: CURES[of] for of, others in {
    "sum": ("nansum", "reduce_sum", "add_reduce"), "mean": ("average", "reduce_mean"), "prod": ("product",),
    "matmul": ("bmm", "gemm"), "dot": ("vdot", "inner"), "concatenate": ("concat", "cat", "hstack", "vstack"),
    "where": ("select", "if_then_else", "ifelse", "cond"), "conv2d": ("conv", "convolve", "convolution"),
    "range": ("arange", "linspace"), "transpose": ("permute", "swapaxes"),
}.items() for same in others}

MODULES = tuple("np numpy math torch jnp jax tf F nn te tvm topi tir std cmath scipy cp cupy lp hl Halide".split())
"""What functions are called through elsewhere, as in `np.exp`."""

TYPES = (*DTYPES, *ALIASES, "long", "short", "char", "unsigned")
"""Names of element types, here and elsewhere."""
