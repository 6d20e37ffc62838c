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
    "ndtr": "the normal distribution is `normcdf(x)`", "ndtri": "quantiles of the normal distribution are `normcdfinv(x)`",
    "expit": "write `sigmoid(x)`", "gammaln": "write `lgamma(x)`", "factorial": "write `tgamma(x + 1)`",
    "frexp": "the exponent is `logb(x)`, the rest `ldexp(x, -logb(x))`", "modf": "write `trunc(x)` and `x - trunc(x)`",
    "sincos": "write `sin(x)` and `cos(x)`", "lrint": "write `i64(round(x))`", "lerp": "write `x + 0.5 * (1 - x)`",
    "saturate": "write `clamp(x, 0, 1)`", "rcp": "write `1 / x`", "cube": "write `x * x * x`",
    "get": "a border is a guarded read: `Y[i] = (A[i+1] else 0) where i in 0:6`", "trace": "a trace is a sum: `T += A[i,i]`",
    "diag": "a diagonal is written `D[i] = A[i,i]`",
    "complex": "a complex number is made of its parts: `c64(x, x)`", "log2p1": "write `log1p(x) / log(2.0)`",
    "popcount": "a sum over the bits of an integer n counts them, S += (n >> b) & 1 where b in 0:32",
    "clz": "the place of the highest bit of a number above 0 is `i32(floor(log2(x)))`",
    "ctz": "the lowest bit of an integer n is n & -n, its place `i32(log2(x))` of that",
    "reciprocal": "write `1 / x`", "degrees": "write `x * (180/pi)`", "radians": "write `x * (pi/180)`",
    "heaviside": "write `x > 0 ? 1.0 : 0.0`", "step": "write `x < 0.5 ? 0.0 : 1.0`, with the edge for 0.5",
    "smoothstep": "write `x * x * (3 - 2*x)`, with an x that `clamp(x, 0, 1)` has cut off",
    "frac": "write `x - floor(x)`", "nan_to_num": "write `isnan(x) ? 0 : x`", "absolute": "write `abs(x)`",
    "clip": "write `clamp(x, 0, 1)`", "maximum": "write `max(x, 0)`", "minimum": "write `min(x, 0)`",
    "isnormal": "write `isfinite(x) && abs(x) >= 1.1754944e-38`", "isless": "write `x < 1`", "isgreater": "write `x > 1`",
    "isunordered": "write `isnan(x) || isnan(x)`, one for each", "ilogb": "write `i32(logb(x))`", "mad": "write `x * x + x`",
    "rhypot": "write `1 / hypot(x, x)`", "tanpi": "write `sinpi(x) / cospi(x)`", "norm3d": "write `hypot(x, hypot(x, x))`",
    "logaddexp": "of two numbers with the difference x it is the larger one and `log1p(exp(-abs(x)))`",
    "sinc": "write `x == 0 ? 1 : sinpi(x) / (pi*x)`",
    "cast": "a cast is written `f32(x)`", "power": "write `pow(x, 2)`", "arctan2": "write `atan2(x, 1)`",
    "median": "a median is the middle of what is sorted: count those below each element",
    "sort": "count those before each element, and write it there, with checked=True: "
            "`r[i] += A[j] < A[i] || A[j] == A[i] && j < i ? 1 : 0; O[r[i]] = A[i] -> (f32[6] O)`",
    "print": "a program computes its outputs: name what you want to see behind an arrow, -> (T)",
    "swap": "exchange through a tensor of its own: T[i] = A[i], A[i] = B[i], B[i] = T[i], one statement each",
    "j0": "there are no Bessel functions: sum their series", "shape": "an extent is written `A.shape[0]`",
    "where": "a conditional value is written `c ? a : b`",
    "arg": "write `angle(x)`", "conjugate": "write `conj(x)`",
    "creal": "write `real(x)`", "cimag": "write `imag(x)`",
    "softmax": "in statements: `M max= A[i]; E[i] = exp(A[i] - M); S += E[i]; Y[i] = E[i] / S`",
}
"""A function's name -> what is written here. `A`, `B`, `I` and `W` are tensors, `x` is a number."""

CURES |= {same: CURES[of] for of, others in {
    "sum": ("nansum", "reduce_sum", "add_reduce"), "mean": ("average", "reduce_mean"), "prod": ("product",),
    "matmul": ("bmm", "gemm"), "dot": ("vdot", "inner"), "concatenate": ("concat", "cat", "hstack", "vstack"),
    "where": ("select", "if_then_else", "ifelse", "cond"), "conv2d": ("conv", "convolve", "convolution"),
    "get": ("default", "getordefault"), "lrint": ("lround", "llrint", "llround"), "expit": ("logistic",),
    "gammaln": ("loggamma",), "lerp": ("mix",), "ndtri": ("probit",), "diag": ("diagonal",),
    "range": ("arange", "linspace"), "popcount": ("__popc", "popc", "bitcount", "bit_count"), "clz": ("__clz", "countl_zero"),
    "ctz": ("ffs", "__ffs", "countr_zero"), "j0": ("j1", "y0", "y1", "jn", "yn", "cyl_bessel_i0", "i0"), "norm3d": ("rnorm",),
    "frac": ("fract",), "rcp": ("__frcp_rn",), "clip": ("clamp_",), "sort": ("argsort", "sorted"), "power": ("powi",),
    "heaviside": ("ustep",), "degrees": ("rad2deg",), "radians": ("deg2rad",), "print": ("printf", "echo", "display"),
    "transpose": ("permute", "swapaxes"), "arg": ("phase", "carg"), "conjugate": ("hermitian", "conjf"), "absolute": ("cabs",),
}.items() for same in others}

NAMES = {
    **dict.fromkeys(("None", "NULL", "null", "nil"), "every element is a number: write the one that you mean"),
    "e": "the number e is `exp(1.0)`", "E": "the number e is `exp(1.0)`",
    **dict.fromkeys(("INFINITY", "Inf", "Infinity", "INF", "HUGE_VAL"), "write `inf`"), "M_PI": "write `pi`",
    "static_cast": "a cast is written `f32(x)`", "reinterpret_cast": "there is no cast of bits",
}
"""A name that programs of other languages use without a definition -> what is written here."""

MODULES = tuple("np numpy math torch jnp jax tf F nn te tvm topi tir std cmath scipy cp cupy lp hl Halide".split())
"""What functions are called through elsewhere, as in `np.exp`."""

TYPES = (*DTYPES, *ALIASES, "long", "short", "char", "unsigned")
"""Names of element types, here and elsewhere."""
