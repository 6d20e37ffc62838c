"""What things take on the processor or the device that is here: machines with measured costs.

- native_loops.py: loops in LLVM IR that do one thing, and their cycles
- processor.py: a processor's rates and the costs of its instructions and caches
- programs.py: costs of copies, functions and threads, by programs of polytc
- findings.py: what was measured, put into a machine
"""

from polytc.measurement.findings import Finding, measured

__all__ = ["Finding", "measured"]
