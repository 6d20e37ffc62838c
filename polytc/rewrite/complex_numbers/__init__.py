"""Complex tensors as real ones: `parts` of expressions, `statements` of statements, `matrix` of sums of products."""
