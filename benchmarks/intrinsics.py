"""Elementary functions beside those of numpy, torch and JAX: elements per nanosecond, one thread, arrays in the second cache.

    python benchmarks/intrinsics.py [f32|f64] [NAME...]

64 KiB are read and as many written. Calls of all libraries take turns, the best of many counts, and the cost of a call from
Python is taken off each: it is measured on a single element. JAX allocates its results.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

import polytc
from polytc.program.scalars import DTYPES, INTRINSICS, DType

BYTES = 64 << 10
ROUNDS, REPEATS = 40, 10
NUMPY = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh",
         "pow": "power", "atan2": "arctan2"}
POSITIVE = ("log", "log2", "log10", "sqrt", "rsqrt")
RANGES = {"asin": (-1, 1), "acos": (-1, 1), "atanh": (-0.99, 0.99), "acosh": (1, 9), "pow": (0.1, 3), "log1p": (-0.9, 9)}
RANGES |= dict.fromkeys(POSITIVE, (0.01, 9))
RANGES |= {"erfinv": (-0.99, 0.99), "erfcinv": (0.01, 1.99), "normcdfinv": (0.01, 0.99), "lgamma": (0.1, 20),
           "tgamma": (0.1, 20)}
NAMES = [n for n, row in INTRINSICS.items() if row.result == "float" or n == "pow"]

Call = Callable[[], object]


def arrays(name: str, dtype: DType, count: int) -> list[np.ndarray]:
    """Arguments for which the result is an ordinary number."""
    low, high = RANGES.get(name, (-8, 8))
    rng = np.random.default_rng(0)
    return [rng.uniform(low, high, count).astype(dtype.numpy) for _ in range(INTRINSICS[name].arity)]


def ours(name: str, args: list[np.ndarray]) -> Call:
    names = "xyw"[:len(args)]
    op = polytc.compile(f"z[i] = {name}({', '.join(f'{n}[i]' for n in names)})", threads=1)
    out = np.empty_like(args[0])
    return lambda: op(*args, out=out)


def numpys(name: str, args: list[np.ndarray]) -> Call | None:
    function, out = getattr(np, NUMPY.get(name, name), None), np.empty_like(args[0])
    return None if function is None else lambda: function(*args, out=out)


def torchs(name: str, args: list[np.ndarray]) -> Call | None:
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    function = getattr(torch, name, None)
    tensors = [torch.from_numpy(a) for a in args]
    out = torch.empty_like(tensors[0])
    return None if function is None else lambda: function(*tensors, out=out)


def jaxs(name: str, args: list[np.ndarray]) -> Call | None:
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return None
    jax.config.update("jax_enable_x64", True)
    function = getattr(jax.scipy.special if name == "erf" else jax.lax if name == "rsqrt" else jnp, name, None)
    function = jax.nn.sigmoid if name == "sigmoid" else function
    if function is None:
        return None
    compiled, given = jax.jit(function), [jnp.asarray(a) for a in args]
    return lambda: compiled(*given).block_until_ready()


CONTENDERS = {"polytc": ours, "numpy": numpys, "torch": torchs, "jax": jaxs}


def best(calls: dict[str, Call]) -> dict[str, float]:
    """Seconds of the best call of each, in turns."""
    found = dict.fromkeys(calls, float("inf"))
    with np.errstate(all="ignore"):
        for _ in range(ROUNDS):
            for who, call in calls.items():
                for _ in range(REPEATS):
                    start = time.perf_counter()
                    call()
                    found[who] = min(found[who], time.perf_counter() - start)
    return found


def speeds(name: str, dtype: DType) -> dict[str, float]:
    """Elements per nanosecond."""
    count = BYTES // dtype.bytes
    times: list[dict[str, float]] = []
    for n in (count, 1):
        args = arrays(name, dtype, n)
        made = {who: make(name, args) for who, make in CONTENDERS.items()}
        times.append(best({who: call for who, call in made.items() if call is not None}))
    return {who: count / max(whole - times[1][who], 1e-9) * 1e-9 for who, whole in times[0].items()}


def main() -> None:
    dtype = DTYPES[sys.argv[1]] if sys.argv[1:2] and sys.argv[1] in ("f32", "f64") else DTYPES["f32"]
    names = [a for a in sys.argv[1:] if a in NAMES] or NAMES
    print(f"{dtype}, elements per ns  " + "".join(f"{who:>9}" for who in CONTENDERS))
    for name in names:
        found = speeds(name, dtype)
        print(f"{name:<24}" + "".join(f"{found[who]:9.2f}" if who in found else f"{'':>9}" for who in CONTENDERS), flush=True)


if __name__ == "__main__":
    main()
