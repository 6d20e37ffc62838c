"""Numbers as C writes them."""

from __future__ import annotations

import math

import numpy as np

from polytc.program.scalars import DType

NUMBERS = frozenset(f"M_{name}{end}" for end in ("", "_F", "_H") for name in """
    E LOG2E LOG10E LN2 LN10 PI PI_2 PI_4 1_PI 2_PI 2_SQRTPI SQRT2 SQRT1_2
""".split())
"""Names that headers have for numbers."""

MACROS = frozenset("""
    NAN INFINITY HUGE_VAL HUGE_VALF HUGE_VALL MATH_ERRNO MATH_ERREXCEPT math_errhandling NULL EOF BUFSIZ FILENAME_MAX FOPEN_MAX
    L_tmpnam L_ctermid P_tmpdir TMP_MAX RAND_MAX MB_CUR_MAX EXIT_SUCCESS EXIT_FAILURE SEEK_SET SEEK_CUR SEEK_END SIZE_MAX
    PTRDIFF_MIN PTRDIFF_MAX WCHAR_MIN WCHAR_MAX WINT_MIN WINT_MAX SIG_ATOMIC_MIN SIG_ATOMIC_MAX BYTE_ORDER LITTLE_ENDIAN
    BIG_ENDIAN PDP_ENDIAN FD_SETSIZE NFDBITS WCONTINUED WEXITED WNOHANG WNOWAIT WSTOPPED WUNTRACED
    stdin stdout stderr errno complex bool true false linux unix
""".split()) | NUMBERS
"""Names that C's headers define as something else, wherever they stand; also those of POSIX, which come with them."""


def literal(value: int | float | bool, dtype: DType, ctype: str, long: str) -> str:
    """A literal of exactly the type `ctype`, which holds the dtype. long: suffix of integers of 64 bits."""
    match dtype.kind:
        case "f":
            return _floating(float(value), dtype)
        case "b":
            return "1" if value else "0"
    number = int(np.array(int(value) & (2**dtype.bits - 1), f"u{dtype.bytes}").astype(dtype.numpy))
    if dtype.bits < 32:
        return f"({ctype}){number}" if number >= 0 else f"({ctype})({number})"
    suffix = ("u" if dtype.kind == "u" else "") + (long if dtype.bits == 64 else "")
    if dtype.kind == "i" and number == -(2 ** (dtype.bits - 1)):
        return f"({number + 1}{suffix} - 1)"
    return f"{number}{suffix}" if number >= 0 else f"({number}{suffix})"


def _floating(value: float, dtype: DType) -> str:
    number = dtype.numpy.type(value)
    if math.isnan(number):
        return "NAN" if dtype.bits < 64 else "((double)NAN)"
    if math.isinf(number):
        text = "INFINITY" if dtype.bits < 64 else "((double)INFINITY)"
        return text if number > 0 else f"(-{text})"
    text = repr(float(number)) if dtype.bits == 64 else str(np.float32(number))
    text = text if "." in text or "e" in text else f"{text}.0"
    text += "" if dtype.bits == 64 else "f"
    return text if number > 0 or text[0] != "-" else f"({text})"
