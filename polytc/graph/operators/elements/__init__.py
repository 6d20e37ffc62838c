"""Operators on single elements, and their reductions."""
