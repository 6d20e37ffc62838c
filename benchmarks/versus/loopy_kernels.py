"""Kernels as a user of loopy writes them, without tuning: prints one as JSON. Run by an interpreter that has loopy.

    python loopy_kernels.py matmul '[[1000, 1000], [1000, 1000], [1000, 1000]]'
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

import loopy as lp
import numpy as np

Shapes = Sequence[Sequence[int]]
"""Of the inputs, then of the outputs."""


def matmul(shapes: Shapes) -> Any:
    """Tiles of 16 x 16, operands in local memory."""
    (m, k), (_, n), _ = shapes
    kernel = _kernel(f"{{[i,j,k]: 0<=i<{m} and 0<=j<{n} and 0<=k<{k}}}", "C[i,j] = sum(k, A[i,k]*B[k,j])", "ABC", shapes)
    kernel = _groups(kernel, "i", "j", 16)
    kernel = lp.split_iname(kernel, "k", 16)
    kernel = lp.add_prefetch(kernel, "A", ["k_inner", "i_inner"], fetch_outer_inames="i_outer,j_outer,k_outer",
                             default_tag="l.auto")
    return lp.add_prefetch(kernel, "B", ["j_inner", "k_inner"], fetch_outer_inames="i_outer,j_outer,k_outer",
                           default_tag="l.auto")


def convolution(shapes: Shapes) -> Any:
    """A work-item an element, neighbours along the rows of the image."""
    (features, channels, kh, kw), _, (batch, _, height, width) = shapes
    domain = (f"{{[n,c,h,w,d,r,s]: 0<=n<{batch} and 0<=c<{features} and 0<=h<{height} and 0<=w<{width} and 0<=d<{channels} "
              f"and 0<=r<{kh} and 0<=s<{kw}}}")
    kernel = _kernel(domain, "O[n,c,h,w] = sum((d,r,s), W[c,d,r,s]*X[n,d,h+r,w+s])", "WXO", shapes)
    kernel = lp.split_iname(kernel, "w", 16, outer_tag="g.0", inner_tag="l.0", slabs=(0, 1))
    return lp.tag_inames(kernel, "h:g.1,c:g.2")


def softmax(shapes: Shapes) -> Any:
    """A work-item a row."""
    m, n = shapes[0]
    domains = [f"{{[i]: 0<=i<{m}}}", f"{{[j]: 0<=j<{n}}}", f"{{[k]: 0<=k<{n}}}", f"{{[l]: 0<=l<{n}}}"]
    text = """
    <> top = reduce(max, j, X[i,j]) {id=top}
    <> total = sum(k, exp(X[i,k] - top)) {id=total,dep=top}
    Y[i,l] = exp(X[i,l] - top) / total {dep=total}
    """
    kernel = _kernel(domains, text, "XY", shapes)
    return lp.split_iname(kernel, "i", 16, outer_tag="g.0", inner_tag="l.0")


def row_sum(shapes: Shapes) -> Any:
    """A work-item a row."""
    m, n = shapes[0]
    kernel = _kernel(f"{{[i,j]: 0<=i<{m} and 0<=j<{n}}}", "Y[i] = sum(j, X[i,j])", "XY", shapes)
    return lp.split_iname(kernel, "i", 16, outer_tag="g.0", inner_tag="l.0")


def transpose(shapes: Shapes) -> Any:
    """Tiles of 16 x 16 through local memory."""
    m, n = shapes[1]
    kernel = _kernel(f"{{[i,j]: 0<=i<{m} and 0<=j<{n}}}", "Y[i,j] = X[j,i]", "XY", shapes)
    kernel = _groups(kernel, "i", "j", 16)
    return lp.add_prefetch(kernel, "X", ["i_inner", "j_inner"], fetch_outer_inames="i_outer,j_outer", default_tag="l.auto")


def _kernel(domain: str | list[str], text: str, names: str, shapes: Shapes) -> Any:
    arguments = [lp.GlobalArg(name, np.float32, shape=tuple(shape)) for name, shape in zip(names, shapes)]
    return lp.make_kernel(domain, text, arguments, name="loops", target=lp.PyOpenCLTarget(), lang_version=(2018, 2))


def _groups(kernel: Any, y: str, x: str, size: int) -> Any:
    kernel = lp.split_iname(kernel, y, size, outer_tag="g.1", inner_tag="l.1")
    return lp.split_iname(kernel, x, size, outer_tag="g.0", inner_tag="l.0")


def main() -> None:
    """Print the kernel that the arguments name."""
    kernel = globals()[sys.argv[1]](json.loads(sys.argv[2]))
    source = lp.generate_code_v2(kernel).device_code()
    groups, items = kernel["loops"].get_grid_size_upper_bounds_as_exprs(kernel.callables_table)
    items = [*map(int, items), *([1] * (len(groups) - len(items)))]
    print(json.dumps({"source": source, "entry": "loops", "groups": [*map(int, groups)], "items": items}))


if __name__ == "__main__":
    main()
