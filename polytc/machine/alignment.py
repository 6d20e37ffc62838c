"""Where arrays begin in memory."""

ALIGNMENT = 64
"""Bytes of a cache line and of the widest vector register: where arrays, weights and values in arenas begin."""
