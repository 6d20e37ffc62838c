"""Operators that put elements to other places."""
