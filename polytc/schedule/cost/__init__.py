"""Estimates: register tiles by cycles, tiles by what they fetch."""
