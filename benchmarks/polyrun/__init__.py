"""What benchmarks/polybench.py is made of: PolyBench's kernels through polytc and through C compilers, in turns.

Importing it makes the repository's root importable: the kernels lie in examples/polybench.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
