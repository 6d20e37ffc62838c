"""The kernels of examples/polybench for the scripts of benchmarks/, which cannot import from there by themselves."""

from examples.polybench import checksums
from examples.polybench.kernels import KERNELS, SIZES

__all__ = ["KERNELS", "SIZES", "checksums"]
