"""Inputs that a caller gives in another form: numbers, and arrays in strides."""
