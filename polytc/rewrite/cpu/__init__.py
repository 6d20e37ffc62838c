"""Rewrites for CPUs: layouts of operands, vector lanes, blocks of rows, dot products of narrow numbers, Winograd."""
