"""Sums of products of tiles on Intel's matrix unit (AMX)."""
