"""Graphs to plans of calls, for the shapes of a run: control flow becomes straight where it is known."""
