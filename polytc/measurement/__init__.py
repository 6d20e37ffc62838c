"""What things take on the processor or the device that is here: machines with measured costs.

- here.py: everything that can be measured
- native_loops.py: loops in LLVM IR that do one thing, and their time
- processor.py: a core's clock, its rates, and the costs of its instructions and caches
- programs.py: costs of copies, functions and threads, by programs of polytc
- device.py: launches, barriers and memory of an OpenCL device
- findings.py: what was measured, put into a machine
"""
