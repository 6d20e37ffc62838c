"""Operators that combine elements: products, convolutions, attention, normalisations, recurrences."""
