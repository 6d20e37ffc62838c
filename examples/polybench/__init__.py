"""The 30 kernels of PolyBench/C 4.2.1 as polytc programs: NAME.ein, with PolyBench's sizes and initial values."""
