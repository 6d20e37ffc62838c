"""Syntax trees to typed statements whose indices have ranges."""
