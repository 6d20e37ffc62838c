"""Which statements share loops."""
