"""Operators as text: .ein files, one for each family."""
