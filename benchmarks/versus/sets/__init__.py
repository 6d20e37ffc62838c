"""The tables, by name."""

from __future__ import annotations

from versus.sets.conv import CONV
from versus.sets.gemm import GEMM
from versus.sets.memory import MEMORY

SETS = {s.name: s for s in (GEMM, CONV, MEMORY)}
