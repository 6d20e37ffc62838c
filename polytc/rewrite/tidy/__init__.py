"""Rewrites for every target: fewer temporaries, indices, guards and loops, and fewer operations; no float operation is
reassociated."""
