"""Programs and code do not depend on the order of sets, which differs from process to process."""

from __future__ import annotations

import os
import subprocess
import sys

CHILD = """
import hashlib, polytc
from tests.test_hash_seeds import PROGRAMS
for text, shapes in PROGRAMS:
    lowered = polytc.lower(text, shapes=shapes, target="interp")
    print(hashlib.sha256(f"{lowered.program}{lowered.loops}".encode()).hexdigest(), text)
"""
PROGRAMS: list[tuple[str, dict[str, tuple[int, ...]]]] = [
    ("for u in 1:4 { T[u,i,j] +=! X[k] where k in 0:3, i in 0:u, j in u:1 }", {"X": (5,)}),
    ("Y[i,j,k] += X[i+j] where i + j + k <= 7, i in 0:5, j in 0:5, k in 0:5, j >= i - k", {"X": (9,)}),
    ("T[i,j] += X[i+2*k, j+k]*W[k]; Y[i] max= T[i,j] where j <= i", {"X": (19, 17), "W": (3,)}),
    ("C[i,j] += A[i,k]*B[k,j]; D[i,j] = max(C[i,j], 0) + b[j]", {"A": (37, 29), "B": (29, 41), "b": (41,)}),
    ("D[h+r,w+s] += W[r,s]*G[h,w]", {"W": (3, 3), "G": (12, 12)}),
    ("Y[i,l] += A[i,j]*B[j,k]*C[k,l]", {"A": (20, 30), "B": (30, 5), "C": (5, 40)}),
    ("P[i] += X[k] where k <= i, i in 0:300", {"X": (300,)}),
    ("Y[i,j] = X[clamp(i-1, 0, 19), (j+1) % 17] + X[i,j]", {"X": (20, 17)}),
]


def test_two_seeds_make_the_same_code() -> None:
    made = [subprocess.run([sys.executable, "-c", CHILD], env={**os.environ, "PYTHONHASHSEED": seed, "POLYTC_CACHE": "0"},
                           capture_output=True, text=True, check=True).stdout for seed in ("1", "5")]
    assert made[0] == made[1]
    assert made[0].count("\n") == len(PROGRAMS)
