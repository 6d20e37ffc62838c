"""The tables, by name."""

from __future__ import annotations

from versus.sets.ansor import ANSOR
from versus.sets.conv import CONV
from versus.sets.dtypes import DTYPES
from versus.sets.gemm import GEMM
from versus.sets.memory import MEMORY
from versus.sets.opencl import OPENCL
from versus.sets.tc import TC

SETS = {s.name: s for s in (GEMM, CONV, ANSOR, MEMORY, DTYPES, TC, OPENCL)}
