"""Functions that are defined once for all targets, in arithmetic that each target writes in its own way.

- arithmetic: what a definition computes with
- elementary, error, gamma: the definitions
- coefficients: their polynomials, made by benchmarks/minimax_special.py
- table: which function has which definition
- numbers: the arithmetic of numpy, and functions that numpy lacks
"""
